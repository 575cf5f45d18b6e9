from urllib.parse import quote

from hypothesis import example, given
from hypothesis import strategies as st

from windsprite.address import Address, Endpoint, Password, Token
from windsprite.errors import InvalidConnectionString

SECRETS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
LABELS = st.from_regex(r"[a-z0-9_]([a-z0-9_-]{0,10}[a-z_])?", fullmatch=True)
NAMES = (
    st.lists(LABELS, min_size=1, max_size=4)
    .map(".".join)
    .filter(lambda name: not name.replace(".", "").isdigit())
)
HOSTS = NAMES | st.ip_addresses(v=4).map(str) | st.ip_addresses(v=6).map(str)
ENDPOINTS = st.builds(Endpoint.of, HOSTS, st.integers(1, 65535))

PIECES = st.lists(
    st.sampled_from(
        [
            *("iggy", "iggy+tcp", "://", "@", ":", ",", "?", "&", "=", "%", "%41", "%zz", "[", "]"),
            *("h", "::1", "127.0.0.1", "8090", "0", "tls", "true", "heartbeat_interval", "5s"),
            *("max_reply_size", "1GB", "reconnection_retries", "unlimited", "\0", "é", "\ud800"),
        ]
    ),
    max_size=20,
).map("".join)


@given(st.text() | PIECES)
@example("iggy://a:b@h?heartbeat_interval=" + "9" * 400 + "y")
@example("iggy://a:b@h?max_reply_size=" + "9" * 400)
@example("iggy://a\ud800:b@h")
def test_any_text_is_an_address_or_an_error(text: str) -> None:
    try:
        address = Address.parse(text)
    except InvalidConnectionString:
        return
    assert all(1 <= endpoint.port <= 65535 for endpoint in address.endpoints)
    assert all(Endpoint.parse(str(endpoint)) == endpoint for endpoint in address.endpoints)


@given(st.lists(ENDPOINTS, min_size=1, max_size=5, unique=True), SECRETS, SECRETS, st.booleans())
def test_whatever_is_encoded_comes_out(
    endpoints: list[Endpoint], name: str, secret: str, by_token: bool
) -> None:
    credentials = Token(secret) if by_token else Password(name, secret)
    encoded = quote(secret, safe="")
    if not by_token:
        encoded = f"{quote(name, safe='')}:{encoded}"
    text = f"iggy://{encoded}@{','.join(map(str, endpoints))}"
    assert Address.parse(text) == Address(tuple(endpoints), credentials)


@given(st.text(), st.text())
def test_an_error_never_shows_a_secret(secret: str, rest: str) -> None:
    for text in (
        f"iggy://u:hunter2{secret}@{rest}",
        f"iggy://hunter2{secret}:p@{rest}",
        f"iggy://hunter2{secret}@{rest}",
        f"iggy://u:hunter2{secret}",
        f"hunter2{secret}",
    ):
        shown = ""
        try:
            address = Address.parse(text)
        except InvalidConnectionString as error:
            shown = f"{error} {error!r} {error.hint} {error.__cause__}"
        else:
            if isinstance(address.credentials, Token):
                shown = f"{address} {address.credentials!r}"
        assert "hunter2" not in shown
