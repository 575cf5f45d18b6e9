"""Writes sdk/windsprite/sync/*_methods.py from the asyncio classes: the same methods, but blocking.

`make sync-client` runs it; a test compares the files with what it would write.
"""

from __future__ import annotations

import ast
import builtins
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

SDK: Final = Path(__file__).resolve().parent.parent / "sdk"
TARGET: Final = SDK / "windsprite" / "sync"


class Source(NamedTuple):
    """A class whose methods are to be had in a blocking form.

    Attributes:
        module: Where it is.
        name: The class.
        target: The module that is written for it, without `_methods`.
        without: Public methods that are left out, since a class above the written one has a form
            of its own.
        only: If there are any, all others are left out.
        owner: The class whose object the methods are called on; None: this one.
    """

    module: str
    name: str
    target: str
    without: Sequence[str] = ()
    only: Sequence[str] = ()
    owner: str | None = None


_CLIENT: Final = "windsprite.client.Client"

SOURCES: Final = (
    Source(
        "windsprite.client",
        "Client",
        "client",
        only=("login", "login_with_token", "logout", "events"),
    ),
    *(
        Source(f"windsprite.commands.{area}", f"{area[:-1].title()}Commands", area, owner=_CLIENT)
        for area in ("streams", "topics", "messages", "offsets", "groups", "users", "tokens")
    ),
    Source("windsprite.commands.system", "SystemCommands", "system", owner=_CLIENT),
    Source("windsprite.producer.commands", "ProducerCommands", "producers", owner=_CLIENT),
    Source("windsprite.consumer.commands", "ConsumerCommands", "consumers", owner=_CLIENT),
    Source("windsprite.producer.producer", "Producer", "producer"),
    Source(
        "windsprite.consumer.consumer",
        "TopicConsumer",
        "consumer",
        without=("get", "run"),
    ),
)

WRAPPED: Final = {
    "Producer": "windsprite.sync.producer",
    "Deliveries": "windsprite.sync.delivery",
    "Delivery": "windsprite.sync.delivery",
    "TopicConsumer": "windsprite.sync.consumer",
    "EventStream": "windsprite.sync.events",
}
"""Results that have a blocking form of their own, and where that is."""

RENAMED: Final = {"aclose": "close"}

REWORDED: Final = (
    (r"\basync (with|for|def)\b", r"\1"),
    (r"\bawait delivery\b", "delivery.result()"),
    (r"\bawait (?=[a-z_]+\.)", ""),
    (r"; await it to know\.", "; its `result` tells."),
    (r"`aclose`", "`close`"),
    (r"Called in the event loop with", "Called in another thread with"),
    (r"; made by `Client.producer`, and used in one event loop\.", "; made by `Client.producer`."),
    (r"\bby several tasks\b", "by several threads"),
    (r"each message, as a sequence that can be waited for as a whole\.", "each message."),
    (r"\bhowever many tasks poll\b", "however many threads poll"),
    (r"any number of\n    tasks may call", "any number of\n    threads may call"),
    (r", a cancellation included; so does", ", Ctrl-C included; so does"),
    (
        r"Who is cancelled while waiting there\n    stops that",
        "Ctrl-C while waiting there\n    stops that",
    ),
    (
        r"Cancelled meanwhile, it leaves no\n        trace\.",
        "Interrupted, it leaves no\n        trace.",
    ),
    (
        r"cancelled meanwhile, the\n        message may",
        "interrupted meanwhile, the\n        message may",
    ),
)
"""What reads otherwise where calls block: patterns, and what they become."""


def main() -> None:
    """Write all modules."""
    for path, text in modules().items():
        path.write_text(text, encoding="utf-8")


def modules() -> dict[Path, str]:
    """The text of each module by its path."""
    used: set[str] = set()
    texts = {
        TARGET / f"{source.target}_methods.py": _formatted(_module(source, used))
        for source in SOURCES
    }
    for pattern, _ in REWORDED:
        if pattern not in used:
            message = f"nothing reads like {pattern!r} any more"
            raise ValueError(message)
    return texts


def _module(source: Source, used: set[str]) -> str:
    owner = source.owner or f"{source.module}.{source.name}"
    owner_module, _, owner_name = owner.rpartition(".")
    origins: dict[str, str] = {}
    names: set[str] = set()
    methods: list[str] = []
    classes = list(_classes(source))
    for module, cls in classes:
        origins |= _origins(_tree(module), module)
        methods += [_method(node, used, names) for node in _methods(cls, source)]
    imports = {name: origins[name] for name in names if name in origins}
    imports |= {name: WRAPPED[name] for name in names & set(WRAPPED)}
    imports |= {"Blocking": "windsprite.sync.base"}
    lines = [
        f'"""The methods of `{source.name}`, blocking; written by docs/sync_modules.py."""',
        "",
        "from __future__ import annotations",
        "",
        *(f"from {module} import {name}" for name, module in sorted(imports.items())),
        f"from {owner_module} import {owner_name} as Target",
        "",
        "",
        f"class {_name(source)}(Blocking[Target]):",
        _docstring(classes[0][1], 4, used),
        "",
        "\n\n".join(methods),
    ]
    return "\n".join(lines)


def _name(source: Source) -> str:
    return source.name if source.name.endswith("Commands") else f"{source.name}Methods"


def _tree(module: str) -> ast.Module:
    path = SDK.joinpath(*module.split(".")).with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8"))


def _classes(source: Source) -> Iterator[tuple[str, ast.ClassDef]]:
    """The class and where it is; and those that it is derived from, if all of it is taken."""
    to_do = [(source.module, source.name)]
    while to_do:
        module, name = to_do.pop(0)
        tree = _tree(module)
        (cls,) = (
            each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == name
        )
        yield module, cls
        if not source.owner and not source.only:
            bases = {ast.unparse(base) for base in cls.bases}
            to_do += [
                (origin, base)
                for base, origin in _origins(tree, module).items()
                if base in bases and origin.startswith("windsprite.")
            ]


def _origins(tree: ast.Module, module: str) -> dict[str, str]:
    """Where the names of a module come from: other modules, or itself."""
    origins: dict[str, str] = {}
    for node in tree.body:
        match node:
            case ast.ImportFrom(module=str(other)):
                origins |= {alias.name: other for alias in node.names}
            case ast.ClassDef():
                origins[node.name] = module
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                origins[name] = module
    return origins


def _methods(cls: ast.ClassDef, source: Source) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in cls.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name.startswith("_") or node.name in source.without:
            continue
        if not source.only or node.name in source.only:
            yield node


def _method(node: ast.FunctionDef | ast.AsyncFunctionDef, used: set[str], names: set[str]) -> str:
    returns = ast.unparse(node.returns) if node.returns else "None"
    returns = re.sub(r"\bAsync(Iterator|Iterable|Generator)\b", r"\1", returns)
    annotations = [argument.annotation for argument in _arguments(node)]
    defaults = [*node.args.defaults, *node.args.kw_defaults]
    for part in [*annotations, *defaults, ast.parse(returns, mode="eval")]:
        names |= (
            {each.id for each in ast.walk(part) if isinstance(each, ast.Name)} if part else set()
        )
    names -= set(dir(builtins))
    is_property = any(ast.unparse(each) == "property" for each in node.decorator_list)
    head = ["    @property"] if is_property else []
    return "\n".join(
        [
            *head,
            f"    def {RENAMED.get(node.name, node.name)}({ast.unparse(node.args)}) -> {returns}:",
            _docstring(node, 8, used),
            f"        {_body(node, returns, is_property=is_property)}",
        ]
    )


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    more = [argument for argument in (node.args.vararg, node.args.kwarg) if argument]
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, *more]


def _body(node: ast.FunctionDef | ast.AsyncFunctionDef, returns: str, *, is_property: bool) -> str:
    call = f"self._target.{node.name}{'' if is_property else _passed_on(node)}"
    if isinstance(node, ast.AsyncFunctionDef):
        call = f"self._thread.run({call})"
    elif returns.startswith("Iterator["):
        call = f"self._thread.iterate(lambda: aiter({call}))"
    elif call.endswith("()"):
        call = f"self._thread.call({call[:-2]})"
    else:
        call = f"self._thread.call(lambda: {call})"
    if returns in WRAPPED:
        call = f"{returns}(self._thread, {call})"
    elif (item := returns.removeprefix("list[").removesuffix("]")) in WRAPPED:
        call = f"[{item}(self._thread, each) for each in {call}]"
    return call if returns == "None" else f"return {call}"


def _passed_on(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The arguments of a method as they are given to another."""
    arguments = node.args
    given = [each.arg for each in [*arguments.posonlyargs, *arguments.args][1:]]
    if arguments.vararg:
        given.append(f"*{arguments.vararg.arg}")
    given += [f"{each.arg}={each.arg}" for each in arguments.kwonlyargs]
    if arguments.kwarg:
        given.append(f"**{arguments.kwarg.arg}")
    return f"({', '.join(given)})"


def _docstring(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, indent: int, used: set[str]
) -> str:
    text = ast.get_docstring(node, clean=False)
    if text is None:
        message = f"{node.name} has no docstring"
        raise ValueError(message)
    for pattern, replacement in REWORDED:
        text, count = re.subn(pattern, replacement, text)
        if count:
            used.add(pattern)
    quotes = 'r"""' if "\\" in text else '"""'
    return f'{" " * indent}{quotes}{text}"""'


def _formatted(text: str) -> str:
    for command in (["check", "--select", "I", "--fix", "--quiet"], ["format", "--quiet"]):
        text = subprocess.run(  # noqa: S603 - our own arguments
            [
                *(sys.executable, "-m", "ruff", *command),
                *("--stdin-filename", str(TARGET / "module.py"), "-"),
            ],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    return text


if __name__ == "__main__":
    main()
