"""Whatever happens to consumer groups: nobody shares a partition, none is left out (spec 05, 6)."""

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from windsprite_server.groups.group import Group
from windsprite_server.groups.registry import GroupKey, Groups

TIMEOUT = 30.0
CLIENTS = [bytes([letter]) for letter in b"ABCDEF"]
TOPICS = [(0, 0), (3, 1)]
KEYS = [GroupKey(0, 0, 0), GroupKey(0, 0, 4), GroupKey(3, 1, 0)]

keys = st.sampled_from([KEYS[0], KEYS[0], KEYS[0], *KEYS])
choices = st.integers(0, 1000)


class GroupEvents(RuleBasedStateMachine):
    """Sends random events to all groups and keeps the books that clients would keep.

    Each partition is a log without end; the group's stored offset says where the next poll begins.
    """

    def __init__(self) -> None:
        super().__init__()
        self.groups = Groups(TIMEOUT, self.note_alarm)
        self.now = 0.0
        self.wakes = False
        self.partitions = dict.fromkeys(TOPICS, 7)
        self.members: dict[GroupKey, dict[bytes, int]] = {key: {} for key in KEYS}
        self.stored: dict[tuple[GroupKey, int], int] = {}
        # Who works on an uncommitted batch of a partition, up to which offset.
        self.at_work: dict[tuple[GroupKey, int], tuple[bytes, int]] = {}
        self.handed_over_since: dict[tuple[GroupKey, int], float] = {}
        self.seen: dict[GroupKey, tuple[int, object]] = {}
        for key in KEYS:
            self.join(key, 0)

    def note_alarm(self) -> None:
        self.wakes = True

    # Events

    @rule(key=keys, choice=choices)
    def join(self, key: GroupKey, choice: int) -> None:
        """Somebody joins, mostly somebody new."""
        new = [client for client in CLIENTS if client not in self.members[key]]
        client = (new or CLIENTS)[choice % len(new or CLIENTS)]
        self.groups.join(key, client, self.partitions[key[:2]], self.now)
        taken = set(self.members[key].values())
        free = next(slot for slot in range(len(CLIENTS) + 1) if slot not in taken)
        self.members[key].setdefault(client, free)

    @rule(key=keys, choice=choices)
    def join_again(self, key: GroupKey, choice: int) -> None:
        client = self.pick_member(key, choice)
        if client in self.members[key]:
            self.groups.join(key, client, self.partitions[key[:2]], self.now)

    @rule(key=keys, count=st.integers(1, 5), commits=st.sampled_from([False, False, True]))
    def poll(self, key: GroupKey, count: int, commits: bool) -> None:
        """Each member polls each partition that it may poll."""
        for client, partitions in self.pollable(key).items():
            for partition in partitions:
                place = key, partition
                worker, _ = self.at_work.get(place, (client, -1))
                assert worker == client, "a batch that somebody works on goes to somebody else"
                last = self.stored.get(place, -1) + count
                if commits:
                    self.stored[place] = last
                self.groups.delivered(key, client, partition, last, self.stored.get(place))
                if commits:
                    self.groups.committed(key, client, partition, last, self.now)
                self.note_work(place, client, last)

    @rule(key=keys, choice=choices, back=st.sampled_from([0, 0, 0, 1, 100, None]))
    def store_one(self, key: GroupKey, choice: int, back: int | None) -> None:
        """A member stores an offset: mostly that of the last message it was given."""
        client = self.pick_member(key, choice)
        owned = self.owned(key).get(self.members[key].get(client, -1), ())
        for partition in owned[choice % len(owned) :][:1] if owned else ():
            place = key, partition
            _, last = self.at_work.get(place, (client, self.stored.get(place, 0)))
            if back is None:
                self.stored.pop(place, None)
            else:
                self.stored[place] = max(0, last - back)
            self.groups.committed(key, client, partition, self.stored.get(place), self.now)
            if self.stored.get(place, -1) >= last:
                self.at_work.pop(place, None)

    @rule(seconds=st.sampled_from([0.0, 0.5, 10.0, 20.0, 30.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        deadline = self.groups.deadline
        if deadline is not None and deadline <= self.now:
            self.groups.finish_handoffs(self.now)
        for place, since in list(self.handed_over_since.items()):
            if self.now - since >= TIMEOUT:
                self.at_work.pop(place, None)

    @rule(
        event=st.sampled_from(
            ["leave", "leave", "session", "group", "topic", "purge", "partitions", "partitions"]
        ),
        key=keys,
        choice=choices,
        count=st.integers(0, 12),
    )
    def change_much(self, event: str, key: GroupKey, choice: int, count: int) -> None:
        topic = key[:2]
        client = self.pick_member(key, choice)
        match event:
            case "leave":
                was_member = self.members[key].pop(client, None) is not None
                assert self.groups.leave(key, client) is was_member
                if was_member:
                    self.forget_work(key)
            case "session":
                self.groups.leave_all(client)
                for key, members in self.members.items():
                    if members.pop(client, None) is not None:
                        self.forget_work(key)
            case "group":
                self.groups.delete(key)
                self.forget_group(key)
            case "topic":
                self.groups.delete_topic(*topic)
                for key in self.keys_of(topic):
                    self.forget_group(key)
            case "purge":
                self.groups.purge(*topic, self.now)
                for key in self.keys_of(topic):
                    self.forget_stored(key)
            case _ if count != self.partitions[topic]:
                self.partitions[topic] = count
                self.groups.resize(*topic, count)
                for key in self.keys_of(topic):
                    self.forget_work(key)
                    self.forget_stored(key, from_partition=count)

    # The books

    def pick_member(self, key: GroupKey, choice: int) -> bytes:
        """One of the members; somebody else while there is none."""
        members = list(self.members[key]) or CLIENTS
        return members[choice % len(members)]

    def keys_of(self, topic: tuple[int, int]) -> Iterator[GroupKey]:
        return (key for key in KEYS if key[:2] == topic)

    def owned(self, key: GroupKey) -> dict[int, tuple[int, ...]]:
        return {member.id: member.partitions for member in self.groups.members(key)}

    def pollable(self, key: GroupKey) -> dict[bytes, tuple[int, ...]]:
        found = {}
        for client in self.members[key]:
            assignment = self.groups.assignment(key, client)
            assert assignment is not None
            found[client] = assignment.partitions
        return found

    def note_work(self, place: tuple[GroupKey, int], client: bytes, last: int) -> None:
        _, before = self.at_work.get(place, (client, -1))
        self.at_work[place] = client, max(before, last)
        if self.stored.get(place, -1) >= max(before, last):
            del self.at_work[place]

    def forget_work(self, key: GroupKey) -> None:
        """Partitions were dealt out anew: nobody keeps at work on what he does not own any more."""
        for place, (client, _) in list(self.at_work.items()):
            if place[0] == key and not self.groups.owns(key, client, place[1]):
                del self.at_work[place]

    def forget_stored(self, key: GroupKey, from_partition: int = 0) -> None:
        """Messages and what is stored for them are gone, and so is all work on them."""
        for books in (self.stored, self.at_work):
            for place in [place for place in books if place[0] == key]:
                if place[1] >= from_partition:
                    del books[place]

    def forget_group(self, key: GroupKey) -> None:
        self.members[key].clear()
        self.forget_work(key)
        self.forget_stored(key)
        self.seen.pop(key, None)

    # What always holds

    @invariant()
    def members_are_those_that_joined(self) -> None:
        for key, members in self.members.items():
            assert list(self.owned(key)) == sorted(members.values())
            assert self.groups.members_count(key) == len(members)
            for client in CLIENTS:
                assert (self.groups.assignment(key, client) is not None) is (client in members)
        for client in CLIENTS:
            expected = [key for key in KEYS if client in self.members[key]]
            assert self.groups.memberships(client) == expected
            assert self.groups.is_member(client) is bool(expected)

    @invariant()
    def each_partition_has_one_owner_who_alone_may_poll_it(self) -> None:
        for key, members in self.members.items():
            if not members:
                continue
            everything = list(range(self.partitions[key[:2]]))
            owned, pollable = self.owned(key), self.pollable(key)
            assert sorted(number for numbers in owned.values() for number in numbers) == everything
            for client, slot in members.items():
                may = [n for n in owned[slot] if self.groups.may_poll(key, client, n)]
                assert tuple(may) == pollable[client]
                assert all(
                    self.groups.owns(key, client, number) is (number in owned[slot])
                    for number in (*everything, len(everything), 0xFFFF_FFFF)
                )

    @invariant()
    def no_handoff_lasts_too_long(self) -> None:
        waiting = {}
        for key, members in self.members.items():
            pollable = self.pollable(key)
            of_all = {number for numbers in pollable.values() for number in numbers}
            for number in range(self.partitions[key[:2]]) if members else ():
                if number not in of_all:
                    waiting[key, number] = self.handed_over_since.get((key, number), self.now)
        self.handed_over_since = waiting
        assert all(self.now - since < TIMEOUT for since in waiting.values())
        if waiting:
            assert self.groups.deadline == min(waiting.values()) + TIMEOUT
            assert self.wakes, "nobody was told that there is something to wait for"
        else:
            assert self.groups.deadline is None
            self.wakes = False

    @invariant()
    def shares_are_equal_at_rest(self) -> None:
        at_rest = {key for key, _ in self.handed_over_since}.symmetric_difference(KEYS)
        for key in at_rest:
            sizes = [len(numbers) for numbers in self.owned(key).values()]
            assert max(sizes, default=0) - min(sizes, default=0) <= 1

    @invariant()
    def every_change_raises_the_generation(self) -> None:
        for key, members in self.members.items():
            if not members:
                continue
            client = next(iter(members))
            assignment = self.groups.assignment(key, client)
            assert assignment is not None
            now = self.owned(key), self.pollable(key)
            generation, before = self.seen.get(key, (0, None))
            assert assignment.generation >= generation
            assert assignment.generation > generation or now == before
            self.seen[key] = assignment.generation, now


TestGroupEvents = GroupEvents.TestCase
TestGroupEvents.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)


# --- Without batches in flight the reference decides the same ------------------------------------


class Literal:
    """Spec 05, 6.2 and 6.3, word for word, for groups in which nothing is in flight."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.lists: dict[int, list[int]] = {}
        self.generation = 0

    def join(self) -> int:
        slot = next(number for number in range(100) if number not in self.lists)
        self.lists[slot] = []
        self.lists = dict(sorted(self.lists.items()))
        self.cooperative()
        return slot

    def eager(self) -> None:
        self.generation += 1
        slots = list(self.lists)
        self.lists = {slot: [] for slot in slots}
        if slots:
            for partition in range(self.partitions):
                self.lists[slots[partition % len(slots)]].append(partition)

    def cooperative(self) -> None:
        self.generation += 1
        everything = list(range(self.partitions))
        if not everything:
            return
        owned = {number for numbers in self.lists.values() for number in numbers}
        free = [number for number in everything if number not in owned]
        idle = [slot for slot, numbers in self.lists.items() if not numbers]
        for turn, number in enumerate(free):
            self.lists[idle[turn % len(idle)]].append(number)
        fair, rest = divmod(len(everything), len(self.lists))
        idle = [slot for slot, numbers in self.lists.items() if not numbers]
        if not idle:
            return
        excess: list[tuple[int, int]] = []
        for slot, numbers in self.lists.items():
            cap = fair + 1 if rest > 0 else fair
            if len(numbers) <= cap:
                if len(numbers) > fair:
                    rest -= 1
                continue
            if rest > 0:
                rest -= 1
            excess += (
                [(number, slot) for number in numbers[: cap - 1 : -1]]
                if cap
                else [(number, slot) for number in numbers[::-1]]
            )
        for turn, (number, slot) in enumerate(excess):
            self.lists[slot].remove(number)
            self.lists[idle[turn % len(idle)]].append(number)


@settings(deadline=None)
@given(
    partitions=st.integers(0, 40),
    events=st.lists(
        st.one_of(
            st.just(("join", 0)),
            st.tuples(st.just("leave"), choices),
            st.tuples(st.just("resize"), st.integers(0, 40)),
        ),
        max_size=40,
    ),
)
def test_without_batches_in_flight_the_reference_decides_the_same(
    partitions: int, events: list[tuple[str, int]]
) -> None:
    group, literal = Group(partitions, TIMEOUT), Literal(partitions)
    slots: dict[int, bytes] = {}
    for number, (event, value) in enumerate(events):
        if event == "join":
            client = number.to_bytes(2, "big")
            group.join(client, 0)
            slots[literal.join()] = client
        elif event == "leave" and slots:
            slot = sorted(slots)[value % len(slots)]
            assert group.leave(slots.pop(slot))
            del literal.lists[slot]
            literal.eager()
        elif event == "resize" and value != literal.partitions:
            group.resize(value)
            literal.partitions = value
            literal.eager()
        assert {m.id: list(m.partitions) for m in group.members} == literal.lists
        assert group.generation == literal.generation
