import os
from pathlib import Path

import pytest

from windsprite_server.core.files import overwrite_durably, replace_durably


def test_replaces_the_content_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "file"
    replace_durably(path, b"one")
    replace_durably(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]


def test_mode_does_not_depend_on_the_umask(tmp_path: Path) -> None:
    previous = os.umask(0o077)
    try:
        replace_durably(tmp_path / "shared", b"", mode=0o644)
        replace_durably(tmp_path / "secret", b"")
    finally:
        os.umask(previous)
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


def test_a_leftover_with_wide_permissions_does_not_widen_a_secret(tmp_path: Path) -> None:
    (tmp_path / "secret.new").write_bytes(b"left by a crash")
    (tmp_path / "secret.new").chmod(0o666)
    replace_durably(tmp_path / "secret", b"hidden")
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


def test_old_content_stays_when_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "file"
    replace_durably(path, b"old")
    (tmp_path / "file.new").mkdir()
    with pytest.raises(IsADirectoryError):
        replace_durably(path, b"new")
    assert path.read_bytes() == b"old"


def test_overwriting_leaves_the_new_content_only(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"longer than", b"short", b"longer again"):
        path.touch()
        overwrite_durably(path, content)
        assert path.read_bytes() == content
    with pytest.raises(FileNotFoundError):
        overwrite_durably(tmp_path / "missing", b"")
