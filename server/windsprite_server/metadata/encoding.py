"""Commands as bytes: the form in which they are journaled.

A command is a JSON array of two: its tag and an object of its fields. Integers are JSON integers
whatever their size, bytes are base64url texts, an identifier is an integer or a text, enumerations
are their numbers, absent values are null:

    ["create_topic",{"stream":"orders","name":"events","partitions_count":3,...}]

The form depends on no generation of the wire. It says the names of the fields, so that it can be
read without this program, and is strict: what has an unknown tag, an unknown or missing field or
a value of another type was written by another version, and is refused rather than guessed at.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, Union

from pydantic import ConfigDict, Discriminator, Tag, TypeAdapter, ValidationError

from windsprite_server.metadata import commands
from windsprite_server.metadata.commands import Command

# The tags are persisted: change none of them.
COMMAND_TAGS: Final[Mapping[str, type[Command]]] = MappingProxyType(
    {
        "no_operation": commands.NoOperation,
        "create_stream": commands.CreateStream,
        "update_stream": commands.UpdateStream,
        "delete_stream": commands.DeleteStream,
        "purge_stream": commands.PurgeStream,
        "create_topic": commands.CreateTopic,
        "update_topic": commands.UpdateTopic,
        "delete_topic": commands.DeleteTopic,
        "purge_topic": commands.PurgeTopic,
        "create_partitions": commands.CreatePartitions,
        "delete_partitions": commands.DeletePartitions,
        "create_consumer_group": commands.CreateConsumerGroup,
        "delete_consumer_group": commands.DeleteConsumerGroup,
        "create_root": commands.CreateRoot,
        "create_user": commands.CreateUser,
        "update_user": commands.UpdateUser,
        "delete_user": commands.DeleteUser,
        "update_permissions": commands.UpdatePermissions,
        "change_password": commands.ChangePassword,
        "create_token": commands.CreateToken,
        "delete_token": commands.DeleteToken,
        "delete_expired_tokens": commands.DeleteExpiredTokens,
        "forget_condemned": commands.ForgetCondemned,
    }
)

STRICT_JSON: Final = ConfigDict(
    strict=True,
    extra="forbid",
    ser_json_bytes="base64",
    val_json_bytes="base64",
    # Errors are logged, and inputs may hold password hashes.
    hide_input_in_errors=True,
)


class EncodingError(ValueError):
    """Bytes are not what this version writes, or a value cannot be written."""


def tagged_union(types: Mapping[str, type[Any]]) -> TypeAdapter[tuple[str, Any]]:
    """What reads and writes `[tag, value]` for one of several dataclasses.

    The settings reach into the dataclasses of fields as well, since none has settings of its own.
    """
    members = tuple(
        Annotated[tuple[Literal[tag], value_type], Tag(tag)]  # type: ignore[valid-type]
        for tag, value_type in types.items()
    )
    union: Any = Annotated[Union[members], Discriminator(_tag)]  # noqa: UP007 - made of a tuple
    return TypeAdapter(union, config=STRICT_JSON)


def encode(command: Command) -> bytes:
    """The bytes of a command; the same command always has the same bytes.

    Raises:
        EncodingError: A text holds half of a surrogate pair, which is no Unicode.
    """
    try:
        return _COMMANDS.dump_json((_TAG_OF[type(command)], command))
    except ValueError as error:
        raise EncodingError(f"{type(command).__name__} cannot be written: {error}") from error


def decode(data: bytes) -> Command:
    """The command of these bytes.

    Raises:
        EncodingError: They are no command that this version knows.
    """
    try:
        _, command = _COMMANDS.validate_json(data)
    except ValidationError as error:
        raise EncodingError(explain(error)) from error
    decoded: Command = command
    return decoded


def explain(error: ValidationError) -> str:
    """One line for people that says where bytes differ from what is expected, and how."""
    details = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(
        ".".join(str(part) for part in detail["loc"]) + ": " + detail["msg"] for detail in details
    )


def _tag(pair: object) -> object:
    return pair[0] if isinstance(pair, (list, tuple)) and pair else None


_TAG_OF: Final = {command_type: tag for tag, command_type in COMMAND_TAGS.items()}
_COMMANDS: Final = tagged_union(COMMAND_TAGS)
