"""What every command is given: the way to the server, and the way to say what it found out."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from windsprite import DEFAULT_CONNECTION_STRING, Address, Client, connect
from windsprite.cli.errors import UsageError
from windsprite.cli.output import OutputFormat, View, dump_json, plain, print_tables
from windsprite.environment import Environment, SystemEnvironment


@dataclass(frozen=True, slots=True)
class Context:
    """What a command works with.

    Attributes:
        address: Where the servers are, and who we are.
        output: The form of results.
        environment: Clock and randomness.
    """

    address: Address
    output: OutputFormat
    environment: Environment

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """A client for a few requests: it tries each server once, and fails if none answers.

        Raises:
            UsageError: The connection string does not say who we are.
        """
        self._check_credentials()
        async with connect(_once(self.address), environment=self.environment) as client:
            yield client

    @asynccontextmanager
    async def patient_client(self) -> AsyncIterator[Client]:
        """A client for long work: it connects again and again after a loss.

        That somebody is there at all is found out first, at once.

        Raises:
            UsageError: The connection string does not say who we are.
        """
        self._check_credentials()
        async with self.anonymous_client():
            pass
        async with connect(self.address, environment=self.environment) as client:
            yield client

    @asynccontextmanager
    async def anonymous_client(self) -> AsyncIterator[Client]:
        """A client that does not log in."""
        address = replace(_once(self.address), credentials=None)
        async with connect(address, environment=self.environment) as client:
            yield client

    @property
    def is_json(self) -> bool:
        """Whether results are for programs."""
        return self.output == "json"

    def show(self, view: View) -> None:
        """Write a result to the standard output."""
        if self.is_json:
            sys.stdout.write(dump_json(view.data))
        elif sys.stdout.isatty():
            from rich.console import Console

            print_tables(view.parts, Console(file=sys.stdout))
        else:
            sys.stdout.write(plain(view.parts))

    def confirm(self, sentence: str) -> None:
        """Say that something was done, to people who watch."""
        if not self.is_json and sys.stdout.isatty():
            sys.stdout.write(f"{sentence}\n")

    def _check_credentials(self) -> None:
        if self.address.credentials is None:
            raise UsageError(
                "the connection string has no credentials",
                "write iggy://USER:PASSWORD@HOST[:PORT] or iggy://TOKEN@HOST[:PORT]",
            )


def make_context(server: str | None, output: OutputFormat) -> Context:
    """The context of a real command.

    Args:
        server: A connection string, if one was given.
        output: The form of results.

    Raises:
        InvalidConnectionString: It cannot be understood.
    """
    return Context(Address.parse(server or DEFAULT_CONNECTION_STRING), output, SystemEnvironment())


def _once(address: Address) -> Address:
    """The same servers, with one pass over them unless the connection string wants another."""
    if address.options.reconnection_retries is not None:
        return address
    return address.with_options({"reconnection_retries": 0})
