import pytest

from windsprite_server.core.address import (
    Address,
    AdvertisedAddress,
    parse_address,
    parse_advertised_address,
)


@pytest.mark.parametrize(
    ("text", "address", "loopback"),
    [
        ("127.0.0.1:8090", Address("127.0.0.1", 8090), True),
        ("0.0.0.0:0", Address("0.0.0.0", 0), False),
        ("[::1]:8090", Address("::1", 8090), True),
        ("[::]:8090", Address("::", 8090), False),
        ("localhost:65535", Address("localhost", 65535), True),
        ("broker-1.example.com:1", Address("broker-1.example.com", 1), False),
        ("127.1.2.3:1", Address("127.1.2.3", 1), True),
    ],
)
def test_listener_addresses(text: str, address: Address, loopback: bool) -> None:
    assert parse_address(text) == address
    assert str(address) == text
    assert address.is_loopback is loopback


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":8090",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:65536",
        "127.0.0.1:-1",
        "127.0.0.1:80x",
        "127.0.0.1:٣",
        "127.0.0.1:000008090",
        "10.0.0.256:1",
        "1.2.3:1",
        "::1:8090",
        "[::1]8090",
        "[::1",
        "[127.0.0.1]:1",
        "-a:1",
        "a_b:1",
        "a..b:1",
        "höst:1",
        "a b:1",
        "a" * 64 + ":1",
        ".".join(["a" * 60] * 5) + ":1",
    ],
)
def test_what_is_no_listener_address(text: str) -> None:
    with pytest.raises(ValueError, match=r"address|host|port|dial"):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("broker.example.com", AdvertisedAddress("broker.example.com", None)),
        ("broker.example.com:9000", AdvertisedAddress("broker.example.com", 9000)),
        ("10.0.0.1", AdvertisedAddress("10.0.0.1", None)),
        ("fd00::1", AdvertisedAddress("fd00::1", None)),
        ("[fd00::1]:9000", AdvertisedAddress("fd00::1", 9000)),
    ],
)
def test_advertised_addresses(text: str, address: AdvertisedAddress) -> None:
    assert parse_advertised_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize("text", ["0.0.0.0", "::", "[::]:8090", "host:0", "10.0.0.256", "a/b", ""])
def test_what_clients_cannot_dial(text: str) -> None:
    with pytest.raises(ValueError, match=r"address|host|port|dial"):
        parse_advertised_address(text)
