"""Worked examples of batches (spec 04, 10): two messages, A and B, and a third one, C."""

from typing import Final

from windsprite_protocol.batches import NewMessage

FRAME_A: Final = bytes.fromhex(
    "8e 5c a5 9e db bd bf b9 01 00 00 00 00 00 00 00"
    "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
    "00 00 00 00 05 00 00 00 00 00 00 00 00 00 00 00"
    "68 65 6c 6c 6f"
)
USER_HEADERS_B: Final = bytes.fromhex("02 05 00 00 00 63 6f 6c 6f 72 02 03 00 00 00 72 65 64")
FRAME_B: Final = (
    bytes.fromhex(
        "5e 4d b4 45 c3 65 75 47 00 01 02 03 04 05 06 07"
        "08 09 0a 0b 0c 0d 0e 0f 01 00 00 00 fa 00 00 00"
        "12 00 00 00 06 00 00 00 00 00 00 00 00 00 00 00"
        "77 6f 72 6c 64 21"
    )
    + USER_HEADERS_B
)

MESSAGE_A: Final = NewMessage(b"hello", (1).to_bytes(16, "little"), 1_700_000_000_000_000)
MESSAGE_B: Final = NewMessage(b"world!", bytes(range(16)), 1_700_000_000_000_250, USER_HEADERS_B)
MESSAGE_C: Final = NewMessage(b"next", (2).to_bytes(16, "little"), 1_700_000_000_000_900)

PRODUCED: Final = (
    bytes.fromhex(
        "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
        "00 00 00 00 00 00 00 00 00 40 1e 18 24 0a 06 00"
        "7d 01 00 00 00 00 00 00 49 a8 db c7 4e fe 84 d5"
        "02 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
    )
    + bytes(192)
    + FRAME_A
    + FRAME_B
)
"""A and B as the producer sends them."""

STAMPED: Final = (
    bytes.fromhex(
        "03 00 00 00 00 00 00 00 0a 00 00 00 00 00 00 00"
        "60 23 35 18 24 0a 06 00 00 40 1e 18 24 0a 06 00"
        "7d 01 00 00 00 00 00 00 67 4c cc f6 a4 92 4f 1f"
        "02 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
    )
    + PRODUCED[64:]
)
"""A and B as they are stored on partition 3, at offset 10."""

SLICED_B: Final = (
    bytes.fromhex(
        "03 00 00 00 00 00 00 00 0a 00 00 00 00 00 00 00"
        "60 23 35 18 24 0a 06 00 00 40 1e 18 24 0a 06 00"
        "48 01 00 00 00 00 00 00 e6 2c 48 23 bc 9b 2c 7a"
        "01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
    )
    + bytes(192)
    + FRAME_B
)
"""What a poll from offset 11 on gets of them."""
