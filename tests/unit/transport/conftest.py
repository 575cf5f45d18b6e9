import asyncio

import uvloop


def pytest_asyncio_loop_factories(config, item):
    """The server runs on uvloop where that exists, and elsewhere on the loop of Python."""
    if item.path.stem == "test_tcp_over_tls":  # long, and `test_tls` runs on both
        return {"uvloop": uvloop.new_event_loop}
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
