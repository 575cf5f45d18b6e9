"""Consumer groups."""

# ruff: noqa: ASYNC109 - a timeout covers more than one wait, with repeats and new connections

from __future__ import annotations

from windsprite.commands.base import Commands
from windsprite.memberships import Group
from windsprite_protocol.model.groups import (
    ConsumerGroup,
    ConsumerGroupDetails,
    CreateConsumerGroup,
    DeleteConsumerGroup,
    GetConsumerGroup,
    GetConsumerGroups,
    GroupAssignment,
)
from windsprite_protocol.model.identifiers import Identifier


class GroupCommands(Commands):
    """Consumer groups: the members of a group share out the partitions of a topic.

        await client.create_consumer_group("orders", "events", "billing")
        await client.join_consumer_group("orders", "events", "billing")
        batch = await client.poll("orders", "events", group="billing")
        if batch:
            await client.store_consumer_offset(
                "orders", "events", batch[-1].offset, partition=batch.partition, group="billing"
            )

    Each partition belongs to one member at a time, and the group has one stored offset on each,
    from which whoever has the partition goes on. So a message is read by one member, unless the
    partition changes hands before its offset was stored.

    A client is one member of a group at most, however many tasks poll for it. It is a member from
    `join_consumer_group` to `leave_consumer_group`, over lost connections and changes of the
    server as well: whenever it has to log in anew, it joins its groups again, too. Meanwhile
    others may have had its partitions. `logout` and `close` end all memberships.
    """

    async def create_consumer_group(
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
        details: ConsumerGroupDetails = await self._caller.call(
            CreateConsumerGroup(stream, topic, name),
            f"create_consumer_group {name!r} of {topic!r} in {stream!r}",
            time_limit=timeout,
        )
        return details

    async def get_consumer_group(
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
        details: ConsumerGroupDetails | None = await self._caller.call(
            GetConsumerGroup(stream, topic, group),
            f"get_consumer_group {group!r} of {topic!r} in {stream!r}",
            time_limit=timeout,
        )
        return details

    async def get_consumer_groups(
        self, stream: Identifier, topic: Identifier, *, timeout: float | None = None
    ) -> tuple[ConsumerGroup, ...]:
        """All groups of a topic, by ascending id.

        Raises:
            NotFound: There is no such stream or topic.
        """
        groups: tuple[ConsumerGroup, ...] = await self._caller.call(
            GetConsumerGroups(stream, topic),
            f"get_consumer_groups {topic!r} in {stream!r}",
            time_limit=timeout,
        )
        # Not every server sorts them.
        return tuple(sorted(groups, key=lambda group: group.id))

    async def delete_consumer_group(
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
        await self._caller.call(
            DeleteConsumerGroup(stream, topic, group),
            f"delete_consumer_group {group!r} of {topic!r} in {stream!r}",
            time_limit=timeout,
        )
        self._memberships.forget(Group(stream, topic, group))

    async def join_consumer_group(
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
        doing = f"join_consumer_group {group!r} of {topic!r} in {stream!r}"
        await self._memberships.join(
            Group(stream, topic, group), doing, self._caller.deadline(timeout)
        )

    async def leave_consumer_group(
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
        doing = f"leave_consumer_group {group!r} of {topic!r} in {stream!r}"
        await self._memberships.leave(
            Group(stream, topic, group), doing, self._caller.deadline(timeout)
        )

    async def sync_consumer_group(
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
        doing = f"sync_consumer_group {group!r} of {topic!r} in {stream!r}"
        return await self._memberships.sync(
            Group(stream, topic, group), doing, self._caller.deadline(timeout)
        )
