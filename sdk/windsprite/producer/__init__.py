"""The high-level producer: batches, keys, back-pressure, retries; see docs/producing.md."""

from windsprite.producer.delivery import Delivered, Deliveries, Delivery
from windsprite.producer.options import (
    FailedBatch,
    NewTopic,
    OnError,
    ProducerMode,
    WhenFull,
)
from windsprite.producer.producer import Producer
from windsprite.producer.routing import Partitioner

__all__ = [
    "Delivered",
    "Deliveries",
    "Delivery",
    "FailedBatch",
    "NewTopic",
    "OnError",
    "Partitioner",
    "Producer",
    "ProducerMode",
    "WhenFull",
]
