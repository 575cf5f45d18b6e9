"""Hypothesis strategies for the values of commands, derived from their layouts."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch
from typing import Any

import construct as c
from hypothesis import strategies as st

from windsprite_protocol.body import ConstructCodec, EmptyBody, FixedCodec, LeftOut, OptionalBody
from windsprite_protocol.generation import Codec
from windsprite_protocol.layout import (
    Counted,
    Enumerated,
    Headed,
    Present,
    Record,
    Sized,
    Text,
    UntilEnd,
)
from windsprite_protocol.model.identifiers import Balanced, ByKey, ToPartition
from windsprite_protocol.model.messages import PolledMessages, SendMessages
from windsprite_protocol.model.typed_values import FIXED_SIZES, Option, TypedValue
from windsprite_protocol.v0_11.layouts import messages, offsets
from windsprite_protocol.v0_11.layouts.cluster import (
    IDENTITY,
    OFFICIAL_METADATA,
    MetadataLayout,
    NodeState,
    UuidLayout,
)
from windsprite_protocol.v0_11.layouts.permissions import PERMISSIONS, Chain
from windsprite_protocol.v0_11.layouts.primitives import (
    IDENTIFIER,
    PARTITIONING,
    IdentifierLayout,
    OptionalPartition,
    OptionBlock,
    PartitioningLayout,
    ReportedOptions,
)
from windsprite_protocol.v0_11.layouts.users import ReportedPermissions

FEW = 3
"""How many elements the lists in a value have at most."""


def texts(minimum: int, maximum: int) -> st.SearchStrategy[str]:
    """Texts whose UTF-8 has so many bytes, the longest ones among them."""
    characters = st.characters(codec="utf-8")
    short = st.text(characters, min_size=minimum, max_size=min(maximum, 20))
    longest = st.sampled_from(["x" * min(maximum, 255), "é" * (min(maximum, 255) // 2)])
    return st.one_of(short.filter(lambda text: len(text.encode()) <= maximum), longest)


def u32s() -> st.SearchStrategy[int]:
    return st.integers(0, 2**32 - 1)


@st.composite
def typed_values(draw: st.DrawFn, *, known: bool) -> TypedValue:
    """Typed values as an option may have; `known`: of a known kind, with the size of the kind."""
    kind = draw(st.integers(1, 15 if known else 255))
    size = FIXED_SIZES.get(kind) if known else None
    if size is None:
        return TypedValue(kind, draw(st.binary(min_size=1, max_size=255)))
    return TypedValue(kind, draw(st.binary(min_size=size, max_size=size)))


def options(*, known: bool) -> st.SearchStrategy[tuple[Option, ...]]:
    """Option blocks; `known`: such that a reply can carry them."""
    entries = st.builds(Option, texts(1, 255), typed_values(known=known))
    return st.lists(entries, max_size=FEW, unique_by=lambda option: option.key).map(tuple)


@singledispatch
def values_of(layout: Any) -> st.SearchStrategy[Any]:
    """Values of a layout or codec that survive a way there and back."""
    raise NotImplementedError(f"no strategy for {layout!r}")


def many(element: Any) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(values_of(element), max_size=FEW).map(tuple)


@values_of.register
def _(layout: c.Renamed) -> st.SearchStrategy[Any]:
    return values_of(layout.subcon)


@values_of.register
def _(layout: c.Prefixed) -> st.SearchStrategy[Any]:
    return values_of(layout.subcon)


@values_of.register
def _(layout: c.FormatField) -> st.SearchStrategy[Any]:
    match layout.fmtstr:
        case "<?":
            return st.booleans()
        case "<f":
            return st.floats(width=32, allow_nan=False)
        case _:
            return st.integers(0, 256**layout.length - 1)


@values_of.register
def _(layout: c.BytesInteger) -> st.SearchStrategy[Any]:
    return st.integers(0, 256**layout.length - 1)


@values_of.register
def _(_: c.GreedyBytes.__class__) -> st.SearchStrategy[Any]:
    return st.binary(max_size=300)


@values_of.register
def _(_: c.ExprValidator) -> st.SearchStrategy[Any]:
    return values_of(messages.POLL_MESSAGES).map(lambda poll: replace(poll, auto_commit=True))


@values_of.register
def _(layout: Text) -> st.SearchStrategy[Any]:
    return texts(layout.sizes[0], layout.sizes[-1])


@values_of.register
def _(layout: Enumerated) -> st.SearchStrategy[Any]:
    return st.sampled_from(layout.members)


@values_of.register
def _(layout: NodeState) -> st.SearchStrategy[Any]:
    return st.sampled_from([member for member in layout.members if member != layout.unknown])


@values_of.register
def _(layout: Record) -> st.SearchStrategy[Any]:
    fields = zip(layout.names, layout.subcons, strict=True)
    return st.builds(layout.cls, **{name: values_of(field) for name, field in fields})


@values_of.register(Counted)
@values_of.register(UntilEnd)
@values_of.register(Chain)
def _(layout: Any) -> st.SearchStrategy[Any]:
    return many(layout.element)


@values_of.register
def _(layout: Headed) -> st.SearchStrategy[Any]:
    def join(head: Any, items: tuple[Any, ...]) -> Any:
        head = replace(head, **{layout.count: len(items)})
        return layout.cls(**{layout.head.name: head, layout.items.name: items})

    return st.builds(join, values_of(layout.head), many(layout.items))


@values_of.register
def _(layout: Sized) -> st.SearchStrategy[Any]:
    return values_of(layout.content)


@values_of.register
def _(layout: Present) -> st.SearchStrategy[Any]:
    return st.none() | values_of(layout.content)


@values_of.register
def _(_: ReportedPermissions) -> st.SearchStrategy[Any]:
    return st.none() | values_of(PERMISSIONS)


@values_of.register
def _(_: IdentifierLayout) -> st.SearchStrategy[Any]:
    return u32s() | texts(1, 255)


@values_of.register
def _(_: PartitioningLayout) -> st.SearchStrategy[Any]:
    keys = st.binary(min_size=1, max_size=255)
    return st.one_of(st.just(Balanced()), st.builds(ToPartition, u32s()), st.builds(ByKey, keys))


@values_of.register
def _(_: OptionalPartition) -> st.SearchStrategy[Any]:
    return st.none() | u32s()


@values_of.register
def _(_: OptionBlock) -> st.SearchStrategy[Any]:
    return options(known=False)


@values_of.register
def _(_: ReportedOptions) -> st.SearchStrategy[Any]:
    return options(known=True)


@values_of.register
def _(_: UuidLayout) -> st.SearchStrategy[Any]:
    return st.uuids()


@values_of.register
def _(_: MetadataLayout) -> st.SearchStrategy[Any]:
    return st.one_of(values_of(OFFICIAL_METADATA), _told_metadata())


@st.composite
def _told_metadata(draw: st.DrawFn) -> Any:
    official = draw(values_of(OFFICIAL_METADATA))
    count = len(official.nodes)
    identities = st.lists(
        values_of(IDENTITY), min_size=count, max_size=count, unique_by=lambda one: one.node_id
    )
    return replace(
        official,
        nodes=tuple(
            replace(node, identity=identity)
            for node, identity in zip(official.nodes, draw(identities), strict=True)
        ),
        cluster_id=draw(st.uuids()),
        leader_epoch=draw(st.integers(0, 2**64 - 1)),
        followers_serve_reads=draw(st.booleans()),
    )


@values_of.register(ConstructCodec)
@values_of.register(FixedCodec)
@values_of.register(messages.ConfirmationsCodec)
@values_of.register(messages.PollMessagesCodec)
@values_of.register(offsets.StoreOffsetCodec)
def _(codec: Any) -> st.SearchStrategy[Any]:
    return values_of(codec.layout)


@values_of.register
def _(codec: OptionalBody) -> st.SearchStrategy[Any]:
    return st.none() | values_of(codec.codec)


@values_of.register
def _(codec: LeftOut) -> st.SearchStrategy[Any]:
    return values_of(codec.codec)


@values_of.register
def _(codec: EmptyBody) -> st.SearchStrategy[Any]:
    return st.just(codec.decode(memoryview(b"")))


@values_of.register
def _(_: messages.SendMessagesCodec) -> st.SearchStrategy[Any]:
    return st.builds(
        SendMessages,
        values_of(IDENTIFIER),
        values_of(IDENTIFIER),
        values_of(PARTITIONING),
        u32s(),
        st.binary(max_size=300),
    )


@values_of.register
def _(_: messages.PolledMessagesCodec) -> st.SearchStrategy[Any]:
    records = st.binary(min_size=1, max_size=300).map(lambda data: (data,))
    return st.builds(
        PolledMessages, u32s(), st.integers(0, 2**64 - 1), u32s(), st.just(()) | records
    )


@st.composite
def damaged(draw: st.DrawFn, codec: Codec[Any]) -> bytes:
    """The bytes of a value, then perhaps changed, cut or followed by others."""
    body = bytearray(b"".join(codec.encode(draw(values_of(codec)))))
    if not body:
        return draw(st.binary(max_size=40))
    for at, byte in draw(
        st.lists(st.tuples(st.integers(0, len(body) - 1), st.integers(0, 255)), max_size=3)
    ):
        body[at] = byte
    cut = draw(st.just(len(body)) | st.integers(0, len(body)))
    return bytes(body[:cut]) + draw(st.just(b"") | st.binary(max_size=20))
