"""Consumers: messages of a topic one after the other, and the offsets of those that are handled.

| module | job |
|---|---|
| `commands` | the method of the client that makes one |
| `consumer` | what programs use |
| `standing` | what it says of itself |
| `loop`, `handling` | `async for` over it, and `run` |
| `settings` | how it reads, and what makes no sense |
| `lifetime` | starts and closes it |
| `fetching` | the one background task |
| `committing` | stores offsets |
| `assigning` | which partitions, and whether they are still ours |
| `source` | the requests of the client, for one topic and one reader |
| `ledger`, `progress` | what was polled, handed out, handled and stored; no I/O |
| `commits`, `pace` | when to store, when to poll; no I/O |
"""
