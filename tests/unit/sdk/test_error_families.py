import pytest

import windsprite
from windsprite.errors import error_of
from windsprite_protocol.errors import ErrorCode

FROM_SERVERS = {
    # status channel
    *(3, 4, 5, 6, 20, 30, 40, 41, 52, 57, 58, 1009, 1019, 2010, 2015, 3007, 3021, 3024),
    *(4041, 4042, 4100, 5000, 5003, 5009),
    # result section
    *(42, 43, 46, 48, 49, 51, 56, 59, 1012, 1020, 2013, 2019, 2021, 3013, 5004, 5006),
    # evictions
    *(53, 14003),
    # batches that a server refuses
    *(4027, 4039),
}


@pytest.mark.parametrize("number", sorted(FROM_SERVERS))
def test_every_error_of_a_server_has_a_family(number: int) -> None:
    code = ErrorCode(number)
    error = error_of(code, "doing")
    assert type(error) is not windsprite.ServerError
    assert error.code is code
    assert str(error).startswith("doing: ")
    assert code.sentence in error.sentence


def test_what_nobody_expects_is_a_failure_of_the_server() -> None:
    assert type(error_of(ErrorCode.ERROR, "doing")) is windsprite.ServerError
    assert type(error_of(ErrorCode.SNAPSHOT_FILE_COMPLETION_FAILED, "x")) is windsprite.ServerError


def test_hints_stand_behind_the_sentence() -> None:
    error = windsprite.NotFound("no such stream", hint="create it")
    assert (error.sentence, error.hint) == ("no such stream", "create it")
    assert str(error) == "no such stream (create it)"


def test_families_fit_what_python_programs_expect() -> None:
    assert issubclass(windsprite.RequestTimedOut, TimeoutError)
    assert issubclass(windsprite.InvalidRequest, ValueError)
    assert issubclass(windsprite.NotFound, LookupError)
    for name in windsprite.__all__:
        thing = getattr(windsprite, name)
        if isinstance(thing, type) and issubclass(thing, Exception):
            assert issubclass(thing, windsprite.WindspriteError)
