"""Layouts of the bodies of requests and replies, one module for each area of commands.

Where a body travels with every batch of messages, a codec over `struct` stands beside its layout;
a test proves that both agree on every value and on arbitrary bytes.
"""
