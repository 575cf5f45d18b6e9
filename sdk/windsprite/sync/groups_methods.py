"""The methods of `GroupCommands`, blocking; written by docs/sync_modules.py."""

from __future__ import annotations

from windsprite.client import Client as Target
from windsprite.sync.base import Blocking
from windsprite_protocol.model.groups import ConsumerGroup, ConsumerGroupDetails, GroupAssignment
from windsprite_protocol.model.identifiers import Identifier


class GroupCommands(Blocking[Target]):
    """Consumer groups: the members of a group share out the partitions of a topic.

        client.create_consumer_group("orders", "events", "billing")
        client.join_consumer_group("orders", "events", "billing")
        batch = client.poll("orders", "events", group="billing")
        if batch:
            client.store_consumer_offset(
                "orders", "events", batch[-1].offset, partition=batch.partition, group="billing"
            )

    Each partition belongs to one member at a time, and the group has one stored offset on each,
    from which whoever has the partition goes on. So a message is read by one member, unless the
    partition changes hands before its offset was stored.

    A client is one member of a group at most, however many threads poll for it. It is a member from
    `join_consumer_group` to `leave_consumer_group`, over lost connections and changes of the
    server as well: whenever it has to log in anew, it joins its groups again, too. Meanwhile
    others may have had its partitions. `logout` and `close` end all memberships.
    """

    def create_consumer_group(
        self, stream: Identifier, topic: Identifier, name: str, *, timeout: float | None = None
    ) -> ConsumerGroupDetails:
        """Create a group without members.

        Args:
            stream: Where.
            topic: Where.
            name: 1 to 255 bytes of UTF-8; other topics may have a group of the same name.
            timeout: Seconds for all of it.

        Raises:
            NotFound: There is no such stream or topic.
            AlreadyExists: The topic has a group with this name.
        """
        return self._thread.run(
            self._target.create_consumer_group(stream, topic, name, timeout=timeout)
        )

    def get_consumer_group(
        self,
        stream: Identifier,
        topic: Identifier,
        group: Identifier,
        *,
        timeout: float | None = None,
    ) -> ConsumerGroupDetails | None:
        """A group and the partitions of its members; None if there is no such group.

        Raises:
            NotFound: There is no such stream or topic.
        """
        return self._thread.run(
            self._target.get_consumer_group(stream, topic, group, timeout=timeout)
        )

    def get_consumer_groups(
        self, stream: Identifier, topic: Identifier, *, timeout: float | None = None
    ) -> tuple[ConsumerGroup, ...]:
        """All groups of a topic, by ascending id.

        Raises:
            NotFound: There is no such stream or topic.
        """
        return self._thread.run(self._target.get_consumer_groups(stream, topic, timeout=timeout))

    def delete_consumer_group(
        self,
        stream: Identifier,
        topic: Identifier,
        group: Identifier,
        *,
        timeout: float | None = None,
    ) -> None:
        """Delete a group, its memberships and its stored offsets.

        Raises:
            NotFound: There is no such stream, topic or group.
        """
        self._thread.run(self._target.delete_consumer_group(stream, topic, group, timeout=timeout))

    def join_consumer_group(
        self,
        stream: Identifier,
        topic: Identifier,
        group: Identifier,
        *,
        timeout: float | None = None,
    ) -> None:
        """Become a member of a group; nothing happens if this client is one already.

        Use the same names or numbers in all calls that concern the membership: the client knows it
        by them.

        Raises:
            NotFound: There is no such stream, topic or group.
        """
        self._thread.run(self._target.join_consumer_group(stream, topic, group, timeout=timeout))

    def leave_consumer_group(
        self,
        stream: Identifier,
        topic: Identifier,
        group: Identifier,
        *,
        timeout: float | None = None,
    ) -> None:
        """End the membership of a group; its partitions go to the other members at once.

        Raises:
            NotFound: There is no such stream, topic or group, or this client is no member.
        """
        self._thread.run(self._target.leave_consumer_group(stream, topic, group, timeout=timeout))

    def sync_consumer_group(
        self,
        stream: Identifier,
        topic: Identifier,
        group: Identifier,
        *,
        timeout: float | None = None,
    ) -> GroupAssignment | None:
        """The partitions that this client may poll as a member; None if it is no member.

        `poll` does this by itself when it has to. Nothing tells whether the group, the topic and
        the stream exist.
        """
        return self._thread.run(
            self._target.sync_consumer_group(stream, topic, group, timeout=timeout)
        )
