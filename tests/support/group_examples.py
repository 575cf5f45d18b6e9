"""Short forms for tests of consumer groups."""

from windsprite_server.groups.group import Group

TIMEOUT = 30.0


class Example:
    """A group whose clients have one letter each, told in the words of an example.

    Batches are delivered up to offset 9 and committed up to there.
    """

    def __init__(self, partitions_count: int) -> None:
        self.group = Group(partitions_count, TIMEOUT)
        self.now = 0.0

    def join(self, clients: str) -> "Example":
        for client in clients:
            self.group.join(client.encode(), self.now)
        return self

    def leave(self, clients: str) -> "Example":
        for client in clients:
            assert self.group.leave(client.encode())
        return self

    def poll(self, client: str, *partitions: int) -> "Example":
        for number in partitions:
            assert self.group.may_poll(client.encode(), number)
            self.group.delivered(client.encode(), number, 9, None)
        return self

    def commit(self, client: str, *partitions: int, offset: int | None = 9) -> "Example":
        for number in partitions:
            assert self.group.owns(client.encode(), number)
            self.group.committed(client.encode(), number, offset, self.now)
        return self

    def wait(self, seconds: float) -> "Example":
        self.now += seconds
        self.group.finish_handoffs(self.now)
        return self

    @property
    def owned(self) -> dict[int, list[int]]:
        """What members own, by their slots."""
        return {member.id: list(member.partitions) for member in self.group.members}

    @property
    def lists(self) -> list[list[int]]:
        return list(self.owned.values())

    @property
    def pollable(self) -> dict[str, set[int]]:
        found = {}
        for client in self.group.clients:
            assignment = self.group.assignment(client)
            assert assignment is not None
            assert assignment.generation == self.group.generation
            found[client.decode()] = set(assignment.partitions)
        return found
