import dataclasses
import ssl
from pathlib import Path
from urllib.parse import quote

import pytest

import windsprite
from windsprite.address import Address, Endpoint, Options, Password, Token
from windsprite.errors import InvalidConnectionString
from windsprite_protocol.errors import ErrorCode


def parse(text: str) -> Address:
    return Address.parse(text)


def refused(text: str) -> str:
    with pytest.raises(InvalidConnectionString) as failure:
        Address.parse(text)
    assert failure.value.code is ErrorCode.INVALID_CONNECTION_STRING
    # No chained exception may show what the message hides.
    assert failure.value.__cause__ is None
    return str(failure.value)


@pytest.mark.parametrize("scheme", ["iggy", "iggy+tcp"])
def test_the_official_form(scheme: str) -> None:
    address = parse(f"{scheme}://iggy:secret@10.0.0.1:8090")
    assert address.endpoints == (Endpoint("10.0.0.1", 8090),)
    assert address.credentials == Password("iggy", "secret")
    assert address.options == Options()


def test_the_default() -> None:
    address = parse(windsprite.DEFAULT_CONNECTION_STRING)
    assert address == Address((Endpoint("127.0.0.1", 8090),), Password("iggy", "iggy"))


def test_a_token_may_hold_what_base64_holds() -> None:
    assert parse("iggy://ab+/c==@h:1").credentials == Token("ab+/c==")


def test_several_servers_and_the_default_port() -> None:
    address = parse("iggy://u:p@h1,h2:8091,[::1],[fe80::1]:9000,h1:8090,H2:8091")
    assert address.endpoints == (
        Endpoint("h1", 8090),
        Endpoint("h2", 8091),
        Endpoint("::1", 8090),
        Endpoint("fe80::1", 9000),
    )


@pytest.mark.parametrize(
    ("text", "endpoint", "shown"),
    [
        ("[2001:DB8:0:0::1]:1", Endpoint("2001:db8::1", 1), "[2001:db8::1]:1"),
        ("[::ffff:10.0.0.1]:1", Endpoint("10.0.0.1", 1), "10.0.0.1:1"),
        ("Example.COM:65535", Endpoint("example.com", 65535), "example.com:65535"),
        ("a_b-c.d:08090", Endpoint("a_b-c.d", 8090), "a_b-c.d:8090"),
    ],
)
def test_endpoints(text: str, endpoint: Endpoint, shown: str) -> None:
    assert Endpoint.parse(text) == endpoint
    assert str(endpoint) == shown
    assert Endpoint.parse(shown) == endpoint


@pytest.mark.parametrize(
    "secret", [*":@/?#[]%&=+ é\0*", "a:b@c/d?e#f%zz", "%41", "p\u00e4ss\U0001f600"]
)
@pytest.mark.parametrize("place", ["user", "password", "token"])
def test_bug_41_every_character_can_be_written(secret: str, place: str) -> None:
    encoded = quote(secret, safe="")
    if place == "user":
        assert parse(f"iggy://{encoded}:p@h").credentials == Password(secret, "p")
    elif place == "password":
        assert parse(f"iggy://u:{encoded}@h").credentials == Password("u", secret)
    else:
        assert parse(f"iggy://{encoded}@h").credentials == Token(secret)


@pytest.mark.parametrize("character", "/?#[]&=+ é\0*")
def test_bug_41_characters_without_a_meaning_need_no_encoding(character: str) -> None:
    assert parse(f"iggy://u:a{character}b@h").credentials == Password("u", f"a{character}b")


@pytest.mark.parametrize("bad", ["%", "%z", "%zz", "a%4", "%4g", "%%41", "%+1"])
def test_bug_41_bad_encoding_is_told_without_the_secret(bad: str) -> None:
    assert "%25" in refused(f"iggy://user:hunter2{bad}@h")
    assert "hunter2" not in refused(f"iggy://user:hunter2{bad}@h")
    refused(f"iggy://hunter2{bad}@h")
    refused(f"iggy://hunter2{bad}:p@h")
    assert "UTF-8" in refused("iggy://user:hunter2%ff@h")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("iggy://h:8090", "credentials"),
        ("iggy://a:b:hunter2@h", "%3A"),
        ("iggy://a@hunter2@h", "%40"),
        ("iggy://a:hunter2://@h", "%3A"),
        ("iggy://:hunter2@h", "user name is empty"),
        ("iggy://hunter2:@h", "password is empty"),
        ("iggy://@h", "token is empty"),
        ("iggy://hunter2@", "host name is empty"),
        ("iggy://hunter2@:8090", "host name is empty"),
        ("iggy://hunter2@h:", "port"),
        ("iggy://hunter2@h:0", "port"),
        ("iggy://hunter2@h:65536", "port"),
        ("iggy://hunter2@h:-1", "port"),
        ("iggy://hunter2@h:\u0661", "port"),
        ("iggy://hunter2@h:80/path", "port"),
        ("iggy://hunter2@h:1:2", "brackets"),
        ("iggy://hunter2@::1", "brackets"),
        ("iggy://hunter2@[::1", "[address]"),
        ("iggy://hunter2@[::1]8090", "[address]"),
        ("iggy://hunter2@[::g]", "IPv6"),
        ("iggy://hunter2@h,", "host name is empty"),
        ("iggy://hunter2@10.0.0.256", "IPv4"),
        ("iggy://hunter2@-h", "host name"),
        ("iggy://hunter2@h.", "host name"),
        ("iggy://hunter2@" + "a" * 64, "host name"),
        ("iggy://hunter2@" + "a." * 127 + "a", "host name"),
        ("iggy://hunter2@h?", "unknown option"),
        ("iggy://hunter2@h?tls", "tls=value"),
        ("iggy://hunter2@h?tls=", "tls=value"),
        ("iggy://hunter2@h?tls=true=true", "tls=value"),
        ("iggy://hunter2@h?tls=yes", "true or false"),
        ("iggy://hunter2@h?tls=true&tls=true", "twice"),
        ("iggy://hunter2@h?tsl=true", "did you mean tls?"),
        ("iggy://hunter2@h?xyzzy=1", "there are: tls, tls_domain"),
        ("iggy://hunter2@h?heartbeat_interval=0", "heartbeat_interval"),
        ("iggy://hunter2@h?reconnection_interval=none", "reconnection_interval"),
        ("iggy://hunter2@h?heartbeat_interval=soon", "500ms"),
        ("iggy://hunter2@h?reconnection_retries=-1", "reconnection_retries"),
        ("iggy://hunter2@h?reconnection_retries=4294967296", "reconnection_retries"),
        ("iggy://hunter2@h?max_reply_size=1", "max_reply_size"),
        ("iggy://hunter2@h?max_reply_size=much", "64 MiB"),
        ("iggy://hunter2@h?send_retry=maybe", "send_retry"),
        ("iggy://hunter2@h?tls_ca_file=%zz", "%25"),
        ("iggy+quic://hunter2@h:1", "not supported"),
        ("iggy+http://hunter2@h:1", "not supported"),
        ("iggy+ws://hunter2@h:1", "not supported"),
        ("IGGY://hunter2@h:1", "iggy://"),
        ("://hunter2@h:1", "iggy://"),
        ("hunter2 is no host", "host name"),
        ("", "host name is empty"),
    ],
)
def test_what_is_wrong_is_told_without_the_secret(text: str, said: str) -> None:
    message = refused(text)
    assert said in message
    assert "hunter2" not in message


def test_options() -> None:
    address = parse(
        "iggy://u:p@h?tls=true&tls_domain=example.com&tls_ca_file=/etc/a%20b.pem"
        "&reconnection_retries=3&reconnection_interval=500ms&reconnection_max_interval=1m 30s"
        "&reestablish_after=0&heartbeat_interval=1s&nodelay=false&dial_timeout=2s"
        "&connect_timeout=20s&request_timeout=10s&max_reply_size=1MiB&send_retry=at-least-once"
        "&max_in_flight=4"
    )
    assert address.options == Options(
        tls=True,
        tls_domain="example.com",
        tls_ca_file=Path("/etc/a b.pem"),
        reconnection_retries=3,
        reconnection_interval=0.5,
        reconnection_max_interval=90.0,
        reestablish_after=0.0,
        heartbeat_interval=1.0,
        nodelay=False,
        dial_timeout=2.0,
        connect_timeout=20.0,
        request_timeout=10.0,
        max_reply_size=1024 * 1024,
        max_in_flight=4,
        send_retry="at-least-once",
    )
    assert parse("iggy://u:p@h?reconnection_retries=unlimited").options == Options()
    # Every field can be written in a connection string.
    changed = dataclasses.asdict(address.options).items() - dataclasses.asdict(Options()).items()
    assert len(changed) == len(dataclasses.fields(Options))


def test_secrets_are_never_shown() -> None:
    for text in ("iggy://user:hunter2@h", "iggy://hunter2@h"):
        address = parse(text)
        for shown in (str(address), repr(address), repr(address.credentials)):
            assert "hunter2" not in shown
        assert "hunter2" not in repr(windsprite.Client(address))
    assert (
        str(parse("iggy://us%40er:hunter2@h1,h2?tls=true")) == "iggy://us%40er:***@h1:8090,h2:8090"
    )


def test_several_connection_strings_have_to_agree() -> None:
    gathered = Address.gather(["iggy://u:p@h1?tls=true", "h2:1", "iggy://u:p@h1,h3"])
    assert gathered == parse("iggy://u:p@h1,h2:1,h3?tls=true")
    assert Address.gather("iggy://u:p@h1") == parse("iggy://u:p@h1")
    assert Address.gather(gathered) is gathered
    for disagreeing in (
        ["iggy://u:p@h1", "iggy://u:q@h2"],
        ["iggy://u:p@h1?tls=true", "iggy://u:p@h2?nodelay=false"],
        [],
    ):
        with pytest.raises(InvalidConnectionString):
            Address.gather(disagreeing)


def test_too_many_servers_are_refused() -> None:
    with pytest.raises(InvalidConnectionString, match="256"):
        parse("iggy://u:p@" + ",".join(f"h{number}" for number in range(257)))


def test_options_of_connect() -> None:
    with pytest.raises(TypeError, match="tsl"):
        windsprite.connect("h", tsl=True)
    with pytest.raises(InvalidConnectionString, match="request_timeout"):
        windsprite.connect("h", request_timeout=float("inf"))
    with pytest.raises(windsprite.InvalidRequest):
        windsprite.connect("h", username="u")
    with pytest.raises(windsprite.InvalidRequest):
        windsprite.connect("h", username="u", password="p", token="t")
    with pytest.raises(windsprite.InvalidRequest, match="cannot read"):
        windsprite.connect("iggy://u:p@h?tls=true&tls_ca_file=/nowhere.pem")


def test_what_is_said_about_tls_without_wanting_it_is_refused() -> None:
    for options in ("tls_ca_file=/ca.pem", "tls=false&tls_ca_file=/ca.pem", "tls_domain=n.test"):
        with pytest.raises(InvalidConnectionString, match=r"given without tls=true \(add tls=true"):
            windsprite.connect(f"iggy://u:p@h?{options}")
    for option in ({"tls_ca_file": "/ca.pem"}, {"tls_domain": "n.test"}):
        with pytest.raises(
            InvalidConnectionString, match=rf"{next(iter(option))} is given without"
        ):
            windsprite.connect("h", **option)
    windsprite.connect("iggy://u:p@h?tls_domain=n.test", tls=True)
    windsprite.connect("h", tls_domain="n.test", tls_context=ssl.create_default_context())
