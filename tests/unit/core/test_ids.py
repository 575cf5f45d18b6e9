import pytest

from support.ids import SeededIds
from windsprite_server.core.ids import Ids, SystemIds


@pytest.mark.parametrize("ids", [SystemIds(), SeededIds()])
def test_values_have_their_size_and_differ(ids: Ids) -> None:
    assert len({ids.uuid() for _ in range(100)}) == 100
    assert ids.uuid().version == 4
    assert [len(ids.token(size)) for size in (0, 1, 32)] == [0, 1, 32]


def test_a_seed_repeats_its_values() -> None:
    first, second = SeededIds(7), SeededIds(7)
    assert [first.uuid(), first.token(8)] == [second.uuid(), second.token(8)]
