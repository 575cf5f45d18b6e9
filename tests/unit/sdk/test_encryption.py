import base64
import subprocess
import sys

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

import windsprite
from windsprite.environment import SystemEnvironment
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.messages import Message

KEY = bytes(range(32))
NONCE = bytes(range(100, 112))

# The library's own AES-256-GCM with this key and nonce, no associated data, written down once.
GOLDEN = bytes.fromhex("6465666768696a6b6c6d6e6f") + bytes.fromhex(
    "207eb20a16c576f65117318c300b9aba0536526261ff835ae7bce76e"
)


class FixedNonce(SystemEnvironment):
    def random_bytes(self, count: int) -> bytes:
        assert count == len(NONCE)
        return NONCE


def test_a_cipher_text_is_nonce_then_text_then_tag() -> None:
    encryptor = windsprite.Encryptor(KEY, environment=FixedNonce())
    assert encryptor.encrypt(b"hello, hound") == GOLDEN
    assert NONCE + AESGCM(KEY).encrypt(NONCE, b"hello, hound", None) == GOLDEN
    assert windsprite.Encryptor(KEY).decrypt(GOLDEN) == b"hello, hound"


@given(st.binary(max_size=200), st.binary(min_size=32, max_size=32))
def test_round_trip(data: bytes, key: bytes) -> None:
    sealed = windsprite.Encryptor(key).encrypt(data)
    assert len(sealed) == len(data) + 28
    same = windsprite.Encryptor.from_base64(base64.b64encode(key).decode())
    assert same.decrypt(sealed) == same.decrypt(memoryview(sealed)) == data


def test_the_same_text_never_looks_the_same() -> None:
    encryptor = windsprite.Encryptor(KEY)
    assert len({encryptor.encrypt(b"x")[:12] for _ in range(100)}) == 100


@given(st.integers(0, len(GOLDEN) - 1), st.integers(1, 255))
def test_what_has_changed_is_refused(place: int, change: int) -> None:
    changed = bytearray(GOLDEN)
    changed[place] ^= change
    with pytest.raises(windsprite.DecryptionFailed) as caught:
        windsprite.Encryptor(KEY).decrypt(changed)
    assert caught.value.code is ErrorCode.CANNOT_DECRYPT_DATA


@pytest.mark.parametrize("data", [b"", b"plain", bytes(27), bytes(28)])
def test_what_was_never_encrypted_is_refused(data: bytes) -> None:
    with pytest.raises(windsprite.DecryptionFailed):
        windsprite.Encryptor(KEY).decrypt(data)


def test_another_key_is_refused() -> None:
    with pytest.raises(windsprite.DecryptionFailed, match="the key is another one"):
        windsprite.Encryptor(bytes(32)).decrypt(GOLDEN)


@pytest.mark.parametrize("key", [b"", bytes(31), bytes(33)])
def test_keys_of_another_length(key: bytes) -> None:
    with pytest.raises(windsprite.InvalidRequest) as caught:
        windsprite.Encryptor(key)
    assert caught.value.code is ErrorCode.INVALID_ENCRYPTION_KEY


@pytest.mark.parametrize(
    "text",
    [
        "",
        "c2VjcmV0",
        "not base64, though secret!",
        "schlüssel",
        base64.b64encode(KEY).decode().rstrip("="),
        base64.b64encode(bytes(31)),
    ],
)
def test_keys_that_are_no_base64_of_32_bytes_are_not_shown(text: str | bytes) -> None:
    with pytest.raises(windsprite.InvalidRequest) as caught:
        windsprite.Encryptor.from_base64(text)
    assert caught.value.code is ErrorCode.INVALID_ENCRYPTION_KEY
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_it_does_not_show_its_key() -> None:
    assert repr(windsprite.Encryptor(KEY)) == "<windsprite.Encryptor>"


def test_a_polled_message() -> None:
    encryptor = windsprite.Encryptor(KEY)
    headers = bytes.fromhex("02 05000000 636f6c6f72 02 03000000 726564")

    def polled(payload: bytes, raw_headers: bytes) -> Message:
        return Message(1, 2, 3, 4, bytes(16), 5, payload, raw_headers)

    opened = encryptor.decrypt_message(polled(encryptor.encrypt(b"x"), encryptor.encrypt(headers)))
    assert (opened.payload, opened.headers) == (b"x", {"color": "red"})
    assert (opened.partition_id, opened.offset, opened.timestamp) == (1, 2, 3)
    assert encryptor.decrypt_message(polled(encryptor.encrypt(b""), b"")).raw_user_headers == b""
    for spoilt in (polled(b"x" * 40, b""), polled(encryptor.encrypt(b"x"), headers * 2)):
        with pytest.raises(windsprite.DecryptionFailed):
            encryptor.decrypt_message(spoilt)


def test_without_the_package_one_is_told_what_to_install() -> None:
    script = (
        "import sys; sys.modules['cryptography'] = None\n"
        "import windsprite\n"
        "try: windsprite.Encryptor(bytes(32))\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert told.stdout == (
        "encryption needs the package cryptography: pip install 'windsprite[encryption]'\n"
    )
