import json
import re
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from support.ids import SeededIds
from support.strace import require_strace
from windsprite_server.core.data_directory import (
    MAX_GENERATION,
    DamagedDirectoryError,
    DataDirectory,
    DataDirectoryError,
    DirectoryInUseError,
    Identity,
    NewerFormatError,
    OtherClusterError,
    keep_servers_out,
    open_data_directory,
    read_identity,
)

CLUSTER = UUID("0b6f2a4e-5d7c-4c1e-9a3b-6f0e1d2c3b4a")


def start(path: Path, cluster_id: UUID | None = None, seed: int = 1) -> DataDirectory:
    return open_data_directory(path, ids=SeededIds(seed), cluster_id=cluster_id)


def test_first_start_makes_the_directory_and_an_identity(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "data"
    with start(path) as data:
        assert data.is_new
        assert data.path == path
        assert data.identity == Identity(SeededIds(1).uuid(), 1)
        assert read_identity(path) == data.identity
    assert path.stat().st_mode & 0o077 == 0


def test_generation_grows_and_the_cluster_id_stays(tmp_path: Path) -> None:
    with start(tmp_path, CLUSTER):
        pass
    for generation in (2, 3):
        with start(tmp_path, seed=generation) as data:
            assert not data.is_new
            assert data.identity == Identity(CLUSTER, generation)


def test_the_names_of_new_directories_outlive_a_loss_of_power(tmp_path: Path) -> None:
    require_strace()
    path, output = tmp_path / "very" / "deep" / "data", tmp_path / "strace"
    program = (
        "import sys, pathlib\n"
        "from windsprite_server.core.data_directory import open_data_directory\n"
        "from windsprite_server.core.ids import SystemIds\n"
        "open_data_directory(pathlib.Path(sys.argv[1]), ids=SystemIds())\n"
    )
    strace = ["strace", "--decode-fds=path", "--trace=?mkdir,?mkdirat,fsync", f"--output={output}"]
    subprocess.run([*strace, sys.executable, "-c", program, path], check=True, timeout=60)
    done = output.read_text(encoding="utf-8")
    for directory in (path, path.parent, path.parent.parent):
        made = re.search(rf'mkdir.*"{directory}".* = 0\n', done)
        assert made is not None
        assert re.search(rf"fsync\(\d+<{directory.parent}>\) += 0\n", done[made.end() :])


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with start(Path("data")) as data:
        assert data.path == tmp_path / "data"


def test_the_cluster_id_of_the_settings_must_be_the_stored_one(tmp_path: Path) -> None:
    with start(tmp_path) as first:
        stored = first.identity.cluster_id
    with pytest.raises(OtherClusterError, match=str(CLUSTER)):
        start(tmp_path, CLUSTER)
    with start(tmp_path, stored) as data:
        assert data.identity.generation == 2


def is_in_use(path: Path) -> bool:
    try:
        with keep_servers_out(path):
            return False
    except DirectoryInUseError:
        return True


def test_nobody_else_gets_it_while_it_is_open(tmp_path: Path) -> None:
    assert not is_in_use(tmp_path)
    with start(tmp_path) as data:
        assert is_in_use(tmp_path)
        with pytest.raises(DirectoryInUseError, match=str(tmp_path)):
            start(tmp_path)
        assert read_identity(tmp_path) == data.identity
    assert not is_in_use(tmp_path)


def test_no_server_begins_to_use_it_while_somebody_looks_at_it(tmp_path: Path) -> None:
    with keep_servers_out(tmp_path):  # no server was ever there, so there is nothing to look at
        start(tmp_path).close()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    with keep_servers_out(tmp_path):
        with pytest.raises(DirectoryInUseError):
            start(tmp_path)
        with pytest.raises(BlockingIOError, match="disk"), keep_servers_out(tmp_path / "missing"):
            raise BlockingIOError("of the disk")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
    start(tmp_path).close()


def test_the_lock_of_a_killed_process_is_gone(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys, pathlib\n"
        "from windsprite_server.core.data_directory import open_data_directory\n"
        "from windsprite_server.core.ids import SystemIds\n"
        "open_data_directory(pathlib.Path(sys.argv[1]), ids=SystemIds())\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, tmp_path], check=False, timeout=60)
    assert killed.returncode == -9
    with start(tmp_path) as data:
        assert data.identity.generation == 2


def test_a_newer_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    content = '{"format": 2, "cluster_id": 17, "whatever": []}'
    (tmp_path / "identity.json").write_text(content)
    with pytest.raises(NewerFormatError, match="format 2"):
        start(tmp_path)
    assert (tmp_path / "identity.json").read_text() == content


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"null",
        b"[1]",
        b"\xff\xfe",
        b"[" * 4096,
        b'{"format": 1}',
        b'{"format": true, "cluster_id": "%s", "generation": 1}' % str(CLUSTER).encode(),
        b'{"format": 0, "cluster_id": "%s", "generation": 1}' % str(CLUSTER).encode(),
        b'{"format": 1, "cluster_id": "none", "generation": 1}',
        b'{"format": 1, "cluster_id": 5, "generation": 1}',
        b'{"format": 1, "cluster_id": "%s", "generation": 0}' % str(CLUSTER).encode(),
        b'{"format": 1, "cluster_id": "%s", "generation": 1.5}' % str(CLUSTER).encode(),
        b'{"format": 1, "cluster_id": "%s", "generation": "1"}' % str(CLUSTER).encode(),
        b'{"format": 1, "cluster_id": "%s", "generation": 4294967296}' % str(CLUSTER).encode(),
    ],
)
def test_a_damaged_identity_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "identity.json").write_bytes(content)
    with pytest.raises(DamagedDirectoryError, match=r"identity\.json"):
        start(tmp_path)
    assert (tmp_path / "identity.json").read_bytes() == content
    assert not is_in_use(tmp_path)


def test_a_directory_with_other_files_is_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(DamagedDirectoryError, match=r"thesis\.tex"):
        start(tmp_path)
    with pytest.raises(DamagedDirectoryError, match=r"thesis\.tex"):
        read_identity(tmp_path)


def test_a_first_start_that_was_cut_short_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    (tmp_path / "identity.json.new").write_text('{"for')
    (tmp_path / "lost+found").mkdir()
    assert read_identity(tmp_path) is None
    with start(tmp_path) as data:
        assert data.identity.generation == 1


def test_the_last_generation_has_no_successor(tmp_path: Path) -> None:
    with start(tmp_path):
        pass
    identity = json.loads((tmp_path / "identity.json").read_text())
    identity["generation"] = MAX_GENERATION
    (tmp_path / "identity.json").write_text(json.dumps(identity))
    with pytest.raises(DamagedDirectoryError, match="generation"):
        start(tmp_path)


def test_what_the_operating_system_refuses_is_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataDirectoryError, match="cannot use data directory"):
        start(tmp_path / "file")
    with pytest.raises(DataDirectoryError, match="cannot use data directory"):
        start(tmp_path / "file" / "data")
    with pytest.raises(DataDirectoryError, match="cannot read data directory"):
        read_identity(tmp_path / "missing")


def test_reading_changes_nothing(tmp_path: Path) -> None:
    assert read_identity(tmp_path) is None
    assert not is_in_use(tmp_path)
    assert not list(tmp_path.iterdir())
