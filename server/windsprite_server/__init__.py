"""The broker: streams, topics and partitions behind the wire protocol of Apache Iggy 0.9."""
