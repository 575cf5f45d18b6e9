"""User headers with the official client (spec 04, 3; spec 07, 11.3)."""

from typing import Any

import pytest
from apache_iggy import HeaderKey, HeaderValue, IggyClient, SendMessage

from support.official_client import figures, poll, stored_size

covers = pytest.mark.covers

KINDS: dict[str, list[Any]] = {
    "Raw": [b"\x00", b"\xff" * 255],
    "String": ["a", "ключ 🐕", "x" * 255],
    "Bool": [True, False],
    "Int8": [-(2**7), -1, 0, 2**7 - 1],
    "Int16": [-(2**15), 2**15 - 1],
    "Int32": [-(2**31), 2**31 - 1],
    "Int64": [-(2**63), 2**63 - 1],
    "Int128": [-(2**127), 2**127 - 1],
    "UnsignedInt8": [0, 2**8 - 1],
    "UnsignedInt16": [2**16 - 1],
    "UnsignedInt32": [2**32 - 1],
    "UnsignedInt64": [2**64 - 1],
    "UnsignedInt128": [0, 2**128 - 1],
    "Float32": [0.0, -1.5, 2.0**-149],
    "Float64": [0.1, -1e308, 5e-324],
}


async def echo(client: IggyClient, stream: str, topic: str, headers: dict[Any, Any]) -> Any:
    """The headers that come back with a message."""
    await client.send_messages(stream, topic, 0, [SendMessage("payload", headers)])
    (message,) = await poll(client, stream, topic)
    assert message.payload() == b"payload"
    return message.user_headers()


@pytest.mark.parametrize("kind", KINDS)
@covers("user headers")
async def test_values_of_every_kind(client: IggyClient, stream: str, topic: str, kind: str) -> None:
    make = getattr(HeaderValue, kind)
    headers = {f"{number}": make(value) for number, value in enumerate(KINDS[kind])}
    found = await echo(client, stream, topic, headers)
    assert found == {HeaderKey.String(key): value for key, value in headers.items()}
    assert list(found.to_scalar_dict().values()) == KINDS[kind]
    assert [type(value) for value in found.values()] == [make] * len(headers)


@pytest.mark.parametrize("kind", KINDS)
@covers("user headers")
async def test_keys_of_every_kind(client: IggyClient, stream: str, topic: str, kind: str) -> None:
    make = getattr(HeaderKey, kind)
    headers = {make(value): HeaderValue.Bool(True) for value in KINDS[kind]}
    found = await echo(client, stream, topic, headers)
    assert found == headers
    assert {type(key) for key in found} == {make}


@covers("user headers")
async def test_all_kinds_together(client: IggyClient, stream: str, topic: str) -> None:
    headers = {
        getattr(HeaderKey, kind)(values[-1]): getattr(HeaderValue, kind)(values[0])
        for kind, values in KINDS.items()
    }
    assert len(headers) == 15
    assert await echo(client, stream, topic, headers) == headers


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, "Bool"),
        (0, "UnsignedInt8"),
        (255, "UnsignedInt8"),
        (256, "UnsignedInt16"),
        (2**16, "UnsignedInt32"),
        (2**32, "UnsignedInt64"),
        (2**64, "UnsignedInt128"),
        (-1, "Int8"),
        (-129, "Int16"),
        (-(2**15) - 1, "Int32"),
        (-(2**31) - 1, "Int64"),
        (-(2**63) - 1, "Int128"),
        (0.5, "Float32"),
        (0.1, "Float64"),
        ("text", "String"),
        (b"bytes", "Raw"),
    ],
)
@covers("user headers")
async def test_plain_values_get_the_narrowest_kind(
    client: IggyClient, stream: str, topic: str, value: Any, kind: str
) -> None:
    found = await echo(client, stream, topic, {"key": value, value: "other"})
    assert found == {
        HeaderKey.String("key"): getattr(HeaderValue, kind)(value),
        getattr(HeaderKey, kind)(value): HeaderValue.String("other"),
    }


@covers("user headers")
async def test_messages_of_one_batch_have_their_own_headers(
    client: IggyClient, stream: str, topic: str
) -> None:
    batch = [SendMessage("a", {"n": 1}), SendMessage("b"), SendMessage("c", {"n": 3, "m": "x"})]
    await client.send_messages(stream, topic, 0, batch)
    polled = await poll(client, stream, topic)
    found = [message.user_headers() for message in polled]
    assert found[1] is None
    assert found[0].to_scalar_dict() == {"n": 1}
    assert found[2].to_scalar_dict() == {"n": 3, "m": "x"}
    pair, pairs = 10 + 1 + 1, 2 * (10 + 1 + 1)
    assert figures(await client.get_topic(stream, topic)) == (
        3,
        stored_size([1 + pair, 1, 1 + pairs]),
    )


@covers("user headers")
async def test_headers_that_are_not_sent(client: IggyClient) -> None:
    for wrong in ({"": "x"}, {"k": ""}, {"k" * 256: "x"}, {"k": "x" * 256}, {"k": float("nan")}):
        with pytest.raises(ValueError, match=r"."):
            SendMessage("a", wrong)
    with pytest.raises(ValueError, match="Too big headers payload"):
        SendMessage("a", {f"h{number:03d}": b"v" * 251 for number in range(378)})
