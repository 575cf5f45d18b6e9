"""Sessions and their memory against models that keep everything and know no bounds in time."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from windsprite_server.session import (
    ClientTable,
    DuplicateWindows,
    SessionConflictError,
    Step,
    Writer,
)
from windsprite_server.session.clients import REPLY_OVERHEAD

CLIENTS = [bytes([number]) * 16 for number in range(1, 5)]
USERS = [1, 2]
REQUESTS = st.integers(1, 9)
CHECKSUMS = st.sampled_from([None, b"1" * 16, b"2" * 16])
SIZES = st.integers(0, 3 * REPLY_OVERHEAD)
MAX_CLIENTS = 3
MAX_BYTES = 8 * REPLY_OVERHEAD


@dataclass
class Known:
    """What the model knows of a client id.

    Attributes:
        done: The requests that were carried out, with their checksums.
        told: All replies of this life in their order: request (0: a login) and size.
    """

    user: int
    session: int
    done: dict[int, bytes | None] = field(default_factory=dict)
    told: list[int] = field(default_factory=list)
    is_lost: bool = False
    executing: tuple[int, bytes | None] | None = None
    has_ended: bool = False


class ClientTableModel(RuleBasedStateMachine):
    """Drives a table with small bounds; the model keeps every reply ever given, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.table: ClientTable[str] = ClientTable(MAX_CLIENTS, MAX_BYTES)
        self.known: dict[bytes, Known] = {}
        self.session = 0
        # Client id, request, size with overhead, reply: from the oldest to the newest.
        self.replies: list[tuple[bytes, int, int, str]] = []
        self.answered: list[bytes] = []

    @rule(client=st.sampled_from(CLIENTS), user=st.sampled_from(USERS))
    def log_in(self, client: bytes, user: int) -> None:
        self.session += 1
        known = self.known.get(client)
        try:
            self.table.register(client, user, self.session)
        except SessionConflictError:
            assert known is not None
            assert known.user != user
            return
        if known is None:
            known = self.known[client] = Known(user, 0)
            self.make_room()
        elif known.is_lost:
            self.make_room()
        assert known.user == user
        known.session, known.is_lost, known.has_ended = self.session, False, False
        self.tell(client, 0, 0, "")

    def make_room(self) -> None:
        kept = [client for client in self.answered if self.is_kept(client)]
        if len(kept) == MAX_CLIENTS:
            self.known[kept[0]].is_lost = True
            self.known[kept[0]].told = []
            self.replies = [reply for reply in self.replies if reply[0] != kept[0]]

    def is_kept(self, client: bytes) -> bool:
        return client in self.known and not self.known[client].is_lost

    def tell(self, client: bytes, request: int, size: int, reply: str) -> None:
        known = self.known[client]
        known.told = [*known.told, request][-5:]
        if client in self.answered:
            self.answered.remove(client)
        self.answered.append(client)
        if request:
            self.replies.append((client, request, size + REPLY_OVERHEAD, reply))
        self.replies = [each for each in self.replies if each[1] in self.known[each[0]].told]
        while sum(each[2] for each in self.replies) > MAX_BYTES:
            self.replies.pop(0)

    @rule(client=st.sampled_from(CLIENTS), age=st.sampled_from([0, 0, 0, 1]))
    def log_out(self, client: bytes, age: int) -> None:
        known = self.known.get(client)
        number = (0 if known is None else known.session) - age
        self.table.end(client, number)
        if known is None or number != known.session:
            return
        known.has_ended = True
        if known.executing is None:
            self.forget(client)

    def forget(self, client: bytes) -> None:
        del self.known[client]
        self.replies = [each for each in self.replies if each[0] != client]
        if client in self.answered:
            self.answered.remove(client)

    @rule(
        client=st.sampled_from(CLIENTS),
        age=st.sampled_from([0, 0, 0, 0, 1, -1]),
        request=REQUESTS,
        checksum=CHECKSUMS,
    )
    def ask(self, client: bytes, age: int, request: int, checksum: bytes | None) -> None:
        known = self.known.get(client)
        if known is not None and known.has_ended:
            return  # nobody can ask any more
        session = (0 if known is None else known.session) - age
        expected = self.expected(known, client, session, request, checksum)
        assert self.table.begin(client, session, request, checksum) is expected
        if expected is Step.EXECUTE:
            assert known is not None
            known.executing = request, checksum
        elif expected is Step.REPLAY:
            told = [each[3] for each in self.replies if each[:2] == (client, request)]
            assert [self.table.reply(client, request)] == told

    def expected(
        self,
        known: Known | None,
        client: bytes,
        session: int,
        request: int,
        checksum: bytes | None,
    ) -> Step:
        if known is not None and known.executing is not None:
            return Step.IN_PROGRESS
        if known is None or known.is_lost:
            return Step.NO_SESSION
        if session != known.session:
            return Step.OUTDATED
        highest = max(known.done, default=0)
        if request > highest:
            return Step.EXECUTE
        is_told = any(each[:2] == (client, request) for each in self.replies)
        if is_told or request == highest:
            before = known.done[request]
            if None not in (before, checksum) and before != checksum:
                return Step.MISMATCH
        return Step.REPLAY if is_told else Step.REPLY_FORGOTTEN

    def executing(self) -> list[bytes]:
        return [client for client, known in self.known.items() if known.executing is not None]

    @precondition(lambda self: self.executing())
    @rule(data=st.data(), size=SIZES)
    def finish(self, data: Any, size: int) -> None:
        client = data.draw(st.sampled_from(self.executing()))
        known = self.known[client]
        assert known.executing is not None
        request, checksum = known.executing
        reply = f"{request} of {client!r} in {known.session}"
        self.table.finish(client, request, checksum, reply, size)
        known.executing = None
        known.done[request] = checksum
        if not known.is_lost:
            self.tell(client, request, size, reply)
        if known.has_ended:
            self.forget(client)

    @precondition(lambda self: self.executing())
    @rule(data=st.data())
    def abandon(self, data: Any) -> None:
        client = data.draw(st.sampled_from(self.executing()))
        self.table.abandon(client)
        self.known[client].executing = None
        if self.known[client].has_ended:
            self.forget(client)

    @invariant()
    def is_bounded(self) -> None:
        assert len(self.table) == sum(not known.is_lost for known in self.known.values())
        assert len(self.table) <= MAX_CLIENTS
        assert self.table.reply_bytes == sum(each[2] for each in self.replies) <= MAX_BYTES


class DuplicateWindowsModel(RuleBasedStateMachine):
    """Drives small windows; the model keeps every number, and the order of all writes."""

    WRITERS = 2
    TOTAL = 5

    def __init__(self) -> None:
        super().__init__()
        self.windows = DuplicateWindows(self.WRITERS, self.TOTAL)
        self.written: dict[tuple[int, Writer], set[int]] = {}
        self.order: list[tuple[int, Writer]] = []

    partitions = st.integers(1, 4)
    writers = st.builds(lambda client, user: (bytes([client]), user), *[st.integers(1, 2)] * 2)
    requests = st.one_of(st.integers(1, 400), st.integers(2**64 - 300, 2**64 - 1))

    @rule(partition=partitions, writer=writers, request=requests)
    def write(self, partition: int, writer: Writer, request: int) -> None:
        numbers = self.written.get((partition, writer), set())
        is_known = request in numbers or request + 128 <= max(numbers, default=0)
        assert self.windows.has(partition, writer, request) == is_known
        if is_known:
            return
        self.windows.add(partition, writer, request)
        key = partition, writer
        if key in self.written:
            self.order.remove(key)
        self.written.setdefault(key, set()).add(request)
        self.order.append(key)
        of_partition = [each for each in self.order if each[0] == partition]
        if len(of_partition) > self.WRITERS:
            self.drop(of_partition[0])
        elif len(self.order) > self.TOTAL:
            last_used = {each[0]: number for number, each in enumerate(self.order)}
            idlest = min(last_used, key=lambda each: last_used[each])
            self.drop(next(each for each in self.order if each[0] == idlest))

    def drop(self, key: tuple[int, Writer]) -> None:
        del self.written[key]
        self.order.remove(key)

    @rule(partition=partitions)
    def forget(self, partition: int) -> None:
        self.windows.forget(partition)
        for key in [key for key in self.order if key[0] == partition]:
            self.drop(key)

    @invariant()
    def is_bounded(self) -> None:
        assert len(self.windows) == len(self.order) <= self.TOTAL


TestClientTable = ClientTableModel.TestCase
TestClientTable.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
TestDuplicateWindows = DuplicateWindowsModel.TestCase
TestDuplicateWindows.settings = settings(max_examples=100, stateful_step_count=60, deadline=None)
