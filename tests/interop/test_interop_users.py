"""Users, permissions and tokens with the official client (spec 06, 3 to 5 and 8)."""

import asyncio
import datetime as dt
import struct
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest
from apache_iggy import (
    AutoLogin,
    GlobalPermissions,
    IggyClient,
    Permissions,
    PollingStrategy,
    StreamPermissions,
    TcpConfig,
    TcpReconnectionConfig,
    TopicPermissions,
    UserStatus,
)

from support.official_client import fails_with, logged_in, messages, offsets, poll

covers = pytest.mark.covers

GLOBAL_FLAGS = sorted(name for name in vars(GlobalPermissions) if not name.startswith("_"))
MISSING_USERS = ["nobody", 999_999, 2**32 - 1]


@pytest.fixture
async def user(client: IggyClient, stream: str) -> str:
    """The name of a new user with the password `secret` and without permissions."""
    name = f"user of {stream}"
    await client.create_user(name, "secret")
    return name


def all_of(permissions: Any) -> Any:
    """Permissions as plain values."""
    if permissions is None:
        return None

    def flags(item: Any) -> set[str]:
        names = (name for name in dir(item) if not name.startswith("_") and name != "topics")
        return {name for name in names if getattr(item, name)}

    streams = {
        number: (
            flags(stream),
            {topic: flags(entry) for topic, entry in (stream.topics or {}).items()},
        )
        for number, stream in (permissions.streams or {}).items()
    }
    return flags(permissions.global_permissions), streams


# --- Users ---------------------------------------------------------------------------------------


@covers("create_user", "get_user", "get_users")
async def test_a_new_user(client: IggyClient) -> None:
    before = time.time_ns() // 1000
    created = await client.create_user("new user", "secret")
    after = time.time_ns() // 1000
    assert (created.username, created.status) == ("new user", UserStatus.Active)
    assert created.permissions is None
    assert created.id > 0
    assert before <= created.created_at <= after
    for identifier in ("new user", created.id):
        found = await client.get_user(identifier)
        assert (found.id, found.username, found.status) == (
            created.id,
            "new user",
            UserStatus.Active,
        )
        assert found.created_at == created.created_at
        assert found.permissions is None
    (listed,) = [user for user in await client.get_users() if user.username == "new user"]
    assert (listed.id, listed.created_at) == (created.id, created.created_at)
    assert listed.status == UserStatus.Active


@covers("get_user", "get_users")
async def test_root(client: IggyClient) -> None:
    for identifier in ("iggy", 0):
        root = await client.get_user(identifier)
        assert (root.id, root.username, root.status) == (0, "iggy", UserStatus.Active)
        assert root.created_at == 1
        assert all_of(root.permissions) == (set(GLOBAL_FLAGS), {})
    listed = await client.get_users()
    assert (listed[0].id, listed[0].username) == (0, "iggy")
    assert [user.id for user in listed] == sorted(user.id for user in listed)


@covers("get_users", "create_user", "delete_user")
async def test_the_lowest_free_id_is_next(fresh_address: str) -> None:
    client = await logged_in(fresh_address)
    for name in ("one", "two", "three"):
        await client.create_user(name, "secret")
    await client.delete_user("two")
    await client.create_user("another", "secret")
    found = {user.id: user.username for user in await client.get_users()}
    assert found == {0: "iggy", 1: "one", 2: "another", 3: "three"}


@pytest.mark.parametrize(
    "name", ["abc", "a" * 50, "ключ", "名" * 16, " a b ", "a/b:c@d?", "\x00\x01\x02"]
)
@covers("create_user", "get_user", "login_user", "delete_user")
async def test_names_and_passwords_are_bytes(address: str, client: IggyClient, name: str) -> None:
    password = f"{name}, but secret"
    await client.create_user(name, password)
    assert (await client.get_user(name)).username == name
    own = await logged_in(address, name, password)
    assert (await own.get_user(name)).username == name
    with fails_with(46):
        await client.create_user(name, password)
    await client.delete_user(name)
    assert await client.get_user(name) is None


@pytest.mark.parametrize(
    ("username", "password", "code"),
    [
        ("ab", "secret", 43),
        ("a" * 51, "secret", 43),
        ("名" * 17, "secret", 43),
        ("somebody", "pw", 44),
        ("somebody", "p" * 101, 44),
    ],
)
@covers("create_user")
async def test_names_and_passwords_out_of_bounds(
    client: IggyClient, username: str, password: str, code: int
) -> None:
    with fails_with(code):
        await client.create_user(username, password)
    assert await client.get_user("somebody") is None


@pytest.mark.parametrize("name", ["ab", "a" * 51, "名" * 17, ""])
@covers("update_user")
async def test_the_server_checks_new_names(client: IggyClient, user: str, name: str) -> None:
    if name:
        with fails_with(43):
            await client.update_user(user, username=name, status=UserStatus.Inactive)
    else:
        with pytest.raises(RuntimeError):
            await client.update_user(user, username=name)
    found = await client.get_user(user)
    assert (found.username, found.status) == (user, UserStatus.Active)


@covers("update_user")
async def test_updates(address: str, client: IggyClient, user: str) -> None:
    before = await client.get_user(user)
    await client.update_user(user)
    await client.update_user(user, username=user)
    new = f"{user}, renamed"
    for _ in range(2):
        await client.update_user(before.id, username=new)
    assert await client.get_user(user) is None
    after = await client.get_user(new)
    assert (after.id, after.created_at) == (before.id, before.created_at)
    await logged_in(address, new, "secret")
    await client.update_user(new, status=UserStatus.Inactive)
    assert (await client.get_user(new)).status == UserStatus.Inactive
    with fails_with(42):
        await logged_in(address, new, "secret")
    await client.update_user(new, username=user, status=UserStatus.Active)
    await logged_in(address, user, "secret")


@covers("update_user", "create_user")
async def test_a_name_that_is_taken(client: IggyClient, user: str) -> None:
    for taken in ("iggy", user):
        with fails_with(46):
            await client.create_user(taken, "secret")
    with fails_with(46):
        await client.update_user(user, username="iggy", status=UserStatus.Inactive)
    assert (await client.get_user(user)).status == UserStatus.Active
    with fails_with(4041):
        await client.update_user(user, username="other", options={"x": "y"})
    assert (await client.get_user(user)).username == user


@covers("create_user")
async def test_a_user_that_is_inactive_from_the_start(address: str, client: IggyClient) -> None:
    created = await client.create_user("inactive user", "secret", status=UserStatus.Inactive)
    assert created.status == UserStatus.Inactive
    assert (await client.get_user("inactive user")).status == UserStatus.Inactive
    with fails_with(42):
        await logged_in(address, "inactive user", "secret")


@pytest.mark.parametrize("missing", MISSING_USERS)
@covers("get_user", "update_user", "delete_user", "update_permissions", "change_password")
async def test_a_missing_user(client: IggyClient, missing: str | int) -> None:
    assert await client.get_user(missing) is None
    with fails_with(20):
        await client.update_user(missing, username="other")
    with fails_with(20):
        await client.delete_user(missing)
    with fails_with(20):
        await client.update_permissions(missing, None)
    with fails_with(20):
        await client.change_password(missing, "secret", "other")


@covers("delete_user", "update_permissions")
async def test_root_stays_as_it_is(client: IggyClient) -> None:
    for root in ("iggy", 0):
        with fails_with(48):
            await client.delete_user(root)
        with fails_with(49):
            await client.update_permissions(root, None)
    assert all_of((await client.get_user(0)).permissions) == (set(GLOBAL_FLAGS), {})


@covers("delete_user", "login_user")
async def test_deleting_and_making_again(address: str, client: IggyClient, user: str) -> None:
    await client.delete_user(user)
    with fails_with(42):
        await logged_in(address, user, "secret")
    with fails_with(20):
        await client.delete_user(user)
    await client.create_user(user, "another secret")
    with fails_with(42):
        await logged_in(address, user, "secret")
    await logged_in(address, user, "another secret")


@covers("delete_user")
async def test_a_deleted_user_who_is_logged_in(address: str, client: IggyClient) -> None:
    await client.create_user(
        "short lived", "secret", permissions=Permissions(GlobalPermissions(read_users=True))
    )
    quick = TcpReconnectionConfig(reestablish_after=dt.timedelta(0))
    own = IggyClient(TcpConfig(server_address=address, reconnection=quick))
    await own.login_user("short lived", "secret")
    assert len(await own.get_users()) >= 2
    await client.delete_user("short lived")
    # The server has logged the session out; the client logs in again, in vain.
    with fails_with(42):
        await own.get_users()


# --- Passwords -----------------------------------------------------------------------------------


@covers("change_password", "login_user")
async def test_a_user_changes_the_own_password(address: str, client: IggyClient, user: str) -> None:
    own = await logged_in(address, user, "secret")
    with fails_with(42):
        await own.change_password(user, "wrong", "new secret")
    await own.change_password(user, "secret", "new secret")
    await own.get_user(user)  # still logged in
    with fails_with(42):
        await logged_in(address, user, "secret")
    again = await logged_in(address, user, "new secret")
    with fails_with(44):
        await again.change_password(user, "new secret", "x")
    number = (await client.get_user(user)).id
    await client.change_password(number, "new secret", "secret")
    await logged_in(address, user, "secret")
    with fails_with(42):
        await client.change_password(user, "new secret", "other")


@covers("change_password")
async def test_whose_password_a_user_changes(address: str, client: IggyClient, user: str) -> None:
    await client.create_user(f"{user}, other", "secret")
    own = await logged_in(address, user, "secret")
    for current in ("secret", "wrong"):
        with fails_with(41):
            await own.change_password(f"{user}, other", current, "other")
        with fails_with(41):
            await own.change_password("iggy", current, "other")
    with fails_with(20):
        await own.change_password("nobody", "secret", "other")
    await client.update_permissions(user, Permissions(GlobalPermissions(manage_users=True)))
    with fails_with(42):
        await own.change_password(f"{user}, other", "wrong", "new secret")
    await own.change_password(f"{user}, other", "secret", "new secret")
    await logged_in(address, f"{user}, other", "new secret")


# --- Permissions ---------------------------------------------------------------------------------

NESTED = Permissions(
    GlobalPermissions(read_streams=True),
    {
        3: StreamPermissions(
            read_stream=True,
            poll_messages=True,
            topics={
                7: TopicPermissions(send_messages=True),
                9: TopicPermissions(read_topic=True, poll_messages=True),
            },
        ),
        5: StreamPermissions(manage_stream=True),
        2**32 - 1: StreamPermissions(
            manage_stream=True,
            read_stream=True,
            manage_topics=True,
            read_topics=True,
            poll_messages=True,
            send_messages=True,
            topics={
                0: TopicPermissions(
                    manage_topic=True, read_topic=True, poll_messages=True, send_messages=True
                )
            },
        ),
    },
)


@pytest.mark.parametrize(
    "permissions",
    [
        *(Permissions(GlobalPermissions(**{flag: True})) for flag in GLOBAL_FLAGS),
        Permissions(),
        Permissions(GlobalPermissions(), {}),
        NESTED,
    ],
    ids=[*GLOBAL_FLAGS, "nothing", "no streams", "nested"],
)
@covers("create_user", "update_permissions", "get_user")
async def test_permissions_come_back_as_they_are(
    client: IggyClient, stream: str, permissions: Permissions
) -> None:
    name = f"user of {stream}"
    created = await client.create_user(name, "secret", permissions=permissions)
    assert all_of(created.permissions) == all_of(permissions)
    assert created.permissions == permissions
    assert (await client.get_user(name)).permissions == permissions
    await client.update_permissions(name, NESTED)
    assert (await client.get_user(name)).permissions == NESTED
    await client.update_permissions(name, permissions)
    assert (await client.get_user(name)).permissions == permissions
    await client.update_permissions(created.id, None)
    assert (await client.get_user(name)).permissions is None


Call: TypeAlias = Callable[[IggyClient, str], Awaitable[Any]]
# Each call with one of the flags that allow it.
ALLOWED: dict[str, tuple[str, Call]] = {
    "get_stats": ("read_servers", lambda client, _: client.get_stats()),
    "get_users": ("read_users", lambda client, _: client.get_users()),
    "get_user": ("read_users", lambda client, _: client.get_user("iggy")),
    "create_user": ("manage_users", lambda client, name: client.create_user(name, "secret")),
    "update_user": ("manage_users", lambda client, name: client.update_user(f"user of {name}")),
    "update_permissions": (
        "manage_users",
        lambda client, name: client.update_permissions(f"other of {name}", None),
    ),
    "delete_user": ("manage_users", lambda client, name: client.delete_user(f"other of {name}")),
    "get_streams": ("read_streams", lambda client, _: client.get_streams()),
    "get_stream": ("read_streams", lambda client, name: client.get_stream(name)),
    "create_stream": ("manage_streams", lambda client, name: client.create_stream(f"{name} 2")),
    "update_stream": ("manage_streams", lambda client, name: client.update_stream(name, name)),
    "purge_stream": ("manage_streams", lambda client, name: client.purge_stream(name)),
    "delete_stream": ("manage_streams", lambda client, name: client.delete_stream(name)),
    "get_topics": ("read_topics", lambda client, name: client.get_topics(name)),
    "get_topic": ("read_topics", lambda client, name: client.get_topic(name, "t")),
    "create_topic": ("manage_topics", lambda client, name: client.create_topic(name, "u", 1)),
    "update_topic": ("manage_topics", lambda client, name: client.update_topic(name, "t", "t")),
    "purge_topic": ("manage_topics", lambda client, name: client.purge_topic(name, "t")),
    "delete_topic": ("manage_topics", lambda client, name: client.delete_topic(name, "t")),
    "create_partitions": (
        "manage_topics",
        lambda client, name: client.create_partitions(name, "t", 1),
    ),
    "delete_partitions": (
        "manage_topics",
        lambda client, name: client.delete_partitions(name, "t", 1),
    ),
    "send_messages": (
        "send_messages",
        lambda client, name: client.send_messages(name, "t", 0, messages("b")),
    ),
    "poll_messages": ("poll_messages", lambda client, name: poll(client, name, "t", commit=True)),
}


@pytest.mark.parametrize("method", [pytest.param(name, marks=covers(name)) for name in ALLOWED])
async def test_what_needs_a_permission(
    address: str, client: IggyClient, stream: str, user: str, method: str
) -> None:
    flag, call = ALLOWED[method]
    await client.create_topic(stream, "t", 2)
    await client.send_messages(stream, "t", 0, messages("a"))
    await client.create_user(f"other of {stream}", "secret")
    own = await logged_in(address, user, "secret")
    with fails_with(41):
        await call(own, stream)
    others = {name: True for name in GLOBAL_FLAGS if name not in (flag, *ABOVE[flag])}
    await client.update_permissions(user, Permissions(GlobalPermissions(**others)))
    with fails_with(41):
        await call(own, stream)
    await client.update_permissions(user, Permissions(GlobalPermissions(**{flag: True})))
    await call(own, stream)  # at once, in the session that is open
    if await client.get_stream(stream) is not None:
        await client.delete_stream(stream)


# What else includes a flag (spec 06, 4.3).
ABOVE = {
    "read_servers": ["manage_servers"],
    "read_users": ["manage_users"],
    "manage_users": [],
    "read_streams": ["manage_streams"],
    "manage_streams": [],
    "read_topics": ["manage_topics", "read_streams", "manage_streams"],
    "manage_topics": ["manage_streams"],
    "send_messages": ["manage_topics", "manage_streams"],
    "poll_messages": ["read_topics", "manage_topics", "read_streams", "manage_streams"],
}


@covers("get_stream", "poll_messages", "send_messages", "create_topic", "get_topics")
async def test_permissions_for_one_stream_and_one_topic(
    address: str, client: IggyClient, stream: str, user: str
) -> None:
    other = f"{stream} other"
    await client.create_stream(other)
    for name in (stream, other):
        for topic in ("zero", "one"):
            await client.create_topic(name, topic, 1)
            await client.send_messages(name, topic, 0, messages("a"))
    number = (await client.get_stream(stream)).id
    own = await logged_in(address, user, "secret")

    allowed = StreamPermissions(read_stream=True)
    await client.update_permissions(user, Permissions(streams={number: allowed}))
    assert (await own.get_stream(stream)).name == stream
    assert len(await own.get_topics(number)) == 2
    assert offsets(await poll(own, stream, "one")) == [0]
    with fails_with(41):
        await own.get_stream(other)
    with fails_with(41):
        await own.get_streams()
    with fails_with(41):
        await own.send_messages(stream, "zero", 0, messages("b"))
    with fails_with(41):
        await own.create_topic(stream, "two", 1)
    assert await own.get_stream("nothing") is None  # what is missing comes first

    allowed = StreamPermissions(topics={1: TopicPermissions(send_messages=True)})
    await client.update_permissions(user, Permissions(streams={number: allowed}))
    await own.send_messages(stream, "one", 0, messages("b"))
    for name, topic in ((stream, "zero"), (other, "one")):
        with fails_with(41):
            await own.send_messages(name, topic, 0, messages("b"))
    with fails_with(41):
        await poll(own, stream, "one")
    with fails_with(41):
        await own.get_topic(stream, "one")
    allowed = StreamPermissions(topics={1: TopicPermissions(read_topic=True)})
    await client.update_permissions(user, Permissions(streams={number: allowed}))
    assert (await own.get_topic(stream, "one")).name == "one"
    assert len(await poll(own, stream, "one")) == 2
    with fails_with(41):
        await own.get_topics(stream)


@covers("get_user")
async def test_everybody_may_see_themselves(address: str, client: IggyClient, user: str) -> None:
    own = await logged_in(address, user, "secret")
    number = (await client.get_user(user)).id
    for identifier in (user, number):
        assert (await own.get_user(identifier)).username == user
    with fails_with(41):
        await own.get_user("iggy")
    assert await own.get_user("nobody") is None
    await own.ping()
    assert await own.describe_options("stream") == []


@covers("update_permissions")
async def test_a_denied_change_changes_nothing(address: str, client: IggyClient, user: str) -> None:
    own = await logged_in(address, user, "secret")
    everything = Permissions(GlobalPermissions(**dict.fromkeys(GLOBAL_FLAGS, True)))
    for target in (user, "iggy", "nobody"):
        with fails_with(41):
            await own.update_permissions(target, everything)
        with fails_with(41):
            await own.update_user(target, status=UserStatus.Inactive)
        with fails_with(41):
            await own.delete_user(target)
    found = await client.get_user(user)
    assert (found.permissions, found.status) == (None, UserStatus.Active)


# --- Tokens --------------------------------------------------------------------------------------


async def new_token(client: IggyClient, name: str, expiry: int = 2**64 - 1) -> str:
    """The secret of a new token; the official client has no method to make one."""
    body = bytes([len(name)]) + name.encode() + struct.pack("<Q", expiry)
    reply = await client.send_binary_request(42, body)
    return reply[1:].decode()


@covers("from_connection_string", "IggyClient()")
async def test_logging_in_with_a_token(address: str, client: IggyClient, user: str) -> None:
    own = await logged_in(address, user, "secret")
    secret = await new_token(own, "mine")
    by_text = IggyClient.from_connection_string(f"iggy://{secret}@{address}")
    await by_text.connect()
    by_settings = IggyClient(
        TcpConfig(server_address=address, auto_login=AutoLogin.personal_access_token(secret))
    )
    await by_settings.connect()
    for with_token in (by_text, by_settings):
        assert (await with_token.get_user(user)).username == user
        with fails_with(41):
            await with_token.get_streams()
    with fails_with(51):
        await new_token(own, "mine")
    assert await own.send_binary_request(43, b"\x04mine") == b""
    with fails_with(20):
        await own.send_binary_request(43, b"\x04mine")
    with fails_with(53):
        await IggyClient.from_connection_string(f"iggy://{secret}@{address}").connect()
    assert (await by_text.get_user(user)).username == user  # sessions outlive their token


@covers("from_connection_string")
async def test_a_token_that_has_expired(address: str, client: IggyClient) -> None:
    secret = await new_token(client, "short", 200_000)
    text = f"iggy://{secret}@{address}"
    await IggyClient.from_connection_string(text).connect()
    await asyncio.sleep(0.3)
    with fails_with(53):
        await IggyClient.from_connection_string(text).connect()


@covers("from_connection_string")
async def test_a_token_of_a_user_who_may_not_log_in(
    address: str, client: IggyClient, user: str
) -> None:
    own = await logged_in(address, user, "secret")
    # The client takes this refusal for a lost session, and logs in once more.
    text = f"iggy://{await new_token(own, 'mine')}@{address}?reestablish_after=0"
    await client.update_user(user, status=UserStatus.Inactive)
    with fails_with(40):
        await IggyClient.from_connection_string(text).connect()
    await client.update_user(user, status=UserStatus.Active)
    await IggyClient.from_connection_string(text).connect()
    await client.delete_user(user)
    with fails_with(53):
        await IggyClient.from_connection_string(text).connect()


@covers("poll_messages")
async def test_two_users_share_the_offsets_of_a_consumer(
    address: str, client: IggyClient, stream: str, topic: str, user: str
) -> None:
    await client.update_permissions(user, Permissions(GlobalPermissions(poll_messages=True)))
    own = await logged_in(address, user, "secret")
    await client.send_messages(stream, topic, 0, messages("a", "b", "c"))
    start = PollingStrategy.Next()
    first = await poll(client, stream, topic, start, 2, consumer="shared", commit=True)
    rest = await poll(own, stream, topic, start, 2, consumer="shared", commit=True)
    assert (offsets(first), offsets(rest)) == ([0, 1], [2])
