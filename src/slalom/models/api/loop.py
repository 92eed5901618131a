"""The event loop of the requests, in a thread of its own, with what all of them share: slots, pauses, the end."""

import asyncio
import os
import random
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, final

from slalom.models.api.waiting import seconds_of

_CLOSE = 2.0  # seconds to close all connections


@final
class RequestLoop:
    """The event loop of a client, in a thread of its own, with what all its requests share.

    Args:
        owner: The client; when it is collected, the thread ends.
        connect: Returns the connections, a client of openai.
        concurrency: Largest number of requests in flight.

    Attributes:
        pid: The process that it belongs to.
        resume_at: No request starts before this time (`time.monotonic`).
        answered: Whether an answer has come.
        answered_at: When the last one came, or the loop was started.
        stopping: Set where nothing may be repeated.
    """

    def __init__(self, owner: object, connect: Callable[[], Any], concurrency: int) -> None:
        self.pid, self.resume_at, self.answered, self.answered_at = os.getpid(), 0.0, False, time.monotonic()
        self.loop, self.slots, self.stopping = asyncio.new_event_loop(), asyncio.Semaphore(concurrency), asyncio.Event()
        self.client = connect()
        thread = threading.Thread(target=_run_loop, args=(self.loop,), name="slalom requests", daemon=True)
        thread.start()
        self._end = weakref.finalize(owner, _end_loop, self.loop, self.client, self.pid, thread)

    async def pause(self) -> None:
        """Wait while the server asks for it; not all requests start at the same moment afterwards."""
        while (left := self.resume_at - time.monotonic()) > 0.0 and not self.stopping.is_set():
            await self.sleep(left + random.uniform(0.0, min(1.0, 0.1 * left)))

    async def sleep(self, seconds: float) -> None:
        """Wait, but no longer than until nothing may be repeated."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.stopping.wait()

    def note_limits(self, headers: Mapping[str, str]) -> None:
        """Pause where the server says that no request is left."""
        for kind in ("requests", "tokens"):
            wait = seconds_of(headers.get(f"x-ratelimit-reset-{kind}", ""))
            if headers.get(f"x-ratelimit-remaining-{kind}", "").strip() == "0" and wait is not None and wait <= 60.0:
                self.resume_at = max(self.resume_at, time.monotonic() + wait)

    def close(self) -> None:
        """End the thread."""
        self._end()


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


def _end_loop(loop: asyncio.AbstractEventLoop, client: Any, pid: int, thread: threading.Thread) -> None:
    """Cancel what is in flight, close the connections and end the loop."""
    if pid != os.getpid() or loop.is_closed():
        return

    async def end() -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(Exception):  # a connection that is broken already
            await client.close()
        for _ in range(3):  # sockets are closed by callbacks
            await asyncio.sleep(0)
        loop.stop()

    asyncio.run_coroutine_threadsafe(end(), loop)
    if thread is not threading.current_thread():
        thread.join(_CLOSE)
