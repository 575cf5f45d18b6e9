import asyncio

import uvloop


def pytest_asyncio_loop_factories(config, item):
    """The server runs on uvloop where that exists, and elsewhere on the loop of Python."""
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
