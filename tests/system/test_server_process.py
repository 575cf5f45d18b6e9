"""The program as an operator meets it: starting, stopping, exit codes."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from uuid import UUID

import pytest

import windsprite
from support.frames import frame
from support.server_process import ServerProcess, server_process

CLUSTER = "0b6f2a4e-5d7c-4c1e-9a3b-6f0e1d2c3b4a"


def accepts(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


def test_it_says_when_and_where_clients_can_connect(tmp_path: Path) -> None:
    environment = {"WINDSPRITE_NODE__NAME": "node-a", "WINDSPRITE_CLUSTER__ID": CLUSTER}
    with server_process(tmp_path, environment=environment) as server:
        ready = server.wait_ready()
        assert ready.keys() == {"pid", "tcp", "cluster_id", "node"}
        assert accepts(ready["tcp"])
        assert ready["node"] == "node-a"
        assert ready["cluster_id"] == CLUSTER
        os.kill(ready["pid"], 0)
        (listening,) = [event for event in server.events if event["event"] == "listening"]
        assert listening["tcp"] == ready["tcp"]
        assert server.stop() == 0
        assert not accepts(ready["tcp"])


def stopped_by(server: ServerProcess) -> list[str]:
    """The signals that asked a server to stop, according to its log."""
    return [event["signal"] for event in server.events if event["event"] == "stopping"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_each_signal_ends_it_with_0(tmp_path: Path, number: signal.Signals) -> None:
    with server_process(tmp_path) as server:
        server.wait_ready()
        server.send(number)
        assert server.wait_end() == 0
        assert stopped_by(server) == [number.name]
        assert server.events[-1]["event"] == "stopped"
    assert not (tmp_path / "ready.json").exists()


def test_nohup_lets_it_outlive_its_terminal(tmp_path: Path) -> None:
    with server_process(tmp_path, through=["nohup"]) as server:
        server.wait_ready()
        server.send(signal.SIGHUP)
        assert server.stop() == 0
        assert stopped_by(server) == ["SIGTERM"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_and_ends_though_its_log_cannot_be_written(
    tmp_path: Path, number: signal.Signals
) -> None:
    with server_process(tmp_path, "--log-level", "debug", log_file=Path("/dev/full")) as server:
        host, _, port = server.wait_ready()["tcp"].rpartition(":")
        with socket.create_connection((host, int(port)), timeout=30) as client:
            client.sendall(frame())
            assert len(client.recv(256, socket.MSG_WAITALL)) == 256
        server.send(number)
        assert server.wait_end() == 0


def test_it_needs_no_standard_files_and_keeps_their_numbers_free(tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    program = [sys.executable, "-m", "windsprite_server", "run", "--tcp-address", "127.0.0.1:0"]
    options = ["--data-dir", str(tmp_path / "data"), "--ready-file", str(ready)]
    with subprocess.Popen(
        ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *program, *options]
    ) as server:
        try:
            deadline = time.monotonic() + 60
            while not ready.exists():
                assert server.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.01)
            for number in range(3):
                assert Path(f"/proc/{server.pid}/fd/{number}").readlink() == Path(os.devnull)
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0
        finally:
            server.kill()


def test_the_cluster_id_stays_and_generations_grow(tmp_path: Path) -> None:
    with server_process(tmp_path) as server:
        first = server.wait_ready()
        assert server.stop() == 0
    UUID(first["cluster_id"])
    with server_process(tmp_path) as server:
        assert server.wait_ready()["cluster_id"] == first["cluster_id"]
        assert server.stop() == 0
    identity = json.loads((tmp_path / "data" / "identity.json").read_text())
    assert identity["generation"] == 2


def test_options_win_over_the_environment(tmp_path: Path) -> None:
    other = tmp_path / "other"
    environment = {"WINDSPRITE_LOG__LEVEL": "error", "WINDSPRITE_TCP__ADDRESS": "127.0.0.2:0"}
    options = ("--data-dir", str(other), "--tcp-address", "127.0.0.1:0", "--log-level", "info")
    with server_process(tmp_path, *options, environment=environment) as server:
        assert server.wait_ready()["tcp"].startswith("127.0.0.1:")
        assert (other / "identity.json").exists()
        assert not (tmp_path / "data").exists()
        assert any(event["event"] == "listening" for event in server.events)


def test_a_data_directory_in_use_ends_it_with_3(tmp_path: Path) -> None:
    with server_process(tmp_path) as first:
        first.wait_ready()
        options = ("--data-dir", str(tmp_path / "data"))
        with server_process(tmp_path / "second", *options) as second:
            assert second.wait_end() == 3
            assert "another server uses" in second.output
        assert first.stop() == 0


def test_a_newer_format_ends_it_with_3(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "identity.json").write_text('{"format": 2}')
    with server_process(tmp_path) as server:
        assert server.wait_end() == 3
        assert "newer" in server.output


def test_the_journal_of_a_used_directory_must_be_there(tmp_path: Path) -> None:
    with server_process(tmp_path) as server:
        server.wait_ready()
        assert server.stop() == 0
    lost = [path for path in (tmp_path / "data").iterdir() if path.name.startswith("journal")]
    assert lost != []
    for path in lost:
        path.unlink()
    with server_process(tmp_path) as server:
        assert server.wait_end() == 3


def test_another_cluster_id_ends_it_with_3(tmp_path: Path) -> None:
    with server_process(tmp_path) as server:
        server.wait_ready()
        assert server.stop() == 0
    with server_process(tmp_path, environment={"WINDSPRITE_CLUSTER__ID": CLUSTER}) as server:
        assert server.wait_end() == 3
        assert "cluster.id" in server.output


def test_a_taken_address_ends_it_with_1(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with server_process(tmp_path, "--tcp-address", address) as server:
            assert server.wait_end() == 1
            assert "address" in server.output.lower()


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("no-such-host.invalid:0", "no-such-host.invalid: "),
        ("203.0.113.7:0", "203.0.113.7"),
        ("[fe80::dead%lo]:0", "Cannot assign requested address"),
    ],
)
def test_an_address_that_is_not_ours_ends_it_with_1_and_is_named(
    tmp_path: Path, address: str, reason: str
) -> None:
    with server_process(tmp_path, "--tcp-address", address) as server:
        assert server.wait_end() == 1
        assert server.events[-1]["event"] == "cannot run"
        assert reason in server.events[-1]["reason"]


@pytest.mark.parametrize("address", ["no-such-host.invalid:0", "203.0.113.7:0"])
async def test_a_first_start_without_an_address_makes_no_root_user(
    tmp_path: Path, address: str
) -> None:
    """Its password would be a random one, also for the address that is given next."""
    with server_process(tmp_path, "--tcp-address", address) as server:
        assert server.wait_end() == 1
    assert not (tmp_path / "data" / "root-password").exists()
    with server_process(tmp_path) as server:
        url = f"iggy://iggy:iggy@{server.wait_ready()['tcp']}"
        async with windsprite.connect(url) as client:
            await client.get_users()
        assert server.stop() == 0


def test_logs_that_cannot_be_opened_end_it_with_3(tmp_path: Path) -> None:
    with server_process(tmp_path) as server:
        server.wait_ready()
        assert server.stop() == 0
    (tmp_path / "data" / "log").rmdir()
    (tmp_path / "data" / "log").touch()
    with server_process(tmp_path) as server:
        assert server.wait_end() == 3
        assert "Not a directory" in server.output.splitlines()[-1]


def test_bad_settings_end_it_with_2_before_anything_is_made(tmp_path: Path) -> None:
    environment = {"WINDSPRITE_TCP__ADRESS": "127.0.0.1:0"}
    with server_process(tmp_path, environment=environment) as server:
        assert server.wait_end() == 2
        assert "did you mean WINDSPRITE_TCP__ADDRESS?" in server.output
    assert not (tmp_path / "data").exists()


def test_on_other_than_loopback_the_root_password_is_random_and_not_logged(tmp_path: Path) -> None:
    with server_process(tmp_path, "--tcp-address", "0.0.0.0:0") as server:
        server.wait_ready()
        file = tmp_path / "data" / "root-password"
        password = file.read_text().strip()
        assert len(password) >= 20
        assert file.stat().st_mode & 0o777 == 0o600
        assert str(file) in server.output
        assert password not in server.output
        assert server.stop() == 0


def test_given_root_credentials_leave_no_trace(tmp_path: Path) -> None:
    environment = {"IGGY_ROOT_USERNAME": "admin", "IGGY_ROOT_PASSWORD": "correct-horse"}
    with server_process(tmp_path, "--log-level", "debug", environment=environment) as server:
        server.wait_ready()
        assert server.stop() == 0
        assert "horse" not in server.output
    files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert [path for path in files if b"horse" in path.read_bytes()] == []
