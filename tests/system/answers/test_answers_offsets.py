"""Answers about the offsets of single consumers, 120 to 122 (spec 02, 3.2; spec 04, 7)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from support.bad_bodies import ACK, CONSUMER, IDENT, LONG_NUMBER, PARTITION, spoiled
from support.by_hand import (
    batch,
    ident,
    name,
    partition,
    send,
    single,
    to_partition,
    u8,
    u32,
    u64,
)
from support.exchange import EMPTY, Expected, Stage, answers, case, open_stage, status, success

pytestmark = pytest.mark.asyncio(loop_scope="module")

ME = 7
HELD = 3
"""Messages that the first partition holds; the second is empty."""

QUORUM, NO_ACK = 1, 0


def where(
    consumer: int | str = ME,
    stream: int | str = 0,
    topic: int | str = 0,
    partition_id: int | None = 0,
) -> bytes:
    return single(consumer) + ident(stream) + ident(topic) + partition(partition_id)


def store(target: bytes, offset: int = 0, ack: int = QUORUM) -> bytes:
    return target + u64(offset) + u8(ack)


def delete(target: bytes, ack: int = QUORUM) -> bytes:
    return target + u8(ack)


async def fill(stage: Stage) -> None:
    root = stage.root
    await root.ask(202, name("s"))
    for partitions, title in ((2, "t"), (0, "none")):
        await root.ask(302, ident(0) + u32(partitions) + name(title))
    await root.ask(101, send(0, 0, to_partition(0), HELD, batch(*(b"x",) * HELD)))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(empty_stage: Stage) -> AsyncIterator[Stage]:
    """A stream with a topic of two partitions and one without; three messages."""
    await fill(empty_stage)
    yield empty_stage


WRITES = ((121, store), (122, delete))


@pytest.mark.parametrize(
    ("who", "code", "body", "expected"),
    [
        *(
            case(title, code, body, status(3))
            for code, fields in (
                (120, [CONSUMER, IDENT, IDENT, PARTITION]),
                (121, [CONSUMER, IDENT, IDENT, PARTITION, LONG_NUMBER, ACK]),
                (122, [CONSUMER, IDENT, IDENT, PARTITION, ACK]),
            )
            for title, body in spoiled(*fields)
        ),
        *(case("before 41", code, b"", status(3), "nobody") for code in (120, 121, 122)),
        case("before 6", 121, store(where(partition_id=None), ack=2), status(3)),
        case("before 6", 122, delete(where(partition_id=None), ack=255), status(3)),
        # 120
        case("no stream", 120, where(stream="missing"), status(1009)),
        case("no topic", 120, where(topic="missing"), status(2010)),
        case("before 41", 120, where(stream=9), status(1009), "nobody"),
        case("before 41", 120, where(topic=9), status(2010), "nobody"),
        case("not permitted", 120, where(), status(41), "nobody"),
        case("before 3007", 120, where(partition_id=9), status(41), "nobody"),
        case("no partition", 120, where(partition_id=2), status(3007)),
        case("no partitions at all", 120, where(topic="none", partition_id=None), status(3007)),
        case("nothing stored", 120, where("missing"), EMPTY, says="empty"),
        case("without a partition", 120, where("missing", partition_id=None), EMPTY, says="empty"),
        # 121, 122
        *(
            row
            for code, request in WRITES
            for row in (
                case("no partition", code, request(where(partition_id=None)), status(6)),
                case("before 1009", code, request(where(ME, 9, 0, None)), status(6)),
                case("before 41", code, request(where(partition_id=None)), status(6), "nobody"),
                case("no stream", code, request(where(stream="missing")), status(1009)),
                case("no topic", code, request(where(topic="missing")), status(2010)),
                case("no partition", code, request(where(partition_id=2)), status(3007)),
                case("no partitions at all", code, request(where(topic="none")), status(3007)),
                case("before 41", code, request(where(stream=9)), status(1009), "nobody"),
                case("before 41", code, request(where(topic=9)), status(2010), "nobody"),
                case("before 41", code, request(where(partition_id=2)), status(3007), "nobody"),
                case("not permitted", code, request(where()), status(41), "nobody"),
            )
        ),
        case("before 4100", 121, store(where(), HELD), status(41), "nobody"),
        case("an empty partition", 121, store(where(partition_id=1), 0), status(4100)),
        case("beyond the end", 121, store(where(), HELD), status(4100)),
        case("far beyond the end", 121, store(where(), 2**64 - 1), status(4100)),
        case("whatever the ack", 121, store(where(), HELD, NO_ACK), status(4100)),
        case("before 3021", 122, delete(where()), status(41), "nobody"),
        case("nothing stored", 122, delete(where("missing")), status(3021)),
        case("whatever the ack", 122, delete(where("missing"), NO_ACK), status(3021)),
    ],
)
async def test_what_does_not_succeed(
    stage: Stage, who: str, code: int, body: bytes, expected: Expected
) -> None:
    await getattr(stage, who).expect(expected, code, body)
    await stage.root.expect(EMPTY, 120, where())


@answers(120, "success")
@answers(121, "success")
@answers(122, "success")
@pytest.mark.parametrize("ack", [QUORUM, NO_ACK])
async def test_store_get_and_delete(stage: Stage, ack: int) -> None:
    root = stage.root
    for number, title in ((0, 0), ("s", "t"), (0, "t")):
        target = where(ME, number, title)
        for offset in (2, 0, 1):  # also back
            await root.expect(EMPTY, 121, store(target, offset, ack) + b"more")
            told = success(u32(0) + u64(HELD - 1) + u64(offset))
            await root.expect(told, 120, where() + b"more")
            # Without a flag of exactly 1 it is partition 0 that is asked for.
            await root.expect(told, 120, where(partition_id=None))
            await root.expect(told, 120, where(partition_id=None)[:-5] + b"\x02" + u32(9))
        await root.expect(EMPTY, 122, delete(target, ack) + b"more")
        await root.expect(EMPTY, 120, where())
        await root.expect(status(3021), 122, delete(target, ack))


@answers(121, "success")
async def test_a_name_is_a_number(stage: Stage) -> None:
    """XXH32 of the name (spec 04, 5.2): `a` is 1426945110."""
    root = stage.root
    await root.expect(EMPTY, 121, store(where("a"), 2))
    await root.expect(success(u32(0) + u64(2) + u64(2)), 120, where(1426945110))
    await root.expect(EMPTY, 122, delete(where(1426945110)))
    await root.expect(EMPTY, 120, where("a"))


@answers(121, "success again")
@answers(122, "success again")
async def test_repeated_writes_are_not_carried_out_again(stage: Stage) -> None:
    root = stage.root
    first = root.request(121, store(where(), 1))
    second = root.request(121, store(where(), 2))
    for frame in (first, second, first):
        (await root.exchange(121, frame)).expect(EMPTY)
    await root.expect(success(u32(0) + u64(2) + u64(2)), 120, where())
    deletion = root.request(122, delete(where()))
    for frame in (deletion, deletion):
        (await root.exchange(122, frame)).expect(EMPTY)
    (await root.exchange(121, second)).expect(EMPTY)
    await root.expect(EMPTY, 120, where())


@answers(121, "status 3024")
async def test_too_many_consumers(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {"limits": {"max_consumer_offsets": 2}}) as stage:
        await fill(stage)
        root = stage.root
        for number in (1, 2, 1):
            await root.expect(EMPTY, 121, store(where(number), 1))
        await root.expect(status(3024), 121, store(where(3), 1))
        await root.expect(status(4100), 121, store(where(3), HELD))
        await root.expect(EMPTY, 120, where(3))
        await root.expect(EMPTY, 122, delete(where(1)))
        await root.expect(EMPTY, 121, store(where(3), 1))
