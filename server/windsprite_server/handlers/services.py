"""What handlers work with: everything below them, in one bundle made by the composition root."""

from __future__ import annotations

from dataclasses import dataclass

from windsprite_server.cluster import Cluster
from windsprite_server.commit import Committer
from windsprite_server.core.clock import Clock
from windsprite_server.core.diagnostics import Diagnostics
from windsprite_server.core.ids import Ids
from windsprite_server.core.passwords import Passwords
from windsprite_server.core.process import ProcessMeter
from windsprite_server.groups.registry import Groups
from windsprite_server.metadata.state import State
from windsprite_server.partitions import Partitions
from windsprite_server.segment_cleaner import SegmentCleaner
from windsprite_server.session import DuplicateWindows, Sessions


@dataclass(frozen=True, slots=True)
class Services:
    """Everything below the handlers.

    Attributes:
        state: Metadata, to be read; changes go through `committer`.
        committer: The one way to change metadata.
        partitions: The logs of partitions, by the places that metadata knows.
        cluster: Who leads.
        sessions: Who is connected.
        duplicates: Which writes to partitions were carried out.
        groups: Who is a member of which consumer group.
        passwords: To verify and hash them.
        segment_cleaner: Removes segments.
        meter: Figures of the process.
        diagnostics: Archives for whoever helps with the server.
        clock: Time.
        ids: Randomness, for secrets that clients are given.
        server_version: Of this software, as clients are told.
        max_reply_body: Bytes of the largest body that a client takes in one reply.
        max_tokens_per_user: Personal access tokens that a user may have.
        turns: Whose turn it is among the partitions of a topic, by stream id and topic id.
    """

    state: State
    committer: Committer
    partitions: Partitions
    cluster: Cluster
    sessions: Sessions
    duplicates: DuplicateWindows
    groups: Groups
    passwords: Passwords
    segment_cleaner: SegmentCleaner
    meter: ProcessMeter
    diagnostics: Diagnostics
    clock: Clock
    ids: Ids
    server_version: str
    max_reply_body: int
    max_tokens_per_user: int
    turns: dict[tuple[int, int], int]
