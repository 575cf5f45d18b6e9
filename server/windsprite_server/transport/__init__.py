"""Bytes from clients to calls of handlers, and outcomes back to bytes."""
