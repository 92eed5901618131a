"""Connections that must say what they want in time.

uvicorn closes a connection that is idle after an answer, but waits without end for the first request of a connection and for
the rest of one that has begun: a few hundred of them would shut everybody else out.
"""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


def patient(seconds: float) -> type[H11Protocol]:
    """Return uvicorn's protocol with a bound on the time that the head of a request takes to arrive.

    Args:
        seconds: The longest time.
    """

    class Connection(H11Protocol):
        """A connection that is closed where the head of a request does not arrive in time."""

        _late: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            """Wait for the first request."""
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            """Take what has arrived; wait for the rest of a head."""
            super().data_received(data)
            self._watch()

        def on_response_complete(self) -> None:
            """Wait for the rest of a head that has arrived in part behind the request that is answered now."""
            super().on_response_complete()
            if not self.transport.is_closing() and self.conn.trailing_data[0]:
                self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            """Wait no longer."""
            super().connection_lost(exc)
            self._relax()

        def _watch(self) -> None:
            """Close the connection in a while, unless a whole head is there; further bytes give no more time."""
            if self.conn.their_state is not h11.IDLE:
                self._relax()
            elif self._late is None:
                self._late = self.loop.call_later(seconds, self.transport.close)

        def _relax(self) -> None:
            if self._late is not None:
                self._late.cancel()
                self._late = None

    return Connection
