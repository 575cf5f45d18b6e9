"""Passwords cost the same whoever has them, never hold up the loop, and wait in a bounded line."""

import asyncio
from collections.abc import Iterator

import pytest

from support.password_gate import PasswordGate
from windsprite_server.core.passwords import Passwords, TooManyLoginsError

COST = "$argon2id$v=19$m=19456,t=2,p=1$"


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> PasswordGate:
    return PasswordGate(monkeypatch)


@pytest.fixture
def passwords(gate: PasswordGate) -> Iterator[Passwords]:
    passwords = Passwords(threads=1, max_waiting=2)
    yield passwords
    gate.open()
    passwords.close()


async def test_a_password_matches_its_own_hash_only(passwords: Passwords) -> None:
    password_hash = await passwords.hash("secret")
    assert await passwords.verify(password_hash, "secret")
    assert not await passwords.verify(password_hash, "Secret")
    assert not await passwords.verify(password_hash, "")
    assert password_hash.startswith(COST)
    assert "secret" not in password_hash


async def test_no_two_hashes_are_the_same(passwords: Passwords) -> None:
    assert await passwords.hash("secret") != await passwords.hash("secret")


@pytest.mark.parametrize("stored", [None, "", "plain text", "$argon2id$v=19$broken", "\0"])
async def test_what_is_no_hash_matches_nothing(passwords: Passwords, stored: str | None) -> None:
    for password in ("", "nobody has this password", "plain text"):
        assert not await passwords.verify(stored, password)


async def test_who_does_not_exist_costs_what_everybody_costs(
    passwords: Passwords, gate: PasswordGate
) -> None:
    password_hash = await passwords.hash("secret")
    for stored, password in ((password_hash, "secret"), (password_hash, "wrong"), (None, "secret")):
        gate.verified.clear()
        await passwords.verify(stored, password)
        (verified,) = gate.verified
        assert verified.startswith(COST)
        assert len(verified) == len(password_hash)


async def test_a_bounded_number_waits_and_the_loop_goes_on(
    passwords: Passwords, gate: PasswordGate
) -> None:
    password_hash = await passwords.hash("secret")
    gate.close()
    waiting = [asyncio.create_task(passwords.verify(password_hash, "secret")) for _ in range(3)]
    await asyncio.sleep(0)
    for attempt in (passwords.verify(None, "secret"), passwords.hash("secret")):
        with pytest.raises(TooManyLoginsError):
            await attempt
    assert not any(task.done() for task in waiting)
    gate.open()
    assert await asyncio.gather(*waiting) == [True] * 3
    assert await passwords.verify(password_hash, "secret")


async def test_who_does_not_wait_any_more_makes_room(
    passwords: Passwords, gate: PasswordGate
) -> None:
    gate.close()
    waiting = [asyncio.create_task(passwords.hash("secret")) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[2].cancel()
    await asyncio.gather(waiting[2], return_exceptions=True)
    late = asyncio.create_task(passwords.hash("secret"))
    await asyncio.sleep(0)
    gate.open()
    assert (await late).startswith(COST)
    await asyncio.gather(*waiting[:2])
