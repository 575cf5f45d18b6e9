"""What the server knows about its resources and users, as a pure deterministic state machine.

`commands` says what may change, `apply` changes the `state`, `queries` and `authorization` answer
from it, `encoding` and `snapshot` turn commands and state into bytes and back. The same commands
with the same contexts give the same state, byte for byte: time, ids and randomness come in.
"""
