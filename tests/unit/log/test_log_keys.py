"""Names of directories: numbers, one spelling each."""

import pytest

from windsprite_server.log.keys import PartitionKey


def test_a_directory_is_named_by_numbers() -> None:
    key = PartitionKey(1, 2, 3, 40)
    assert key.directory_name == "1-2-3.40"
    assert PartitionKey.from_directory_name("1-2-3.40") == key


@pytest.mark.parametrize(
    "name", ["", "1-2-3", "1-2-3.40.removed", "01-2-3.40", "a-2-3.4", "1-2-3.4\n", "1-2-3.\u0664"]
)
def test_other_names_are_no_partition(name) -> None:
    assert PartitionKey.from_directory_name(name) is None
