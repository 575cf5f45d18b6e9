"""Batches of plain payloads, and the payloads of batches, where there are very many."""

import tracemalloc

import pytest

from windsprite_protocol.batches import NewMessage, build_batch
from windsprite_protocol.message_frames import FRAMES_AT_ONCE
from windsprite_protocol.messages import Messages
from windsprite_protocol.payload_batches import build_payload_batch


def built(count: int) -> tuple[bytes, bytes | bytearray, list[bytes]]:
    payloads = [b"%06d" % index for index in range(count)]
    ids = b"".join(index.to_bytes(16, "little") for index in range(count))
    return ids, build_payload_batch(payloads, ids, 5), payloads


@pytest.mark.parametrize("around", [FRAMES_AT_ONCE, 2 * FRAMES_AT_ONCE])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_very_many_are_cut_like_a_few(around: int, more: int) -> None:
    ids, batch, payloads = built(around + more)
    assert batch == build_batch(
        [
            NewMessage(payload, ids[16 * index : 16 * index + 16], 5)
            for index, payload in enumerate(payloads)
        ]
    )
    assert Messages([batch]).payloads() == payloads


def read_again(count: int) -> int:
    _, batch, _ = built(count)
    return len(Messages([batch]).payloads())


def test_nothing_of_a_large_batch_is_kept() -> None:
    read_again(10)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for count in (50_000, 50_001, 50_002):
            assert read_again(count) == count
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 2 << 20
