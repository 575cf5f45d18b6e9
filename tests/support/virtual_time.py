"""An event loop whose time jumps: what would wait for seconds is over at once.

Sockets are real. Whenever no socket has anything to say and nothing is ready to run, the loop's
clock jumps to the next timer instead of waiting for it. So timers fire in their order and at their
times, and a minute of retries takes milliseconds.
"""

import asyncio
import functools
import selectors
import time
from collections.abc import Callable, Coroutine
from typing import Any

# Seconds of real time for which all sockets have to be silent before the clock jumps. Loopback
# delivers at once, and both ends live in this thread; the rest is for the kernel.
SETTLE = 0.002


class _JumpingSelector:
    def __init__(self, loop: "VirtualTimeLoop") -> None:
        self._selector = selectors.DefaultSelector()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        events = self._selector.select(0)
        if events or timeout == 0:
            return events
        if self._loop.waits_for_threads:
            return self._selector.select(0.05)
        events = self._selector.select(SETTLE)
        if events:
            return events
        if timeout is None:
            # Nothing will ever happen unless it comes from outside; a stuck test ends here.
            if time.monotonic() > self._loop.ends:
                message = "the loop waits for something that never comes"
                raise RuntimeError(message)
            return self._selector.select(0.05)
        self._loop.now += timeout
        return []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._selector, name)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """The loop; `now` is its clock, in seconds."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.ends = time.monotonic() + 30
        self.waits_for_threads = 0
        super().__init__(_JumpingSelector(self))  # type: ignore[arg-type]

    def time(self) -> float:
        return self.now

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        future = super().run_in_executor(executor, func, *args)
        self.waits_for_threads += 1

        def done(_: Any) -> None:
            self.waits_for_threads -= 1

        future.add_done_callback(done)
        return future


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test on a `VirtualTimeLoop`; it must not leave tasks or sockets behind."""

    async def checked(*args: Any, **kwargs: Any) -> None:
        await test(*args, **kwargs)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks left behind: {left}"

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(checked(*args, **kwargs))

    # The fixtures that pytest looks for are those of the test; that it is async is not its concern.
    return run
