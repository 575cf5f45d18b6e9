import json
import math
import socket
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from support.pages import load_page_script
from windsprite_server.core.address import Address, AdvertisedAddress
from windsprite_server.settings import (
    Settings,
    SettingsError,
    load_settings,
    render_json,
    render_toml,
)
from windsprite_server.settings.model import leaves
from windsprite_server.settings.sources import keys, variable_name

ROOT = Path(__file__).resolve().parents[3]
CLUSTER = "0b6f2a4e-5d7c-4c1e-9a3b-6f0e1d2c3b4a"

# For every key: a text for its environment variable, and the value it stands for.
ALTERNATIVES: dict[str, tuple[str, object]] = {
    "data_dir": ("/srv/windsprite", Path("/srv/windsprite")),
    "shutdown_timeout": ("1m 500 ms", 60.5),
    "tcp.address": ("[::1]:9000", Address("::1", 9000)),
    "tcp.backlog": ("17", 17),
    "tcp.tls.enabled": ("true", True),
    "tcp.tls.cert_file": ("/etc/tls/cert.pem", Path("/etc/tls/cert.pem")),
    "tcp.tls.key_file": ("/etc/tls/key.pem", Path("/etc/tls/key.pem")),
    "tcp.tls.handshake_timeout": ("3 s", 3.0),
    "tcp.tls.reload_interval": ("1m", 60.0),
    "cluster.name": ("orders", "orders"),
    "cluster.id": (CLUSTER, UUID(CLUSTER)),
    "node.name": ("node-7", "node-7"),
    "node.id": ("4294967295", 4294967295),
    "node.advertised_address": ("broker.example.com:9", AdvertisedAddress("broker.example.com", 9)),
    "node.zone": ("eu-1a", "eu-1a"),
    "root.username": ("admin", "admin"),
    "root.password": ("12345678", "12345678"),
    "limits.max_connections": ("10", 10),
    "limits.max_frame_size": ("1 MiB", 1024**2),
    "limits.max_frame_size_before_login": ("10 KB", 10_000),
    "limits.max_waiting_frames": ("9", 9),
    "limits.receive_memory": ("1 GB", 10**9),
    "limits.send_memory": ("64 MiB", 64 * 2**20),
    "limits.frame_timeout": ("5 s", 5.0),
    "limits.write_high_water": ("2000000", 2_000_000),
    "limits.write_low_water": ("0", 0),
    "limits.write_timeout": ("2h", 7200.0),
    "limits.login_threads": ("1", 1),
    "limits.max_waiting_logins": ("0", 0),
    "limits.max_consumer_offsets": ("5", 5),
    "sessions.max_clients": ("2", 2),
    "sessions.reply_memory": ("1 MiB", 1024**2),
    "partition.dedup_clients": ("0", 0),
    "partition.dedup_clients_total": ("11", 11),
    "heartbeat.enabled": ("false", False),
    "heartbeat.interval": ("3 s", 3.0),
    "personal_access_token.max_tokens_per_user": ("3", 3),
    "personal_access_token.cleaner.enabled": ("false", False),
    "personal_access_token.cleaner.interval": ("2 s", 2.0),
    "storage.tail_memory": ("0", 0),
    "storage.index_memory": ("1 MiB", 2**20),
    "storage.index_interval": ("4 KiB", 4096),
    "storage.min_free": ("1 GiB", 2**30),
    "storage.open_files": ("100", 100),
    "storage.sync_threads": ("2", 2),
    "storage.read_threads": ("3", 3),
    "retention.enabled": ("false", False),
    "retention.interval": ("100 ms", 0.1),
    "consumer_group.rebalancing_timeout": ("3 s", 3),
    "journal.snapshot_every": ("7", 7),
    "journal.max_waiting_commands": ("8", 8),
    "log.format": ("json", "json"),
    "log.level": ("debug", "debug"),
    "log.recent_lines": ("10", 10),
}


def read(
    tmp_path: Path,
    toml: str = "",
    environment: Mapping[str, str] | None = None,
    command_line: Mapping[str, object] | None = None,
) -> Settings:
    file = tmp_path / "settings.toml"
    file.write_text(toml)
    return load_settings(file=file, environment=environment or {}, command_line=command_line)


def problems(
    tmp_path: Path,
    toml: str = "",
    environment: Mapping[str, str] | None = None,
    command_line: Mapping[str, object] | None = None,
) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        read(tmp_path, toml, environment, command_line)
    return [problem.replace(f"{tmp_path}/", "") for problem in caught.value.problems]


def origins(settings: Settings) -> dict[str, str]:
    return {entry.key: entry.origin for entry in settings.effective()}


def test_defaults_need_nothing_and_read_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDSPRITE_TCP__BACKLOG", "5")
    settings = Settings()
    assert settings.tcp.address == Address("127.0.0.1", 8090)
    assert settings.tcp.backlog == 1024
    assert settings.data_dir == Path("data")
    assert settings.node.name == socket.gethostname()
    assert settings.shutdown_timeout == 10
    assert settings.limits.max_frame_size == 64 * 1024 * 1024
    assert set(origins(settings).values()) == {"default"}


def test_every_key_can_be_set_by_its_environment_variable() -> None:
    assert set(ALTERNATIVES) == set(keys())
    environment = {variable_name(key): text for key, (text, _) in ALTERNATIVES.items()}
    settings = load_settings(environment=environment)
    values = dict(leaves(settings.model_dump()))
    values["root.password"] = values["root.password"].get_secret_value()
    assert values == {key: value for key, (_, value) in ALTERNATIVES.items()}
    assert set(origins(settings).values()) == {"environment"}
    defaults = dict(leaves(Settings().model_dump()))
    assert [key for key in values if values[key] == defaults[key]] == []


def test_later_sources_win_key_by_key(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        '[tcp]\naddress = "127.0.0.1:1"\nbacklog = 1\n[node]\nid = 1\nzone = "file"\n',
        {"WINDSPRITE_TCP__ADDRESS": "127.0.0.1:2", "WINDSPRITE_NODE__ID": "2"},
        {"tcp.address": "127.0.0.1:3"},
    )
    assert settings.tcp.address.port == 3
    assert settings.node.id == 2
    assert settings.tcp.backlog == 1
    assert settings.node.zone == "file"
    where = origins(settings)
    assert where["tcp.address"] == "command line"
    assert where["node.id"] == "environment"
    assert where["tcp.backlog"] == where["node.zone"] == "file"
    assert where["log.level"] == "default"


def test_two_settings_in_one_process_are_independent() -> None:
    first = load_settings(environment={"WINDSPRITE_NODE__ID": "1"})
    second = load_settings(environment={})
    assert (first.node.id, second.node.id) == (1, 0)
    assert origins(second)["node.id"] == "default"


@pytest.mark.parametrize(
    ("toml", "sentence"),
    [
        (
            '[tcp]\nadress = "127.0.0.1:1"',
            "settings.toml: tcp.adress is unknown; did you mean tcp.address?",
        ),
        ("[quic]\nenabled = true", "settings.toml: quic is unknown"),
        ("[limit]\nmax_connections = 7", "limit is unknown; did you mean limits?"),
        ("[tcp.tsl]\nenabled = true", "tcp.tsl is unknown; did you mean tcp.tls?"),
        ("colour = 1", "settings.toml: colour is unknown"),
        (
            '[tcp]\naddress = "127.0.0.1"',
            "settings.toml: tcp.address: '127.0.0.1' needs a port, as in 127.0.0.1:8090",
        ),
        (
            '[limits]\nmax_frame_size = "1 KiB"',
            "settings.toml: limits.max_frame_size: must be at least 4 KiB",
        ),
        ("[limits]\nmax_frame_size = true", "settings.toml: limits.max_frame_size: "),
        (
            "[limits]\nmax_connections = 0",
            "settings.toml: limits.max_connections: must be at least 1",
        ),
        (
            "[limits]\nmax_connections = 1_000_001",
            "settings.toml: limits.max_connections: must be at most 1000000",
        ),
        (
            '[heartbeat]\ninterval = "1 ms"',
            "settings.toml: heartbeat.interval: must be at least 100ms",
        ),
        (
            "shutdown_timeout = 10",
            "settings.toml: shutdown_timeout: needs a text with a unit, such as '10 s'",
        ),
        ('shutdown_timeout = "2 years"', "settings.toml: shutdown_timeout: '2 years' is longer"),
        (
            '[limits]\nframe_timeout = "0"',
            "settings.toml: limits.frame_timeout: must be more than 0",
        ),
        ('[limits]\nwrite_low_water = "5 MiB"', "limits: write_low_water must not be above"),
        (
            '[limits]\nwrite_high_water = "2 GiB"',
            "settings.toml: limits.write_high_water: must be at most 1 GiB",
        ),
        ("[limits]\nmax_connections = true", "limits.max_connections: needs a number"),
        ("data_dir = ''", "settings.toml: data_dir: must not be empty"),
        ('data_dir = "a\\u0000b"', "settings.toml: data_dir: must not hold the character NUL"),
        ('[limits]\nreceive_memory = "1 MiB"', "limits: receive_memory must not be below"),
        (
            '[limits]\nmax_frame_size_before_login = "65 MiB"',
            "limits: max_frame_size_before_login must not be above max_frame_size",
        ),
        (
            "[tcp.tls]\nenabled = true",
            "tcp.tls: enabled needs cert_file and key_file, but cert_file is not set",
        ),
        (
            "[tcp.tls]\nenabled = true\ncert_file = 'cert.pem'",
            "tcp.tls: enabled needs cert_file and key_file, but key_file is not set",
        ),
        ("[tcp.tls]\nreload_interval = '0'", "settings.toml: tcp.tls.reload_interval: "),
        ('[cluster]\nid = "17"', "settings.toml: cluster.id: needs a UUID"),
        ("[cluster]\nid = 17", "settings.toml: cluster.id: needs a UUID"),
        ('[cluster]\nname = " "', "settings.toml: cluster.name: must not be blank"),
        ('[node]\nname = "a\\u0007b"', "settings.toml: node.name: must have printable"),
        ('[node]\nadvertised_address = "0.0.0.0"', "settings.toml: node.advertised_address: "),
        ('[node]\nadvertised_address = "10.0.0.256"', "settings.toml: node.advertised_address: "),
        ("[node]\nid = -1", "settings.toml: node.id: "),
        ('[log]\nlevel = "loud"', "settings.toml: log.level: "),
        ("tcp = 5", "settings.toml: tcp: needs a table"),
        ("[[tcp.tls]]\nenabled = true", "settings.toml: tcp.tls: needs a table"),
        ("data_dir = 5", "settings.toml: data_dir: needs a text"),
        ("[data_dir]\npath = 'data'", "settings.toml: data_dir: needs a text"),
        ("[root]\nusername = 'root'", "root: username and password go together, but password"),
        ("[root]\npassword = 'word'", "root: username and password go together, but username"),
        ("[root]\nusername = 'ab'\npassword = 'word'", "settings.toml: root.username: needs 3"),
        ("x = [", "settings.toml is not TOML: "),
        ("x = 1\nx = 2", "settings.toml is not TOML: "),
    ],
)
def test_each_mistake_of_a_file_has_a_sentence(tmp_path: Path, toml: str, sentence: str) -> None:
    (problem,) = problems(tmp_path, toml)
    assert problem.startswith(sentence) or sentence in problem
    assert "\n" not in problem


SENSELESS: list[Any] = [
    *(True, -1, 1.5, math.nan, math.inf, 10**30, "", "a\0b", "-1 s", "-1 MiB", "1 lightyear", []),
    *({}, {"a": 1}, datetime(2026, 1, 1, tzinfo=UTC)),
]
# What makes sense all the same: switches, a zone that is not said, and texts and sizes of any kind.
SENSIBLE: dict[type, set[str]] = {
    bool: {key for key in ALTERNATIVES if key.endswith(".enabled")},
    str: {
        *("data_dir", "tcp.tls.cert_file", "tcp.tls.key_file"),
        *("cluster.name", "node.name", "node.zone"),
    },
    int: {
        *("limits.receive_memory", "limits.send_memory", "sessions.reply_memory"),
        *("storage.tail_memory", "storage.index_memory", "storage.min_free"),
        "journal.snapshot_every",
    },
}


@pytest.mark.parametrize("value", SENSELESS, ids=repr)
def test_no_key_takes_what_makes_no_sense(value: Any) -> None:
    for key in keys():
        try:
            load_settings(environment={}, command_line={key: value})
        except SettingsError as error:
            (problem,) = error.problems
            assert key in problem or problem.startswith(f"{key.rpartition('.')[0]}: ")
            assert "\n" not in problem
        else:
            assert key in SENSIBLE.get(type(value), ())
            assert "\0" not in str(value)
            assert value != -1
            assert value != "" or key == "node.zone"


def test_all_mistakes_are_reported_together(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        "[tcp]\nbacklog = 0\n[nodes]\nid = 1",
        {"WINDSPRITE_NOD__ID": "1", "WINDSPRITE_NODE__ID": "one"},
        {"log.level": "loud"},
    )
    assert [problem.split(":")[0] for problem in found] == [
        "environment variable WINDSPRITE_NOD__ID is unknown; did you mean WINDSPRITE_NODE__ID?",
        "settings.toml",
        "environment variable WINDSPRITE_NODE__ID",
        "log.level",
        "settings.toml",
    ]
    assert found[-1] == "settings.toml: nodes is unknown; did you mean node?"


@pytest.mark.parametrize(
    "name",
    [
        "WINDSPRITE_TYPO",
        "WINDSPRITE_TCP",
        "WINDSPRITE_TCP_ADDRESS",
        "WINDSPRITE_TCP__ADDRESS__HOST",
        "WINDSPRITE_",
        "WINDSPRITE_PORT",
    ],
)
def test_unknown_variables_of_our_prefix_are_refused(tmp_path: Path, name: str) -> None:
    (problem,) = problems(tmp_path, environment={name: "1"})
    assert problem.startswith(f"environment variable {name} is unknown")


def test_a_variable_that_is_like_none_gets_no_hint(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, environment={"WINDSPRITE_CONFIG": "settings.toml"})
    assert problem == "environment variable WINDSPRITE_CONFIG is unknown"


def test_what_several_sources_contradict_is_blamed_on_none(tmp_path: Path) -> None:
    environment = {"WINDSPRITE_TCP__TLS__ENABLED": "true"}
    (problem,) = problems(tmp_path, "[tcp.tls]\ncert_file = 'cert.pem'", environment)
    assert problem.startswith("tcp.tls: enabled needs cert_file and key_file, but key_file")


def test_variables_of_other_programs_are_passed_over(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        environment={
            "PATH": "/bin",
            "WINDSPRITESQUE": "1",
            "IGGY_TCP_ADDRESS": "0.0.0.0:1",
            "WINDSPRITE_SERVER": "iggy://iggy:iggy@127.0.0.1:8090",
            "WINDSPRITE_SERVICE_HOST": "10.0.0.1",
            "WINDSPRITE_SERVICE_PORT": "8090",
            "WINDSPRITE_SERVICE_PORT_IGGY": "8090",
            "WINDSPRITE_PORT": "tcp://10.0.0.1:8090",
            "WINDSPRITE_PORT_8090_TCP": "tcp://10.0.0.1:8090",
            "WINDSPRITE_PORT_8090_TCP_ADDR": "10.0.0.1",
            "WINDSPRITE_BLUE_SERVICE_HOST": "10.0.0.2",
        },
    )
    assert set(origins(settings).values()) == {"default"}


def test_an_empty_variable_counts_as_not_set(tmp_path: Path) -> None:
    settings = read(
        tmp_path, "[node]\nid = 5", {"WINDSPRITE_NODE__ID": "", "IGGY_ROOT_PASSWORD": ""}
    )
    assert settings.node.id == 5
    assert settings.root.password is None


def test_root_credentials_by_the_names_of_iggy(tmp_path: Path) -> None:
    iggy = {"IGGY_ROOT_USERNAME": "iggy", "IGGY_ROOT_PASSWORD": "iggy-word"}
    settings = read(tmp_path, "[root]\nusername='file'\npassword='file-word'", iggy)
    assert settings.root.username == "iggy"
    assert settings.root.password is not None
    assert settings.root.password.get_secret_value() == "iggy-word"
    assert origins(settings)["root.password"] == "environment"

    ours = {"WINDSPRITE_ROOT__PASSWORD": "our-word"}
    settings = read(tmp_path, environment=iggy | ours)
    assert settings.root.username == "iggy"
    assert settings.root.password is not None
    assert settings.root.password.get_secret_value() == "our-word"


@pytest.mark.parametrize("name", ["IGGY_ROOT_USERNAME", "WINDSPRITE_ROOT__USERNAME"])
def test_a_mistake_is_named_by_the_variable_that_has_it(tmp_path: Path, name: str) -> None:
    # Ours win, and one without a value is not set.
    others = {"IGGY_ROOT_USERNAME": "iggy", "WINDSPRITE_ROOT__USERNAME": ""}
    environment = {**others, "IGGY_ROOT_PASSWORD": "iggy-word", name: "ab"}
    (problem,) = problems(tmp_path, environment=environment)
    assert problem.startswith(f"environment variable {name}: ")


def test_secrets_are_shown_nowhere(tmp_path: Path) -> None:
    secret = "correct-horse"
    settings = read(tmp_path, f"[root]\nusername = 'admin'\npassword = '{secret}'")
    shown = [
        repr(settings),
        str(settings),
        render_toml(settings.effective()),
        render_json(settings.effective()),
        repr(settings.effective()),
    ]
    too_long = "correct-horse" * 20
    shown += problems(tmp_path, f"[root]\nusername = 'admin'\npassword = '{too_long}'")
    shown += problems(tmp_path, f"[root]\npassword = '{secret}'")
    shown += problems(tmp_path, f"[root]\nusername = 'admin'\npassword = ['{secret}']")
    assert [text for text in shown if "horse" in text] == []
    members = json.loads(render_json(settings.effective()))
    assert members["root.password"] == {"value": None, "set": True, "origin": "file"}


def test_shown_toml_gives_the_same_settings_again(tmp_path: Path) -> None:
    environment = {
        variable_name(key): text
        for key, (text, _) in ALTERNATIVES.items()
        if not key.startswith("root.")
    }
    environment["WINDSPRITE_NODE__ZONE"] = 'quote " backslash \\ ümlaut'
    settings = read(tmp_path, environment=environment)
    shown = render_toml(settings.effective())
    assert 'address = "[::1]:9000"  # environment' in shown
    assert read(tmp_path, shown).model_dump() == settings.model_dump()


def test_shown_json_names_value_and_origin(tmp_path: Path) -> None:
    settings = read(tmp_path, "[node]\nid = 5")
    members = json.loads(render_json(settings.effective()))
    assert list(members) == keys()
    assert members["node.id"] == {"value": 5, "set": True, "origin": "file"}
    assert members["cluster.id"] == {"value": None, "set": False, "origin": "default"}
    assert members["limits.max_frame_size"]["value"] == "64 MiB"


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot read .*none\.toml: No such file"):
        load_settings(file=tmp_path / "none.toml", environment={})
    with pytest.raises(SettingsError, match="cannot read"):
        load_settings(file=tmp_path, environment={})


def test_the_documented_file_says_what_the_defaults_are(tmp_path: Path) -> None:
    text = (ROOT / "config" / "windsprite.toml").read_text()
    settings = read(tmp_path, text)
    assert settings.model_dump() == Settings().model_dump()
    active = {key for key, _ in leaves(tomllib.loads(text))}
    unset = {entry.key for entry in Settings().effective() if entry.value is None} | {"node.name"}
    assert active == set(keys()) - unset
    for key in unset:
        assert f'\n# {key.rpartition(".")[2]} = ""\n' in text


def test_the_pages_made_from_the_settings_are_current() -> None:
    pages = load_page_script("settings_pages")
    for path, page in pages.PAGES.items():
        assert path.read_text() == page(), "run `make docs-settings`"
