"""The journal: durable, ordered metadata commands, and a snapshot in place of old ones.

It knows commands and states as bytes only. `Journal` is a seam: SQLite today (`journal.sqlite`),
shared objects in a cluster later.
"""

from windsprite_server.journal.interface import (
    Entry,
    Journal,
    JournalError,
    JournalProblem,
    Snapshot,
)

__all__ = ["Entry", "Journal", "JournalError", "JournalProblem", "Snapshot"]
