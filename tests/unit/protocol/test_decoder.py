"""The decoder gives the same frames however their bytes arrive, and holds no more than it must."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windsprite_protocol.errors import BadFrameError, DecodeError
from windsprite_protocol.v0_11.decoder import DEFAULT_BUFFER_SIZE, Frame, FrameDecoder
from windsprite_protocol.v0_11.frames import DEFAULT_MAX_FRAME_SIZE, RequestHeader, pack_request

KIB = 1024
MIB = 1024 * KIB


def frame_bytes(body: bytes = b"", **fields) -> bytes:
    return pack_request(RequestHeader(size=256 + len(body), **fields)) + body


def header_announcing(size: int) -> bytes:
    return pack_request(RequestHeader(size=size))


def whole(frames: list[Frame]) -> list[bytes]:
    return [frame.header + frame.body.tobytes() for frame in frames]


def receive(decoder: FrameDecoder, data: bytes, at_most: int = 1 << 30) -> list[Frame]:
    """Hands bytes over as an event loop does: into the decoder's own memory."""
    frames = []
    while data:
        buffer = decoder.get_buffer()
        assert len(buffer) > 0
        count = min(len(buffer), len(data), at_most)
        buffer[:count] = data[:count]
        frames += decoder.received(count)
        data = data[count:]
    return frames


bodies = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([0, 1, 255, 256, 257, 743, 744, 745, 2000, 5000]).map(lambda size: b"." * size),
)


@given(
    st.lists(bodies, max_size=8),
    st.lists(st.integers(1, 2000), max_size=40),
    st.integers(256, 1500),
    st.booleans(),
)
def test_any_split_gives_the_same_frames(
    contents: list[bytes], cuts: list[int], buffer_size: int, fed: bool
) -> None:
    sent = [frame_bytes(body, request=number) for number, body in enumerate(contents)]
    stream = b"".join(sent)
    decoder = FrameDecoder(buffer_size=buffer_size)
    frames: list[Frame] = []
    for cut in [*cuts, len(stream)]:
        part, stream = stream[:cut], stream[cut:]
        frames += decoder.feed(part) if fed else receive(decoder, part)
    assert whole(frames) == sent
    assert decoder.failure is None
    assert not decoder.is_inside_frame
    assert decoder.wanted == 256
    assert decoder.pending_bytes == 0


@pytest.mark.parametrize("buffer_size", [256, 300, 1024, DEFAULT_BUFFER_SIZE])
def test_byte_by_byte(buffer_size: int) -> None:
    sent = [frame_bytes(b"one"), frame_bytes(), frame_bytes(b"x" * 500)]
    decoder = FrameDecoder(buffer_size=buffer_size)
    assert whole(receive(decoder, b"".join(sent), at_most=1)) == sent


@pytest.mark.parametrize("buffer_size", [256, 600, DEFAULT_BUFFER_SIZE])
def test_every_single_cut(buffer_size: int) -> None:
    # Headers differ from their first byte on, so that a byte left behind is seen.
    sent = [
        frame_bytes(bytes([number]) * number, checksum=bytes([number + 1]) * 16)
        for number in (3, 1, 0, 40)
    ]
    stream = b"".join(sent)
    for cut in range(len(stream) + 1):
        decoder = FrameDecoder(buffer_size=buffer_size)
        assert whole(decoder.feed(stream[:cut]) + decoder.feed(stream[cut:])) == sent


def test_frames_are_returned_as_soon_as_they_are_complete() -> None:
    decoder = FrameDecoder()
    one, two = frame_bytes(b"one"), frame_bytes(b"two")
    assert decoder.feed(one[:-1]) == []
    assert whole(decoder.feed(one[-1:] + two + two[:100])) == [one, two]
    assert whole(decoder.feed(two[100:])) == [two]


def test_wanted_leads_from_frame_to_frame() -> None:
    """Who reads exactly what is wanted never reads beyond the end of a frame."""
    sent = [frame_bytes(b"x" * size) for size in (0, 10, 5000, 3 * MIB, 1)]
    stream = memoryview(b"".join(sent))
    decoder = FrameDecoder(buffer_size=1024)
    frames = []
    reads = []
    while stream:
        count = min(decoder.wanted, len(decoder.get_buffer()))
        reads.append(count)
        new = decoder.feed(stream[:count])
        frames += new
        stream = stream[count:]
        assert decoder.is_inside_frame is (not new)
    assert whole(frames) == sent
    steps = [64 * KIB, 2 * MIB - 64 * KIB, MIB]
    assert reads == [256, 256, 10, 256, 5000, 256, *steps, 256, 1]


def test_bodies_are_writable_and_not_touched_by_what_comes_later() -> None:
    decoder = FrameDecoder(buffer_size=1024)
    first = receive(decoder, frame_bytes(b"a" * 100) + frame_bytes(b"b" * 2000))
    receive(decoder, frame_bytes(b"c" * 700) + frame_bytes(b"d" * 2000))
    assert [frame.body.tobytes() for frame in first] == [b"a" * 100, b"b" * 2000]
    for frame in first:
        frame.body[0] = ord("z")
        assert frame.body.tobytes()[:2] in (b"za", b"zb")
    assert receive(decoder, frame_bytes(b"a" * 100))[0].body.tobytes() == b"a" * 100


def test_a_large_body_is_received_where_it_stays() -> None:
    decoder = FrameDecoder()
    body = bytes(range(256)) * 4096
    receive(decoder, frame_bytes(body)[: 64 * KIB])
    memory = decoder.get_buffer()
    assert len(memory) == decoder.wanted == MIB + 256 - 64 * KIB
    assert decoder.pending_bytes == MIB
    memory[:] = body[-len(memory) :]
    (frame,) = decoder.received(len(memory))
    assert frame.body.obj is memory.obj
    assert frame.body == body
    assert type(frame.body.obj) is bytearray
    assert len(frame.body.obj) == MIB


def test_memory_that_was_handed_out_may_still_be_held_by_the_event_loop() -> None:
    decoder = FrameDecoder(buffer_size=512)
    sent = [frame_bytes(b"x" * size) for size in (0, 300, 5 * MIB, 40)]
    stream = b"".join(sent)
    held = []
    frames = []
    while stream:
        buffer = decoder.get_buffer()
        held.append(buffer)
        count = min(len(buffer), len(stream))
        buffer[:count] = stream[:count]
        frames += decoder.received(count)
        stream = stream[count:]
    assert whole(frames) == sent


@pytest.mark.parametrize("size", [0, 1, 255, 1001, DEFAULT_MAX_FRAME_SIZE, 0xFFFF_FFFF])
def test_a_bad_size_is_known_after_the_header(size: int) -> None:
    decoder = FrameDecoder(max_frame_size=1000)
    good = frame_bytes(b"good")
    bad = header_announcing(size)
    assert whole(decoder.feed(good + bad[:255])) == [good]
    assert decoder.failure is None
    assert decoder.feed(bad[255:]) == []
    assert isinstance(decoder.failure, BadFrameError)
    assert isinstance(decoder.failure, DecodeError)


def test_frames_before_a_bad_one_are_delivered_and_nothing_after() -> None:
    decoder = FrameDecoder()
    good = frame_bytes(b"good")
    frames = decoder.feed(good + good + header_announcing(7) + good)
    assert whole(frames) == [good, good]
    assert decoder.failure is not None
    for call in (decoder.get_buffer, lambda: decoder.received(0), lambda: decoder.feed(good)):
        with pytest.raises(BadFrameError):
            call()


@pytest.mark.parametrize("body_size", [0, 744])
def test_the_limits_of_size_are_inclusive(body_size: int) -> None:
    decoder = FrameDecoder(max_frame_size=1000)
    sent = frame_bytes(b"x" * body_size)
    assert whole(decoder.feed(sent)) == [sent]


def test_the_limit_may_change_between_frames() -> None:
    """A server may allow more once it knows who is there."""
    decoder = FrameDecoder(max_frame_size=300)
    assert len(decoder.feed(frame_bytes(b"x" * 44))) == 1
    decoder.max_frame_size = 1000
    assert len(decoder.feed(frame_bytes(b"x" * 744))) == 1
    decoder.max_frame_size = 300
    assert decoder.feed(frame_bytes(b"x" * 45)) == []
    assert decoder.failure is not None


@pytest.mark.parametrize(("buffer_size", "measured_again"), [(512, False), (4096, True)])
def test_a_lower_limit_and_an_unfinished_frame(buffer_size: int, measured_again: bool) -> None:
    decoder = FrameDecoder(max_frame_size=2000, buffer_size=buffer_size)
    sent = frame_bytes(b"x" * 744)
    decoder.feed(sent[:600])
    decoder.max_frame_size = 300
    frames = decoder.feed(sent[600:])
    assert (decoder.failure is not None) is measured_again
    assert whole(frames) == ([] if measured_again else [sent])


@pytest.mark.parametrize("arrived", [0, 1, 100, 256, 300, 1000, 1255])
def test_enlarging_keeps_what_has_arrived(arrived: int) -> None:
    decoder = FrameDecoder(max_frame_size=2000, buffer_size=1024)
    first, large = frame_bytes(b"x" * 1000), frame_bytes(b"y" * 200_000)
    frames = receive(decoder, first[:arrived])
    decoder.enlarge(DEFAULT_MAX_FRAME_SIZE)
    frames += receive(decoder, first[arrived:] + large)
    assert whole(frames) == [first, large]
    assert len(decoder.get_buffer()) == DEFAULT_BUFFER_SIZE


@settings(max_examples=300)
@given(st.binary(max_size=1200), st.integers(256, 600))
def test_any_bytes_give_frames_or_the_failure(data: bytes, buffer_size: int) -> None:
    decoder = FrameDecoder(max_frame_size=4000, buffer_size=buffer_size)
    frames = decoder.feed(data)
    consumed = sum(map(len, whole(frames)))
    assert b"".join(whole(frames)) == data[:consumed]
    rest = data[consumed:]
    if decoder.failure is not None:
        size = int.from_bytes(rest[48:52], "little")
        assert len(rest) >= 256
        assert not 256 <= size <= 4000
    else:
        assert decoder.is_inside_frame is bool(rest)


def test_a_header_alone_does_not_cost_the_body_it_announces() -> None:
    tracemalloc.start()
    try:
        decoder = FrameDecoder()
        decoder.feed(header_announcing(DEFAULT_MAX_FRAME_SIZE))
        pending = decoder.pending_bytes
        before, _ = tracemalloc.get_traced_memory()
        memory = decoder.get_buffer()
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert pending == decoder.pending_bytes == len(memory) == 64 * KIB
    assert before < 80 * KIB, "nothing is set aside before it is asked for"
    assert after - before < 80 * KIB
    assert peak < 160 * KIB


def test_memory_grows_with_what_arrives_and_ends_at_the_exact_size() -> None:
    decoder = FrameDecoder()
    body_size = DEFAULT_MAX_FRAME_SIZE - 256
    decoder.feed(header_announcing(DEFAULT_MAX_FRAME_SIZE))
    received = 0
    steps = [decoder.pending_bytes]
    chunk = b"0123456789abcdef" * (MIB // 16)
    frames = []
    while received < body_size:
        part = chunk[: body_size - received]
        frames += decoder.feed(part)
        received += len(part)
        if decoder.pending_bytes not in (0, steps[-1]):
            steps.append(decoder.pending_bytes)
        assert decoder.pending_bytes <= max(64 * KIB, 32 * received)
    assert steps == [64 * KIB, 2 * MIB, body_size]
    (frame,) = frames
    assert len(frame.body) == body_size
    assert len(frame.body.obj) == body_size
    assert frame.body[:MIB] == chunk
    assert frame.body[9 * MIB : 10 * MIB] == chunk
    assert frame.body[-16:-1] == chunk[-272:-257]


def test_an_idle_decoder_holds_its_buffer_only() -> None:
    decoder = FrameDecoder(buffer_size=4096)
    receive(decoder, frame_bytes(b"x" * 100_000) + frame_bytes(b"y"))
    assert decoder.pending_bytes == 0
    assert len(decoder.get_buffer()) == 4096


def test_a_buffer_must_hold_a_header() -> None:
    with pytest.raises(ValueError, match="header"):
        FrameDecoder(buffer_size=255)
