"""Writes docs/protocol.md from the table of commands, its layouts, and the words beside them.

`make docs-protocol` runs it; a test compares the file with what it would write.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from functools import singledispatch
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import construct as c

from windsprite_protocol import batches, layout, message_frames, tlv, topic_options
from windsprite_protocol.body import EmptyBody, LeftOut, OptionalBody
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.generation import Command
from windsprite_protocol.model.sessions import EvictionReason
from windsprite_protocol.model.typed_values import FIXED_SIZES, TypedValue, ValueKind
from windsprite_protocol.v0_11 import frames
from windsprite_protocol.v0_11.calling import EvictedError
from windsprite_protocol.v0_11.layouts import (
    cluster,
    groups,
    messages,
    permissions,
    primitives,
    sessions,
    streams,
    system,
    topics,
    users,
)
from windsprite_protocol.v0_11.table import GENERATION
from windsprite_server.metadata.authorization import (
    GLOBAL_GRANTS,
    STREAM_GRANTS,
    TOPIC_GRANTS,
    Rule,
)

DOCS: Final = Path(__file__).resolve().parent
PAGE: Final = DOCS / "protocol.md"
NOTES: Final = tomllib.loads((DOCS / "protocol_commands.toml").read_text(encoding="utf-8"))

BLOCKS: Final[dict[str, layout.Record[Any]]] = {
    "client version": sessions.CLIENT_VERSION,
    "consumer": primitives.CONSUMER,
    "poll": messages.POLL_MESSAGES,
    "stream": streams.STREAM_HEADER,
    "topic": topics.TOPIC_HEADER,
    "group": groups.GROUP_HEADER,
    "user": users.USER,
    "permissions": permissions.PERMISSIONS,
    "client": system.CLIENT,
    "node": cluster.NODE,
    "attachment": cluster.ATTACHMENT,
}
"""What has a table of its own, since several layouts hold it."""

CHANNELS: Final = {
    "status": "Refused with status",
    "result": "Turned down with result",
    "evictions": "Evicted for",
}


Part: TypeAlias = Any
"""A layout or a codec: they have little in common that types could tell."""


class Form(NamedTuple):
    """How a field looks; `size` is `None` if that differs from one to the next."""

    name: str
    size: int | None = None


class Row(NamedTuple):
    """A field of a table."""

    field: str
    form: Form
    meaning: str


# --- From layouts to rows ------------------------------------------------------------------------

_NUMBERS: Final = {"B": "u8", "H": "u16", "L": "u32", "Q": "u64", "f": "f32", "?": "flag"}
_TEXTS: Final = {(1, 1): "name", (1, 0): "text8", (4, 0): "text32"}
_PERMISSIONS: Final = "u32 length, [permissions](#permissions-block)"


def form_of(part: Part) -> Form | None:
    """The form of a single field; `None` for what is made of several."""
    for name, block in BLOCKS.items():
        if part is block:
            return Form(f"[{name}](#{name.replace(' ', '-')}-block)")
    return _form(part)


@singledispatch
def _form(_: object) -> Form | None:
    return None


@_form.register(c.FormatField)
def _(part: Part) -> Form:
    return Form(_NUMBERS[part.fmtstr[-1]], part.length)


@_form.register(c.BytesInteger)
def _(_: Part) -> Form:
    return Form("u128", 16)


@_form.register(c.Bytes)
def _(part: Part) -> Form:
    return Form("u128" if part.length == 16 else f"{part.length} bytes", part.length)


@_form.register(c.Prefixed)
def _(part: Part) -> Form | None:
    return Form("u32 length, bytes") if part.subcon is c.GreedyBytes else None


@_form.register(layout.Text)
def _(part: Part) -> Form:
    return Form(_TEXTS[part.length.length, part.sizes[0]])


@_form.register(layout.Enumerated)
def _(part: Part) -> Form | None:
    return form_of(part.number)


@_form.register(layout.Present)
def _(part: Part) -> Form:
    form = form_of(part.content)
    return Form(f"optional {_PERMISSIONS if form is None else form.name}")


_form.register(type(c.GreedyBytes), lambda _: Form("bytes to the end"))
_form.register(permissions.Chain, lambda _: Form("chain"))
_form.register(primitives.IdentifierLayout, lambda _: Form("identifier"))
_form.register(primitives.PartitioningLayout, lambda _: Form("partitioning"))
_form.register(primitives.OptionalPartition, lambda _: Form("optional partition", 5))
_form.register(primitives.OptionBlock, lambda _: Form("option block"))
_form.register(primitives.ReportedOptions, lambda _: Form("sized option block"))
_form.register(cluster.UuidLayout, lambda _: Form("uuid", 16))
_form.register(
    users.ReportedPermissions, lambda _: Form(f"u8 1, {_PERMISSIONS}; none: four zero bytes")
)


def rows_of(part: Part, path: str = "", owner: str = "") -> Iterator[Row]:
    """The fields of a layout in the order of the wire.

    Args:
        part: The layout.
        path: The name of the field that it is; empty for a whole body.
        owner: The class that has the field.
    """
    form = form_of(part) if path else None
    if form is not None:
        yield Row(path, form, meaning_of(part, path, owner))
    if form is None or isinstance(part, permissions.Chain):
        yield from _parts(part, path, owner)


@singledispatch
def _parts(part: object, path: str, owner: str) -> Iterator[Row]:
    message = f"{part!r} of {owner} at {path} has no rows"
    raise TypeError(message)


@_parts.register(layout.Record)
def _(part: Part, path: str, _: str) -> Iterator[Row]:
    for field in part.subcons:
        yield from rows_of(field.subcon, _join(path, field.name), part.cls.__name__)


@_parts.register(c.Struct)
def _(part: Part, path: str, owner: str) -> Iterator[Row]:
    for field in part.subcons:
        if isinstance(field, c.Const):
            yield Row("", Form(f"`{field.value.decode()}` in ASCII", len(field.value)), "")
        elif isinstance(field, c.Renamed):
            yield from rows_of(field.subcon, _join(path, field.name), owner or "Struct")


@_parts.register(layout.Counted)
def _(part: Part, path: str, owner: str) -> Iterator[Row]:
    rows = path or "rows"
    yield Row(f"number of {rows}", _number(part.count), f"How many `{rows}[]` follow.")
    yield from rows_of(part.element, f"{rows}[]", owner)


@_parts.register(layout.UntilEnd)
def _(part: Part, path: str, owner: str) -> Iterator[Row]:
    yield from rows_of(part.element, f"{path or 'rows'}[]", owner)


@_parts.register(permissions.Chain)
def _(part: Part, path: str, owner: str) -> Iterator[Row]:
    yield from rows_of(part.element, f"{path}[]", owner)


@_parts.register(layout.Headed)
def _(part: Part, _path: str, _owner: str) -> Iterator[Row]:
    owner = part.cls.__name__
    yield from rows_of(part.head.subcon, str(part.head.name), owner)
    yield from rows_of(part.items.subcon, f"{part.items.name}[]", owner)


@_parts.register(c.Prefixed)
def _(part: Part, path: str, owner: str) -> Iterator[Row]:
    yield Row(_join(path, "length"), _number(part.lengthfield), "Bytes that follow in it.")
    yield from rows_of(part.subcon, path.removesuffix("content"), owner)


@_parts.register(c.ExprValidator)
def _(part: Part, path: str, owner: str) -> Iterator[Row]:
    yield from rows_of(part.subcon, path, owner)


@_parts.register(cluster.MetadataLayout)
def _(_part: Part, _path: str, _owner: str) -> Iterator[Row]:
    yield from rows_of(cluster.OFFICIAL_METADATA)


def _join(path: str, name: object) -> str:
    # `content` and `head` are names of layouts, nothing that a reader of bytes needs to know.
    return str(name) if path in ("", "content", "head") else f"{path}.{name}"


def _number(part: Part) -> Form:
    form = form_of(part)
    if form is None:
        raise TypeError(part)
    return form


def meaning_of(part: Part, path: str, owner: str) -> str:
    """What a field is for."""
    text = note_of(path.removesuffix("[]").rpartition(".")[2], owner)
    if isinstance(part, layout.Enumerated):
        text = f"{text} {numbers_of(part.members)}"
    return text.strip()


def note_of(field: str, owner: str) -> str:
    """What is said of a field beside the layouts."""
    text: str = NOTES["fields_of"].get(owner, {}).get(field) or NOTES["fields"].get(field, "")
    return text


def numbers_of(members: type[IntEnum]) -> str:
    """What the numbers of an enumeration stand for; `UNKNOWN` is for readers only."""
    known = [member for member in members if member.name != "UNKNOWN"]
    return ", ".join(f"{member.value} = {_words(member.name)}" for member in known) + "."


def _words(name: str) -> str:
    return name.lower().replace("_", " ")


# --- From rows to Markdown -----------------------------------------------------------------------


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    cells = ([str(cell).replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join("| " + " | ".join(line) + " |" for line in cells)


def fields_table(rows: Sequence[Row]) -> str:
    """A table of fields; `at` is where they begin, as long as that is the same in all bodies."""
    lines = []
    at: int | None = 0
    for row in rows:
        if "[]" in row.field:
            at = None
        field = f"`{row.field}`" if row.field else ""
        lines.append(("" if at is None else at, field, row.form.name, row.meaning))
        at = None if at is None or row.form.size is None else at + row.form.size
    return table(("at", "field", "form", ""), lines)


def header_table(header: Part, values: type[Any]) -> str:
    """The fields of a header of frames, described by its notes or the docstring of its values."""
    described = inspect.getdoc(values) or ""
    docs = dict(re.findall(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", described, re.MULTILINE))
    lines = []
    at = 0
    for field in header.subcons:
        size = field.sizeof()
        if field.name:
            form = form_of(field.subcon)
            text = note_of(field.name, values.__name__) or re.sub(r"\s+", " ", docs[field.name])
            lines.append((at, f"`{field.name}`", "" if form is None else form.name, text))
        at += size
    return table(("at", "field", "form", ""), lines)


def struct_table(struct: Part, owner: str) -> str:
    """The fields of a header of batches or messages."""
    return fields_table(
        [row for field in struct.subcons for row in rows_of(field.subcon, str(field.name), owner)]
    )


# --- The parts of the page -----------------------------------------------------------------------


def grants_of(rule: Rule) -> dict[str, list[str]]:
    """Which grants pass a rule, by where they hold."""
    levels = {
        "everywhere": GLOBAL_GRANTS,
        "on the stream": STREAM_GRANTS,
        "on the topic": TOPIC_GRANTS,
    }
    return {
        level: [name for name, passed in grants.items() if passed & rule]
        for level, grants in levels.items()
    }


def permissions_part() -> str:
    """Which grants are enough for which commands."""
    rows = []
    for rule in Rule:
        names = [
            link(command) for command in GENERATION if notes_of(command).get("needs") == rule.name
        ]
        if names:
            held = (", ".join(f"`{name}`" for name in held) for held in grants_of(rule).values())
            rows.append((", ".join(names), *held))
    return table(("commands", "everywhere", "on the stream", "on the topic"), rows)


def notes_of(command: Command[Any]) -> dict[str, Any]:
    """What is said of a command beside its layouts."""
    notes: dict[str, Any] = NOTES["commands"][str(command.code)]
    return notes


def link(command: Command[Any]) -> str:
    """To the section of a command."""
    return f"[{command.code}](#{command.code}-{command.name.replace('.', '')})"


def index_part() -> str:
    """All commands in one table."""
    yes_or_no = {True: "yes", False: ""}
    return table(
        ("code", "name", "operation", "answered under", "plane", "framed", "needs login"),
        [
            (
                link(command),
                f"`{command.name}`",
                int(command.operation),
                ""
                if command.committed_operation == command.operation
                else int(command.committed_operation),
                command.plane.value,
                yes_or_no[command.framed],
                yes_or_no[command.needs_login],
            )
            for command in GENERATION
        ],
    )


def commands_part() -> str:
    """One section for each command."""
    return "\n\n".join(map(command_section, GENERATION))


def command_section(command: Command[Any]) -> str:
    """What is to be known of one command."""
    notes = notes_of(command)
    summary = (command.request_type.__doc__ or "").strip().splitlines()[0]
    summary = re.sub(r" \(spec [^)]*\)", "", summary).replace("`None`", "none")
    facts = [travels(command), allowed(command)]
    facts += [
        f"{title} {', '.join(error_name(number, channel) for number in notes[channel])}."
        for channel, title in CHANNELS.items()
        if channel in notes
    ]
    section = ", after the result section" if command.framed else ""
    parts = [
        f"### {command.code} `{command.name}`",
        summary,
        notes.get("note", ""),
        "\n".join(f"- {fact}" for fact in facts),
        f"**Request.** {body_part(command.request)}",
        f"**Reply{section}.** {body_part(command.reply)}",
    ]
    return re.sub(" +$", "", "\n\n".join(filter(None, parts)), flags=re.MULTILINE)


def travels(command: Command[Any]) -> str:
    """How a command and its reply are known."""
    how = f"Operation {int(command.operation)}"
    if command.operation == frames.Operation.NON_REPLICATED:
        how += f" with code {command.code}"
    if command.committed_operation != command.operation:
        how += f", answered under {int(command.committed_operation)}"
    return f"{how}; {command.plane.value} plane."


def allowed(command: Command[Any]) -> str:
    """Who may send a command."""
    rule = notes_of(command).get("needs")
    if rule is not None:
        levels = [
            f"{level} {', '.join(f'`{grant}`' for grant in grants)}"
            for level, grants in grants_of(Rule[rule]).items()
            if grants
        ]
        return f"Needs one of: {'; '.join(levels)}."
    return "For everybody who is logged in." if command.needs_login else "Also before a login."


def error_name(number: int, channel: str) -> str:
    """A number with its name."""
    name = EvictionReason(number).name if channel == "evictions" else ErrorCode(number).name
    return f"{number} ({_words(name)})"


def body_part(codec: Part) -> str:
    """The body of a request or of the reply to a successful one."""
    if isinstance(codec, EmptyBody):
        return "Empty."
    if isinstance(codec, OptionalBody):
        return f"Empty if there is no such thing. {body_part(codec.codec)}"
    if isinstance(codec, LeftOut):
        return body_part(codec.codec)
    words, form = "", codec.layout
    if isinstance(form, layout.UntilEnd):
        words = "Rows to the end of the body; there may be none."
    elif isinstance(form, layout.Headed):
        words = f"As many `{form.items.name}[]` as `{form.count}` says."
    return f"{words}\n\n{fields_table(list(rows_of(form)))}"


def blocks_part() -> str:
    """Layouts that others hold."""
    parts = []
    for name, block in BLOCKS.items():
        rows = [
            row
            for field in block.subcons
            for row in rows_of(field.subcon, str(field.name), block.cls.__name__)
        ]
        parts.append(f"#### {name.capitalize()} block\n\n{fields_table(rows)}")
    return "\n\n".join(parts)


def evictions_part() -> str:
    """The reasons that a server may give, and what clients make of them."""
    rows = []
    for reason, when in EVICTIONS.items():
        error = EvictedError(reason, min_version=1, max_version=1)
        rows.append((int(reason), _words(reason.name), when, int(error.code)))
    return table(("reason", "name", "when", "as an error"), rows)


EVICTIONS: Final = {
    EvictionReason.NO_SESSION: "nobody is logged in on the connection",
    EvictionReason.INVALID_REQUEST_OPERATION: "an operation from 64 to 127",
    EvictionReason.SESSION_TOO_LOW: "the client id has logged in on another connection since",
    EvictionReason.INVALID_CREDENTIALS: "login: name or password is wrong, or the user inactive",
    EvictionReason.INVALID_TOKEN: "login: the token is unknown or has expired",
    EvictionReason.USER_INACTIVE: "login: the owner of the token is inactive",
    EvictionReason.SESSION_ERROR: "login: the client id belongs to a session of another user",
    EvictionReason.STALE_CLIENT: "a member of a group was silent for too long; comes unasked",
    EvictionReason.INCOMPATIBLE_PROTOCOL: "login: another protocol version; the header tells which",
    EvictionReason.MALFORMED_LOGIN: "login: the body cannot be read; codes 38 and 44",
}


def value_kinds_part() -> str:
    """The kinds of typed values."""
    return table(
        ("kind", "name", "bytes"),
        [(kind.value, _words(kind.name), FIXED_SIZES.get(kind, "1 to 255")) for kind in ValueKind],
    )


def topic_options_part() -> str:
    """The catalog of options."""
    rows = []
    for spec in topic_options.describe():
        default = TypedValue(spec.kind, spec.default).to_python()
        rows.append((f"`{spec.key}`", spec.kind, f"`{default!s}`", spec.description))
    return table(("key", "kind", "default", ""), rows)


def frame_kinds_part() -> str:
    """The kinds of frames of a client connection."""
    directions = {
        frames.FrameKind.REQUEST: "client to server",
        frames.FrameKind.REPLY: "server to client",
        frames.FrameKind.EVICTION: "server to client",
    }
    return table(
        ("kind", "frame", "goes from"),
        [(kind.value, _words(kind.name), way) for kind, way in directions.items()],
    )


def committed_part() -> str:
    """Commands whose replies carry another operation than their requests."""
    return ", ".join(
        f"{int(command.operation)} under {int(command.committed_operation)} (`{command.name}`)"
        for command in GENERATION
        if command.committed_operation != command.operation
    )


def errors_part() -> str:
    """The error codes that a server sends."""
    sent = {1, 4, 5, 40, 57, 59}
    for notes in NOTES["commands"].values():
        sent.update(notes.get("status", ()), notes.get("result", ()))
    codes = sorted(map(ErrorCode, sent))
    return table(
        ("number", "name", "means"),
        [(int(code), _words(code.name), code.sentence) for code in codes],
    )


PARTS: Final[dict[str, Callable[[], object]]] = {
    "generation": lambda: GENERATION.name,
    "header_size": lambda: frames.HEADER_SIZE,
    "max_frame_size": lambda: f"{frames.DEFAULT_MAX_FRAME_SIZE:,}",
    "last_frame_kind": lambda: frames.LAST_FRAME_KIND,
    "frame_kinds": frame_kinds_part,
    "request_header": lambda: header_table(frames.REQUEST_HEADER, frames.RequestHeader),
    "reply_header": lambda: header_table(frames.REPLY_HEADER, frames.ReplyHeader),
    "eviction_header": lambda: header_table(frames.EVICTION_HEADER, frames.EvictionHeader),
    "non_replicated": lambda: int(frames.Operation.NON_REPLICATED),
    "committed_operations": committed_part,
    "evictions": evictions_part,
    "without_login": lambda: ", ".join(
        f"`{command.name}`" for command in GENERATION if not command.needs_login
    ),
    "string_kind": lambda: ValueKind.STRING.value,
    "max_options": lambda: tlv.MAX_OPTIONS,
    "max_options_bytes": lambda: f"{tlv.MAX_OPTIONS_BYTES:,}",
    "value_kinds": value_kinds_part,
    "blocks": blocks_part,
    "batch_header_size": lambda: batches.BATCH_HEADER.size,
    "frame_header_size": lambda: message_frames.FRAME_HEADER.size,
    "max_payload": lambda: f"{batches.MAX_PAYLOAD_BYTES:,}",
    "max_user_headers": lambda: f"{batches.MAX_USER_HEADERS_BYTES:,}",
    "batch_header": lambda: struct_table(batches.BATCH_HEADER_LAYOUT, "batch"),
    "frame_header": lambda: struct_table(message_frames.FRAME_HEADER_LAYOUT, "frame"),
    "topic_options": topic_options_part,
    "permissions": permissions_part,
    "index": index_part,
    "commands": commands_part,
    "trailer": lambda: fields_table(list(rows_of(cluster.TRAILER))),
    "our_codes": lambda: "9000 to 9199",
    "errors": errors_part,
}


def page() -> str:
    """The content of docs/protocol.md."""
    template = (DOCS / "protocol_template.txt").read_text(encoding="utf-8")
    return re.sub(r"{{(\w+)}}", lambda found: str(PARTS[found[1]]()), template)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
