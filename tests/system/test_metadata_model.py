"""A real server and a model of it, given the same random requests, always agree.

The server is a process of its own. It is stopped, or killed, and started again at random moments,
also in the middle of a request, and some requests are sent twice as if their answers had been lost.
All answers are compared, values and refusals alike, and now and then all there is to see. At the
end the journal that is left is replayed (`support.replay`).
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    rule,
    run_state_machine_as_test,
)

from support.pages import load_page_script
from support.random_requests import PASSWORDS, USERNAMES, RandomRequests
from support.replay import check_replay
from support.server_model import MAX_TOKENS, ServerModel
from support.server_model_parts import No, find
from support.server_process import ServerProcess
from support.wire_client import (
    VERSION,
    Answer,
    Told,
    WireClient,
    evicted,
    result,
    status,
    success,
    wire_client,
)
from windsprite_protocol.generation import Plane
from windsprite_protocol.messages import Messages
from windsprite_protocol.model.groups import SyncConsumerGroup
from windsprite_protocol.model.identifiers import ConsumerKind
from windsprite_protocol.model.messages import PolledMessages
from windsprite_protocol.model.permissions import GlobalPermissions, Permissions
from windsprite_protocol.model.sessions import LoggedIn, Login, LoginWithToken, Logout
from windsprite_protocol.model.streams import CreateStream
from windsprite_protocol.model.system import ClientDetails, Stats
from windsprite_protocol.model.tokens import CreateToken
from windsprite_protocol.model.topics import CreateTopic, DeleteSegments, GetTopic
from windsprite_protocol.model.users import ChangePassword, CreateUser, UpdateUser
from windsprite_protocol.v0_11.calling import decode_reply
from windsprite_protocol.v0_11.table import GENERATION

ROOT = 0
OTHERS = (1, 2)
SECONDS_TO_SETTLE = 10
SETTINGS = {
    # What happens by itself happens at moments that no model knows.
    "WINDSPRITE_RETENTION__ENABLED": "false",
    "WINDSPRITE_PERSONAL_ACCESS_TOKEN__CLEANER__ENABLED": "false",
    "WINDSPRITE_PERSONAL_ACCESS_TOKEN__MAX_TOKENS_PER_USER": str(MAX_TOKENS),
    "WINDSPRITE_LIMITS__MAX_FRAME_SIZE_BEFORE_LOGIN": "64 MiB",
}
MANAGER = Permissions(GlobalPermissions(manage_streams=True, manage_users=True))
FIGURES = (
    "streams_count",
    "topics_count",
    "partitions_count",
    "segments_count",
    "messages_count",
    "messages_size_bytes",
    "consumer_groups_count",
)

PAGE = load_page_script("protocol_page")
EVERY_ANSWER = {
    *(0, 1, 6, 9, 10, 20, 40, 41, 42, 43, 44, 46, 48, 49, 51, 52, 56),
    *(1009, 1012, 1019, 2010, 2013, 2015, 2019, 3007, 3021, 4041, 4042, 4100),
    *(5000, 5003, 5004, 5006, 5009),
}
"""Reasons of evictions and error codes that random requests come upon sooner or later."""

answered: Counter[tuple[str, str, int]] = Counter()
"""How often each request was answered in each way, over all runs."""
steps: Counter[str] = Counter()
"""How often each step was made, over all runs."""


class ServerMachine(RuleBasedStateMachine):
    """Connection 0 is that of root, who logs in after each start; on the others users change.

    Attributes:
        snapshot_every: After how many changes the server takes a snapshot of its metadata.
    """

    snapshot_every: int

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = contextlib.AsyncExitStack()
        self.folder = Path(tempfile.mkdtemp(prefix="windsprite-model-"))
        self.model = ServerModel()
        self.server: ServerProcess | None = None
        self.address = "127.0.0.1:0"
        self.clients: dict[int, WireClient] = {}
        self.steps = 0
        self.last_session = 0
        self.last_commit = 0

    def begin(self) -> None:
        self.start()
        for request in (
            CreateStream("a"),
            CreateTopic("a", 2, "a"),
            CreateUser("alice", "secret-1", permissions=MANAGER),
            CreateUser("bob", "secret-2"),
        ):
            self.compare(ROOT, request)
        self.log_in(1, "alice", "secret-1")
        self.log_in(2, "bob", "secret-2")

    def teardown(self) -> None:
        is_failing = sys.exc_info()[0] is not None
        try:
            if self.server is not None and not is_failing:
                self.look()
                self.stop(signal.SIGTERM)
                assert [event for event in self.server.events if is_unexpected(event)] == []
                self.run(check_replay(self.folder / "data"))
                print(f"{steps.total()} steps so far, {answered.total()} answers compared")
        finally:
            self.run(self.stack.aclose())
            self.runner.close()
            if self.server is not None:
                self.server.end()
            shutil.rmtree(self.folder)

    @rule(seed=st.integers(0, 2**32 - 1))
    def step(self, seed: int) -> None:
        """One of everything that can happen; a number says which.

        More than the number counts, since numbers like to come again and again.
        """
        if self.server is None:
            self.begin()
        self.steps += 1
        random = Random(f"{seed} {self.steps} {self.snapshot_every}")
        actions: dict[Callable[[Random], None], int] = {
            self.ask: 1000,
            self.log_somebody_in: 150,
            self.log_somebody_out: 10,
            self.look: 30,
            self.restart: 15,
            self.kill_in_the_middle: 15,
        }
        action = random.choices(list(actions), list(actions.values()))[0]
        steps[action.__name__] += 1
        action(random)

    # Requests

    def ask(self, random: Random) -> None:
        request = RandomRequests(random, self.model).any()
        who = random.choice([ROOT, ROOT, *OTHERS])
        note(f"{who}: {request}")
        self.compare(who, request, is_repeated=random.random() < 0.1)

    def look(self, _: Random | None = None) -> None:
        """Compare all there is to see."""
        for request in self.model.everything():
            self.compare(ROOT, request)

    # Sessions

    def log_somebody_in(self, random: Random) -> None:
        who = random.choice(OTHERS)
        user = random.choice(self.model.users)
        secrets = [token.secret.text for token in user.tokens.values() if token.secret.text]
        if secrets and random.random() < 0.5:
            self.log_in_with_token(who, random.choice([*secrets, "A" * 68]))
        elif random.random() < 0.8:
            self.log_in(who, user.name, user.password)
        else:
            self.log_in(who, random.choice(USERNAMES), random.choice(PASSWORDS))

    def log_somebody_out(self, random: Random) -> None:
        who = random.choice(OTHERS)
        note(f"{who}: log out")
        self.model.log_out(who)
        assert self.run(self.clients[who].told(Logout())) == success()

    # Starts

    def restart(self, random: Random) -> None:
        number = random.choice([signal.SIGTERM, signal.SIGKILL])
        note(f"restart, {number.name}")
        self.stop(number)
        self.model.restart()
        self.start()
        self.look()

    def kill_in_the_middle(self, random: Random) -> None:
        """What was asked for has happened or not; nobody was told."""
        request = RandomRequests(random, self.model).any()
        if isinstance(request, UpdateUser | ChangePassword | DeleteSegments):
            return  # who looks afterwards may not see whether it happened, or not be let in
        note(f"kill during {request}")
        undone, done = self.model, copy.deepcopy(self.model)
        with contextlib.suppress(No):
            done.answer(ROOT, request)
        client = self.clients[ROOT]
        self.run(client.send(*client.encode(request)))
        time.sleep(random.choice([0, 0.001, 0.003, 0.01]))
        self.stop(signal.SIGKILL)
        undone.restart()
        self.start()
        done.restart()
        done.sessions = dict(undone.sessions)
        self.model = self.one_that_matches(done, undone)

    def one_that_matches(self, *models: ServerModel) -> ServerModel:
        for model in models:
            model.settle()
        questions = [question for model in models for question in model.everything()]
        deadline = time.monotonic() + SECONDS_TO_SETTLE
        while True:
            answers = [self.run(self.clients[ROOT].answer_to(question)) for question in questions]
            for model in models:
                tried = copy.deepcopy(model)
                if all(
                    expected(tried, ROOT, question) == outcome_of(question, answer)
                    for question, answer in zip(questions, answers, strict=True)
                ):
                    return tried
            assert time.monotonic() < deadline, "the server is neither as before nor as after"
            time.sleep(0.05)

    # Helpers

    def run(self, coroutine: Any) -> Any:
        return self.runner.run(coroutine)

    def start(self) -> None:
        """Start the server where its data is; root logs in."""
        self.server = ServerProcess(
            self.folder,
            environment={
                **SETTINGS,
                "WINDSPRITE_DATA_DIR": str(self.folder / "data"),
                "WINDSPRITE_TCP__ADDRESS": self.address,
                "WINDSPRITE_JOURNAL__SNAPSHOT_EVERY": str(self.snapshot_every),
            },
        )
        self.address = self.server.wait_ready()["tcp"]
        for number in (ROOT, *OTHERS):
            connecting = self.stack.enter_async_context(wire_client(self.address))
            client = self.clients[number] = self.run(connecting)
            client.session = 1  # without one nothing but a login is a request
        root = find(self.model.users, ROOT)
        self.log_in(ROOT, root.name, root.password)

    def stop(self, number: signal.Signals) -> None:
        assert self.server is not None
        self.server.send(number)
        code = self.server.wait_end()
        assert code == (0 if number is signal.SIGTERM else -signal.SIGKILL)
        self.run(self.stack.aclose())

    def compare(self, who: int, request: Any, *, is_repeated: bool = False) -> None:
        """Ask the server and the model the same."""
        self.learn_assignment(who, request)
        should = expected(self.model, who, request)
        client = self.clients[who]
        frame = client.encode(request)
        answer = self.ask_with(client, frame)
        self.note_answer(request, answer)
        assert outcome_of(request, answer) == should, f"connection {who}: {request}"
        if is_repeated and GENERATION.of(type(request)).plane is Plane.METADATA:
            self.compare_repeated(who, request, answer, self.ask_with(client, frame))
        for place in self.model.settle():
            self.wait_for(GetTopic(*place))

    def learn_assignment(self, who: int, request: Any) -> None:
        """Ask which partitions a member owns, before it does something that depends on it."""
        consumer = getattr(request, "consumer", None)
        if consumer is not None and consumer.kind is ConsumerKind.GROUP:
            self.compare(who, SyncConsumerGroup(request.stream, request.topic, consumer.id))

    def ask_with(self, client: WireClient, frame: list[Any]) -> Answer:
        self.run(client.send(*frame))
        answer: Answer = self.run(client.receive())
        return answer

    def compare_repeated(self, who: int, request: Any, first: Answer, second: Answer) -> None:
        """Sent again, a frame is answered as before, and does nothing (spec 01, 6.5)."""
        if who not in self.model.sessions:
            assert second.told == evicted(1)
        elif isinstance(request, CreateToken) and first.told.channel == "success":
            user = find(self.model.users, self.model.sessions[who])
            good = [token for token in user.tokens.values() if not token.is_expired]
            assert second.told == (status(52) if len(good) >= MAX_TOKENS else result(51))
        else:
            assert second.told == first.told

    def wait_for(self, request: Any) -> None:
        """Wait until segments are gone that a consumer has kept until now (spec 03, 4.15)."""
        deadline = time.monotonic() + SECONDS_TO_SETTLE
        should = expected(self.model, ROOT, request)
        while outcome_of(request, self.run(self.clients[ROOT].answer_to(request))) != should:
            assert time.monotonic() < deadline, f"{request} does not become {should}"
            time.sleep(0.05)

    def log_in(self, who: int, username: str, password: str) -> None:
        self.compare_login(
            who,
            Login(VERSION, username, password),
            lambda: self.model.log_in(who, username, password),
        )

    def log_in_with_token(self, who: int, secret: str) -> None:
        self.compare_login(
            who,
            LoginWithToken(VERSION, secret),
            lambda: self.model.log_in_with_token(who, secret),
        )

    def compare_login(self, who: int, request: Any, model_login: Callable[[], int]) -> None:
        note(f"{who}: {request}")
        client = self.clients[who]
        is_bound = who in self.model.sessions
        if not is_bound:
            client.client, client.next_request = uuid4().bytes, 1
        should: Any
        try:
            should = model_login()
        except No as no:
            should = no.told
        answer = self.run(client.answer_to(request))
        self.note_answer(request, answer)
        if isinstance(should, Told):
            assert answer.told == should
            return
        logged_in: LoggedIn = decode_reply(answer.frame, GENERATION.of(type(request)))[1]
        assert logged_in.user_id == should
        if is_bound:
            assert logged_in.session == client.session
        else:
            # Numbers of sessions grow, also over restarts (spec 01, 5.5).
            assert logged_in.session > self.last_session
            self.last_session = client.session = logged_in.session

    def note_answer(self, request: Any, answer: Answer) -> None:
        told = answer.told
        assert is_documented(request, told), f"{request}: {told}"
        answered[type(request).__name__, told.channel, told.code] += 1
        # Positions of the metadata never go back, not even over a restart (spec 01, 3.2).
        if told.channel != "eviction" and answer.header.commit:
            assert answer.header.commit >= self.last_commit
            self.last_commit = answer.header.commit


def expected(model: ServerModel, who: int, request: Any) -> Any:
    """What a model says to a request: a value, or how it is refused."""
    try:
        return model.answer(who, request)
    except No as no:
        return no.told


def outcome_of(request: Any, answer: Answer) -> Any:
    """What a server says to a request, in the terms of the model."""
    told = answer.told
    if told.channel != "success":
        return told
    value = decode_reply(answer.frame, GENERATION.of(type(request)))[1]
    match value:
        case PolledMessages(partition_id, current_offset, count, records):
            found = [(message.offset, message.payload) for message in Messages(records)]
            assert count == len(found)
            return partition_id, current_offset, found
        case ClientDetails(info, memberships):
            assert info.consumer_groups_count == len(memberships)
            groups = [(one.stream_id, one.topic_id, one.group_id) for one in memberships]
            return info.user_id, groups
        case Stats():
            return {name: getattr(value, name) for name in FIGURES}
    return value


def is_documented(request: Any, told: Told) -> bool:
    """Whether docs/protocol.md says that a request may be answered so."""
    if told in (evicted(1), status(40)) or told.channel == "success":
        return True  # said once for all commands
    notes = PAGE.notes_of(GENERATION.of(type(request)))
    where = "evictions" if told.channel == "eviction" else told.channel
    return told.code in notes.get(where, ())


def is_unexpected(event: dict[str, Any]) -> bool:
    """Whether a server has no reason to log this."""
    match event:
        case {"level": "debug" | "info"}:
            return False
        case {"event": "partition recovered", "damages": [], "lost_offsets": 0}:
            return False  # it was killed in the middle of a write, and cut what that left
    return not event["event"].startswith("the root user is iggy")


def run_random(snapshot_every: int, **options: Any) -> None:
    machine = type("Machine", (ServerMachine,), {"snapshot_every": snapshot_every})
    run_state_machine_as_test(
        machine,
        settings=settings(
            deadline=None,
            # Each try takes a server of its own: nobody would wait for a shorter example.
            phases=[Phase.explicit, Phase.reuse, Phase.generate],
            suppress_health_check=list(HealthCheck),
            print_blob=True,
            **options,
        ),
    )


@pytest.mark.parametrize("snapshot_every", [20, 10_000])
def test_random_requests_are_answered_as_the_rules_say(snapshot_every: int) -> None:
    run_random(snapshot_every, max_examples=2, stateful_step_count=75)


@pytest.mark.soak
def test_ten_thousand_random_requests_are_answered_as_the_rules_say() -> None:
    """Also, they end in every way: they would say little if all of them ended the same way."""
    answered.clear()
    steps.clear()
    for snapshot_every in itertools.cycle([20, 10_000]):
        run_random(snapshot_every, max_examples=3, stateful_step_count=1000)
        if steps.total() >= 10_000:
            break
    for request in {name for name, _, _ in answered}:
        channels = {channel for name, channel, _ in answered if name == request}
        assert "success" in channels, request
        assert len(channels) > 1, request
    assert {code for _, _, code in answered} >= EVERY_ANSWER
