from dataclasses import fields

import pytest

from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.topics import NEVER_EXPIRES, UNLIMITED_SIZE, Compression
from windsprite_protocol.model.typed_values import Option, TypedValue, ValueKind
from windsprite_protocol.tlv import decode_options, encode_options
from windsprite_protocol.topic_options import (
    Durability,
    OptionChanges,
    TopicConfig,
    TopicOptionError,
    config_of,
    describe,
    resolve_for_create,
    resolve_for_update,
)

KEYS = (
    "compression_algorithm",
    "consumer_offset_durability",
    "durability",
    "max_topic_size",
    "message_expiry",
    "messages_required_to_save",
    "preallocate_segments",
    "segment_size",
    "size_of_messages_required_to_save",
)
U64_MAX = 2**64 - 1
GIB = 1 << 30
MIB = 1 << 20
WEEK = 604_800_000_000


def text(key, value):
    return Option(key, TypedValue(ValueKind.STRING, value.encode()))


def number(key, value, kind=ValueKind.UINT64):
    return Option(key, TypedValue.of(value, kind))


def flag(key, value):
    return Option(key, TypedValue.of(value))


def raw(key, kind, data):
    return Option(key, TypedValue(kind, data))


def keys(options):
    return tuple(option.key for option in options)


def refusal(function, *arguments):
    with pytest.raises(TopicOptionError) as caught:
        function(*arguments)
    return caught.value.code


CANONICAL = [
    # given, explicit, field, value
    (
        text("compression_algorithm", "Gzip"),
        text("compression_algorithm", "gzip"),
        Compression.GZIP,
    ),
    (
        text("compression_algorithm", "NONE"),
        text("compression_algorithm", "none"),
        Compression.NONE,
    ),
    (
        number("compression_algorithm", 2, ValueKind.UINT8),
        text("compression_algorithm", "gzip"),
        Compression.GZIP,
    ),
    (
        number("compression_algorithm", 1, ValueKind.UINT8),
        text("compression_algorithm", "none"),
        Compression.NONE,
    ),
    (number("message_expiry", 1), number("message_expiry", 1), 1),
    (number("message_expiry", U64_MAX), number("message_expiry", U64_MAX), NEVER_EXPIRES),
    (text("message_expiry", "7 days"), number("message_expiry", WEEK), WEEK),
    (text("message_expiry", "never_expire"), number("message_expiry", U64_MAX), NEVER_EXPIRES),
    (number("max_topic_size", GIB), number("max_topic_size", GIB), GIB),
    (text("max_topic_size", "10 GiB"), number("max_topic_size", 10 * GIB), 10 * GIB),
    (text("max_topic_size", "unlimited"), number("max_topic_size", U64_MAX), UNLIMITED_SIZE),
    (number("segment_size", MIB), number("segment_size", MIB), MIB),
    (number("segment_size", GIB), number("segment_size", GIB), GIB),
    (number("segment_size", MIB + 512), number("segment_size", MIB + 512), MIB + 512),
    (text("segment_size", "128 MiB"), number("segment_size", 128 * MIB), 128 * MIB),
    (text("durability", "persisted"), text("durability", "persisted"), Durability.PERSISTED),
    (text("durability", "replicated"), text("durability", "replicated"), Durability.REPLICATED),
    (
        text("consumer_offset_durability", "persisted"),
        text("consumer_offset_durability", "persisted"),
        Durability.PERSISTED,
    ),
    (
        number("messages_required_to_save", 1, ValueKind.UINT32),
        number("messages_required_to_save", 1, ValueKind.UINT32),
        1,
    ),
    (
        number("messages_required_to_save", 1 << 24, ValueKind.UINT32),
        number("messages_required_to_save", 1 << 24, ValueKind.UINT32),
        1 << 24,
    ),
    (
        text("messages_required_to_save", "+0500"),
        number("messages_required_to_save", 500, ValueKind.UINT32),
        500,
    ),
    (
        number("size_of_messages_required_to_save", GIB),
        number("size_of_messages_required_to_save", GIB),
        GIB,
    ),
    (
        text("size_of_messages_required_to_save", "1 B"),
        number("size_of_messages_required_to_save", 1),
        1,
    ),
    (flag("preallocate_segments", True), flag("preallocate_segments", True), True),
    (flag("preallocate_segments", False), flag("preallocate_segments", False), False),
    (text("preallocate_segments", "true"), flag("preallocate_segments", True), True),
    (text("preallocate_segments", "false"), flag("preallocate_segments", False), False),
]

ABSENT = [
    number("message_expiry", 0),
    text("message_expiry", "server_default"),
    text("message_expiry", "500ns"),
    number("max_topic_size", 0),
    text("max_topic_size", "server_default"),
    text("max_topic_size", "Unlimited"),
    number("segment_size", 0),
    text("segment_size", "unlimited"),
    number("size_of_messages_required_to_save", 0),
    text("size_of_messages_required_to_save", "None"),
]

WRONG_VALUES = [
    text("compression_algorithm", " gzip"),
    text("compression_algorithm", "zstd"),
    number("compression_algorithm", 0, ValueKind.UINT8),
    number("compression_algorithm", 3, ValueKind.UINT8),
    number("compression_algorithm", 1, ValueKind.UINT64),
    raw("compression_algorithm", ValueKind.RAW, b"gzip"),
    raw("compression_algorithm", ValueKind.STRING, b"\xff"),
    text("message_expiry", "5"),
    text("message_expiry", "soon"),
    number("message_expiry", 5, ValueKind.UINT32),
    number("message_expiry", 5, ValueKind.INT64),
    raw("message_expiry", ValueKind.UINT64, bytes(7)),
    raw("message_expiry", ValueKind.UINT64, bytes(9)),
    raw("message_expiry", 99, bytes(8)),
    text("max_topic_size", "big"),
    text("segment_size", "16 EiB"),
    text("durability", "Persisted"),
    text("durability", " persisted"),
    text("durability", "0"),
    number("durability", 1, ValueKind.UINT8),
    raw("durability", ValueKind.RAW, b"persisted"),
    text("consumer_offset_durability", "quorum"),
    number("messages_required_to_save", 0, ValueKind.UINT32),
    number("messages_required_to_save", (1 << 24) + 1, ValueKind.UINT32),
    number("messages_required_to_save", 5, ValueKind.UINT64),
    text("messages_required_to_save", "0"),
    text("messages_required_to_save", " 5"),
    text("messages_required_to_save", "-5"),
    text("messages_required_to_save", "++5"),
    text("messages_required_to_save", "5_0"),
    text("messages_required_to_save", "٣"),
    text("messages_required_to_save", "4294967296"),
    number("size_of_messages_required_to_save", GIB + 1),
    text("size_of_messages_required_to_save", "1.1 GiB"),
    raw("preallocate_segments", ValueKind.BOOL, b"\2"),
    raw("preallocate_segments", ValueKind.BOOL, b"\0\0"),
    number("preallocate_segments", 1, ValueKind.UINT8),
    text("preallocate_segments", "True"),
    text("preallocate_segments", "1"),
]


class TestCreate:
    def test_defaults(self):
        resolved = resolve_for_create((), 1)
        assert resolved.config == TopicConfig(
            compression_algorithm=Compression.NONE,
            message_expiry=NEVER_EXPIRES,
            max_topic_size=UNLIMITED_SIZE,
            segment_size=GIB,
            durability=Durability.REPLICATED,
            consumer_offset_durability=Durability.REPLICATED,
            messages_required_to_save=1024,
            size_of_messages_required_to_save=MIB,
            preallocate_segments=False,
        )
        assert resolved.explicit == ()
        assert keys(resolved.derived) == KEYS

    def test_worked_example(self):
        request = bytes.fromhex(
            "02 1a 00 00 00 63 6f 6e 73 75 6d 65 72 5f 6f 66 66 73 65 74 5f 64 75 72 61 62 69"
            "6c 69 74 79 02 0a 00 00 00 72 65 70 6c 69 63 61 74 65 64 02 0a 00 00 00 64 75 72"
            "61 62 69 6c 69 74 79 02 09 00 00 00 70 65 72 73 69 73 74 65 64 02 0e 00 00 00 6d"
            "65 73 73 61 67 65 5f 65 78 70 69 72 79 0c 08 00 00 00 00 a0 e3 d0 8c 00 00 00 02"
            "0c 00 00 00 73 65 67 6d 65 6e 74 5f 73 69 7a 65 02 07 00 00 00 31 32 38 20 4d 69"
            "42"
        )
        resolved = resolve_for_create(decode_options(request), 2)
        assert encode_options(resolved.explicit) == bytes.fromhex(
            "02 1a 00 00 00 63 6f 6e 73 75 6d 65 72 5f 6f 66 66 73 65 74 5f 64 75 72 61 62 69"
            "6c 69 74 79 02 0a 00 00 00 72 65 70 6c 69 63 61 74 65 64 02 0a 00 00 00 64 75 72"
            "61 62 69 6c 69 74 79 02 09 00 00 00 70 65 72 73 69 73 74 65 64 02 0e 00 00 00 6d"
            "65 73 73 61 67 65 5f 65 78 70 69 72 79 0c 08 00 00 00 00 a0 e3 d0 8c 00 00 00 02"
            "0c 00 00 00 73 65 67 6d 65 6e 74 5f 73 69 7a 65 0c 08 00 00 00 00 00 00 08 00 00"
            "00 00"
        )
        assert encode_options(resolved.derived) == bytes.fromhex(
            "02 15 00 00 00 63 6f 6d 70 72 65 73 73 69 6f 6e 5f 61 6c 67 6f 72 69 74 68 6d 02"
            "04 00 00 00 6e 6f 6e 65 02 0e 00 00 00 6d 61 78 5f 74 6f 70 69 63 5f 73 69 7a 65"
            "0c 08 00 00 00 ff ff ff ff ff ff ff ff 02 19 00 00 00 6d 65 73 73 61 67 65 73 5f"
            "72 65 71 75 69 72 65 64 5f 74 6f 5f 73 61 76 65 0b 04 00 00 00 00 04 00 00 02 14"
            "00 00 00 70 72 65 61 6c 6c 6f 63 61 74 65 5f 73 65 67 6d 65 6e 74 73 03 01 00 00"
            "00 00 02 21 00 00 00 73 69 7a 65 5f 6f 66 5f 6d 65 73 73 61 67 65 73 5f 72 65 71"
            "75 69 72 65 64 5f 74 6f 5f 73 61 76 65 0c 08 00 00 00 00 00 10 00 00 00 00 00"
        )
        assert resolved.config == TopicConfig(
            message_expiry=WEEK, segment_size=128 * MIB, durability=Durability.PERSISTED
        )

    def test_vector_of_the_official_clients(self):
        block = bytes.fromhex(
            "02 14 00 00 00 70 72 65 61 6c 6c 6f 63 61 74 65 5f 73 65 67 6d 65 6e 74 73 03 01"
            "00 00 00 01 02 0c 00 00 00 73 65 67 6d 65 6e 74 5f 73 69 7a 65 0c 08 00 00 00 00"
            "00 00 40 00 00 00 00 02 0a 00 00 00 64 75 72 61 62 69 6c 69 74 79 02 09 00 00 00"
            "70 65 72 73 69 73 74 65 64"
        )
        options = (
            flag("preallocate_segments", True),
            number("segment_size", GIB),
            text("durability", "persisted"),
        )
        assert encode_options(options) == block
        assert decode_options(block) == options
        resolved = resolve_for_create(options, 64)
        assert keys(resolved.explicit) == ("durability", "preallocate_segments", "segment_size")
        assert set(resolved.explicit) == set(options)

    @pytest.mark.parametrize(("given", "canonical", "value"), CANONICAL)
    def test_values_become_canonical(self, given, canonical, value):
        resolved = resolve_for_create((given,), 1)
        assert resolved.explicit == (canonical,)
        assert getattr(resolved.config, given.key) == value
        assert type(getattr(resolved.config, given.key)) is type(value)
        assert keys(resolved.derived) == tuple(key for key in KEYS if key != given.key)

    @pytest.mark.parametrize("option", ABSENT)
    def test_choice_left_to_the_server(self, option):
        assert resolve_for_create((option,), 1) == resolve_for_create((), 1)

    @pytest.mark.parametrize("option", WRONG_VALUES)
    def test_wrong_value(self, option):
        assert refusal(resolve_for_create, (option,), 1) is ErrorCode.INVALID_OPTION_VALUE

    @pytest.mark.parametrize("key", ["partitions_count", "enforce_fsync", "Durability", "x"])
    def test_unknown_key(self, key):
        option = flag(key, True)
        assert refusal(resolve_for_create, (option,), 1) is ErrorCode.UNSUPPORTED_OPTION_KEY

    def test_the_first_wrong_option_decides(self):
        unknown, wrong = flag("x", True), text("durability", "none")
        code = refusal(resolve_for_create, (unknown, wrong), 1)
        assert code is ErrorCode.UNSUPPORTED_OPTION_KEY
        code = refusal(resolve_for_create, (wrong, unknown), 1)
        assert code is ErrorCode.INVALID_OPTION_VALUE

    @pytest.mark.parametrize("size", [1, MIB - 512, MIB - 1, MIB + 1, GIB + 512, U64_MAX])
    def test_segment_size(self, size):
        option = number("segment_size", size)
        assert refusal(resolve_for_create, (option,), 1) is ErrorCode.INVALID_OPTION_VALUE

    def test_unknown_keys_come_before_the_bounds_of_segments(self):
        options = (number("segment_size", 1), flag("x", True))
        assert refusal(resolve_for_create, options, 1) is ErrorCode.UNSUPPORTED_OPTION_KEY

    def test_preallocated_bytes(self):
        options = (flag("preallocate_segments", True),)
        assert resolve_for_create(options, 64).config.preallocate_segments
        assert refusal(resolve_for_create, options, 65) is ErrorCode.INVALID_OPTION_VALUE
        smaller = (*options, text("segment_size", "512 MiB"))
        assert resolve_for_create(smaller, 128).config.preallocate_segments
        assert refusal(resolve_for_create, smaller, 129) is ErrorCode.INVALID_OPTION_VALUE
        assert resolve_for_create((flag("preallocate_segments", False),), 1000)

    def test_preallocation_comes_before_the_number_of_partitions(self):
        options = (flag("preallocate_segments", True),)
        assert refusal(resolve_for_create, options, 1001) is ErrorCode.INVALID_OPTION_VALUE

    def test_number_of_partitions(self):
        assert resolve_for_create((), 0)
        assert resolve_for_create((), 1000)
        assert refusal(resolve_for_create, (), 1001) is ErrorCode.TOO_MANY_PARTITIONS

    def test_number_of_partitions_comes_before_the_size_of_the_topic(self):
        options = (number("max_topic_size", 1),)
        assert refusal(resolve_for_create, options, 1001) is ErrorCode.TOO_MANY_PARTITIONS

    def test_topic_below_one_segment(self):
        small = number("max_topic_size", GIB - 1)
        assert refusal(resolve_for_create, (small,), 1) is ErrorCode.INVALID_TOPIC_SIZE
        assert resolve_for_create((small, text("segment_size", "512 MiB")), 1)
        one_segment = (number("max_topic_size", MIB), number("segment_size", MIB))
        assert resolve_for_create(one_segment, 1).config.max_topic_size == MIB


class TestUpdate:
    def test_nothing(self):
        assert resolve_for_update(()) == OptionChanges(())

    def test_values_stay_as_they_were_sent(self):
        options = (
            text("message_expiry", "1h"),
            number("compression_algorithm", 2, ValueKind.UINT8),
            text("max_topic_size", "10 GiB"),
        )
        assert resolve_for_update(options) == OptionChanges(
            explicit=(options[1], options[2], options[0]),
            compression_algorithm=Compression.GZIP,
            message_expiry=3_600_000_000,
            max_topic_size=10 * GIB,
        )

    @pytest.mark.parametrize(
        "option",
        [option for option in ABSENT if option.key in {"message_expiry", "max_topic_size"}],
    )
    def test_choice_left_to_the_server_changes_nothing(self, option):
        assert resolve_for_update((option,)) == OptionChanges(())

    @pytest.mark.parametrize(
        "key",
        ["x", *sorted({*KEYS} - {"compression_algorithm", "message_expiry", "max_topic_size"})],
    )
    def test_keys_that_may_not_change_come_before_all_values(self, key):
        options = (text("message_expiry", "wrong"), text(key, "replicated"))
        assert refusal(resolve_for_update, options) is ErrorCode.UNSUPPORTED_OPTION_KEY

    @pytest.mark.parametrize(
        "option",
        [
            option
            for option in WRONG_VALUES
            if option.key in {"compression_algorithm", "message_expiry", "max_topic_size"}
        ],
    )
    def test_wrong_value(self, option):
        assert refusal(resolve_for_update, (option,)) is ErrorCode.INVALID_OPTION_VALUE

    def test_topic_below_one_segment(self):
        options = (number("max_topic_size", GIB - 1),)
        assert refusal(resolve_for_update, options) is ErrorCode.INVALID_TOPIC_SIZE
        assert resolve_for_update(options, GIB - 512).max_topic_size == GIB - 1
        unlimited = (text("max_topic_size", "unlimited"),)
        assert resolve_for_update(unlimited).max_topic_size == UNLIMITED_SIZE


class TestConfig:
    def test_of_all_options_of_a_topic(self):
        options = (
            text("durability", "persisted"),
            number("segment_size", MIB),
            text("compression_algorithm", "gzip"),
        )
        resolved = resolve_for_create(options, 3)
        assert config_of(resolved.explicit + resolved.derived) == resolved.config

    def test_forms_that_an_update_leaves(self):
        assert config_of((text("message_expiry", "1h"),)).message_expiry == 3_600_000_000

    def test_unknown_and_missing_options(self):
        assert config_of((flag("of_a_later_server", True), number("message_expiry", 0))) == (
            TopicConfig()
        )

    def test_wrong_value(self):
        options = (text("durability", "none"),)
        assert refusal(config_of, options) is ErrorCode.INVALID_OPTION_VALUE


class TestCatalog:
    def test_is_that_of_the_protocol(self):
        assert [(spec.key, spec.kind, spec.default.hex()) for spec in describe()] == [
            ("compression_algorithm", 2, "6e6f6e65"),
            ("message_expiry", 12, "ff" * 8),
            ("max_topic_size", 12, "ff" * 8),
            ("segment_size", 12, "0000004000000000"),
            ("durability", 2, "7265706c696361746564"),
            ("consumer_offset_durability", 2, "7265706c696361746564"),
            ("messages_required_to_save", 11, "00040000"),
            ("size_of_messages_required_to_save", 12, "0000100000000000"),
            ("preallocate_segments", 3, "00"),
        ]

    def test_every_option_is_a_setting_and_described(self):
        specs = describe()
        assert {spec.key for spec in specs} == {field.name for field in fields(TopicConfig)}
        assert all(spec.description for spec in specs)
        assert len({spec.description for spec in specs}) == len(specs)
