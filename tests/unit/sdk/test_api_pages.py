"""The reference of the public names is what the code says."""

from itertools import pairwise

import windsprite
from support.pages import ROOT, load_page_script, tokens

SCRIPT = load_page_script("api_pages")
PAGES = sorted((ROOT / "docs" / "api").glob("*.md"))


def test_the_pages_are_up_to_date() -> None:
    written = {page: page.read_text(encoding="utf-8") for page in PAGES}
    assert written == SCRIPT.render(), "run `make docs-api`"


def test_every_public_name_has_its_place_on_one_page() -> None:
    headings = [
        inline.content
        for page in PAGES
        for token, inline in pairwise(tokens(page))
        if (token.type, token.tag) == ("heading_open", "h2")
    ]
    assert sorted(headings) == sorted(windsprite.__all__)


def test_every_method_of_the_client_is_told() -> None:
    page = (ROOT / "docs" / "api" / "client.md").read_text(encoding="utf-8")
    methods = [name for name in dir(windsprite.Client) if not name.startswith("_")]
    assert [name for name in methods if f"\n### Client.{name}\n" not in page] == []
