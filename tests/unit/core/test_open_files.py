import subprocess
import sys


def limits_after(soft: int, hard: int, wanted: int) -> tuple[int, int, int]:
    """What the function returns, and the limits then, in a process that began with these."""
    program = (
        "import resource\n"
        "from windsprite_server.core.open_files import allow_open_files\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))\n"
        f"print(allow_open_files({wanted}), *resource.getrlimit(resource.RLIMIT_NOFILE))\n"
    )
    output = subprocess.check_output([sys.executable, "-c", program], text=True, timeout=60)
    allowed, soft, hard = map(int, output.split())
    return allowed, soft, hard


def test_the_limit_is_raised_to_what_is_wanted() -> None:
    assert limits_after(100, 200, wanted=150) == (150, 150, 200)


def test_it_is_raised_no_further_than_the_system_allows() -> None:
    assert limits_after(100, 200, wanted=1000) == (200, 200, 200)


def test_it_is_never_lowered() -> None:
    assert limits_after(100, 200, wanted=50) == (100, 100, 200)
