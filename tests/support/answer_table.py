"""Which answers each command has, typed after spec 02, section 3, and spec 01, section 2.4.

`success` is what the layout of the reply says. `empty` and `sentinel` are successes that tell of
nothing found (spec 01, 3.6; spec 04, 5.6). Lists without an entry are `empty` where that shows in
their bytes. Reads of metadata can also be answered `status 58` by a node of a cluster that lags
behind (spec 01, 8.3); a single node never does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

_READS: Final = """
 10  success; status 41
 11  success; status 41 3 9000
 12  success
 13  success; status 3
 14  success; status 3 30 58
 20  success
 21  success; empty; status 41
 22  success; status 41
 31  success; empty; status 41 3
 32  success; status 41
 41  success; empty
100  success; empty; sentinel; status 3 6 41 1009 2010 3007 3024 58
102  status 5
103  success; status 3 6 41 1009 2010 3007 5009 58
104  success; empty; sentinel; status 3 6 41 1009 2010 3007 3024 58
120  success; empty; status 3 41 1009 2010 3007
123  success; status 3 6 41 1009 2010 3007 5009 58
200  success; empty; status 41 3
201  success; empty; status 41
300  success; empty; status 41 3
301  success; empty; status 41 3
600  success; empty; status 41 3 1009 2010
601  success; empty; status 41 3 1009 2010
606  success; empty
"""
_PARTITION_WRITES: Final = """
101  success; status 20 41 58 3
121  success; status 3 6 1009 2010 3007 20 5000 5003 5009 41 58 4100 3024
122  success; status 3 6 1009 2010 3007 20 5000 5003 5009 41 58 3021
"""
_CHANGES: Final = """
202  success; status 3 4041; result 41 1012 4042 1020
204  success; status 3 4041; result 1009 41 1012 4042
203  success; status 3; result 1009 41
205  success; status 3; result 1009 41
302  success; status 3 4041 4042 2015 1019; result 1009 41 2013 2021 2019 3013 4042; eviction 5
304  success; status 3 4041 4042 1019; result 1009 2010 41 2013 4042
303  success; status 3; result 1009 2010 41
305  success; status 3; result 1009 2010 41
402  success; status 3 2015; result 1009 2010 41 2019 3013
403  success; status 3 2015; result 1009 2010 41 2019
503  success; status 3; result 1009 2010 41 3007
602  success; status 3; result 1009 2010 41 5004
603  success; status 3; result 1009 2010 41 5000
604  success; status 3; result 1009 2010 41 5000; eviction 13
605  success; status 3; result 1009 2010 41 5000 5006
 33  success; status 3 4041; result 41 43 46 4042
 35  success; status 3 4041; result 41 20 4042 43 46
 34  success; status 3; result 41 20 48
 37  success; status 3; result 20 41 42
 36  success; status 3; result 41 20 49
 42  success; status 3 52; result 51 56
 43  success; status 3; result 20
"""
_SESSIONS: Final = """
  1  success; success unbound; status 4
 38  eviction 15
 44  eviction 15
 40  success; status 4; eviction 15 14 9 10 12; result 57 58
 45  success; status 4; eviction 15 14 10 11 12; result 57 58
 39  success; success unbound; status 4 57 58
"""

_OF_ALL: Final = frozenset({"status 4"})
_OF_READS: Final = _OF_ALL | {"status 40"}
_OF_WRITES: Final = _OF_ALL | {"eviction 1"}
_OF_CHANGES: Final = _OF_WRITES | {
    "result 57",
    "result 58",
    "result 59",
    "eviction 1 when dropped",
    "eviction 7",
    "replay",
    "replay of a rejection",
}

Pair: TypeAlias = tuple[int, str]
"""The code of a command, and an answer."""


def _pairs(rows: str, common: frozenset[str] = frozenset()) -> Iterator[Pair]:
    for row in rows.strip("\n").splitlines():
        code = int(row[:3])
        yield from ((code, text) for text in common)
        for part in row[3:].split(";"):
            channel, *codes = part.split()
            if codes and codes[0].isdigit():
                yield from ((code, f"{channel} {number}") for number in codes)
            else:
                yield code, part.strip()


TABLE: Final = frozenset(
    {
        *_pairs(_READS, _OF_READS),
        *_pairs(_PARTITION_WRITES, _OF_WRITES),
        *_pairs(_CHANGES, _OF_CHANGES),
        *_pairs(_SESSIONS),
    }
)
"""All pairs of a command and an answer."""

_TAKEN_OVER = "who is taken over has no session any more, and hears of reason 1"
_ALWAYS_LEADS = "a single node always leads, is up to date, and can commit what is in memory"
_FAR_AWAY = "so many do not fit a test"
_NO_OPTION = "no option is accepted that could not be stored"
"""Reasons."""

UNREACHABLE: Final = {
    **{pair: _TAKEN_OVER for pair in TABLE if pair[1] == "eviction 7"},
    (604, "result 58"): _ALWAYS_LEADS,
    (605, "result 58"): _ALWAYS_LEADS,
    (103, "status 58"): _ALWAYS_LEADS,
    (123, "status 58"): _ALWAYS_LEADS,
    (39, "status 57"): _ALWAYS_LEADS,
    (39, "status 58"): _ALWAYS_LEADS,
    (40, "result 57"): _ALWAYS_LEADS,
    (45, "result 57"): _ALWAYS_LEADS,
    (45, "result 58"): _ALWAYS_LEADS,
    (202, "result 1020"): _FAR_AWAY,
    (402, "result 3013"): _FAR_AWAY,
    (302, "result 3013"): "one topic begins with at most 1000 partitions",
    (302, "result 2019"): "ids are given without gaps, so none comes twice",
    (402, "result 2019"): "ids are given without gaps, so none comes twice",
    (302, "eviction 5"): "what passes the checks can be prepared",
    **{(code, "result 4042"): _NO_OPTION for code in (33, 35, 202, 204, 302, 304)},
}
"""Pairs that clients of a single node never see, and why."""

OURS: Final = frozenset(
    {
        # More of successes than the table has words for.
        (40, "success again"),
        (101, "success again"),
        (121, "success again"),
        (122, "success again"),
        (42, "result 51 again"),
        # Batches that cannot be right are told so (spec 04, 4.5).
        (101, "status 4027"),
        (101, "status 4039"),
        # Passwords nobody could log in with are refused (spec 06, 3.6).
        (33, "status 44"),
        (37, "status 44"),
        # Without a bound on groups whoever may read could fill the memory of a server.
        (602, "result 3024"),
        # Where the reference is silent (spec 01, 1.3) or answers what means nothing (2.4).
        (39, "status 3"),
        *((code, "status 5") for code in (39, 40, 45)),
        *((code, "status 5") for code, text in TABLE if text == "eviction 1"),
    }
)
"""Pairs that the specification has elsewhere, or leaves to a server."""
