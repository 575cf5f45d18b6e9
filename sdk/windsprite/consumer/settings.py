"""How a consumer reads, and what makes no sense."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windsprite.consumer.commits import Commit, Moment
from windsprite.consumer.ledger import Limits
from windsprite.consumer.progress import NEW, Start
from windsprite.consumer.source import Source
from windsprite.encryption import Encryptor
from windsprite.errors import InvalidRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a consumer reads; `Client.consumer` says what each of them means, and its default."""

    start: Start | None
    partitions: Sequence[int] | None
    batch_messages: int
    prefetch_bytes: int
    poll_interval: float
    max_unhandled: int
    commit: Commit | None
    create_group: bool
    join: bool
    allow_replay: bool
    encryption: Encryptor | None
    wait_for_topic: float
    patience: float
    close_timeout: float

    def __post_init__(self) -> None:
        for name in ("batch_messages", "prefetch_bytes", "max_unhandled"):
            if getattr(self, name) < 1:
                raise InvalidRequest(f"consumer: {name} is a number of at least 1")
        for name in ("poll_interval", "wait_for_topic", "patience", "close_timeout"):
            if not getattr(self, name) >= 0:
                raise InvalidRequest(f"consumer: {name} is a number of seconds")
        if isinstance(self.start, str) and self.start != NEW:
            raise InvalidRequest("consumer: start is a From, or 'new'")

    @property
    def limits(self) -> Limits:
        """What to take at most."""
        return Limits(
            self.batch_messages, self.prefetch_bytes, self.poll_interval, self.max_unhandled
        )


def commit_of(settings: Settings, source: Source) -> Commit:
    """When offsets are stored.

    Raises:
        InvalidRequest: They cannot be stored then.
    """
    commit = settings.commit
    if not source.is_remembered:
        if commit is not None and commit.moment is not Moment.NEVER:
            raise InvalidRequest(
                "consumer: offsets are stored for a consumer with a name, or for a group",
                hint="give it a name",
            )
        return Commit.manual()
    if commit is None:
        return Commit.after_handling()
    if commit.moment is Moment.POLLED and settings.encryption is not None:
        raise InvalidRequest(
            "consumer: with encryption, offsets cannot be stored before messages are decrypted",
            hint="use Commit.after_handling()",
        )
    return commit
