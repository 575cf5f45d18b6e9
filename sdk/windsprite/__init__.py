"""The Windsprite client: message streams over asyncio, on Windsprite and Iggy servers.

import windsprite

async with windsprite.connect("iggy://iggy:iggy@127.0.0.1:8090") as client:
    await client.create_stream("orders")
    await client.create_topic("orders", "events", partitions=3)
    await client.send("orders", "events", [b"one", b"two"], key=b"k")
    batch = await client.poll("orders", "events", start=windsprite.From.first(), count=100)
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windsprite import sync as sync
    from windsprite.public import *  # noqa: F403 - its __all__ says which names
else:
    # What only looks at the package, as `windsprite --help` does, does not wait for all of it:
    # that is loaded when a program uses any of it for the first time (PEP 562).

    def _load() -> None:
        if "__all__" not in globals():
            public = import_module("windsprite.public")
            globals().update({name: getattr(public, name) for name in public.__all__})
            globals()["__all__"] = public.__all__

    def __getattr__(name: str) -> object:
        if name == "sync":
            return import_module("windsprite.sync")
        _load()
        try:
            return globals()[name]
        except KeyError:
            message = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(message, name=name) from None

    def __dir__() -> list[str]:
        _load()
        return sorted(globals())
