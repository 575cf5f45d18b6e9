import json

from windsprite import ReceivedMessage, TypedValue
from windsprite.cli import message_formats
from windsprite_protocol import user_headers


def message(offset: int, payload: bytes, headers: bytes = b"") -> ReceivedMessage:
    return ReceivedMessage(
        partition_id=3,
        offset=offset,
        timestamp=1_795_953_600_000_001,
        origin_timestamp=1_795_953_600_000_000,
        raw_id=(2**100).to_bytes(16, "little"),
        checksum=1,
        payload=payload,
        raw_user_headers=headers,
    )


def test_raw_is_payloads_and_newlines() -> None:
    messages = [message(0, b"a"), message(1, b""), message(2, b"\xff\r")]
    assert message_formats.raw(messages) == b"a\n\n\xff\r\n"


def test_json_tells_everything() -> None:
    headers = user_headers.encode(
        user_headers.from_python({"k": "v", 7: 1.5, b"raw": b"\xff", "yes": True})
    )
    lines = message_formats.json_lines([message(0, b"text\n", headers), message(1, b"\x80")])
    first, second = map(json.loads, lines.splitlines())
    assert first == {
        "partition": 3,
        "offset": 0,
        "timestamp": 1_795_953_600_000_001,
        "origin_timestamp": 1_795_953_600_000_000,
        "id": 2**100,
        "headers": {"k": "v", "7": 1.5, "raw": {"base64": "/w=="}, "yes": True},
        "payload": "text\n",
    }
    assert second["payload"] == {"base64": "gA=="}
    assert second["headers"] == {}


def test_headers_that_make_no_sense_are_shown_as_bytes() -> None:
    unknown = user_headers.encode({TypedValue(2, b"k"): TypedValue(200, b"v")})
    assert message_formats.message_to_json(message(0, b"", unknown))["headers"] == {"k": "v"}
    assert message_formats.message_to_json(message(0, b"", b"rubbish"))["headers"] == {}


def test_lines_for_people_stay_lines() -> None:
    headers = user_headers.encode(user_headers.from_python({"k": "a\nb"}))
    messages = [message(0, b"a\tb\n\xff"), message(1, b"", headers)]
    tabbed = message_formats.tabbed_header() + message_formats.tabbed_lines(messages)
    assert tabbed.decode().splitlines() == [
        "partition\toffset\ttimestamp\theaders\tpayload",
        "3\t0\t2026-11-29T12:00:00.000001Z\t-\ta\\tb\\n\ufffd",
        "3\t1\t2026-11-29T12:00:00.000001Z\tk=a\\nb\t",
    ]
    header, *lines = (
        (message_formats.aligned_header() + message_formats.aligned_lines(messages))
        .decode()
        .splitlines()
    )
    assert header.index("PAYLOAD") == lines[0].index("a\\tb") + len("HEADERS") - len("-")
    assert header.index("TIMESTAMP") == lines[0].index("2026")
