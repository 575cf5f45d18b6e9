"""Users and personal access tokens: what commands do and in which order they check."""

import pytest

from support.metadata import FOREVER, START_US, Machine
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model import users
from windsprite_protocol.model.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from windsprite_protocol.model.tokens import TokenInfo
from windsprite_server.metadata import commands as c
from windsprite_server.metadata.effects import UserDeleted
from windsprite_server.metadata.queries import find_token, find_user, hash_token
from windsprite_server.metadata.state import Token, User

MANAGER = Permissions(GlobalPermissions(manage_users=True))


@pytest.fixture
def machine() -> Machine:
    return Machine()


def user_at(machine: Machine, name: str | int) -> User:
    user = find_user(machine.state, name)
    assert user is not None
    return user


# Root


def test_root_is_the_first_user_and_may_do_everything() -> None:
    machine = Machine(with_root=False)
    details = machine.do(c.CreateRoot("admin", "hash"), user=None)
    everything = GlobalPermissions(*(True,) * 10)
    assert details == users.UserDetails(users.User(0, 1, 1, "admin"), Permissions(everything))
    assert user_at(machine, "admin").password_hash == "hash"


def test_root_is_created_once_and_by_nobody_else(machine: Machine) -> None:
    again = c.CreateRoot("other", "hash")
    assert machine.rejection(again, user=None) == ErrorCode.USER_ALREADY_EXISTS
    empty = Machine(with_root=False)
    assert empty.rejection(again, user=0) == ErrorCode.UNAUTHORIZED
    short = c.CreateRoot("ab", "hash")
    assert empty.rejection(short, user=None) == ErrorCode.INVALID_USERNAME


@pytest.mark.parametrize("by_root", [True, False])
def test_nobody_deletes_root_or_changes_its_permissions(machine: Machine, *, by_root: bool) -> None:
    user = 0 if by_root else machine.user("manager", MANAGER)
    for root in (0, "iggy"):
        code = machine.rejection(c.DeleteUser(root), user)
        assert code == ErrorCode.CANNOT_DELETE_USER
        code = machine.rejection(c.UpdatePermissions(root, None), user)
        assert code == ErrorCode.CANNOT_CHANGE_PERMISSIONS


def test_root_may_be_renamed_and_locked_out(machine: Machine) -> None:
    machine.do(c.UpdateUser(0, "boss", 2))
    assert (user_at(machine, 0).username, user_at(machine, 0).status) == ("boss", 2)
    machine.do(c.ChangePassword("boss", "hash of iggy", "new"))
    machine.do(c.CreateStream("still allowed"))


# Users


def test_a_created_user_is_shown_as_sent_and_kept_in_order(machine: Machine) -> None:
    sent = Permissions(
        streams=(
            StreamPermissions(2, read_stream=True),
            StreamPermissions(1, topics=(TopicPermissions(0), TopicPermissions(0, True))),
            StreamPermissions(2, send_messages=True),
        )
    )
    details = machine.do(c.CreateUser("alice", "hash", 7, sent))
    now = machine.state.timestamp_us
    assert details == users.UserDetails(users.User(1, now, 7, "alice"), sent)
    alice = user_at(machine, "alice")
    assert alice.status == users.UserStatus.ACTIVE
    assert alice.permissions == Permissions(
        streams=(
            StreamPermissions(1, topics=(TopicPermissions(0, True),)),
            StreamPermissions(2, send_messages=True),
        )
    )


@pytest.mark.parametrize(("status", "stored"), [(0, 1), (1, 1), (2, 2), (3, 1), (255, 1)])
def test_an_unknown_status_means_active(machine: Machine, status: int, stored: int) -> None:
    machine.do(c.CreateUser("alice", "hash", status))
    assert user_at(machine, "alice").status == stored


@pytest.mark.parametrize("name", ["ab", "x" * 51, "é", "é" * 26, ""])
def test_names_of_users_have_3_to_50_bytes(machine: Machine, name: str) -> None:
    assert machine.rejection(c.CreateUser(name, "h", 1)) == ErrorCode.INVALID_USERNAME
    machine.do(c.CreateUser("alice", "h", 1))
    assert machine.rejection(c.UpdateUser("alice", name)) == ErrorCode.INVALID_USERNAME


@pytest.mark.parametrize("name", ["abc", "x" * 50, "é" * 25, "éa", "a/b", "..\0"])
def test_other_names_are_taken_as_they_are(machine: Machine, name: str) -> None:
    machine.do(c.CreateUser(name, "h", 1))
    assert user_at(machine, name).username == name


def test_ids_of_users_come_again_and_their_rights_do_not(machine: Machine) -> None:
    alice = machine.user("alice", MANAGER)
    machine.do(c.CreateToken("t", "hash of t"), alice)
    machine.do(c.DeleteUser("alice"))
    assert machine.last.effects == (UserDeleted(alice),)
    assert machine.rejection(c.CreateUser("eve", "h", 1), alice) == ErrorCode.UNAUTHORIZED
    assert machine.user("bob") == alice
    assert machine.rejection(c.CreateUser("eve", "h", 1), alice) == ErrorCode.UNAUTHORIZED
    assert user_at(machine, "bob").tokens == {}
    assert find_token(machine.state, "hash of t") is None
    machine.do(c.CreateToken("t", "hash of t"), alice)


def test_an_update_of_a_user_changes_what_it_names(machine: Machine) -> None:
    machine.user("alice")
    machine.user("carol")
    machine.do(c.UpdateUser("alice"))
    machine.do(c.UpdateUser("alice", "alice"))
    machine.do(c.UpdateUser("alice", status=2))
    machine.do(c.UpdateUser("alice", status=9))
    machine.do(c.UpdateUser("alice", "alicia"))
    assert find_user(machine.state, "alice") is None
    assert user_at(machine, "alicia").status == 2
    taken = c.UpdateUser("alicia", "carol", 1)
    assert machine.rejection(taken) == ErrorCode.USER_ALREADY_EXISTS
    machine.do(c.CreateUser("alice", "h", 1))


def test_permissions_are_replaced_at_once(machine: Machine) -> None:
    alice = machine.user("alice")
    create = c.CreateStream("s")
    assert machine.rejection(create, alice) == ErrorCode.UNAUTHORIZED
    granted = Permissions(GlobalPermissions(manage_streams=True))
    machine.do(c.UpdatePermissions("alice", granted))
    machine.do(create, alice)
    machine.do(c.UpdatePermissions(alice, MANAGER))
    assert machine.rejection(create, alice) == ErrorCode.UNAUTHORIZED
    machine.do(c.UpdatePermissions("alice", None), alice)
    assert user_at(machine, "alice").permissions is None
    assert machine.rejection(c.DeleteUser("iggy"), alice) == ErrorCode.UNAUTHORIZED


def test_what_is_forbidden_comes_before_what_is_missing(machine: Machine) -> None:
    alice = machine.user("alice")
    for command in (
        c.CreateUser("ab", "h", 1),
        c.UpdateUser("nobody"),
        c.DeleteUser("nobody"),
        c.UpdatePermissions(99, None),
    ):
        assert machine.rejection(command, alice) == ErrorCode.UNAUTHORIZED
    for command in (
        c.UpdateUser("nobody", "ab"),
        c.DeleteUser(99),
        c.UpdatePermissions("nobody", None),
    ):
        assert machine.rejection(command) == ErrorCode.RESOURCE_NOT_FOUND


# Passwords


def test_everybody_changes_the_own_password_and_managers_any(machine: Machine) -> None:
    alice = machine.user("alice")
    bob = machine.user("bob")
    machine.do(c.ChangePassword("alice", "hash of alice", "new"), alice)
    assert user_at(machine, alice).password_hash == "new"
    of_bob = c.ChangePassword("bob", "hash of bob", "new")
    assert machine.rejection(of_bob, alice) == ErrorCode.UNAUTHORIZED
    machine.do(of_bob)
    assert user_at(machine, bob).password_hash == "new"


def test_a_missing_user_comes_first_and_the_wrong_password_last(machine: Machine) -> None:
    alice = machine.user("alice")
    of_nobody = c.ChangePassword("nobody", None, "new")
    assert machine.rejection(of_nobody, alice) == ErrorCode.RESOURCE_NOT_FOUND
    of_root = c.ChangePassword("iggy", None, "new")
    assert machine.rejection(of_root, alice) == ErrorCode.UNAUTHORIZED
    for user in (alice, 0):
        wrong = c.ChangePassword("alice", None, "new")
        assert machine.rejection(wrong, user) == ErrorCode.INVALID_CREDENTIALS


def test_a_password_verified_before_another_change_is_wrong_after_it(machine: Machine) -> None:
    alice = machine.user("alice")
    machine.do(c.ChangePassword("alice", "hash of alice", "second"), alice)
    late = c.ChangePassword("alice", "hash of alice", "third")
    assert machine.rejection(late, alice) == ErrorCode.INVALID_CREDENTIALS


# Tokens


@pytest.mark.parametrize("lifetime", [0, FOREVER])
def test_a_token_without_lifetime_never_expires(machine: Machine, lifetime: int) -> None:
    assert machine.do(c.CreateToken("t", "h", lifetime)) == TokenInfo("t", 0)


def test_a_lifetime_counts_from_the_commit(machine: Machine) -> None:
    info = machine.do(c.CreateToken("t", "h", 1))
    assert info == TokenInfo("t", machine.state.timestamp_us + 1)
    # The largest lifetime whose end can be said.
    largest = FOREVER - (machine.state.timestamp_us + 10)
    assert machine.rejection(c.CreateToken("u", "i", largest + 10)) == (
        ErrorCode.INVALID_PERSONAL_ACCESS_TOKEN_EXPIRY
    )
    info = machine.do(c.CreateToken("v", "j", largest - 10))
    assert info.expiry == FOREVER
    assert machine.state.timestamp_us > START_US


def test_names_of_tokens_are_unique_for_their_owner(machine: Machine) -> None:
    alice = machine.user("alice")
    machine.do(c.CreateToken("t", "h1"))
    machine.do(c.CreateToken("t", "h2"), alice)
    for command in (c.CreateToken("t", "h3"), c.CreateToken("new", "h2")):
        code = machine.rejection(command)
        assert code == ErrorCode.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS
    found = find_token(machine.state, "h2")
    assert found == (user_at(machine, "alice"), Token("t", "h2", 0))
    machine.do(c.DeleteToken("t"))
    assert find_token(machine.state, "h1") is None
    assert machine.rejection(c.DeleteToken("t")) == ErrorCode.RESOURCE_NOT_FOUND
    machine.do(c.DeleteToken("t"), alice)


def test_no_more_tokens_than_allowed_and_expired_ones_make_room(machine: Machine) -> None:
    alice = machine.user("alice")
    for name in ("a", "b", "c"):
        machine.do(c.CreateToken(name, f"h{name}", limit=3))
    machine.do(c.CreateToken("a", "of alice", limit=1), alice)
    # The limit comes before the name.
    for name in ("a", "d"):
        code = machine.rejection(c.CreateToken(name, "hd", limit=3))
        assert code == ErrorCode.PERSONAL_ACCESS_TOKENS_LIMIT_REACHED
    machine.do(c.CreateToken("d", "hd", 1, limit=4))
    machine.do(c.CreateToken("e", "he", limit=4))
    assert list(user_at(machine, 0).tokens) == ["a", "b", "c", "e"]
    assert find_token(machine.state, "hd") is None
    assert list(user_at(machine, alice).tokens) == ["a"]
    machine.do(c.CreateToken("f", "hf"))


def test_expired_tokens_take_part_while_there_is_room(machine: Machine) -> None:
    machine.do(c.CreateToken("a", "ha", 1, limit=2))
    code = machine.rejection(c.CreateToken("a", "hb", limit=2))
    assert code == ErrorCode.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS
    machine.do(c.CreateToken("b", "hb", limit=2))
    machine.do(c.CreateToken("a", "hc", limit=2))
    assert list(user_at(machine, 0).tokens) == ["b", "a"]


def test_only_what_has_expired_by_now_is_deleted(machine: Machine) -> None:
    alice = machine.user("alice")
    # Each command of this machine comes 10 microseconds after the one before.
    machine.do(c.CreateToken("over", "h1", 1), alice)
    machine.do(c.CreateToken("just over", "h2", 40), alice)
    machine.do(c.CreateToken("not yet", "h3", 31), alice)
    machine.do(c.CreateToken("for ever", "h4"), alice)
    names = ("over", "just over", "not yet", "for ever", "unknown")
    expired = c.DeleteExpiredTokens(
        (*(c.OwnedToken(alice, name) for name in names), c.OwnedToken(9, "over"))
    )
    assert machine.rejection(expired, alice) == ErrorCode.UNAUTHORIZED
    machine.do(expired, None)
    assert list(user_at(machine, alice).tokens) == ["not yet", "for ever"]
    assert set(machine.state.token_owners) == {"h3", "h4"}


def test_a_token_made_again_under_the_same_name_lives_on(machine: Machine) -> None:
    machine.do(c.CreateToken("t", "old", 1))
    late = c.DeleteExpiredTokens((c.OwnedToken(0, "t"),))
    machine.do(c.DeleteToken("t"))
    machine.do(c.CreateToken("t", "new", 1_000))
    machine.do(late, None)
    assert find_token(machine.state, "new") is not None


def test_the_moment_of_its_expiry_is_not_in_the_life_of_a_token() -> None:
    token = Token("t", "h", 100)
    assert not token.has_expired(99)
    assert token.has_expired(100)
    assert not Token("t", "h", 0).has_expired(FOREVER)


def test_nobody_and_the_deleted_own_no_tokens(machine: Machine) -> None:
    for user in (None, 9):
        for command in (c.CreateToken("t", "h"), c.DeleteToken("t")):
            assert machine.rejection(command, user) == ErrorCode.UNAUTHORIZED


def test_a_token_is_kept_under_a_hash_that_says_nothing_about_it() -> None:
    assert hash_token("secret") == hash_token("secret") != hash_token("secret ")
    assert "secret" not in hash_token("secret")
    assert len(hash_token("")) == 64


def test_nothing_secret_is_shown_by_a_repr(machine: Machine) -> None:
    secret = "$argon2id$secret"
    machine.do(c.CreateUser("alice", secret, 1))
    machine.do(c.CreateToken("t", secret))
    shown = [
        c.CreateRoot("root", secret),
        c.CreateUser("alice", secret, 1),
        c.ChangePassword("alice", secret, secret),
        c.CreateToken("t", secret),
        *machine.state.users.values(),
    ]
    assert secret not in repr(shown)
