import pytest

from windsprite_protocol.hashing import consumer_number, partition_index


@pytest.mark.parametrize(
    ("key", "number", "of_3", "of_4", "of_10"),
    [
        (b"user-42", 1635883646, 2, 2, 6),
        (b"order-1", 3255428072, 2, 0, 2),
        (b"a", 1426945110, 0, 2, 0),
        (b"confirmation-key", 1691288495, 2, 3, 5),
        (b"\x01\x00\x00\x00", 4089149075, 2, 3, 5),
    ],
)
def test_partition_of_a_key(key, number, of_3, of_4, of_10):
    assert partition_index(key, 2**32) == number
    assert [partition_index(key, count) for count in (1, 3, 4, 10)] == [0, of_3, of_4, of_10]


def test_number_of_a_named_consumer():
    assert consumer_number("billing") == 0x6B09AE08
    assert consumer_number("ü") == partition_index("ü".encode(), 2**32)
