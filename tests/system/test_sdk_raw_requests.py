"""Requests that a program has encoded by itself."""

import struct
from array import array
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import windsprite
import windsprite_server
from windsprite_protocol.v0_11.table import GENERATION, LEGACY_LOGIN_CODES

PING, STATS, CREATE_STREAM, GET_STREAM = 1, 10, 202, 200


@pytest.fixture
async def client() -> AsyncIterator[windsprite.Client]:
    async with (
        windsprite_server.embedded() as server,
        windsprite.connect(server.connection_string) as client,
    ):
        yield client


def text(value: str) -> bytes:
    return bytes([len(value)]) + value.encode()


async def test_the_body_of_a_reply_is_what_comes_back(client: windsprite.Client) -> None:
    assert await client.send_binary_request(PING) == b""
    assert len(await client.send_binary_request(STATS, b"")) > 100


async def test_a_change_is_made_once_and_in_its_turn(client: windsprite.Client) -> None:
    created = await client.create_stream("one")
    await client.create_stream("two")
    body = GENERATION.by_code(GET_STREAM)
    assert body is not None
    # Identifier: kind 1 (a number), 4 bytes.
    answer = await client.send_binary_request(
        GET_STREAM, struct.pack("<BBI", 1, 4, created.stream.id)
    )
    assert b"one" in answer
    assert b"two" not in answer
    with pytest.raises(windsprite.WindspriteError) as raised:
        await client.send_binary_request(CREATE_STREAM, b"")
    assert not isinstance(raised.value, windsprite.OutcomeUnknown)
    assert [stream.name for stream in await client.get_streams()] == ["one", "two"]


@pytest.mark.parametrize("code", [60000, 0, (1 << 32) - 1])
async def test_a_code_that_the_server_does_not_know_is_refused(
    client: windsprite.Client, code: int
) -> None:
    with pytest.raises(windsprite.InvalidRequest) as raised:
        await client.send_binary_request(code)
    assert raised.value.code == windsprite.ErrorCode.INVALID_COMMAND
    await client.ping()


@pytest.mark.parametrize("code", [PING, CREATE_STREAM, 60000])
@pytest.mark.parametrize("payload", ["text", 5, None, [b"x"]])
async def test_what_is_no_bytes_is_not_sent(
    client: windsprite.Client, code: int, payload: Any
) -> None:
    with pytest.raises(windsprite.InvalidRequest):
        await client.send_binary_request(code, payload)
    await client.ping(timeout=5)


@pytest.mark.parametrize("kind", [bytearray, memoryview, lambda data: array("H", data)])
async def test_whatever_holds_bytes_is_sent(
    client: windsprite.Client, kind: Callable[[bytes], Any]
) -> None:
    body = text("one")
    await client.send_binary_request(CREATE_STREAM, kind(body))
    assert [stream.name for stream in await client.get_streams()] == ["one"]


@pytest.mark.parametrize("code", [*sorted(LEGACY_LOGIN_CODES), 39, 40, 45, -1, 1 << 32])
async def test_sessions_are_not_begun_and_ended_by_hand(
    client: windsprite.Client, code: int
) -> None:
    with pytest.raises(windsprite.InvalidRequest) as raised:
        await client.send_binary_request(code, b"anything")
    assert raised.value.code == windsprite.ErrorCode.INVALID_COMMAND
    assert (await client.me()).info.user_id is not None
