"""What commands do to users and personal access tokens (spec 06, 3 and 5)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model import users as model
from windsprite_protocol.model.identifiers import Identifier
from windsprite_protocol.model.outcomes import Success
from windsprite_protocol.model.permissions import Permissions
from windsprite_protocol.model.tokens import TokenInfo
from windsprite_protocol.model.users import ROOT_USER_ID, UserStatus
from windsprite_server.metadata import commands
from windsprite_server.metadata.authorization import (
    ALL_GLOBAL,
    Rule,
    compile_grants,
    normalized,
)
from windsprite_server.metadata.checks import RejectedError, authorize, require_server
from windsprite_server.metadata.effects import Applied, Context, UserDeleted
from windsprite_server.metadata.queries import find_user
from windsprite_server.metadata.state import MAX_USERS, State, Token, User
from windsprite_server.metadata.views import user_details

ROOT_CREATED_AT: Final = 1

# Not that of the protocol's values: a replay must decide as the first time.
_USERNAME_BYTES: Final = range(3, 51)
_U64_MAX: Final = 0xFFFF_FFFF_FFFF_FFFF


def create_root(state: State, command: commands.CreateRoot, context: Context) -> Applied:
    """Create the first user, who may do everything."""
    require_server(context)
    _require_username(command.username)
    if state.users:
        raise RejectedError(ErrorCode.USER_ALREADY_EXISTS)
    permissions = Permissions(ALL_GLOBAL)
    root = User(
        id=state.free_user_ids.take(),
        username=command.username,
        created_at=ROOT_CREATED_AT,
        status=UserStatus.ACTIVE,
        password_hash=command.password_hash,
        permissions=permissions,
        grants=compile_grants(permissions),
    )
    _add(state, root)
    return Applied(Success(user_details(root)))


def create_user(state: State, command: commands.CreateUser, context: Context) -> Applied:
    """Create a user under the lowest unused id."""
    authorize(state, context, Rule.MANAGE_USERS)
    _require_username(command.username)
    if command.username in state.user_ids:
        raise RejectedError(ErrorCode.USER_ALREADY_EXISTS)
    if len(state.users) >= MAX_USERS:
        raise RejectedError(ErrorCode.USERS_LIMIT_REACHED)
    permissions = normalized(command.permissions)
    user = User(
        id=state.free_user_ids.take(),
        username=command.username,
        created_at=context.timestamp_us,
        status=_known_status(command.status) or UserStatus.ACTIVE,
        password_hash=command.password_hash,
        permissions=permissions,
        grants=compile_grants(permissions),
    )
    _add(state, user)
    # Unlike later reads, the reply shows status and permissions as they were sent (spec 06, 3.6).
    shown = model.User(user.id, user.created_at, command.status, user.username)
    return Applied(Success(model.UserDetails(shown, command.permissions)))


def update_user(state: State, command: commands.UpdateUser, context: Context) -> Applied:
    """Change the name or the status of a user."""
    authorize(state, context, Rule.MANAGE_USERS)
    user = _require_user(state, command.user)
    name = user.username
    if command.username is not None:
        name = command.username
        _require_username(name)
        if state.user_ids.get(name, user.id) != user.id:
            raise RejectedError(ErrorCode.USER_ALREADY_EXISTS)
    status = _known_status(command.status) or user.status
    del state.user_ids[user.username]
    state.user_ids[name] = user.id
    state.users[user.id] = replace(user, username=name, status=status)
    return Applied()


def delete_user(state: State, command: commands.DeleteUser, context: Context) -> Applied:
    """Delete a user with its permissions and tokens."""
    authorize(state, context, Rule.MANAGE_USERS)
    user = _require_user(state, command.user)
    if user.id == ROOT_USER_ID:
        raise RejectedError(ErrorCode.CANNOT_DELETE_USER)
    del state.users[user.id]
    del state.user_ids[user.username]
    state.free_user_ids.give_back(user.id)
    for token in user.tokens.values():
        del state.token_owners[token.token_hash]
    return Applied(effects=(UserDeleted(user.id),))


def update_permissions(
    state: State, command: commands.UpdatePermissions, context: Context
) -> Applied:
    """Replace the permissions of a user."""
    authorize(state, context, Rule.MANAGE_USERS)
    user = _require_user(state, command.user)
    if user.id == ROOT_USER_ID:
        raise RejectedError(ErrorCode.CANNOT_CHANGE_PERMISSIONS)
    permissions = normalized(command.permissions)
    state.users[user.id] = replace(
        user, permissions=permissions, grants=compile_grants(permissions)
    )
    return Applied()


def change_password(state: State, command: commands.ChangePassword, context: Context) -> Applied:
    """Replace the password of a user, whose current one was verified at admission."""
    user = _require_user(state, command.user)
    if context.user_id != user.id:
        authorize(state, context, Rule.MANAGE_USERS)
    if command.verified_hash != user.password_hash:
        raise RejectedError(ErrorCode.INVALID_CREDENTIALS)
    state.users[user.id] = replace(user, password_hash=command.password_hash)
    return Applied()


def create_token(state: State, command: commands.CreateToken, context: Context) -> Applied:
    """Create a token of the acting user."""
    user = _require_acting_user(state, context)
    over: list[Token] = []
    if command.limit is not None and len(user.tokens) >= command.limit:
        over = [token for token in user.tokens.values() if token.has_expired(context.timestamp_us)]
        if len(user.tokens) - len(over) >= command.limit:
            raise RejectedError(ErrorCode.PERSONAL_ACCESS_TOKENS_LIMIT_REACHED)
    kept = _without(user.tokens, over)
    if command.name in kept or command.token_hash in state.token_owners:
        raise RejectedError(ErrorCode.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS)
    expiry = 0
    if command.expiry not in {0, _U64_MAX}:
        expiry = context.timestamp_us + command.expiry
    if expiry > _U64_MAX:
        raise RejectedError(ErrorCode.INVALID_PERSONAL_ACCESS_TOKEN_EXPIRY)
    token = Token(command.name, command.token_hash, expiry)
    for old in over:
        del state.token_owners[old.token_hash]
    state.users[user.id] = replace(user, tokens={**kept, token.name: token})
    state.token_owners[token.token_hash] = (user.id, token.name)
    return Applied(Success(TokenInfo(token.name, token.expiry)))


def delete_token(state: State, command: commands.DeleteToken, context: Context) -> Applied:
    """Delete a token of the acting user."""
    user = _require_acting_user(state, context)
    token = user.tokens.get(command.name)
    if token is None:
        raise RejectedError(ErrorCode.RESOURCE_NOT_FOUND)
    _delete(state, user, token)
    return Applied()


def delete_expired_tokens(
    state: State, command: commands.DeleteExpiredTokens, context: Context
) -> Applied:
    """Delete tokens whose time is over by now."""
    require_server(context)
    for owned in command.tokens:
        user = state.users.get(owned.user_id)
        token = None if user is None else user.tokens.get(owned.name)
        if user is not None and token is not None and token.has_expired(context.timestamp_us):
            _delete(state, user, token)
    return Applied()


def _add(state: State, user: User) -> None:
    state.users[user.id] = user
    state.user_ids[user.username] = user.id


def _delete(state: State, user: User, token: Token) -> None:
    state.users[user.id] = replace(user, tokens=_without(user.tokens, [token]))
    del state.token_owners[token.token_hash]


def _without(tokens: Mapping[str, Token], deleted: Collection[Token]) -> Mapping[str, Token]:
    names = {token.name for token in deleted}
    return {name: token for name, token in tokens.items() if name not in names}


def _require_user(state: State, user: Identifier) -> User:
    found = find_user(state, user)
    if found is None:
        raise RejectedError(ErrorCode.RESOURCE_NOT_FOUND)
    return found


def _require_acting_user(state: State, context: Context) -> User:
    user = None if context.user_id is None else state.users.get(context.user_id)
    if user is None:
        raise RejectedError(ErrorCode.UNAUTHORIZED)
    return user


def _require_username(name: str) -> None:
    if len(name.encode()) not in _USERNAME_BYTES:
        raise RejectedError(ErrorCode.INVALID_USERNAME)


def _known_status(status: int | None) -> UserStatus | None:
    return next((known for known in UserStatus if known == status), None)
