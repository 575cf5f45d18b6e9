import pytest

from windsprite_protocol.model.topics import NEVER_EXPIRES, UNLIMITED_SIZE
from windsprite_protocol.text_forms import (
    format_duration,
    format_size,
    parse_duration,
    parse_expiry,
    parse_interval,
    parse_max_topic_size,
    parse_optional_size,
    parse_size,
)

SECOND = 1_000_000
MAX_EXPIRY = 4_294_967_295

UNITS = {
    "us usec µs": 1,
    "ms msec millis": 1_000,
    "s sec secs second seconds": SECOND,
    "m min mins minute minutes": 60 * SECOND,
    "h hr hrs hour hours": 3_600 * SECOND,
    "d day days": 86_400 * SECOND,
    "w wk wks week weeks": 604_800 * SECOND,
    "M month months": 2_630_016 * SECOND,
    "y yr yrs year years": 31_557_600 * SECOND,
}


class TestDuration:
    @pytest.mark.parametrize(
        ("unit", "microseconds"),
        [(unit, length) for units, length in UNITS.items() for unit in units.split()],
    )
    def test_every_unit(self, unit, microseconds):
        assert parse_duration(f"3{unit}") == 3 * microseconds
        assert parse_duration(f" 3 {unit} ") == 3 * microseconds

    @pytest.mark.parametrize("unit", ["ns", "nsec", "nanos"])
    def test_nanoseconds_are_cut_to_microseconds(self, unit):
        assert parse_duration(f"999{unit}") == 0
        assert parse_duration(f"1999 {unit}") == 1

    @pytest.mark.parametrize(
        ("text", "microseconds"),
        [
            ("0", 0),
            ("500ms", 500_000),
            ("1h 1m 1s", 3_661 * SECOND),
            ("1h1m1s", 3_661 * SECOND),
            ("1 h\t1 m\n1 s", 3_661 * SECOND),
            ("1s 1s", 2 * SECOND),
            ("1m 1h", 3_660 * SECOND),
            ("10 000 s", 10_000 * SECOND),
            ("1.5h", 5_400 * SECOND),
            ("1.5 h 0.5 h", 7_200 * SECOND),
            ("1.25s", 1_250_000),
            ("0.000001s", 1),
            ("0.000000001s", 0),
            ("1.0005ms", 1_000),
            ("0.5us 0.5us", 1),
            ("0.25d", 21_600 * SECOND),
            ("1.50000000000000s", 1_500_000),
            ("0.5 0 m", 30 * SECOND),
            ("00005s", 5 * SECOND),
            ("584542y", 584_542 * 31_557_600 * SECOND),
        ],
    )
    def test_forms(self, text, microseconds):
        assert parse_duration(text) == microseconds

    @pytest.mark.parametrize(
        "text",
        [
            "",
            " ",
            "5",
            "00",
            "0 0",
            "s",
            "-1s",
            "+1s",
            "1 S",
            "1D",
            "1x",
            "1 se c",
            "1s 5",
            "1s,1m",
            "1s.",
            ".5s",
            "1.s",
            "1. 5s",
            "1.5.5s",
            "1e3s",
            "1_000s",
            "٣s",
            "1.5ns",
            "1.0ns",
            "0.0000000001s",
            "0.0005us 1.00001us",
            "1.0001h",
            "0.00001d",
            "unlimited",
            "584543y",
            "9" * 5_000 + "s",
            "1" + " " * 10_000 + "!",
        ],
    )
    def test_wrong_forms(self, text):
        with pytest.raises(ValueError, match=r"not a duration|whole number|64 bits|too long"):
            parse_duration(text)

    @pytest.mark.parametrize("text", ["0", "unlimited", "Unlimited", "DISABLED", "none", "None"])
    def test_words_for_no_interval(self, text):
        assert parse_interval(text) == 0

    def test_interval(self):
        assert parse_interval("1m 30s") == 90 * SECOND
        with pytest.raises(ValueError, match="not a duration"):
            parse_interval("never")

    @pytest.mark.parametrize(
        ("microseconds", "text"),
        [
            (0, "0"),
            (1, "1us"),
            (1_500, "1ms 500us"),
            (10 * SECOND, "10s"),
            (90 * SECOND, "1m 30s"),
            (7 * 86_400 * SECOND, "7d"),
            (93_784_005_006, "1d 2h 3m 4s 5ms 6us"),
        ],
    )
    def test_shown(self, microseconds, text):
        assert format_duration(microseconds) == text
        assert parse_duration(text) == microseconds


class TestExpiry:
    @pytest.mark.parametrize("text", ["unlimited", "Unlimited", "none", "None", "never_expire"])
    def test_never(self, text):
        assert parse_expiry(text) == NEVER_EXPIRES

    @pytest.mark.parametrize(
        "text", ["default", "Default", "server_default", "Server_default", "0", "0s", "999ns"]
    )
    def test_choice_of_the_server(self, text):
        assert parse_expiry(text) == 0

    def test_durations(self):
        assert parse_expiry("7 days") == 604_800 * SECOND
        assert parse_expiry(f"{MAX_EXPIRY}s") == MAX_EXPIRY * SECOND
        assert parse_expiry(f"{MAX_EXPIRY}s 999999us") == MAX_EXPIRY * SECOND + 999_999

    @pytest.mark.parametrize(
        "text",
        [f"{MAX_EXPIRY + 1}s", "137y", "NONE", "Never_expire", " none", "disabled", "5"],
    )
    def test_wrong_forms(self, text):
        with pytest.raises(ValueError, match=r"not a duration|longer"):
            parse_expiry(text)


class TestSize:
    @pytest.mark.parametrize(
        ("text", "size"),
        [
            ("0", 0),
            ("4096", 4096),
            (" 1 B ", 1),
            ("128 MiB", 134_217_728),
            ("128Mi", 134_217_728),
            ("128mib", 16_777_216),
            ("128miB", 134_217_728),
            ("1 GB", 1_000_000_000),
            ("4K", 4_000),
            ("4k", 4_000),
            ("4KIB", 4_096),
            ("8 b", 1),
            ("9 bits", 2),
            ("1bit", 1),
            ("1 Mb", 125_000),
            ("8 Kibit", 1_024),
            ("8 kbits", 1_000),
            ("1.5 GiB", 1_610_612_736),
            ("0.1", 1),
            ("1.0000001 KB", 1_001),
            ("0.0", 0),
            ("3 T", 3_000_000_000_000),
            ("2 PiB", 2 << 50),
            ("15 EiB", 15 << 60),
            ("1    KB", 1_000),
            ("18446744073709551615", 2**64 - 1),
        ],
    )
    def test_forms(self, text, size):
        assert parse_size(text) == size

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "B",
            "-1",
            "+1",
            "1e3",
            "1_000",
            "1,000",
            "10 000",
            "1.",
            ".5",
            "1.5.5",
            "1\tKB",
            "1 K B",
            "1 iB",
            "1 KBs",
            "1 byte",
            "1 BIT",
            "1 Bits",
            "1 ZB",
            "٣",
            "1 \u212a",
            "unlimited",
            "16 EiB",
            "18446744073709551615.1",
            "18446744073709551616",
            "9" * 5_000,
        ],
    )
    def test_wrong_forms(self, text):
        with pytest.raises(ValueError, match=r"not a size|64 bits|too long"):
            parse_size(text)

    @pytest.mark.parametrize("text", ["0", "unlimited", "Unlimited", "none", "None"])
    def test_words_for_none(self, text):
        assert parse_optional_size(text) == 0

    def test_optional_size(self):
        assert parse_optional_size("1 KiB") == 1024
        with pytest.raises(ValueError, match="not a size"):
            parse_optional_size("UNLIMITED")

    @pytest.mark.parametrize(
        ("text", "size"),
        [
            ("unlimited", UNLIMITED_SIZE),
            ("server_default", 0),
            ("Unlimited", 0),
            ("none", 0),
            ("None", 0),
            ("0", 0),
            ("10 GiB", 10 << 30),
        ],
    )
    def test_size_of_a_topic(self, text, size):
        assert parse_max_topic_size(text) == size

    def test_wrong_size_of_a_topic(self):
        with pytest.raises(ValueError, match="not a size"):
            parse_max_topic_size("Server_default")

    @pytest.mark.parametrize(
        ("size", "text"),
        [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1 KB"),
            (1_024, "1 KiB"),
            (1_536, "1.5 KiB"),
            (69_092, "69.092 KB"),
            (1_234_567, "1234.567 KB"),
            (3_211_776, "3136.5 KiB"),
            (1_073_741_824, "1 GiB"),
            (10_000, "10 KB"),
            (2**64 - 1, "18446744073709551.615 KB"),
        ],
    )
    def test_shown(self, size, text):
        assert format_size(size) == text
        assert parse_size(text) == size
