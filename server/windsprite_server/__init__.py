"""The broker: streams, topics and partitions behind the wire protocol of Apache Iggy 0.9.

A program that wants a server of its own needs only `embedded`:

    async with windsprite_server.embedded() as server:
        ...
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from windsprite_server.embedding import EmbeddedServer, embedded

__all__ = ["EmbeddedServer", "embedded"]

EXTRA: Final = frozenset(
    {"argon2", "cyclopts", "psutil", "pydantic", "pydantic_settings", "rich", "structlog"}
)
"""What the extra `windsprite[server]` installs that the server cannot do without."""


def __getattr__(name: str) -> object:
    """Import what embeds a server once it is asked for: the command line starts without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from windsprite_server import embedding  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name not in EXTRA:
            raise
        raise ModuleNotFoundError(
            f"the server needs the package {error.name}: pip install 'windsprite[server]'",
            name=error.name,
        ) from error
    return getattr(embedding, name)
