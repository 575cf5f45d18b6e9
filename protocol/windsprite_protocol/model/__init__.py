"""Domain values: what the commands of the protocol mean, with no word about their bytes.

Requests are the classes named after an action (`CreateTopic`); the values they are answered with
are nouns (`TopicDetails`). A request whose reply says nothing is answered with `None`. All of them
are immutable, compare by value and can be hashed, unless they carry a batch of messages.

Units: every timestamp is in microseconds since the Unix epoch, every duration in microseconds,
every size in bytes.
"""
