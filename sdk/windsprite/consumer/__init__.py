"""Consumers: messages of a topic one after the other, and the offsets of those that are handled.

| module | job |
|---|---|
| `consumer` | what programs use |
| `lifetime` | starts and closes it |
| `fetching` | the one background task |
| `committing` | stores offsets |
| `assigning` | which partitions, and whether they are still ours |
| `source` | the requests of the client, for one topic and one reader |
| `ledger`, `progress` | what was polled, handed out, handled and stored; no I/O |
| `commits`, `pace` | when to store, when to poll; no I/O |
"""
