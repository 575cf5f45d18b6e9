"""Who is connected, under which session, and what was done for it already.

Spec 01, 5 and 6; spec 06, 2. Pure: no I/O. All of it lives in memory and ends with the process.
"""

from windsprite_server.session.clients import ClientTable, SessionConflictError, Step
from windsprite_server.session.connections import Connection, Session, Sessions
from windsprite_server.session.duplicates import DuplicateWindows, Writer

__all__ = [
    "ClientTable",
    "Connection",
    "DuplicateWindows",
    "Session",
    "SessionConflictError",
    "Sessions",
    "Step",
    "Writer",
]
