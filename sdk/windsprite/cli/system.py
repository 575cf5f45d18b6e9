"""ping, cluster, me, stats, options, snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from windsprite import OptionScopeName
from windsprite.cli.errors import CommandError
from windsprite.cli.output import Facts, View, human_size
from windsprite.cli.parameters import CommandContext
from windsprite.cli.views import show_client, show_cluster, show_option_specs, show_stats


async def ping(*, context: CommandContext) -> None:
    """See that a server answers, without logging in."""
    async with context.anonymous_client() as client:
        start = context.environment.monotonic()
        await client.ping()
        milliseconds = round(1000 * (context.environment.monotonic() - start), 3)
        server = str(client.server)
    facts = Facts([("server", server), ("answered in", f"{milliseconds} ms")])
    context.show(View([facts], {"server": server, "milliseconds": milliseconds}))


async def cluster(*, context: CommandContext) -> None:
    """Show the cluster: its name and id, its nodes, who leads it and since which epoch."""
    async with context.client() as client:
        metadata = await client.get_cluster_metadata()
    context.show(show_cluster(metadata))


async def me(*, context: CommandContext) -> None:
    """Show how the server sees this client: number, user, address."""
    async with context.client() as client:
        details = await client.me()
    context.show(show_client(details))


async def stats(*, context: CommandContext) -> None:
    """Show the figures of the server: load, memory, disk, and how much it holds."""
    async with context.client() as client:
        figures = await client.stats()
    context.show(show_stats(figures))


async def options(
    scope: Annotated[OptionScopeName, Parameter(name="SCOPE", help="Of what.")] = "topic",
    /,
    *,
    context: CommandContext,
) -> None:
    """List the options that new topics (or streams, or users) may have, and their defaults."""
    async with context.client() as client:
        specs = await client.describe_options(scope)
    context.show(show_option_specs(specs))


async def snapshot(
    file: Annotated[Path, Parameter(name="FILE", help="A new file; one that is there stays.")],
    /,
    *,
    context: CommandContext,
) -> None:
    """Save a ZIP archive that describes the state of the server, for whoever helps with it.

    It holds no secrets: the log, the settings, processes, files, and how busy
    the machine is.
    """
    async with context.client() as client:
        archive = await client.snapshot()
    try:
        with file.open("xb") as target:
            target.write(archive)
    except OSError as error:
        raise CommandError(f"{file} cannot be written: {error.strerror}") from error
    context.confirm(f"{human_size(len(archive))} are in {file}")
