"""The settings of a server: every key, its default, its limits, and a line on what it is for.

`config/windsprite.toml` and `docs/settings.md` are made from this module.
"""

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Self
from uuid import UUID

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from windsprite_server.core.address import Address
from windsprite_server.core.log_setup import LogFormat, LogLevel
from windsprite_server.settings.values import (
    Advertised,
    Duration,
    File,
    Label,
    Listener,
    Number,
    Password,
    Printable,
    Size,
    Username,
)

KIB: Final = 1024
MIB: Final = 1024 * KIB

Origin = Literal["default", "file", "environment", "command line"]


class EffectiveSetting(NamedTuple):
    """One key as it is in force.

    Attributes:
        key: Its dotted name, `tcp.address`.
        value: As in a TOML or JSON file; `None` where nothing is set, and for secrets.
        origin: Where the value comes from.
        is_hidden: Whether it is a secret that is set.
    """

    key: str
    value: str | int | None
    origin: Origin
    is_hidden: bool


class Section(BaseModel):
    """A table of keys; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Tls(Section):
    """TLS on the TCP listener."""

    enabled: bool = Field(default=False, description="Speak TLS, and nothing else, on tcp.address.")
    cert_file: File | None = Field(
        default=None, description="Certificate chain in PEM, the server's own certificate first."
    )
    key_file: File | None = Field(
        default=None,
        description="Private key in PEM, not encrypted. May be the same file as cert_file.",
    )
    handshake_timeout: Duration = Field(
        default=10,
        gt=0,
        description="A connection is closed when its TLS handshake takes longer.",
    )
    reload_interval: Duration = Field(
        default=10,
        gt=0,
        description="How often to look whether cert_file or key_file has changed; new connections "
        "get the new certificate. SIGHUP reads them at once.",
    )

    @model_validator(mode="after")
    def _needs_files(self) -> Self:
        missing = "cert_file" if self.cert_file is None else "key_file"
        if self.enabled and None in (self.cert_file, self.key_file):
            raise ValueError(f"enabled needs cert_file and key_file, but {missing} is not set")
        return self


class Tcp(Section):
    """The listener for clients."""

    address: Listener = Field(
        default=Address("127.0.0.1", 8090),
        description="Where clients connect. Port 0: any free one; 0.0.0.0 or [::]: every address.",
    )
    backlog: Number = Field(
        default=1024,
        ge=1,
        le=65_535,
        description="Connections that may wait to be accepted, as after a restart.",
    )
    tls: Tls = Field(default=Tls())


class Cluster(Section):
    """The cluster this server belongs to."""

    name: Label = Field(default="windsprite", description="The cluster's name, for people.")
    id: UUID | None = Field(
        default=None,
        description="The cluster's id (a UUID). Made at the first start and kept in the data "
        "directory; one that contradicts it is refused.",
    )


class Node(Section):
    """This server among the nodes of its cluster."""

    name: Label = Field(
        default_factory=socket.gethostname,
        description="The node's name, for people. By default the name of the host.",
    )
    id: Number = Field(
        default=0, ge=0, le=2**32 - 1, description="The node's number, unique in its cluster."
    )
    advertised_address: Advertised | None = Field(
        default=None,
        description="What clients are told to dial, for servers behind NAT or in containers. By "
        "default the address on which the asking client reached this server.",
    )
    zone: Printable = Field(
        default="", description="Rack, room or region: where the node stands. Empty means unsaid."
    )


class Root(Section):
    """The first user, made at the first start. Later the stored one counts."""

    username: Username | None = Field(
        default=None,
        description="Name of the root user, 3 to 50 bytes. Also IGGY_ROOT_USERNAME. Set both of "
        "username and password, or none.",
    )
    password: Password | None = Field(
        default=None,
        description="Its password, 3 to 100 bytes. Also IGGY_ROOT_PASSWORD. If none is set: iggy / "
        "iggy while only this machine can connect, else a random one in DATA_DIR/root-password.",
    )

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if (self.username is None) != (self.password is None):
            missing = "password" if self.password is None else "username"
            raise ValueError(f"username and password go together, but {missing} is not set")
        return self


class Limits(Section):
    """What clients may take up."""

    max_connections: Number = Field(
        default=8192,
        ge=1,
        le=1_000_000,
        description="Connections at a time; one more is closed at once.",
    )
    max_frame_size: Size = Field(
        default=64 * MIB,
        ge=4 * KIB,
        le=2**32 - 1,
        description="Largest request, header included. A poll gathers as much for one reply, "
        "though no more than the 64 MiB that clients accept.",
    )
    max_frame_size_before_login: Size = Field(
        default=64 * KIB,
        ge=4 * KIB,
        description="The same, until a login on the connection has succeeded.",
    )
    max_waiting_frames: Number = Field(
        default=256,
        ge=1,
        le=65_536,
        description="Requests of one connection that may wait for an answer; then it is not read.",
    )
    receive_memory: Size = Field(
        default=512 * MIB,
        description="Memory for unfinished and waiting requests, over all connections; beyond it "
        "they are read one after the other.",
    )
    send_memory: Size = Field(
        default=512 * MIB,
        ge=0,
        description="Memory for replies that clients have not taken yet, over all connections; "
        "beyond it polls find 64 KiB at a time.",
    )
    frame_timeout: Duration = Field(
        default=30,
        gt=0,
        description="A connection is closed when an unfinished frame gets no new byte for so long.",
    )
    write_high_water: Size = Field(
        default=4 * MIB,
        ge=1,
        le=1024 * MIB,
        description="A connection has to wait while it leaves so many bytes of replies untaken.",
    )
    write_low_water: Size = Field(
        default=1 * MIB,
        ge=0,
        description="It is served again when no more than so many bytes are untaken.",
    )
    write_timeout: Duration = Field(
        default=60,
        gt=0,
        description="A connection is closed when it leaves replies untaken for so long.",
    )
    login_threads: Number = Field(
        default=2,
        ge=1,
        le=64,
        description="Passwords verified or hashed at a time; each costs some 20 MiB and 20 ms or "
        "more.",
    )
    max_waiting_logins: Number = Field(
        default=256,
        ge=0,
        le=100_000,
        description="Logins and changes of passwords that may wait for one of these threads; more "
        "are told to try again.",
    )
    max_consumer_offsets: Number = Field(
        default=4096,
        ge=1,
        le=1_000_000,
        description="Stored offsets per partition, of single consumers and of groups each.",
    )

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.write_low_water > self.write_high_water:
            raise ValueError("write_low_water must not be above write_high_water")
        if self.max_frame_size_before_login > self.max_frame_size:
            raise ValueError("max_frame_size_before_login must not be above max_frame_size")
        if self.receive_memory < self.max_frame_size:
            raise ValueError("receive_memory must not be below max_frame_size")
        return self


class SessionTable(Section):
    """What is known of the clients that are logged in, so that no change is made twice."""

    max_clients: Number = Field(
        default=8192,
        ge=2,
        le=65_536,
        description="Clients that may change metadata at a time. One more, and the one that was "
        "answered longest ago has to log in again for that.",
    )
    reply_memory: Size = Field(
        default=64 * MIB,
        ge=0,
        description="Memory for replies to changes of metadata, of which a client that repeats a "
        "request gets the first one again: up to five for each client.",
    )


class Partition(Section):
    """What a partition knows of the clients that write to it, so that nothing is written twice."""

    dedup_clients: Number = Field(
        default=4096,
        ge=0,
        le=1_000_000,
        description="Clients whose last 128 requests a partition remembers, to recognise repeated "
        "ones; some 300 bytes each. 0: none, for clients that number their requests wrongly.",
    )
    dedup_clients_total: Number = Field(
        default=262_144,
        ge=1,
        le=100_000_000,
        description="The same over all partitions: some 75 MiB.",
    )


class Heartbeat(Section):
    """Members of consumer groups have to show that they are alive, by any request."""

    enabled: bool = Field(
        default=True, description="Whether members that say nothing are logged out."
    )
    interval: Duration = Field(
        default=30,
        ge=0.1,
        description="The time from one look to the next. A member is logged out after 1.2 "
        "intervals of silence.",
    )


class TokenCleaner(Section):
    """Deletes personal access tokens that have expired; nobody can log in with them anyway."""

    enabled: bool = Field(default=True, description="Whether expired tokens are deleted.")
    interval: Duration = Field(
        default=60, ge=0.1, description="The time from one look at all tokens to the next."
    )


class PersonalAccessToken(Section):
    """Personal access tokens, which programs log in with."""

    max_tokens_per_user: Number = Field(
        default=100,
        ge=0,
        le=10_000,
        description="Tokens that a user may have at a time; expired ones make room for new ones.",
    )
    cleaner: TokenCleaner = Field(default=TokenCleaner())


class Storage(Section):
    """Partitions on disk and in memory."""

    tail_memory: Size = Field(
        default=256 * MIB,
        ge=0,
        description="Memory for the newest batches, over all partitions. What is older is read "
        "through the page cache of the system.",
    )
    index_memory: Size = Field(
        default=64 * MIB,
        ge=0,
        description="Memory for the indexes of full segments, over all partitions. Those not in "
        "memory are read again when they are needed.",
    )
    index_interval: Size = Field(
        default=64 * KIB,
        ge=4 * KIB,
        le=16 * MIB,
        description="Bytes of a segment between two entries of its index: smaller finds offsets "
        "faster, larger takes less memory.",
    )
    open_files: Number = Field(
        default=4096,
        ge=16,
        le=1_000_000,
        description="Files of partitions kept open at a time.",
    )
    min_free: Size = Field(
        default=64 * MIB,
        ge=0,
        description="Messages are refused while the disk has less room than this, so that "
        "deletions, stored offsets and metadata still have some.",
    )
    sync_threads: Number = Field(
        default=4, ge=1, le=64, description="Partitions that are made durable (fsync) at a time."
    )
    read_threads: Number = Field(
        default=4, ge=1, le=64, description="Reads at a time that have to wait for the disk."
    )


class Retention(Section):
    """The removal of old messages, which topics ask for by message_expiry and max_topic_size."""

    enabled: bool = Field(
        default=True,
        description="Whether old messages are removed. What clients delete goes in any case.",
    )
    interval: Duration = Field(
        default=60, ge=0.01, description="The time from one look at all partitions to the next."
    )


class ConsumerGroups(Section):
    """Members of consumer groups and the partitions they share."""

    rebalancing_timeout: Duration = Field(
        default=30,
        gt=0,
        description="How long members may take to commit what they were given of partitions that a "
        "new member takes over; then it gets them anyway.",
    )


class Journal(Section):
    """The durable list of metadata commands."""

    snapshot_every: Number = Field(
        default=10_000,
        ge=1,
        description="Commands between two snapshots: fewer make a start faster.",
    )
    max_waiting_commands: Number = Field(
        default=1024,
        ge=1,
        le=1_000_000,
        description="Commands that may wait to become durable; more are told to try again.",
    )


class Log(Section):
    """What the server writes about itself, to standard error."""

    format: LogFormat = Field(
        default="console", description="console for people, json for machines: one line per event."
    )
    level: LogLevel = Field(
        default="info", description="The lowest level written: debug, info, warning or error."
    )
    recent_lines: Number = Field(
        default=1000,
        ge=0,
        le=100_000,
        description="The newest lines are kept in memory, this many, for snapshots (command 11).",
    )


class Settings(BaseSettings):
    """All settings of a server.

    Calling the class reads neither files nor the environment: `load_settings` does.
    """

    model_config = SettingsConfigDict(
        env_prefix="WINDSPRITE_",
        env_nested_delimiter="__",
        env_ignore_empty=True,
        enable_decoding=False,
        validate_default=False,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    data_dir: File = Field(
        default=Path("data"),
        description="The directory that holds everything; made if missing. Relative paths count "
        "from the working directory.",
    )
    shutdown_timeout: Duration = Field(
        default=10,
        ge=0,
        description="When the server is asked to stop, requests in flight get so long to finish.",
    )
    tcp: Tcp = Field(default=Tcp())
    cluster: Cluster = Field(default=Cluster())
    node: Node = Field(default_factory=Node)
    root: Root = Field(default=Root())
    limits: Limits = Field(default=Limits())
    sessions: SessionTable = Field(default=SessionTable())
    partition: Partition = Field(default=Partition())
    heartbeat: Heartbeat = Field(default=Heartbeat())
    personal_access_token: PersonalAccessToken = Field(default=PersonalAccessToken())
    storage: Storage = Field(default=Storage())
    retention: Retention = Field(default=Retention())
    consumer_group: ConsumerGroups = Field(default=ConsumerGroups())
    journal: Journal = Field(default=Journal())
    log: Log = Field(default=Log())

    _origins: dict[str, Origin] = PrivateAttr(default_factory=dict)

    @classmethod
    def build(cls, values: Mapping[str, Any], origins: Mapping[str, Origin]) -> "Settings":
        """Make settings of nested values, and remember where each dotted key comes from.

        Raises:
            pydantic.ValidationError: A key is unknown or a value is not allowed.
        """
        settings = cls(**values)
        settings._origins = dict(origins)
        return settings

    def effective(self) -> list[EffectiveSetting]:
        """Every key with its value and where that comes from, in the order of the model."""
        values = dict(leaves(self.model_dump()))
        effective = []
        for key, shown in leaves(self.model_dump(mode="json")):
            is_hidden = isinstance(values[key], SecretStr)
            origin = self._origins.get(key, "default")
            effective.append(EffectiveSetting(key, None if is_hidden else shown, origin, is_hidden))
        return effective

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take only what is passed in, so that settings can be built in tests and programs."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)


def leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted keys of nested tables and what they hold."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every dotted key of a model with its declaration."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from fields(field.annotation, f"{prefix}{name}.")
        else:
            yield prefix + name, field
