"""Bounds of the TCP transport."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TcpLimits:
    """Bounds of the TCP transport.

    Attributes:
        max_connections: More are closed as soon as they are accepted.
        max_frame_size: Bytes of the largest frame accepted, header included. One connection may
            have as many bytes of complete frames waiting before it is not read any more.
        max_frame_size_before_login: The same until a login on the connection has succeeded.
        max_waiting_frames: Frames of one connection that may wait while one is being served; those
            that came with the last of them are taken, too.
        write_high_water: Unsent bytes of a connection at which serving it pauses. The reply that
            reaches it is sent in full.
        write_low_water: Unsent bytes at which it goes on.
        write_timeout: Seconds a client may leave unsent bytes unread before it is dropped.
        frame_timeout: Seconds without a byte after which an unfinished frame ends its connection.
        receive_memory: Bytes that unfinished and waiting frames of all connections may hold
            together, apart from a fixed buffer for each of them; beyond it they are read one after
            the other.
        backlog: Connections the kernel may hold ready to be accepted.
        handshake_timeout: Seconds for a TLS handshake.
    """

    max_connections: int
    max_frame_size: int
    max_frame_size_before_login: int
    max_waiting_frames: int
    write_high_water: int
    write_low_water: int
    write_timeout: float
    frame_timeout: float
    receive_memory: int
    backlog: int
    handshake_timeout: float = 10.0
