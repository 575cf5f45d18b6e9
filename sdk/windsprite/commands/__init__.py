"""The methods of the client, one module for each area of the protocol.

Each has one class of methods, and `Client` inherits all of them.
"""
