"""Codecs: whole bodies of requests and replies, made of layouts.

Here the errors of layouts become errors of the protocol: `DecodeError` for bytes of others,
`EncodeError` for values of ours. Nothing else leaves a codec.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import construct as c

from windsprite_protocol.errors import DecodeError, EncodeError, ErrorCode
from windsprite_protocol.generation import Codec
from windsprite_protocol.layout import Record, explain, struct_twin
from windsprite_protocol.model.messages import Buffer

T = TypeVar("T")


class ConstructCodec(Generic[T]):
    """A body that one layout describes.

    Args:
        layout: What the body is.
        exact: Whether bytes after the last field are an error; otherwise they are ignored.
        code: The number of the error that a malformed body is.
    """

    def __init__(
        self,
        layout: c.Construct[T, T],
        *,
        exact: bool = False,
        code: ErrorCode = ErrorCode.INVALID_COMMAND,
    ) -> None:
        self.layout = layout
        self._exact = exact
        self._code = code

    def encode(self, value: T) -> tuple[bytes]:
        """The body.

        Raises:
            EncodeError: The value cannot be carried.
        """
        try:
            return (self.layout.build(value),)
        except EncodeError:
            raise
        except (c.ConstructError, ValueError, TypeError, AttributeError, OverflowError) as error:
            raise EncodeError(explain(error)) from error

    def decode(self, body: memoryview) -> T:
        """The value.

        Raises:
            DecodeError: The bytes are not such a body.
        """
        # Contexts of construct are reference cycles that hold the stream until the next garbage
        # collection; closing it gives the bytes back now.
        with io.BytesIO(body) as stream:
            try:
                value = self.layout.parse_stream(stream)
            except (c.ConstructError, ValueError, OverflowError) as error:
                raise DecodeError(explain(error), self._code) from error
            rest = len(body) - stream.tell()
        if self._exact and rest:
            message = f"{rest} bytes left over"
            raise DecodeError(message, self._code)
        return value


class StructCodec(Generic[T]):
    """Base of codecs that are written by hand, with `struct`, for bodies of the hot path.

    Subclasses define `_write` and `_read`.

    Attributes:
        cls: The class of the values.
        layout: The declaration that says the same as `_write` and `_read`.
    """

    cls: type[T]
    layout: c.Construct[Any, Any]

    def encode(self, value: T) -> Sequence[Buffer]:
        """The body; batches are parts of their own, not copied.

        Raises:
            EncodeError: The value cannot be carried.
        """
        try:
            return self._write(value)
        except EncodeError:
            raise
        except (struct.error, ValueError, TypeError, AttributeError) as error:
            raise EncodeError(str(error)) from error

    def decode(self, body: memoryview) -> T:
        """The value; batches are views into the body.

        Raises:
            DecodeError: The bytes are not such a body.
        """
        try:
            return self._read(body)
        except (struct.error, IndexError) as error:
            raise DecodeError("the body is cut short") from error
        except UnicodeDecodeError:
            raise DecodeError("a name is not UTF-8") from None

    def _write(self, value: T) -> Sequence[Buffer]:
        raise NotImplementedError

    def _read(self, body: memoryview) -> T:
        raise NotImplementedError


class FixedCodec(StructCodec[T]):
    """A body that is one record of plain numbers; bytes after it are ignored."""

    def __init__(self, record: Record[T]) -> None:
        self.layout = record
        self.cls = record.cls
        self._names = record.names
        self._twin = struct_twin(record)

    def _write(self, value: T) -> tuple[bytes]:
        return (self._twin.pack(*[getattr(value, name) for name in self._names]),)

    def _read(self, body: memoryview) -> T:
        values = self._twin.unpack_from(body)
        return self.cls(**dict(zip(self._names, values, strict=True)))


class EmptyBody(Generic[T]):
    """A body without content: there is one value only. What stands in it is ignored."""

    def __init__(self, value: T) -> None:
        self.cls = type(value)
        self._value = value

    def encode(self, value: T) -> tuple[()]:  # noqa: ARG002  # there is one value only
        """Nothing."""
        return ()

    def decode(self, body: memoryview) -> T:  # noqa: ARG002  # what stands in it is ignored
        """The value."""
        return self._value


class OptionalBody(Generic[T]):
    """A body that is empty when there is no such thing: `None`."""

    def __init__(self, codec: Codec[T]) -> None:
        self.codec = codec

    def encode(self, value: T | None) -> Sequence[Buffer]:
        """The body; empty for `None`.

        Raises:
            EncodeError: The value cannot be carried.
        """
        return () if value is None else self.codec.encode(value)

    def decode(self, body: memoryview) -> T | None:
        """The value; `None` for an empty body.

        Raises:
            DecodeError: The bytes are not such a body.
        """
        return self.codec.decode(body) if body else None


class LeftOut(Generic[T]):
    """A body that is always written but may be missing when read, which means `value`."""

    def __init__(self, codec: Codec[T], value: T) -> None:
        self.codec = codec
        self._value = value

    def encode(self, value: T) -> Sequence[Buffer]:
        """The body.

        Raises:
            EncodeError: The value cannot be carried.
        """
        return self.codec.encode(value)

    def decode(self, body: memoryview) -> T:
        """The value.

        Raises:
            DecodeError: The bytes are not such a body.
        """
        return self.codec.decode(body) if body else self._value
