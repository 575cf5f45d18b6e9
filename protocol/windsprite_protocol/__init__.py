"""The protocol of Windsprite: bytes to values and back, with no I/O, no clock and no randomness."""
