"""Names that are allowed, and easily broken (spec 03, 1.1)."""

NAMES = {
    "one byte": "a",
    "eight bytes": "x" * 8,
    "255 bytes": "x" * 255,
    "255 bytes of two": "é" * 127 + "e",
    "255 bytes of three": "雪" * 85,
    "252 bytes of four": "🐕" * 63,
    "space before": " name",
    "space after": "name ",
    "only spaces": "   ",
    "slashes": "a/b//c/",
    "path": "../../etc",
    "colons and dots": "a:b.c:",
    "case": "MiXeD",
    "lower case": "mixed",
    "composed": "caf\u00e9",
    "decomposed": "cafe\u0301",
    "control characters": "\x00\t\r\n\x7f",
    "right to left": "שלום",
    "quotes": "'; -- \"`$(x)",
}

TOO_LONG = {"256 bytes": "x" * 256, "256 bytes of two": "é" * 128}
