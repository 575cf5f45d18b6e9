"""The parts of the benchmarks on which it depends whether their figures can be believed."""

from pathlib import Path

import pytest

from bench.clients.link import Link
from bench.clients.machine import asking
from bench.clients.raw import stored_batch, stored_batches
from bench.limits import sequential_write
from bench.measurements import Results
from bench.report import Requirement, ratios, table
from bench.requirements import REQUIREMENTS
from bench.rows import throughput
from bench.systems.machine import _Exchange
from bench.workload import Workload
from windsprite_protocol.v0_11.frames import ReplyHeader, RequestHeader, pack_reply, pack_request

WORK = Workload(batches=3, batch=2, size=20, connections=2)


def sent(connection: int) -> list[bytes]:
    return [payload for batch in WORK.payloads(connection) for payload in batch]


def test_what_comes_back_is_checked_in_full() -> None:
    WORK.check(1, sent(1))
    changed = [*sent(1)[:-1], sent(1)[-1][:-1] + b"?"]
    swapped = [*sent(1)[2:4], *sent(1)[:2], *sent(1)[4:]]
    cut = [sent(1)[0][:-1], *sent(1)[1:]]
    for received in (changed, swapped, cut, sent(1)[:-1], [*sent(1), sent(1)[0]], sent(0), []):
        with pytest.raises(ValueError, match=r"connection|bytes"):
            WORK.check(1, received)


def test_sizes_of_a_workload() -> None:
    assert WORK.messages == 12
    assert WORK.payload_bytes == 240
    assert WORK.stored_bytes == 6 * (256 + 2 * (48 + 20))


def test_batches_that_come_again_are_made_once() -> None:
    work = Workload(batches=5, batch=2, size=20, distinct=2)
    payloads = work.payloads(0)
    assert payloads[2:] == [*payloads[:2], payloads[0]]
    assert payloads[0] != payloads[1]
    stored = stored_batches(payloads)
    assert stored[4] is stored[0]
    assert stored[1] == stored_batch(payloads[1]) != stored[0]
    assert sum(map(len, stored)) == work.stored_bytes
    work.check(0, [payload for batch in payloads for payload in batch])
    with pytest.raises(ValueError, match="connection"):
        work.check(0, [payload for batch in payloads[:2] for payload in batch])


def test_what_was_written_to_compare_with_is_gone_afterwards(tmp_path: Path) -> None:
    assert sequential_write(tmp_path, WORK, fsync=False, sync=False) > 0
    assert list(tmp_path.iterdir()) == []


class Transport:
    def __init__(self) -> None:
        self.written: list[bytes] = []

    def writelines(self, parts: list[bytes]) -> None:
        self.written.append(b"".join(parts))


def feed(protocol: Link | _Exchange, data: bytes, step: int) -> None:
    while data:
        piece, data = data[:step], data[step:]
        protocol.get_buffer(-1)[: len(piece)] = piece
        protocol.buffer_updated(len(piece))


STEPS = pytest.mark.parametrize("step", [1, 7, 255, 256, 257, 271, 272, 273, 5000])


@STEPS
def test_replies_are_counted_however_they_come_in(step: int) -> None:
    heads: list[bytes] = []
    link = Link(heads.append)
    sizes = (256, 300, 2000, 260, 272)
    replies = [pack_reply(ReplyHeader(size=size)) + b"x" * (size - 256) for size in sizes]
    feed(link, b"".join(replies), step)
    assert heads == [reply[:272] for reply in replies]


@STEPS
def test_the_bare_server_answers_each_frame_with_what_it_asks_for(step: int) -> None:
    server, transport = _Exchange({}), Transport()
    server.connection_made(transport)
    wanted = ((256, 256), (900, 280), (260, 3000))
    frames = [
        b"".join(asking([pack_request(RequestHeader(size=size)), b"y" * (size - 256)], reply))
        for size, reply in wanted
    ]
    feed(server, b"".join(frames), step)
    replies = [pack_reply(ReplyHeader(size=reply)) + bytes(reply - 256) for _, reply in wanted]
    assert b"".join(transport.written) == b"".join(replies)


def results_of(**values: list[float]) -> Results:
    results = Results()
    for contender, measured in values.items():
        for value in measured:
            results.add(
                value,
                row="row",
                title="title",
                contender=contender,
                unit="messages/s",
                is_limit=contender == "limit",
                message_bytes=1000,
            )
    return results


def test_ratios_are_those_of_neighbours() -> None:
    # The machine was slow the second time. The ratio of the medians would be 1.
    results = results_of(limit=[100, 20, 200], ours=[50, 100, 100])
    lines = list(table(results))
    assert lines[1] == "title   [row]"
    assert [line.split()[0] for line in lines[2:]] == ["median", "limit", "ours"]
    assert lines[-1].split()[-3:] == ["100", "3", "0.50"]


def test_required_ratios_say_what_was_missed() -> None:
    def values_of(contender: str) -> list[float]:
        series = results.find("row", "title", contender)
        return [] if series is None else series.values

    results = results_of(ours=[1.0, 3.0, 2.0])
    bounds = ((2.5, True), (1.5, True), (1.5, False), (2.5, False))
    requirements = [
        Requirement("some text", bound, is_minimum, lambda _: values_of("ours"))
        for bound, is_minimum in bounds
    ]
    lines = list(ratios(results, requirements))[3:]
    assert ["missed" in line for line in lines] == [True, False, True, False]
    nothing = Requirement("some text", 1, is_minimum=True, measured=lambda _: values_of("others"))
    assert "not measured" in list(ratios(results, [nothing]))[-1]


def test_requirements_are_found_among_what_rows_measure() -> None:
    results = Results()
    row = throughput.HEADLINE
    for action in ("produce", "consume"):
        for contender in (*row.contenders, throughput.WRITE):
            results.add(
                1.0, row=row.name, title=f"{action} {row.title}", contender=contender, unit="x"
            )
    found = [one.text for one in REQUIREMENTS if one.measured(results)]
    assert len(found) == 14
    assert all(text.startswith(("produce", "consume")) for text in found)
