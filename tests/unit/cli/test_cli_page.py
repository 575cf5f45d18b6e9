"""The page of the command line says what `--help` says."""

from support.pages import load_page_script


def test_the_page_is_what_the_script_writes() -> None:
    script = load_page_script("command_line_page")
    assert script.PAGE.read_text(encoding="utf-8") == script.page(), "run `make docs-command-line`"
