"""Options of topics: whatever a request holds, a topic gets all settings or a refusal."""

from dataclasses import fields

from hypothesis import assume, given
from hypothesis import strategies as st

from windsprite_protocol.model.typed_values import Option, TypedValue
from windsprite_protocol.topic_options import (
    TopicConfig,
    TopicOptionError,
    config_of,
    describe,
    resolve_for_create,
    resolve_for_update,
)

KEYS = [spec.key for spec in describe()]
NUMBERS = st.integers(0, 2**64 - 1) | st.sampled_from((0, 512, 1 << 20, 1 << 30, 2**64 - 1))
TEXTS = st.sampled_from(
    ("gzip", "persisted", "true", "7d", "128 MiB", "5", "unlimited", "none", "default")
) | st.text(min_size=1, max_size=5)
VALUES = (
    NUMBERS.map(lambda number: TypedValue(12, number.to_bytes(8, "little")))
    | st.integers(0, 2**32 - 1).map(lambda number: TypedValue(11, number.to_bytes(4, "little")))
    | TEXTS.map(lambda text: TypedValue(2, text.encode(errors="replace")))
    | st.builds(TypedValue, st.integers(1, 255), st.binary(min_size=1, max_size=16))
)
OPTIONS = st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), VALUES, max_size=4).map(
    lambda options: tuple(Option(key, value) for key, value in options.items())
)


@given(OPTIONS, st.integers(0, 1001))
def test_creation(options, partitions_count):
    try:
        resolved = resolve_for_create(options, partitions_count)
    except TopicOptionError:
        return
    explicit = [option.key for option in resolved.explicit]
    derived = [option.key for option in resolved.derived]
    assert explicit == sorted(explicit)
    assert derived == sorted(derived)
    assert sorted(explicit + derived) == sorted(KEYS)
    assert set(explicit) <= {option.key for option in options}
    assert config_of(resolved.explicit + resolved.derived) == resolved.config
    assert resolve_for_create(resolved.explicit, partitions_count) == resolved


@given(OPTIONS)
def test_update(options):
    try:
        changes = resolve_for_update(options)
    except TopicOptionError:
        return
    assert set(changes.explicit) <= set(options)
    config = config_of(changes.explicit)
    for field in fields(TopicConfig):
        change = getattr(changes, field.name, None)
        assert change is None or change == getattr(config, field.name)
        assert (change is not None) == (field.name in {option.key for option in changes.explicit})


@given(st.data())
def test_every_canonical_value_may_be_given_again(data):
    spec = data.draw(st.sampled_from(describe()))
    option = Option(spec.key, TypedValue(spec.kind, spec.default))
    resolved = resolve_for_create((option,), 1)
    assume(resolved.explicit)
    assert resolved.explicit == (option,)
