"""Generation 0.11 of the wire, which Apache Iggy 0.9 speaks."""
