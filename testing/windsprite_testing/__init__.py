"""What the tests of applications need: a server for each test, and clients on it.

`windsprite_testing.plugin` is a plugin of pytest, which finds it by itself; see
docs/testing-applications.md. The package stands above client and server, which know nothing of
each other.
"""
