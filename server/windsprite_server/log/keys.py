"""Which life of which partition a log belongs to, and the directory it lives in."""

import re
from dataclasses import dataclass
from typing import Final

from windsprite_protocol.topic_options import DEFAULT_SEGMENT_SIZE, Durability
from windsprite_server.log.index import DEFAULT_INTERVAL

_NAME: Final = re.compile(r"(\d+)-(\d+)-(\d+)\.(\d+)", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class PartitionKey:
    """One life of a partition.

    The protocol gives ids of deleted things to new ones; an incarnation is never given twice. So a
    directory can't show what an earlier bearer of the ids, or a time before a purge, left behind.

    Attributes:
        stream_id: Number of the stream.
        topic_id: Number of the topic in its stream.
        partition_id: Number of the partition in its topic.
        incarnation: Number of the metadata command that began this life: creation or purge.
    """

    stream_id: int
    topic_id: int
    partition_id: int
    incarnation: int

    @property
    def directory_name(self) -> str:
        """`STREAM-TOPIC-PARTITION.INCARNATION`: numbers only, never a text of a user."""
        return f"{self.stream_id}-{self.topic_id}-{self.partition_id}.{self.incarnation}"

    @classmethod
    def from_directory_name(cls, name: str) -> "PartitionKey | None":
        """The key whose directory has this name; `None` for any other name."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        key = cls(*map(int, match.groups()))
        return key if key.directory_name == name else None


@dataclass(frozen=True, slots=True)
class PartitionOptions:
    """What a topic's options say to the logs of its partitions (spec 03, 5.1).

    Attributes:
        segment_size: Bytes at which a segment is sealed.
        durability: Of batches: what has to have happened before readers see them, too.
        consumer_offset_durability: Of stored consumer offsets.
        preallocate_segments: Reserve the bytes of a segment on disk when it is begun.
    """

    segment_size: int = DEFAULT_SEGMENT_SIZE
    durability: Durability = Durability.REPLICATED
    consumer_offset_durability: Durability = Durability.REPLICATED
    preallocate_segments: bool = False


@dataclass(frozen=True, slots=True)
class LogLimits:
    """Bounds of a `LogStore`; memory for the tail is bounded over all partitions together.

    Attributes:
        tail_bytes: Memory for the newest batches of all partitions.
        index_interval: Bytes of a segment between two entries of its index.
        consumer_offsets: Keys of each kind a partition may hold.
        large_bytes: Memory for batches of very many messages that were read from disk.
        descriptors: Files kept open at once, apart from those in use in threads.
        index_bytes: Memory for the indexes of sealed segments, over all partitions.
        inline_read_bytes: Larger reads from disk go to a thread even if they are in memory.
        read_threads: Cold reads at once, over all partitions.
        sync_threads: fsyncs at once, over all partitions.
        free_bytes: Bytes of the disk that messages leave free for everything else.
    """

    tail_bytes: int = 256 * 1024 * 1024
    index_interval: int = DEFAULT_INTERVAL
    consumer_offsets: int = 4096
    descriptors: int = 4096
    index_bytes: int = 64 * 1024 * 1024
    large_bytes: int = 64 * 1024 * 1024
    inline_read_bytes: int = 2 * 1024 * 1024
    read_threads: int = 4
    sync_threads: int = 4
    free_bytes: int = 64 * 1024 * 1024
