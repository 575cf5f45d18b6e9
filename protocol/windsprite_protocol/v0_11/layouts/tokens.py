"""Personal access tokens (spec 06, 5)."""

from __future__ import annotations

from typing import Final

from windsprite_protocol.layout import NAME8, U64, Record, UntilEnd
from windsprite_protocol.model.tokens import CreateToken, DeleteToken, RawToken, TokenInfo

TOKENS: Final = UntilEnd[TokenInfo](Record(TokenInfo, "name" / NAME8, "expiry" / U64))

CREATE_TOKEN: Final = Record(CreateToken, "name" / NAME8, "expiry" / U64)
RAW_TOKEN: Final = Record(RawToken, "token" / NAME8)
DELETE_TOKEN: Final = Record(DeleteToken, "name" / NAME8)
