"""How programs use the blocking client; `make check` type-checks this file as it would theirs."""

from typing import assert_type

import windsprite
import windsprite.sync


def commands(client: windsprite.sync.Client) -> None:
    assert_type(client.create_stream("orders"), windsprite.StreamDetails)
    assert_type(client.get_topic("orders", "events"), windsprite.TopicDetails | None)
    assert_type(client.send("orders", "events", [b"one"]), windsprite.Confirmation | None)
    assert_type(client.poll("orders", "events"), windsprite.Batch)
    assert_type(client.get_cluster_metadata(), windsprite.ClusterMetadata)
    assert_type(client.server, str | None)


def happenings(client: windsprite.sync.Client) -> None:
    for event in client.events():
        assert_type(event, windsprite.ClientEvent)


def producers(client: windsprite.sync.Client) -> None:
    with client.producer("orders", "events", key="all") as producer:
        delivery = producer.send(b"one")
        assert_type(delivery, windsprite.sync.Delivery)
        assert_type(delivery.result(timeout=5), windsprite.Delivered)
        assert_type(producer.send_many(["two", "three"]), windsprite.sync.Deliveries)


def consumers(client: windsprite.sync.Client) -> None:
    for message in client.consumer("orders", "events", group="billing"):
        assert_type(message, windsprite.ReceivedMessage)
    with client.consumer("orders", "events", name="me") as consumer:
        consumer.handled(consumer.get(timeout=1))
        consumer.run(print, concurrency=4, on_failure=lambda message, error: print(error))


with windsprite.sync.connect(["10.0.0.1", "10.0.0.2"], token="a", request_timeout=5) as made:
    assert_type(made, windsprite.sync.Client)
