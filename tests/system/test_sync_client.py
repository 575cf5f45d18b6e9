"""The blocking client on a real server."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, count
from textwrap import dedent

import pytest

import windsprite
import windsprite.sync
from support.server_process import server_process

_numbers = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server_process(tmp_path_factory.mktemp("server")) as process:
        yield f"iggy://iggy:iggy@{process.wait_ready()['tcp']}"


@pytest.fixture
def client(server: str) -> Iterator[windsprite.sync.Client]:
    with windsprite.sync.connect(server) as client:
        yield client


@pytest.fixture
def stream(client: windsprite.sync.Client) -> str:
    """The name of a stream with a topic `t`, that nobody else uses."""
    name = f"stream-{next(_numbers)}"
    client.create_stream(name)
    client.create_topic(name, "t")
    return name


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "windsprite"}


def start_script(server: str, script: str) -> subprocess.Popen[str]:
    """A program of its own, in which `connect()` makes a client; any warning ends it."""
    head = f"""
        import os, sys, time
        import windsprite
        from windsprite.sync import connect as connect_to
        def connect():
            return connect_to({server!r})
    """
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", dedent(head) + dedent(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output_of(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    return out


# --- Commands --------------------------------------------------------------------------------


def test_commands_return_and_raise_what_the_asyncio_client_does(
    client: windsprite.sync.Client, stream: str
) -> None:
    stored = client.send(stream, "t", [b"one", "two"])
    assert stored is not None
    assert (stored.partition_id, stored.base_offset) == (0, 0)
    batch = client.poll(stream, "t", start=windsprite.From.first(), count=10)
    assert [message.payload for message in batch] == [b"one", b"two"]
    with pytest.raises(windsprite.NotFound):
        client.send(stream, "nowhere", [b"one"])
    with pytest.raises(windsprite.AlreadyExists):
        client.create_stream(stream)
    assert client.server in str(client.address)


def test_the_package_has_it_without_a_further_import(server: str) -> None:
    script = "import windsprite; print(windsprite.sync.connect.__module__)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout.strip() == b"windsprite.sync.client"


def test_it_works_where_a_loop_is_running(server: str) -> None:
    async def cell_of_a_notebook() -> int:
        with windsprite.sync.connect(server) as client:
            client.ping()
            return len(client.get_streams())

    assert asyncio.run(cell_of_a_notebook()) >= 0


def test_many_threads_use_one_client(client: windsprite.sync.Client, stream: str) -> None:
    def send_some(number: int) -> list[int]:
        confirmations = [client.send(stream, "t", [f"{number}"]) for _ in range(20)]
        return [confirmation.base_offset for confirmation in confirmations if confirmation]

    with ThreadPoolExecutor(8) as pool:
        offsets = list(pool.map(send_some, range(8)))
    assert sorted(chain.from_iterable(offsets)) == list(range(160))
    assert all(own == sorted(own) for own in offsets)


# --- Its life --------------------------------------------------------------------------------


def test_closing_ends_the_thread_and_all_calls(server: str) -> None:
    before = threads()
    client = windsprite.sync.connect(server)
    client.create_stream(name := f"stream-{next(_numbers)}")
    client.create_topic(name, "t")
    consumer = client.consumer(name, "t")
    consumer.start()
    assert len(threads() - before) == 1
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(consumer.get)
        client.close()
        with pytest.raises(windsprite.ClientClosed):
            waiting.result(30)
    assert threads() - before == set()
    client.close()
    for call in (client.ping, lambda: client.producer(name, "t"), consumer.get):
        with pytest.raises(windsprite.ClientClosed):
            call()


def test_events_are_told_up_to_the_end(server: str) -> None:
    told: list[object] = []
    client = windsprite.sync.connect(server, on_event=told.append)
    events = client.events()
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(list, events)
        client.logout()
        client.close()
        kinds = [type(event).__name__ for event in reading.result(30)]
    assert kinds == ["SignedOut", "Closed"]
    assert [type(event).__name__ for event in told[-2:]] == kinds
    assert (list(events), events.dropped) == ([], 0)


def test_closing_with_a_timeout_closes_all_of_it(server: str, stream: str) -> None:
    before = threads()
    other = windsprite.sync.connect(server)
    consumer = other.consumer(stream, "t")
    consumer.start()
    other.close(timeout=5)
    other.close(timeout=5)
    assert threads() - before == set()
    with pytest.raises(windsprite.ClientClosed):
        consumer.get()


def test_a_client_that_cannot_connect_leaves_nothing(server: str) -> None:
    before = threads()
    with pytest.raises(windsprite.AuthenticationError):
        windsprite.sync.connect(server, username="iggy", password="wrong")
    with pytest.raises(windsprite.ConnectionFailed):
        windsprite.sync.connect("iggy://iggy:iggy@127.0.0.1:1", reconnection_retries=0)
    with pytest.raises(windsprite.InvalidConnectionString):
        windsprite.sync.connect("nonsense://")
    assert threads() - before == set()


def test_a_client_that_is_forgotten_ends_its_thread(server: str) -> None:
    before = threads()
    client = windsprite.sync.connect(server)
    producer = client.producer(f"stream-{next(_numbers)}", "t")
    del client
    gc.collect()
    producer.start()  # the client is there as long as its producers
    assert len(threads() - before) == 1
    del producer
    gc.collect()
    wait_until(lambda: threads() - before == set())


def test_the_end_of_the_program_closes_it(
    server: str, client: windsprite.sync.Client, stream: str
) -> None:
    script = f"producer = connect().producer({stream!r}, 't', linger=60)\n"
    script += "producer.start(); producer.send(b'the last words')"
    assert output_of(start_script(server, script)) == ""
    (message,) = client.poll(stream, "t", start=windsprite.From.first())
    assert message.payload == b"the last words"


def test_ctrl_c_at_the_moment_a_call_is_handed_over(server: str, stream: str) -> None:
    """The thread has it already, and the caller has nothing yet with which to cancel it."""
    script = f"""
        import asyncio
        hand_over = asyncio.run_coroutine_threadsafe
        def interrupted(coroutine, loop):
            hand_over(coroutine, loop)
            raise KeyboardInterrupt
        client = connect()
        with client.consumer({stream!r}, "t") as consumer:
            asyncio.run_coroutine_threadsafe = interrupted
            try:
                consumer.get()
            except KeyboardInterrupt:
                asyncio.run_coroutine_threadsafe = hand_over
            client.send({stream!r}, "t", [b"sent afterwards"])
            assert consumer.get(30).payload == b"sent afterwards"
        client.close()
    """
    assert output_of(start_script(server, script)) == ""


def test_ctrl_c_ends_a_call_and_nothing_else(server: str, stream: str) -> None:
    script = f"""
        client = connect()
        with client.consumer({stream!r}, "t") as consumer:
            for call in (consumer.get, lambda: list(consumer)):
                try:
                    print("waiting", flush=True)
                    call()
                except KeyboardInterrupt:
                    client.send({stream!r}, "t", [b"sent afterwards"])
                    print(consumer.get(30).payload, flush=True)
        client.close()
    """
    process = start_script(server, script)
    assert process.stdout is not None
    for _ in range(2):
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "b'sent afterwards'\n"
    assert output_of(process) == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_is_told_to_connect_itself(server: str) -> None:
    script = """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of any such fork
        client = connect()
        child = os.fork()
        if not child:
            try:
                client.ping()
            except windsprite.ClientClosed as error:
                print(error.sentence, flush=True)
            with connect() as own:
                own.ping()
            client.close()
            sys.exit()
        print(os.waitpid(child, 0)[1], flush=True)
        client.ping()
    """
    expected = "this client belongs to the process from which this one was forked\n0\n"
    assert output_of(start_script(server, script)) == expected


# --- Producers -------------------------------------------------------------------------------


def test_a_producer_says_what_became_of_messages(
    client: windsprite.sync.Client, stream: str
) -> None:
    with client.producer(stream, "t") as producer:
        deliveries = [producer.send(f"{number}") for number in range(3)]
        more = producer.send_many([b"3", b"4"])
        assert more.wait(30)
        deliveries += more
        assert [delivery.result(30).offset for delivery in deliveries] == list(range(5))
        assert producer.send_and_wait(b"5") == windsprite.Delivered(0, 5)
        assert producer.partitions == 1
        late = producer.send(b"6")
    assert late.done()
    assert late.result().offset == 6
    with pytest.raises(windsprite.ProducerClosed):
        producer.send(b"7")


def test_waiting_for_a_delivery_has_an_end(client: windsprite.sync.Client, stream: str) -> None:
    with client.producer(stream, "t", linger=60) as producer:
        delivery = producer.send(b"it waits for others to go with")
        with pytest.raises(windsprite.RequestTimedOut):
            delivery.result(0.01)
        assert not delivery.wait(0.01)
        producer.flush()
        assert delivery.wait()


def test_a_callback_that_would_wait_for_itself_is_told_so(
    client: windsprite.sync.Client, stream: str
) -> None:
    def partitioner(message: object, key: object, partitions: object) -> int:
        client.ping()
        return 0

    with (
        client.producer(stream, "t", partitioner=partitioner) as producer,
        pytest.raises(windsprite.InvalidRequest, match="wait for itself"),
    ):
        producer.send(b"x")


# --- Consumers -------------------------------------------------------------------------------


def test_a_loop_handles_each_message_when_it_asks_for_the_next(
    client: windsprite.sync.Client, stream: str
) -> None:
    client.send(stream, "t", [b"one", b"two", b"three"])
    for message in client.consumer(stream, "t", name="me"):
        if message.payload == b"two":
            break
    seen = []
    with client.consumer(stream, "t", name="me") as consumer:
        for message in consumer:
            seen.append(message.payload)
            if len(seen) == 2:
                consumer.stop()
    assert seen == [b"two", b"three"]
    stored = client.get_consumer_offset(stream, "t", consumer="me")
    assert stored is not None
    assert stored.stored_offset == 2


def test_single_messages(client: windsprite.sync.Client, stream: str) -> None:
    with client.consumer(stream, "t", name="me", start=windsprite.From.first()) as consumer:
        with pytest.raises(windsprite.RequestTimedOut):
            consumer.get(0.01)
        client.send(stream, "t", [b"one", b"two"])
        first = consumer.get()
        consumer.not_handled(first)
        assert consumer.get().payload == b"one"
        second = consumer.get(30)
        consumer.commit(second)
        assert consumer.committed(0) == 1
        assert consumer.assignment == (0,)
        consumer.seek(0, 0)
        assert consumer.get(30).payload == b"one"


def test_handlers_run_in_threads_and_may_call_the_client(
    client: windsprite.sync.Client, stream: str
) -> None:
    client.send(stream, "t", [f"{number}" for number in range(20)])
    both = threading.Barrier(2)
    failures: list[bytes] = []
    handled: list[bytes] = []

    def handle(message: windsprite.ReceivedMessage) -> None:
        if message.payload in (b"0", b"1"):
            both.wait(30)  # two at a time
        if message.payload == b"7":
            raise ValueError("seven")
        client.ping()
        handled.append(message.payload)
        if len(handled) == 19:
            consumer.stop()

    with client.consumer(stream, "t", name="me") as consumer:
        consumer.run(
            handle,
            concurrency=2,
            attempts=1,
            on_failure=lambda message, error: failures.append(message.payload),
        )
    assert failures == [b"7"]
    assert sorted(handled, key=int) == [b"%d" % number for number in range(20) if number != 7]
    with pytest.raises(ValueError, match="zero"):
        client.consumer(stream, "t").run(fail_at_zero, attempts=1)


def fail_at_zero(message: windsprite.ReceivedMessage) -> None:
    raise ValueError("zero")


def test_members_of_a_group_in_threads(
    client: windsprite.sync.Client, stream: str, server: str
) -> None:
    client.create_topic(stream, "shared", partitions=2)
    with client.producer(stream, "shared") as producer:
        for number in range(40):
            producer.send(f"{number}", partition=number % 2)
    seen: set[bytes] = set()

    def read() -> None:
        with (
            windsprite.sync.connect(server) as own,
            own.consumer(stream, "shared", group="g") as consumer,
        ):
            while len(seen) < 40:
                try:
                    message = consumer.get(0.1)
                except windsprite.RequestTimedOut:
                    continue
                seen.add(message.payload)
                consumer.handled(message)

    with ThreadPoolExecutor(2) as pool:
        for reader in [pool.submit(read) for _ in range(2)]:
            reader.result(60)
    assert seen == {b"%d" % number for number in range(40)}
