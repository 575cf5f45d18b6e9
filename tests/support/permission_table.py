"""Which grants are enough for what: the rule table of spec 06, 4.3, by rows."""

ANYBODY = frozenset({""})


def grants(*, g: str = "", s: str = "", t: str = "") -> frozenset[str]:
    """Which grants are enough, by where they are given: on all, on the stream, on the topic."""
    levels = (("g", g), ("s", s), ("t", t))
    return frozenset(f"{level}.{word}" for level, words in levels for word in words.split())


SERVERS = grants(g="manage_servers read_servers")
READ_USERS = grants(g="manage_users read_users")
MANAGE_USERS = grants(g="manage_users")
READ_STREAMS = grants(g="manage_streams read_streams")
READ_STREAM = READ_STREAMS | grants(s="manage_stream read_stream")
CREATE_STREAM = grants(g="manage_streams")
MANAGE_STREAM = grants(g="manage_streams", s="manage_stream")
READ_TOPICS = grants(
    g="manage_streams read_streams manage_topics read_topics",
    s="manage_stream read_stream manage_topics read_topics",
)
READ_TOPIC = READ_TOPICS | grants(t="manage_topic read_topic")
CREATE_TOPIC = grants(g="manage_streams manage_topics", s="manage_stream manage_topics")
MANAGE_TOPIC = CREATE_TOPIC | grants(t="manage_topic")
READ_MESSAGES = grants(
    g="manage_streams read_streams manage_topics read_topics poll_messages",
    s="manage_stream read_stream manage_topics read_topics poll_messages",
    t="manage_topic read_topic poll_messages",
)
SEND_MESSAGES = grants(
    g="manage_streams manage_topics send_messages",
    s="manage_stream manage_topics send_messages",
    t="manage_topic send_messages",
)
