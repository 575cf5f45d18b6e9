"""An event loop in a thread of its own, for programs that block."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from windsprite.errors import ClientClosed, InvalidRequest
from windsprite_protocol.errors import ErrorCode

T = TypeVar("T")

_END: Final = object()


class _Loop(NamedTuple):
    """What the thread tells of itself once it runs."""

    loop: asyncio.AbstractEventLoop
    main: asyncio.Task[None]
    stopping: asyncio.Event
    contexts: AsyncExitStack


class LoopThread:
    """Runs coroutines for threads that wait for them; any number of threads may do so.

    It ends with `close`, when nobody has it any more, or with the interpreter; and then it leaves
    all that was entered. The thread is a daemon, and knows nothing of this object: so neither
    keeps the other alive.
    """

    def __init__(self, name: str = "windsprite") -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._is_closed = False
        started: concurrent.futures.Future[_Loop] = concurrent.futures.Future()
        self._ended: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._thread = threading.Thread(
            target=_live, args=(started, self._ended), name=name, daemon=True
        )
        self._thread.start()
        self._loop = started.result()
        weakref.finalize(self, _abandon, self._process, self._loop).atexit = False
        self._at_exit = partial(_close_at_exit, weakref.ref(self))
        atexit.register(self._at_exit)

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Begin with a coroutine; the future tells what comes of it, and can cancel it.

        Raises:
            ClientClosed: The thread has ended, or belongs to a process from which this one was
                forked.
            InvalidRequest: This is the thread itself: it would wait for itself.
        """
        try:
            self._check_caller()
            with self._lock:
                self._check_open()
                return asyncio.run_coroutine_threadsafe(coroutine, self._loop.loop)
        except (ClientClosed, InvalidRequest):
            coroutine.close()
            raise
        except BaseException:  # an interrupt: the thread may have begun with it by now
            with suppress(RuntimeError):  # unless it has ended
                self._loop.loop.call_soon_threadsafe(_give_up, coroutine)
            raise

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What a coroutine returns. An interrupt, as by Ctrl-C, cancels it.

        Raises:
            ClientClosed: As `submit`; or the thread ended meanwhile.
            BaseException: What the coroutine raises.
        """
        return self.wait(self.submit(coroutine))

    def wait(self, future: concurrent.futures.Future[T]) -> T:
        """What comes of a future of `submit`; an interrupt cancels it."""
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            if self._is_closed:
                raise _closed() from None
            raise
        finally:
            future.cancel()  # does nothing unless waiting for it was interrupted

    def call(self, function: Callable[[], T]) -> T:
        """What a function returns, called in the thread."""

        async def call() -> T:
            return function()

        return self.run(call())

    def iterate(self, begin: Callable[[], AsyncIterator[T]]) -> Iterator[T]:
        """The items of an iterator one after the other; none is asked for before it is wanted.

        The iterator begins, goes on and ends in the thread: some do something when they go.
        """
        iterators: list[AsyncIterator[T]] = []

        async def step() -> Any:  # noqa: ANN401 - an item, or the mark of the end
            if not iterators:
                iterators.append(begin())
            return await anext(iterators[0], _END)

        async def end() -> None:
            while iterators:
                iterator = iterators.pop()
                if isinstance(iterator, AsyncGenerator):
                    await iterator.aclose()

        try:
            while (item := self.run(step())) is not _END:
                yield item
        finally:
            # A collector may end it in any thread, and after the client.
            with suppress(ClientClosed, InvalidRequest):
                self.run(end())

    def enter(self, context: AbstractAsyncContextManager[T]) -> T:
        """Enter a context, which is left when the thread ends; those entered last go first."""
        return self.run(self._loop.contexts.enter_async_context(context))

    def close(self) -> None:
        """Leave all contexts and end the thread; may be called more than once.

        An interrupt cancels what takes its time, and the thread ends nevertheless. In a forked
        process, which has no such thread, nothing happens.

        Raises:
            Exception: What leaving a context raises.
        """
        if self._process != os.getpid():
            return
        self._check_caller()
        atexit.unregister(self._at_exit)
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._loop.loop.call_soon_threadsafe(self._loop.stopping.set)
        try:
            self._thread.join()
        except BaseException:
            with suppress(RuntimeError):  # it has ended meanwhile
                self._loop.loop.call_soon_threadsafe(self._loop.main.cancel)
            self._thread.join()
            raise
        self._ended.result()

    def wait_closed(self) -> None:
        """Wait until the thread, which somebody closes, has ended."""
        self._thread.join()

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be run any more."""
        return self._is_closed

    def _check_open(self) -> None:
        if self._is_closed:
            raise _closed()

    def _check_caller(self) -> None:
        if self._process != os.getpid():
            raise ClientClosed(
                "this client belongs to the process from which this one was forked",
                code=ErrorCode.CLIENT_SHUTDOWN,
                hint="connect in each process, after the fork",
            )
        if self._thread is threading.current_thread():
            raise InvalidRequest(
                "a blocking call in the thread of the client would wait for itself",
                hint="callbacks such as on_error must not call the client; use a queue",
            )


def _live(
    started: concurrent.futures.Future[_Loop], ended: concurrent.futures.Future[None]
) -> None:
    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - tells mypy
        async with AsyncExitStack() as contexts:
            stopping = asyncio.Event()
            started.set_result(_Loop(asyncio.get_running_loop(), task, stopping, contexts))
            await stopping.wait()

    try:
        with asyncio.Runner() as runner:
            runner.run(main())
    except asyncio.CancelledError:  # whoever closed it would not wait
        ended.set_result(None)
    except BaseException as error:
        ended.set_exception(error)
    else:
        ended.set_result(None)


def _abandon(process: int, loop: _Loop) -> None:
    """Let the thread end by itself; a collector must not be held up."""
    if process == os.getpid():
        with suppress(RuntimeError):  # it has ended already
            loop.loop.call_soon_threadsafe(loop.stopping.set)


def _close_at_exit(reference: weakref.ref[LoopThread]) -> None:
    thread = reference()
    if thread is not None:
        thread.close()


def _give_up(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Cancel what a thread does; to be called in that thread."""
    for task in asyncio.all_tasks():
        if task.get_coro() is coroutine:
            task.cancel()
            return
    coroutine.close()


def _closed() -> ClientClosed:
    return ClientClosed("the client is closed", code=ErrorCode.CLIENT_SHUTDOWN)
