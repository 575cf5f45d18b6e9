"""The composition root: builds a server from settings, starts it, drains and stops it.

Only this module, `cli` and `embedding` read settings; everything below gets plain values.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from windsprite_protocol.model.cluster import NodeIdentity
from windsprite_protocol.v0_11.frames import DEFAULT_MAX_FRAME_SIZE, HEADER_SIZE
from windsprite_server.cluster.single import SingleNode
from windsprite_server.commit import CommitFailedError, Committed, Committer, recover
from windsprite_server.core.address import Address
from windsprite_server.core.clock import Clock, SystemClock
from windsprite_server.core.data_directory import (
    JOURNAL_FILE,
    LOG_DIRECTORY,
    DamagedDirectoryError,
    DataDirectory,
    DataDirectoryError,
    Identity,
    NewerFormatError,
    open_data_directory,
)
from windsprite_server.core.diagnostics import Diagnostics
from windsprite_server.core.files import replace_durably
from windsprite_server.core.ids import Ids, SystemIds
from windsprite_server.core.log_setup import Logger, RecentLog, make_logger
from windsprite_server.core.open_files import allow_open_files
from windsprite_server.core.passwords import Passwords
from windsprite_server.core.process import ProcessMeter
from windsprite_server.core.tasks import uninterrupted
from windsprite_server.group_coordinator import GroupCoordinator
from windsprite_server.groups.registry import Groups
from windsprite_server.handlers.dispatcher import Dispatcher, Handler
from windsprite_server.handlers.services import Services
from windsprite_server.handlers.table import HANDLERS
from windsprite_server.handlers.writes import life_of
from windsprite_server.heartbeats import Heartbeats
from windsprite_server.journal import JournalError, JournalProblem
from windsprite_server.journal.sqlite import SqliteJournal
from windsprite_server.log.keys import LogLimits, PartitionKey
from windsprite_server.log.results import PartitionRecovery, RecoveryReport
from windsprite_server.log.store import LogStore
from windsprite_server.metadata.commands import CreateRoot
from windsprite_server.metadata.effects import Effect, PartitionCondemned, TopicDeleted, UserDeleted
from windsprite_server.metadata.queries import live_partitions
from windsprite_server.metadata.state import State
from windsprite_server.partitions import Partitions
from windsprite_server.segment_cleaner import SegmentCleaner
from windsprite_server.session import ClientTable, DuplicateWindows, Sessions
from windsprite_server.settings import Settings, render_toml
from windsprite_server.settings.model import Tls
from windsprite_server.token_cleaner import TokenCleaner
from windsprite_server.transport.certificate_watch import CertificateWatch
from windsprite_server.transport.limits import TcpLimits
from windsprite_server.transport.tcp import TcpListener
from windsprite_server.transport.untaken import UntakenReplies
from windsprite_server.transport.wire import Wire

ROOT_PASSWORD_FILE: Final = "root-password"  # noqa: S105 - the name of a file
"""Where a password is that was made for the root user, in the data directory."""

DEFAULT_ROOT: Final = "iggy"
"""The name of the root user if the settings give it none, and its password where nobody else can
connect."""

_RANDOM_PASSWORD_BYTES: Final = 24
# Objects that live as long as the server are taken out of the garbage collector's sight, and it
# looks at the others less often than its default of every 700 new ones: a full collection stops
# everything.
_GC_THRESHOLD: Final = 50_000
# Seconds that a thread which verifies what it read may keep the event loop waiting, each time it
# has something to do: by default 5 ms, which everybody would notice while one client reads old
# messages.
_SWITCH_INTERVAL: Final = 0.0005
_NAMED_PATHS: Final = 10
# Descriptors beside connections and partitions: journal, lock, threads, standard streams.
_OTHER_FILES: Final = 64


@dataclass(frozen=True, slots=True)
class Running:
    """What a started server is reached by and known as."""

    tcp_address: Address
    cluster_id: str
    node_name: str


class Server:
    """A server in this process; several can run side by side on different data directories.

    Args:
        settings: All of them.
        logger: For what operators should know.
        recent_log: The newest lines of that log, for snapshots; `None`: nobody keeps them.
        clock: Time; that of the machine unless given.
        ids: Identifiers; random ones unless given.
        handlers: What each command does.
    """

    def __init__(
        self,
        settings: Settings,
        logger: Logger,
        *,
        recent_log: RecentLog | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        handlers: Mapping[type[Any], Handler] = HANDLERS,
    ) -> None:
        self._settings = settings
        self._logger = logger
        self._recent_log = recent_log
        self._clock = clock or SystemClock()
        self._ids = ids or SystemIds()
        self._handlers = handlers
        self._open = AsyncExitStack()
        self._certificate: CertificateWatch | None = None

    async def start(self) -> Running:
        """Open the data directory, recover what it holds, and listen.

        Who is cancelled meanwhile waits until all of that is done, and undone again.

        Raises:
            CertificateError: There is no good certificate for TLS.
            DataDirectoryError: The data directory cannot be used.
            OSError: The address cannot be listened on.
        """
        try:
            return await uninterrupted(self._start())
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop accepting, finish what is in flight, make everything durable.

        All of that is done even if something fails or who waits for it is cancelled.
        """
        await uninterrupted(self._open.aclose())

    def reload(self) -> None:
        """Read again what may change while the server runs: the certificate and its key."""
        if self._certificate is not None:
            self._certificate.reload()

    async def _start(self) -> Running:
        settings, logger, clock = self._settings, self._logger, self._clock
        certificate = _watch_certificate(settings.tcp.tls, clock, logger)
        if certificate is not None:
            certificate.start()
            self._open.push_async_callback(certificate.stop)
            self._certificate = certificate
        directory = await asyncio.to_thread(
            open_data_directory, settings.data_dir, ids=self._ids, cluster_id=settings.cluster.id
        )
        self._open.callback(directory.close)
        identity = directory.identity

        journal = await _open_journal(directory)
        self._open.push_async_callback(journal.close)
        state = await _recover_state(journal)

        replies = UntakenReplies(settings.limits.send_memory)
        partitions, report = await self._open_partitions(directory, state, replies)

        cluster = _single_node(settings, identity, self._ids.uuid())
        coordinator = self._start_group_coordinator(state, partitions)
        table = ClientTable[Any](settings.sessions.max_clients, settings.sessions.reply_memory)
        sessions = Sessions(identity.generation, coordinator.end_session, table)
        dedup = settings.partition
        duplicates = DuplicateWindows(dedup.dedup_clients, dedup.dedup_clients_total)
        turns: dict[tuple[int, int], int] = {}
        committer = Committer(
            journal,
            state,
            clock,
            cluster,
            partitions,
            logger=logger,
            listener=partial(_follow, sessions, duplicates, coordinator, turns),
            position_floor=_highest_incarnation(report.unknown),
            max_waiting=settings.journal.max_waiting_commands,
            snapshot_every=settings.journal.snapshot_every,
        )
        await committer.start()
        self._open.push_async_callback(committer.stop)

        limits = settings.limits
        passwords = Passwords(threads=limits.login_threads, max_waiting=limits.max_waiting_logins)
        self._open.callback(passwords.close)
        self._start_heartbeats(sessions, coordinator.groups)
        self._start_token_cleaner(state, committer)
        segment_cleaner = self._start_segment_cleaner(state, partitions)

        configuration = render_toml(settings.effective())
        services = Services(
            state=state,
            committer=committer,
            partitions=partitions,
            cluster=cluster,
            sessions=sessions,
            duplicates=duplicates,
            groups=coordinator.groups,
            passwords=passwords,
            segment_cleaner=segment_cleaner,
            meter=ProcessMeter(directory.path, clock),
            diagnostics=Diagnostics(directory.path, configuration, self._recent_log, clock, logger),
            clock=clock,
            ids=self._ids,
            server_version=version("windsprite"),
            max_reply_body=min(limits.max_frame_size, DEFAULT_MAX_FRAME_SIZE) - HEADER_SIZE,
            max_tokens_per_user=settings.personal_access_token.max_tokens_per_user,
            turns=turns,
        )
        dispatcher = Dispatcher(services, self._handlers, logger)
        wire = Wire(dispatcher, identity.cluster_id, _max_reply_size(settings), clock)
        listener = TcpListener(
            wire, _tcp_limits(settings), replies, clock, logger, certificate=certificate
        )
        self._open.push_async_callback(listener.stop, settings.shutdown_timeout)
        address = await listener.listen(settings.tcp.address)
        # Only now: its password may depend on the address, which may not be what was meant.
        await self._create_root(state, committer, passwords, directory)
        await listener.accept()
        return Running(address, str(identity.cluster_id), settings.node.name)

    async def _open_partitions(
        self, directory: DataDirectory, state: State, replies: UntakenReplies
    ) -> tuple[Partitions, RecoveryReport]:
        store = LogStore(
            directory.path / LOG_DIRECTORY,
            _log_limits(self._settings),
            self._logger,
            reply_room=replies.room,
        )
        self._open.push_async_callback(store.close)
        partitions = Partitions(store)
        try:
            report = await asyncio.to_thread(
                partitions.recover, list(live_partitions(state)), tuple(state.condemned)
            )
        except OSError as error:
            raise DataDirectoryError(
                f"cannot use data directory {directory.path}: {error}"
            ) from error
        _tell_recovery(report, self._logger)
        return partitions, report

    def _start_group_coordinator(self, state: State, partitions: Partitions) -> GroupCoordinator:
        timeout = self._settings.consumer_group.rebalancing_timeout
        coordinator = GroupCoordinator(
            state, partitions, self._clock, self._logger, rebalancing_timeout=timeout
        )
        coordinator.start()
        self._open.push_async_callback(coordinator.stop)
        return coordinator

    def _start_heartbeats(self, sessions: Sessions, groups: Groups) -> None:
        heartbeat = self._settings.heartbeat
        if heartbeat.enabled:
            task = Heartbeats(
                sessions, groups, self._clock, self._logger, interval=heartbeat.interval
            )
            task.start()
            self._open.push_async_callback(task.stop)

    def _start_token_cleaner(self, state: State, committer: Committer) -> None:
        cleaner = self._settings.personal_access_token.cleaner
        if cleaner.enabled:
            task = TokenCleaner(
                state, committer, self._clock, self._logger, interval=cleaner.interval
            )
            task.start()
            self._open.push_async_callback(task.stop)

    def _start_segment_cleaner(self, state: State, partitions: Partitions) -> SegmentCleaner:
        retention = self._settings.retention
        cleaner = SegmentCleaner(
            state,
            partitions,
            self._clock,
            self._logger,
            interval=retention.interval if retention.enabled else None,
            max_frame_size=self._settings.limits.max_frame_size,
        )
        cleaner.start()
        self._open.push_async_callback(cleaner.stop)
        return cleaner

    async def _create_root(
        self, state: State, committer: Committer, passwords: Passwords, directory: DataDirectory
    ) -> None:
        """Create the root user at the first start; afterwards the stored one counts."""
        if state.users:
            return
        root = self._settings.root
        if root.username is not None and root.password is not None:
            username, password = root.username, root.password.get_secret_value()
        elif self._settings.tcp.address.is_loopback:
            username = password = DEFAULT_ROOT
            self._logger.warning(
                "the root user is iggy with password iggy, since only this machine can connect: "
                "set root.username and root.password for anything else"
            )
        else:
            username = DEFAULT_ROOT
            password = self._ids.token(_RANDOM_PASSWORD_BYTES).hex()
            file = directory.path / ROOT_PASSWORD_FILE
            replace_durably(file, password.encode() + b"\n", mode=0o600)
            self._logger.warning(
                "a password was made for the root user", username=username, file=str(file)
            )
        create = CreateRoot(username, await passwords.hash(password))
        try:
            answer = await committer.execute(create, None)
        except CommitFailedError as error:
            raise _no_root(str(error)) from error
        if not isinstance(answer, Committed):
            raise _no_root("the journal cannot be written now; is the disk full?")


async def serve(
    settings: Settings, logger: Logger, recent_log: RecentLog, ready_file: Path | None
) -> None:
    """Run a server until a signal asks it to stop.

    A second SIGTERM or SIGINT stops the process at once. SIGHUP, which a terminal sends that is
    closed, asks to stop too, unless it was ignored from the start; with TLS it reads the
    certificate again instead.
    """
    loop = asyncio.get_running_loop()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    stopping = asyncio.Event()

    def stop(number: signal.Signals) -> None:
        logger.info("stopping", signal=number.name)
        if number is not signal.SIGHUP:  # of a closed terminal both shell and system may tell
            loop.remove_signal_handler(signal.SIGTERM)
            loop.remove_signal_handler(signal.SIGINT)
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    loop.set_exception_handler(lambda _, context: _tell_unhandled(context, logger))
    server = Server(settings, logger, recent_log=recent_log)
    if settings.tcp.tls.enabled:
        loop.add_signal_handler(signal.SIGHUP, server.reload)
    elif signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup leaves it
        loop.add_signal_handler(signal.SIGHUP, stop, signal.SIGHUP)
    gc.disable()  # nearly all that a start makes stays, so looking for garbage would be in vain
    running = await server.start()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)
    gc.enable()
    logger.info(
        "listening",
        tcp=str(running.tcp_address),
        cluster_id=running.cluster_id,
        node=running.node_name,
    )
    try:
        with _ready(ready_file, running):
            await stopping.wait()
    finally:
        await server.stop()
    logger.info("stopped")


def run(settings: Settings, *, ready_file: Path | None = None) -> int:
    """Run a server in the foreground; returns the exit code of the process.

    Raises:
        CertificateError: There is no good certificate for TLS.
        DataDirectoryError: The data directory cannot be used.
    """
    recent_log = RecentLog(settings.log.recent_lines)
    logger = make_logger(
        log_format=settings.log.format,
        level=settings.log.level,
        stream=sys.stderr,
        clock=SystemClock(),
        recent=recent_log,
    )
    wanted = settings.limits.max_connections + settings.storage.open_files + _OTHER_FILES
    allowed = allow_open_files(wanted)
    if allowed < wanted:
        logger.warning(
            "the system allows fewer open files than the settings ask for",
            allowed=allowed,
            wanted=wanted,
        )
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(serve(settings, logger, recent_log, ready_file))
    except OSError as error:
        logger.error("cannot run", reason=str(error))  # noqa: TRY400 - the sentence says it all
        return 1
    return 0


def _tell_unhandled(context: Mapping[str, Any], logger: Logger) -> None:
    """Log what went wrong where nobody waits for it, as in a callback of the event loop."""
    logger.error("unhandled error", what=context.get("message"), exc_info=context.get("exception"))


async def _open_journal(directory: DataDirectory) -> SqliteJournal:
    # Where there are logs there was a journal: an empty one in its place would forget all of them.
    # A first start that was cut short may have left an identity and nothing else.
    create = directory.is_new or not (directory.path / LOG_DIRECTORY).exists()
    try:
        return await SqliteJournal.open(directory.path / JOURNAL_FILE, create=create)
    except JournalError as error:
        raise _unusable(error) from error


def _follow(
    sessions: Sessions,
    duplicates: DuplicateWindows,
    coordinator: GroupCoordinator,
    turns: dict[tuple[int, int], int],
    effect: Effect,
) -> None:
    """Let what is kept in memory follow what a metadata command has done."""
    coordinator.follow(effect)
    if isinstance(effect, PartitionCondemned):
        duplicates.forget(life_of(effect.place))
    elif isinstance(effect, TopicDeleted):
        turns.pop((effect.stream_id, effect.topic_id), None)
    elif isinstance(effect, UserDeleted):
        # Logged out everywhere: the id may come again for somebody else.
        for connection in sessions:
            if connection.session is not None and connection.session.user_id == effect.user_id:
                sessions.unbind(connection)


def _single_node(settings: Settings, identity: Identity, instance_id: UUID) -> SingleNode:
    advertised = settings.node.advertised_address
    return SingleNode(
        cluster_id=identity.cluster_id,
        cluster_name=settings.cluster.name,
        node_name=settings.node.name,
        identity=NodeIdentity(
            node_id=settings.node.id,
            generation=identity.generation,
            instance_id=instance_id,
            zone=settings.node.zone,
        ),
        advertised_host=None if advertised is None else advertised.host,
        advertised_port=None if advertised is None else advertised.port,
    )


def _no_root(reason: str) -> DataDirectoryError:
    # Without it nobody could ever log in. The next start tries again.
    return DataDirectoryError(f"the root user cannot be stored: {reason}")


async def _recover_state(journal: SqliteJournal) -> State:
    try:
        return await recover(journal)
    except JournalError as error:
        raise _unusable(error) from error


def _unusable(error: JournalError) -> DataDirectoryError:
    if error.problem is JournalProblem.NEWER_FORMAT:
        return NewerFormatError(str(error))
    return DamagedDirectoryError(str(error))


def _highest_incarnation(unknown: Iterable[Path]) -> int:
    """The highest number in the names of logs that metadata does not know, which must not recur."""
    keys = (PartitionKey.from_directory_name(path.name) for path in unknown)
    return max((key.incarnation for key in keys if key is not None), default=0)


def _tell_recovery(report: RecoveryReport, logger: Logger) -> None:
    """Say what recovery found that somebody should know of."""
    for partition in report.partitions:
        if not partition.is_clean:
            logger.warning(
                "partition recovered",
                partition=partition.key.directory_name,
                next_offset=partition.next_offset,
                torn=_torn_text(partition),
                damages=[str(damage) for damage in partition.damages],
                lowered_offsets=len(partition.clamped),
                lost_offsets=partition.lost_offsets,
            )
    for key, reason in report.unreadable.items():
        logger.error("partition not opened", partition=key.directory_name, reason=reason)
    if report.unknown:
        logger.warning(
            "files that metadata does not know were left alone",
            count=len(report.unknown),
            paths=[str(path) for path in report.unknown[:_NAMED_PATHS]],
        )


def _torn_text(partition: PartitionRecovery) -> str | None:
    torn = partition.torn
    return None if torn is None else f"{torn.length} bytes cut from {torn.segment}"


def _log_limits(settings: Settings) -> LogLimits:
    storage = settings.storage
    return LogLimits(
        tail_bytes=storage.tail_memory,
        index_bytes=storage.index_memory,
        index_interval=storage.index_interval,
        consumer_offsets=settings.limits.max_consumer_offsets,
        descriptors=storage.open_files,
        read_threads=storage.read_threads,
        sync_threads=storage.sync_threads,
        free_bytes=storage.min_free,
    )


def _max_reply_size(settings: Settings) -> int:
    """Bytes of the largest reply: what clients may send says nothing about what they take."""
    return max(settings.limits.max_frame_size, DEFAULT_MAX_FRAME_SIZE)


def _tcp_limits(settings: Settings) -> TcpLimits:
    limits = settings.limits
    return TcpLimits(
        max_connections=limits.max_connections,
        max_frame_size=limits.max_frame_size,
        max_frame_size_before_login=limits.max_frame_size_before_login,
        max_waiting_frames=limits.max_waiting_frames,
        write_high_water=limits.write_high_water,
        write_low_water=limits.write_low_water,
        write_timeout=limits.write_timeout,
        frame_timeout=limits.frame_timeout,
        receive_memory=limits.receive_memory,
        backlog=settings.tcp.backlog,
        handshake_timeout=settings.tcp.tls.handshake_timeout,
    )


def _watch_certificate(tls: Tls, clock: Clock, logger: Logger) -> CertificateWatch | None:
    if not tls.enabled or tls.cert_file is None or tls.key_file is None:
        return None
    return CertificateWatch(
        tls.cert_file, tls.key_file, clock, logger, interval=tls.reload_interval
    )


@contextmanager
def _ready(path: Path | None, running: Running) -> Iterator[None]:
    """Keep a file that says how to reach the server, as long as it can be reached."""
    if path is None:
        yield
        return
    values = {
        "pid": os.getpid(),
        "tcp": str(running.tcp_address),
        "cluster_id": running.cluster_id,
        "node": running.node_name,
    }
    try:
        replace_durably(path, json.dumps(values).encode() + b"\n")
        yield
    finally:
        path.unlink(missing_ok=True)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Uvloop where it exists; elsewhere the loop of the standard library does the same, slower."""
    try:
        import uvloop  # noqa: PLC0415 - not there on every platform
    except ImportError:
        return None
    return uvloop.new_event_loop
