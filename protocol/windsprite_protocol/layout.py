"""How layouts are declared: `construct` definitions, and what this package adds to them.

A layout says what bytes mean. It is interpreted, never compiled: it reads what strangers send.
What runs for every frame or message uses a `struct.Struct` derived from its layout by
`struct_twin`.

All layouts here follow the same rules. They read no further than the bytes they are given and
never allocate for a length or a count that those bytes cannot back. Whatever does not fit raises
a `construct.ConstructError`; `windsprite_protocol.body` turns it into an error of the protocol.
Error messages never repeat the bytes or texts they are about: those may be secrets.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

import construct as c

if TYPE_CHECKING:
    from construct.core import Context, PathType, StreamType

T = TypeVar("T")
E = TypeVar("E", bound=IntEnum)

Number: TypeAlias = "c.FormatField[Any, Any]"
"""A number with a format of the `struct` module; little-endian here."""

U8: Final = c.Int8ul
U16: Final = c.Int16ul
U32: Final = c.Int32ul
U64: Final = c.Int64ul
U128: Final = c.BytesInteger(16, swapped=True)
F32: Final = c.Float32l
FLAG: Final = c.FormatField("<", "?")
"""One byte; any but 0 is true."""


class Layout(c.Construct, Generic[T]):  # type: ignore[type-arg]  # generic in its stubs only
    """Base of the layouts of this package; `T` is the type of the values.

    Subclasses define `_parse` and `_write`.
    """

    def _build(self, obj: T, stream: StreamType, context: Context, path: PathType) -> Any:  # noqa: ANN401  # as construct has it
        self._write(obj, stream, context, path)
        return obj

    def _write(self, obj: T, stream: StreamType, context: Context, path: PathType) -> None:
        raise NotImplementedError


class Text(Layout[str]):
    """UTF-8 behind its length in bytes."""

    def __init__(self, length: Number, *, empty: bool = True) -> None:
        super().__init__()
        self.length = length
        self._head = struct.Struct(length.fmtstr)
        self.sizes = range(0 if empty else 1, 256**length.length)

    def _parse(self, stream: StreamType, context: Context, path: PathType) -> str:  # noqa: ARG002
        (size,) = self._head.unpack(c.stream_read(stream, self._head.size, path))
        self._check(size, path)
        data = c.stream_read(stream, size, path)
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise c.StringError("text is not UTF-8", path=path) from None

    def _write(self, obj: str, stream: StreamType, context: Context, path: PathType) -> None:  # noqa: ARG002
        try:
            data = obj.encode()
        except UnicodeEncodeError:
            raise c.StringError("text cannot be UTF-8", path=path) from None
        self._check(len(data), path)
        data = self._head.pack(len(data)) + data
        c.stream_write(stream, data, len(data), path)

    def _check(self, size: int, path: PathType) -> None:
        if size not in self.sizes:
            message = f"text of {size} bytes; it takes {self.sizes[0]} to {self.sizes[-1]}"
            raise c.StringError(message, path=path)


NAME8: Final = Text(U8, empty=False)
STR8: Final = Text(U8)
STR32: Final = Text(U32)


class Enumerated(Layout[E]):
    """A number that stands for a member of an enumeration, and for nothing else."""

    def __init__(self, number: Number, members: type[E]) -> None:
        super().__init__()
        self.number = number
        self.members = members

    def member(self, value: int, path: PathType) -> E:
        """The member with a value.

        Raises:
            MappingError: There is none.
        """
        try:
            return self.members(value)
        except ValueError:
            message = f"{value!r} is no {self.members.__name__}"
            raise c.MappingError(message, path=path) from None

    def _parse(self, stream: StreamType, context: Context, path: PathType) -> E:
        return self.member(self.number._parsereport(stream, context, path), path)

    def _write(self, obj: E, stream: StreamType, context: Context, path: PathType) -> None:
        self.number._build(self.member(obj, path).value, stream, context, path)


class Record(Layout[T]):
    """The fields of a dataclass, one after the other.

    Numbers that stand side by side are read and written by one `struct`, which makes long lists of
    records cheap.

    Args:
        cls: What is made of the fields, by their names.
        fields: Named layouts, in the order of the wire.
    """

    def __init__(self, cls: type[T], *fields: c.Renamed[Any, Any]) -> None:
        super().__init__()
        self.cls = cls
        self.subcons = fields
        self.names = tuple(str(field.name) for field in fields)
        self._parts = tuple(_grouped(fields))
        self._is_in_order = getattr(cls, "__match_args__", ()) == self.names
        self._numbers = _plain(self._parts)

    def read_many(
        self, count: int, stream: StreamType, context: Context, path: PathType
    ) -> list[T]:
        """Reads so many records; all of them at once if they are nothing but numbers.

        Raises:
            ConstructError: As for each of them. Every record takes at least one byte: a count that
                lies ends at the first one missing.
        """
        if self._numbers is None:
            return [self._parsereport(stream, context, path) for _ in range(count)]
        twin = self._numbers.twin
        data = c.stream_read(stream, count * twin.size, path)
        return [self._make(values) for values in twin.iter_unpack(data)]

    def write_many(
        self, records: Sequence[T], stream: StreamType, context: Context, path: PathType
    ) -> None:
        """Writes records; all of them at once if they are nothing but numbers.

        Raises:
            ConstructError: As for each of them.
        """
        if self._numbers is None or set(map(type, records)) != {self.cls}:
            for record in records:
                self._build(record, stream, context, path)
            return
        pack = self._numbers.pack
        data = b"".join([pack(record, path) for record in records])
        c.stream_write(stream, data, len(data), path)

    def _make(self, values: Sequence[Any]) -> T:
        if self._is_in_order:
            return self.cls(*values)
        return self.cls(**dict(zip(self.names, values, strict=True)))

    def _parse(self, stream: StreamType, context: Context, path: PathType) -> T:
        values: list[Any] = []
        for part in self._parts:
            if isinstance(part, _Numbers):
                values += part.read(stream, path)
            else:
                values.append(part._parsereport(stream, context, path))
        return self._make(values)

    def _write(self, obj: T, stream: StreamType, context: Context, path: PathType) -> None:
        if not isinstance(obj, self.cls):
            message = f"{type(obj).__name__} where {self.cls.__name__} belongs"
            raise c.AdaptationError(message, path=path)
        for part in self._parts:
            if isinstance(part, _Numbers):
                data = part.pack(obj, path)
                c.stream_write(stream, data, len(data), path)
            else:
                part._build(getattr(obj, str(part.name)), stream, context, path)

    def _sizeof(self, context: Context, path: PathType) -> int:
        return sum(field._sizeof(context, path) for field in self.subcons)


class _Numbers:
    """Fields of a record that are numbers or members of enumerations and stand side by side.

    Args:
        fields: The layouts of numbers, with their names; at least one.

    Attributes:
        twin: Reads and writes all of them.
        are_plain: Whether none is a member of an enumeration.
    """

    def __init__(self, fields: Sequence[c.Renamed[Any, Any]]) -> None:
        self._names = tuple(str(field.name) for field in fields)
        self._formats = tuple("<" + _format(_on_the_wire(field)) for field in fields)
        self._enumerated = tuple(
            (index, field.subcon)
            for index, field in enumerate(fields)
            if isinstance(field.subcon, Enumerated)
        )
        self._get = _getter(self._names)
        self.twin = struct.Struct("<" + "".join(form[1:] for form in self._formats))
        self.are_plain = not self._enumerated

    def read(self, stream: StreamType, path: PathType) -> Sequence[Any]:
        """The values that follow in a stream.

        Raises:
            ConstructError: It ends too early, or a number is no member.
        """
        values = self.twin.unpack(c.stream_read(stream, self.twin.size, path))
        if self.are_plain:
            return values
        named = list(values)
        for index, layout in self._enumerated:
            named[index] = layout.member(values[index], f"{path} -> {self._names[index]}")
        return named

    def pack(self, record: object, path: PathType) -> bytes:
        """The bytes of the values that a record has.

        Raises:
            ConstructError: A value has no place in its field.
        """
        values = self._get(record)
        for index, layout in self._enumerated:
            layout.member(values[index], f"{path} -> {self._names[index]}")
        try:
            return self.twin.pack(*values)
        except struct.error:
            for name, form, value in zip(self._names, self._formats, values, strict=True):
                try:
                    struct.pack(form, value)
                except struct.error as error:
                    raise c.FormatFieldError(str(error), path=f"{path} -> {name}") from None
            raise


def _grouped(fields: Iterable[c.Renamed[Any, Any]]) -> Iterator[_Numbers | c.Renamed[Any, Any]]:
    """Fields in their order, numbers that stand side by side as one."""
    run: list[c.Renamed[Any, Any]] = []
    for field in fields:
        if isinstance(_on_the_wire(field), c.FormatField):
            run.append(field)
            continue
        if run:
            yield _Numbers(run)
            run = []
        yield field
    if run:
        yield _Numbers(run)


def _plain(parts: Sequence[_Numbers | c.Renamed[Any, Any]]) -> _Numbers | None:
    """All parts of a record, if they are numbers that need no more than their `struct`."""
    part = parts[0] if len(parts) == 1 else None
    return part if isinstance(part, _Numbers) and part.are_plain else None


def _on_the_wire(field: c.Renamed[Any, Any]) -> c.Construct[Any, Any]:
    """The number that a field is on the wire; the field's own layout if it is none."""
    layout = field.subcon
    # What is derived from an enumeration has its own way to read and write.
    return layout.number if type(layout) is Enumerated else layout


def _getter(names: Sequence[str]) -> Callable[[object], tuple[Any, ...]]:
    """Gets the attributes of these names."""
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda record: (get(record),)


class Counted(Layout[tuple[T, ...]]):
    """A count, then so many elements."""

    def __init__(self, count: Number, element: c.Construct[Any, Any]) -> None:
        super().__init__()
        self.count = count
        self.element = element

    def _parse(self, stream: StreamType, context: Context, path: PathType) -> tuple[T, ...]:
        count = self.count._parsereport(stream, context, path)
        return _parse_many(self.element, count, stream, context, path)

    def _write(
        self, obj: tuple[T, ...], stream: StreamType, context: Context, path: PathType
    ) -> None:
        self.count._build(len(obj), stream, context, path)
        _build_many(self.element, obj, stream, context, path)


class UntilEnd(Layout[tuple[T, ...]]):
    """Elements until the bytes end."""

    def __init__(self, element: c.Construct[Any, Any]) -> None:
        super().__init__()
        self.element = element

    def _parse(self, stream: StreamType, context: Context, path: PathType) -> tuple[T, ...]:
        start = stream.tell()
        end = stream.seek(0, io.SEEK_END)
        stream.seek(start)
        values = []
        while stream.tell() < end:
            values.append(self.element._parsereport(stream, context, path))
        return tuple(values)

    def _write(
        self, obj: tuple[T, ...], stream: StreamType, context: Context, path: PathType
    ) -> None:
        _build_many(self.element, obj, stream, context, path)


class Headed(Layout[T]):
    """A head, then as many items as one of its fields says.

    Args:
        cls: A dataclass of two fields, head and items.
        head: The layout of the head, with the name of its field.
        count: The field of the head that counts the items.
        items: The layout of one item, with the name of the field of all.
    """

    def __init__(
        self, cls: type[T], head: c.Renamed[Any, Any], count: str, items: c.Renamed[Any, Any]
    ) -> None:
        super().__init__()
        self.cls = cls
        self.head = head
        self.count = count
        self.items = items

    def _parse(self, stream: StreamType, context: Context, path: PathType) -> T:
        head = self.head._parsereport(stream, context, path)
        items = _parse_many(self.items, getattr(head, self.count), stream, context, path)
        return self.cls(**{str(self.head.name): head, str(self.items.name): items})

    def _write(self, obj: T, stream: StreamType, context: Context, path: PathType) -> None:
        head = getattr(obj, str(self.head.name))
        items = getattr(obj, str(self.items.name))
        if len(items) != getattr(head, self.count):
            message = f"{self.count} is {getattr(head, self.count)}, found {len(items)}"
            raise c.RangeError(message, path=path)
        self.head._build(head, stream, context, path)
        _build_many(self.items, items, stream, context, path)


class Sized(Layout[T]):
    """A length in bytes, then a value that takes exactly so many.

    Args:
        length: The number in front.
        content: The value.
        maximum: How many bytes the value may take.
    """

    def __init__(self, length: Number, content: c.Construct[T, T], *, maximum: int) -> None:
        super().__init__()
        self.length = length
        self.content = content
        self.maximum = maximum

    def _parse(self, stream: StreamType, context: Context, path: PathType) -> T:
        size = self.length._parsereport(stream, context, path)
        self._check(size, path)
        with io.BytesIO(c.stream_read(stream, size, path)) as inner:
            value = self.content._parsereport(inner, context, path)
            rest = size - inner.tell()
        if rest:
            message = f"{rest} bytes of {size} left over"
            raise c.TerminatedError(message, path=path)
        return value

    def _write(self, obj: T, stream: StreamType, context: Context, path: PathType) -> None:
        with io.BytesIO() as inner:
            self.content._build(obj, inner, context, path)
            data = inner.getvalue()
        self._check(len(data), path)
        self.length._build(len(data), stream, context, path)
        c.stream_write(stream, data, len(data), path)

    def _check(self, size: int, path: PathType) -> None:
        if size > self.maximum:
            message = f"a value of {size} bytes; it takes {self.maximum} at most"
            raise c.RangeError(message, path=path)


class Present(Layout[T | None]):
    """One byte: exactly 1 and a value follows; anything else and the value is `None`."""

    def __init__(self, content: c.Construct[T, T]) -> None:
        super().__init__()
        self.content = content

    def _parse(self, stream: StreamType, context: Context, path: PathType) -> T | None:
        if U8._parsereport(stream, context, path) != 1:
            return None
        return self.content._parsereport(stream, context, path)

    def _write(self, obj: T | None, stream: StreamType, context: Context, path: PathType) -> None:
        U8._build(obj is not None, stream, context, path)
        if obj is not None:
            self.content._build(obj, stream, context, path)


def _parse_many(
    element: c.Construct[T, T],
    count: int,
    stream: StreamType,
    context: Context,
    path: PathType,
) -> tuple[T, ...]:
    layout = _unnamed(element)
    if isinstance(layout, Record):
        return tuple(layout.read_many(count, stream, context, path))
    # Every element takes at least one byte: a count that lies ends at the first one missing.
    return tuple([element._parsereport(stream, context, path) for _ in range(count)])


def _build_many(
    element: c.Construct[T, T],
    values: Sequence[T],
    stream: StreamType,
    context: Context,
    path: PathType,
) -> None:
    layout = _unnamed(element)
    if isinstance(layout, Record):
        layout.write_many(values, stream, context, path)
        return
    for value in values:
        element._build(value, stream, context, path)


def _unnamed(element: c.Construct[Any, Any]) -> c.Construct[Any, Any]:
    return element.subcon if isinstance(element, c.Renamed) else element


def explain(error: Exception) -> str:
    """What construct says in two lines, in one: where in the value, and what is wrong there."""
    text = str(error)
    if not isinstance(error, c.ConstructError) or not error.path:
        return text
    where = ".".join(error.path.split(" -> ")[1:])
    what = text.partition("\n")[2]
    return f"{where}: {what}" if where else what


def struct_twin(layout: c.Construct[Any, Any]) -> struct.Struct:
    """The `struct.Struct` that reads and writes the same bytes as a layout of fixed size.

    Named fields become one value each, in their order; padding becomes none. Byte strings and
    integers without a format of their own (128 bits) become `bytes` of that size.

    Raises:
        TypeError: The layout holds something that has no such twin.
        ValueError: The sizes differ.
    """
    twin = struct.Struct("<" + _format(layout))
    if twin.size != layout.sizeof():
        message = f"{twin.format} has {twin.size} bytes, its layout {layout.sizeof()}"
        raise ValueError(message)
    return twin


def _format(part: c.Construct[Any, Any]) -> str:
    match part:
        case c.Struct() | Record():
            return "".join(_format(member) for member in part.subcons)
        case c.Renamed():
            return _format(part.subcon)
        case c.FormatField() if part.length == 1 or part.fmtstr[0] == "<":
            return part.fmtstr[-1]
        case c.BytesInteger() if not part.swapped:
            pass
        case c.Bytes() | c.BytesInteger() if isinstance(part.length, int):
            return f"{part.length}s"
        case c.Padded() if part.subcon is c.Pass:
            return f"{part.sizeof()}x"
    message = f"{part!r} has no twin in struct"
    raise TypeError(message)
