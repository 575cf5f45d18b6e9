"""Error numbers, their sentences and the exceptions of the package."""

import pytest

from windsprite_protocol.error_sentences import SENTENCES
from windsprite_protocol.errors import (
    BadFrameError,
    DecodeError,
    EncodeError,
    ErrorCode,
    ProtocolError,
)


def test_every_code_has_a_sentence_and_every_sentence_a_code() -> None:
    assert set(SENTENCES) == {code.name for code in ErrorCode}
    assert len(ErrorCode) == 240


@pytest.mark.parametrize("code", ErrorCode, ids=str)
def test_sentences_are_short_and_whole(code: ErrorCode) -> None:
    sentence = code.sentence
    assert sentence == sentence.strip()
    assert sentence[0].isupper()
    assert sentence.endswith(".")
    assert 10 < len(sentence) <= 100
    assert "\n" not in sentence


def test_no_two_codes_share_a_sentence() -> None:
    assert len({sentence.casefold() for sentence in SENTENCES.values()}) == len(ErrorCode)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (46, "already exists"),
        (51, "already exists"),
        (1012, "already exists"),
        (2013, "already exists"),
        (5004, "already exists"),
        (1009, "does not exist"),
        (2010, "does not exist"),
        (3007, "does not exist"),
        (2015, "too many partitions"),
        (40, "log in"),
        (41, "permission"),
    ],
)
def test_sentences_say_what_people_look_for(number: int, words: str) -> None:
    assert words in ErrorCode(number).sentence


@pytest.mark.parametrize("number", [0, 17, 60, 999_999, 0xFFFF_FFFF])
def test_an_unknown_number_is_the_generic_error(number: int) -> None:
    assert ErrorCode.of(number) is ErrorCode.ERROR
    assert ErrorCode.of(1012) is ErrorCode.STREAM_NAME_ALREADY_EXISTS


def test_errors_say_who_is_to_blame() -> None:
    assert issubclass(DecodeError, ProtocolError)
    assert issubclass(EncodeError, ProtocolError)
    assert issubclass(BadFrameError, DecodeError)
    assert DecodeError("theirs").code is ErrorCode.INVALID_COMMAND
    assert EncodeError("ours").code is ErrorCode.INVALID_FORMAT
    assert DecodeError("theirs", ErrorCode.INVALID_UTF8).code is ErrorCode.INVALID_UTF8
