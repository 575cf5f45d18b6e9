from windsprite import Batch, From, ReceivedMessage
from windsprite.cli.arguments import Start, StartKind
from windsprite.cli.cursors import Cursor

FIRST = Start(StartKind.FIRST)


def message(offset: int, payload: bytes = b"") -> ReceivedMessage:
    return ReceivedMessage(0, offset, 0, 0, bytes(16), 0, payload)


class Log:
    """Messages as a server serves them: at most `limit` of them in a reply."""

    def __init__(self, size: int, *, payload: bytes = b"", limit: int = 1000) -> None:
        self.size = size
        self.payload = payload
        self.limit = limit
        self.counts: list[int] = []

    def poll(self, start: From, count: int) -> Batch:
        self.counts.append(count)
        begin = start.value if start.kind == From.offset(0).kind else 0
        end = min(self.size, begin + min(count, self.limit))
        messages = tuple(message(offset, self.payload) for offset in range(begin, end))
        return Batch(messages, 0, max(0, self.size - 1))


def read(cursor: Cursor, log: Log) -> list[int]:
    offsets = []
    while not cursor.is_done:
        offsets += [message.offset for message in cursor.take(log.poll(cursor.start, cursor.count))]
    return offsets


def test_all_is_read_in_as_many_replies_as_it_takes() -> None:
    log = Log(2500, limit=300)
    cursor = Cursor(0, FIRST, newest=2499, count=None, follow=False)
    assert read(cursor, log) == list(range(2500))


def test_an_empty_partition_is_not_even_asked() -> None:
    log = Log(0)
    assert read(Cursor(0, FIRST, newest=None, count=None, follow=False), log) == []
    assert log.counts == []


def test_what_comes_while_reading_is_left_out() -> None:
    cursor = Cursor(0, FIRST, newest=149, count=None, follow=False)
    assert read(cursor, Log(10_000)) == list(range(150))


def test_reading_ends_when_nothing_comes_before_the_end() -> None:
    cursor = Cursor(0, Start(StartKind.OFFSET, 5), newest=9, count=None, follow=False)
    assert read(cursor, Log(7)) == [5, 6]
    beyond = Cursor(0, Start(StartKind.OFFSET, 10), newest=9, count=None, follow=False)
    assert read(beyond, Log(20)) == []


def test_a_count_is_never_exceeded() -> None:
    for count in (1, 99, 100, 101, 250):
        log = Log(1000, limit=70)
        cursor = Cursor(0, FIRST, newest=999, count=count, follow=False)
        assert read(cursor, log) == list(range(count))
        assert max(log.counts) <= count


def test_last_are_the_newest_messages() -> None:
    last = Start(StartKind.LAST)
    assert read(Cursor(0, last, newest=99, count=3, follow=False), Log(100)) == [97, 98, 99]
    assert read(Cursor(0, last, newest=1, count=5, follow=False), Log(2)) == [0, 1]
    assert read(Cursor(0, last, newest=99, count=None, follow=False), Log(100)) == [99]


def test_starts_that_the_server_finds() -> None:
    def start(kind: StartKind, value: int = 0) -> From:
        return Cursor(0, Start(kind, value), newest=9, count=None, follow=False).start

    assert start(StartKind.FIRST) == From.first()
    assert start(StartKind.NEXT) == From.next()
    assert start(StartKind.OFFSET, 7) == From.offset(7)
    assert start(StartKind.TIME, 7) == From.timestamp(7)


def test_a_follower_is_never_done_and_goes_on_where_it_was() -> None:
    cursor = Cursor(0, Start(StartKind.LAST), newest=None, count=None, follow=True)
    log = Log(0)
    assert cursor.take(log.poll(cursor.start, cursor.count)) == ()
    assert not cursor.is_done
    log.size = 3
    assert len(cursor.take(log.poll(cursor.start, cursor.count))) == 3
    assert cursor.start == From.offset(3)
    assert cursor.take(log.poll(cursor.start, cursor.count)) == ()
    assert not cursor.is_done


def test_a_follower_begins_again_when_the_partition_was_emptied() -> None:
    for again in (From.first(), From.next()):
        log = Log(10)
        cursor = Cursor(0, FIRST, newest=9, count=None, follow=True, again=again)
        assert len(cursor.take(log.poll(cursor.start, cursor.count))) == 10
        assert cursor.take(log.poll(cursor.start, cursor.count)) == ()
        assert cursor.start == From.offset(10)
        log.size = 3
        assert cursor.take(log.poll(cursor.start, cursor.count)) == ()
        assert cursor.start == again
        assert [message.offset for message in cursor.take(log.poll(again, 10))] == [0, 1, 2]
        assert cursor.start == From.offset(3)


def test_replies_have_a_size_that_fits_memory() -> None:
    small, large = Log(50_000, payload=b"x" * 30, limit=10**6), Log(200, payload=b"x" * 10**6)
    read(Cursor(0, FIRST, newest=49_999, count=None, follow=False), small)
    assert max(small.counts) == 10_000
    read(Cursor(0, FIRST, newest=199, count=None, follow=False), large)
    assert large.counts[1:] != []
    assert set(large.counts[1:]) == {4}
