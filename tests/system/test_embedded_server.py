"""A server inside another program."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest

import windsprite
import windsprite_server
from support.certificates import Authority, Files
from windsprite_server.core.data_directory import DirectoryInUseError
from windsprite_server.settings import SettingsError


async def test_a_server_for_as_long_as_it_is_wanted(capfd: pytest.CaptureFixture[str]) -> None:
    async with windsprite_server.embedded() as server:
        assert server.host == "127.0.0.1"
        assert server.port > 0
        assert server.data_dir.is_dir()
        assert server.connection_string == f"iggy://iggy:iggy@127.0.0.1:{server.port}"
        async with windsprite.connect(server.connection_string) as client:
            await client.create_stream("s")
            await client.create_topic("s", "t", 1)
            await client.send("s", "t", [b"one", b"two"], partition=0)
            batch = await client.poll("s", "t", start=windsprite.From.first())
            assert [message.payload for message in batch] == [b"one", b"two"]
    assert not server.data_dir.exists()
    with pytest.raises(OSError, match=r"(?i)refused|connect"):
        await asyncio.open_connection(server.host, server.port)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert capfd.readouterr() == ("", "")


async def test_it_starts_and_ends_quickly() -> None:
    starts, ends = [], []
    for _ in range(30):  # once is enough: the machine may be busy with something else
        begun = time.perf_counter()
        async with windsprite_server.embedded():
            starts.append(time.perf_counter() - begun)
            ending = time.perf_counter()
        ends.append(time.perf_counter() - ending)
        if min(starts) < 0.5 and min(ends) < 0.5:
            return
    raise AssertionError((min(starts), min(ends)))


async def test_several_side_by_side() -> None:
    async with (
        windsprite_server.embedded() as one,
        windsprite_server.embedded() as two,
        windsprite.connect(one.connection_string) as first,
        windsprite.connect(two.connection_string) as second,
    ):
        await first.create_stream("only here")
        assert await second.get_streams() == ()


async def test_what_is_kept_in_a_directory_of_ones_own_outlives_it(tmp_path: Path) -> None:
    async with windsprite_server.embedded(tmp_path / "data") as server:
        assert server.data_dir == tmp_path / "data"
        async with windsprite.connect(server.connection_string) as client:
            await client.create_stream("stays")
        with pytest.raises(DirectoryInUseError):
            async with windsprite_server.embedded(tmp_path / "data"):
                pass
    async with (
        windsprite_server.embedded(str(tmp_path / "data")) as server,
        windsprite.connect(server.connection_string) as client,
    ):
        assert [stream.name for stream in await client.get_streams()] == ["stays"]


async def test_settings_by_table_and_key(tmp_path: Path) -> None:
    root = {"username": "ro:ot", "password": "p@ss/w?rd"}
    limits = {"max_connections": 1}
    async with (
        windsprite_server.embedded(root=root, limits=limits, shutdown_timeout="1 s") as server,
        windsprite.connect(server.connection_string) as client,
    ):
        await client.ping()
        with pytest.raises(windsprite.ConnectionFailed):
            await windsprite.connect(server.connection_string + "?reconnection_retries=0")


async def test_at_all_addresses_its_password_is_the_one_that_was_made(tmp_path: Path) -> None:
    for _ in range(2):
        async with (
            windsprite_server.embedded(tmp_path / "data", tcp={"address": "0.0.0.0:0"}) as server,
            windsprite.connect(server.connection_string) as client,
        ):
            assert ":iggy@" not in server.connection_string
            assert await client.get_streams() == ()


async def test_with_tls(tmp_path: Path) -> None:
    authority = Authority()
    files = Files(tmp_path, authority.issue())
    ca_file = tmp_path / "ca.pem"
    ca_file.write_bytes(authority.pem)
    tls = {"enabled": True, "cert_file": str(files.cert), "key_file": str(files.key)}
    async with windsprite_server.embedded(tcp={"tls": tls}) as server:
        url = f"{server.connection_string}&tls_ca_file={ca_file}"
        async with windsprite.connect(url) as client:
            await client.ping()


async def test_settings_that_do_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDSPRITE_TCP__BACKLOG", "none of its business")
    with pytest.raises(SettingsError, match=r"tcp\.adress is unknown; did you mean tcp\.address"):
        async with windsprite_server.embedded(tcp={"adress": "127.0.0.1:0"}):
            pass
    with pytest.raises(SettingsError, match="max_connections"):
        async with windsprite_server.embedded(limits={"max_connections": 0}):
            pass
    async with windsprite_server.embedded():
        pass


async def test_a_failure_of_the_program_ends_the_server() -> None:
    with pytest.raises(ZeroDivisionError):
        async with windsprite_server.embedded() as server:
            raise ZeroDivisionError
    assert not server.data_dir.exists()


def test_the_package_alone_imports_nothing() -> None:
    program = "import sys, windsprite_server; sys.exit('windsprite_server.app' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        windsprite_server.nothing  # noqa: B018
