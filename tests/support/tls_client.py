"""A client whose bytes go through TLS."""

import asyncio
import ssl
from typing import Any, Self

from support.wire_client import WireClient
from windsprite_protocol.model.messages import Buffer


class TlsClient(WireClient):
    """One connection that speaks TLS.

    Attributes:
        tls: The client's side of TLS.
        received: Bytes that came in, encrypted.
        is_slow: Whether bytes go out one by one.
        was_told_goodbye: Whether the server ended its side in TLS, as it should.
    """

    def __init__(self, host: str, port: int, context: ssl.SSLContext, **options: Any) -> None:
        super().__init__(host, port, **options)
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self.received = 0
        self.is_slow = False
        self.was_told_goodbye = False

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        try:
            await self.shake_hands()
        except BaseException:
            self.sock.close()
            raise
        return self

    async def shake_hands(self) -> None:
        await self.receive_until_connected()
        await self.flush()

    async def receive_until_connected(self) -> None:
        """Shake hands, but keep the last words back until the next `flush`."""
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                await self.flush()
                await self._receive_encrypted()
            except ssl.SSLError:
                await self.flush()
                raise
            else:
                return

    async def _write(self, data: Buffer) -> None:
        for start in range(0, len(data), 1 << 20):
            await self.send_raw(self.encrypt(data[start : start + (1 << 20)]))

    def encrypt(self, data: bytes | memoryview) -> bytes:
        """Records for the server."""
        rest = memoryview(data)
        while rest:
            rest = rest[self.tls.write(rest) :]
        return self._outgoing.read()

    async def send_raw(self, data: bytes | bytearray) -> None:
        """Send bytes as they are, TLS or not."""
        if not self.is_slow:
            await asyncio.get_running_loop().sock_sendall(self.sock, data)
            return
        for byte in data:
            await asyncio.get_running_loop().sock_sendall(self.sock, bytes([byte]))
            await asyncio.sleep(0)

    async def flush(self) -> None:
        """Send what TLS has to say."""
        if self._outgoing.pending:
            await self.send_raw(self._outgoing.read())

    async def _read(self) -> bytes:
        while True:
            try:
                data = self.tls.read(1 << 20)
            except ssl.SSLWantReadError:
                await self._receive_encrypted()
            except ssl.SSLZeroReturnError:
                self.was_told_goodbye = True
                return b""
            except ssl.SSLError:
                return b""
            else:
                if not data:
                    self.was_told_goodbye = True
                return data

    async def say_goodbye(self) -> None:
        """End this side in TLS; the socket stays as it is."""
        try:
            self.tls.unwrap()
        except ssl.SSLWantReadError:
            await self.flush()

    async def _receive_encrypted(self) -> None:
        data = await super()._read()
        self.received += len(data)
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()
