"""The certificate in force: read at the start, read again when its files change."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TypeAlias

from windsprite_server.core.clock import Clock
from windsprite_server.core.log_setup import Logger
from windsprite_server.core.tasks import cancel_and_wait, repeat
from windsprite_server.transport.certificate import CertificateError, load_certificate

_SOON: Final = timedelta(days=7)

_Signature: TypeAlias = tuple[tuple[int, int, int, int] | None, ...]


class CertificateWatch:
    """Keeps the newest good certificate of two files.

    Connections that are open keep the certificate they began with. Files that hold nothing good
    change nothing: the certificate before stays in force, and the log says why, once.

    The files are looked at in intervals, and read once they have stayed as they are for one of
    them: tools replace the two one after the other.

    Args:
        cert_file: PEM, the server's own certificate first.
        key_file: PEM, not encrypted.
        clock: Tells whether a certificate is valid, and when to look again.
        logger: Told of every change, and of every failure to make one.
        interval: Seconds between two looks.

    Raises:
        CertificateError: The files hold no certificate that is good now.
    """

    def __init__(
        self, cert_file: Path, key_file: Path, clock: Clock, logger: Logger, *, interval: float
    ) -> None:
        self._files = (cert_file, key_file)
        self._clock = clock
        self._logger = logger
        self._interval = interval
        self._task: asyncio.Task[None] | None = None
        self._load()
        self._seen = self._loaded

    @property
    def context(self) -> ssl.SSLContext:
        """What the next connection is served with."""
        return self._certificate.context

    def start(self) -> None:
        """Look at the files from now on."""
        self._task = repeat(
            self._look,
            self._interval,
            name="certificate watch",
            clock=self._clock,
            logger=self._logger,
            failure="the certificate could not be looked at",
        )

    async def stop(self) -> None:
        """Look no more."""
        await cancel_and_wait(self._task)

    def reload(self) -> None:
        """Read the files now, whether they have changed or not."""
        self._problem = ""
        self._try_to_load()

    async def _look(self) -> None:
        signature = self._signature()
        if signature == self._seen and signature != self._loaded:
            self._try_to_load()
        self._seen = signature
        self._tell_age()

    def _try_to_load(self) -> None:
        try:
            self._load()
        except CertificateError as error:
            # Tried again at each look, since time and rights may make it good.
            if str(error) != self._problem:
                self._problem = str(error)
                self._logger.error("the certificate before stays in force", reason=self._problem)  # noqa: TRY400 - the sentence says it all

    def _load(self) -> None:
        signature = self._signature()
        self._certificate = load_certificate(*self._files, self._clock.now_us())
        self._loaded = signature
        self._problem = self._age = ""
        self._logger.info(
            "certificate loaded",
            file=str(self._files[0]),
            valid_until=str(self._certificate.not_after),
        )
        self._tell_age()

    def _tell_age(self) -> None:
        """Say, once for each certificate, that it is about to expire, and that it has."""
        not_after = self._certificate.not_after
        left = not_after - datetime.fromtimestamp(self._clock.now_us() / 1_000_000, UTC)
        age = "expired" if left < timedelta() else "old" if left < _SOON else ""
        if age == self._age:
            return
        self._age = age
        if age == "expired":
            self._logger.error(
                "the certificate has expired: clients refuse it", valid_until=str(not_after)
            )
        elif age:
            self._logger.warning("the certificate expires soon", valid_until=str(not_after))

    def _signature(self) -> _Signature:
        """What changes whenever somebody writes or replaces a file."""
        return tuple(_signature(file) for file in self._files)


def _signature(file: Path) -> tuple[int, int, int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
