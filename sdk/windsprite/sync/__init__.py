"""The client for programs that block: scripts, notebooks, threads.

with windsprite.sync.connect("iggy://iggy:iggy@127.0.0.1:8090") as client:
    client.create_stream("orders")
    client.create_topic("orders", "events", partitions=3)
    client.send("orders", "events", [b"one", b"two"], key=b"k")
    for message in client.consumer("orders", "events"):
        print(message.payload)

The classes have the names and the methods of those of `windsprite`. The methods are written by
docs/sync_modules.py: whoever changes them in `windsprite` runs `make sync-client`.
The page docs/scripts-and-notebooks.md shows what one does with it.
"""

from windsprite.sync.client import Client, connect
from windsprite.sync.consumer import TopicConsumer
from windsprite.sync.delivery import Deliveries, Delivery
from windsprite.sync.events import EventStream
from windsprite.sync.producer import Producer

__all__ = [
    "Client",
    "Deliveries",
    "Delivery",
    "EventStream",
    "Producer",
    "TopicConsumer",
    "connect",
]
