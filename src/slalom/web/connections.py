"""Connections that must say what they want in time, read what they are told, and leave room for others.

uvicorn closes a connection that is idle after an answer, but waits without end for the first request of a connection, for the
rest of one that has begun, and for a client that does not read: a few hundred of them would shut everybody else out.
"""

import asyncio
import json
from collections import Counter
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from slalom.web.access import Limits
from slalom.web.guard import HEADERS

_REASONS = {400: "Bad Request", 503: "Service Unavailable"}


def bounded(limits: Limits) -> type[H11Protocol]:
    """Return uvicorn's protocol with bounds on connections, on the time of heads and unread answers, and on pipelining."""
    by_address = Counter[str]()

    class Connection(H11Protocol):
        """A connection that is closed where it exceeds a bound."""

        _address = ""
        _late: asyncio.TimerHandle | None = None
        _unread: asyncio.TimerHandle | None = None
        _in_a_row = 0  # requests that had arrived before the answer to the one before was complete

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._address = self.client[0] if self.client else ""
            by_address[self._address] += 1
            if by_address[self._address] > limits.address_connections:
                self._refuse(503, "too many connections from this address are open; try again in a few seconds")
            elif len(self.connections) > limits.connections:
                self._refuse(503, "too many connections are open; try again in a few seconds")
            else:
                self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def on_response_complete(self) -> None:
            waiting = bool(self.conn.trailing_data[0])
            self._in_a_row = self._in_a_row + 1 if waiting else 0
            if self._in_a_row > limits.pipelined:
                self.transport.close()
            super().on_response_complete()
            if not self.transport.is_closing() and self.conn.trailing_data[0]:
                self._watch()  # the rest of a head that has arrived in part

        def pause_writing(self) -> None:
            super().pause_writing()
            self._unread = self._unread or self.loop.call_later(limits.unread_seconds, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            _cancel(self._unread)
            self._unread = None

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            _cancel(self._late)
            _cancel(self._unread)
            by_address[self._address] -= 1
            if by_address[self._address] <= 0:
                del by_address[self._address]

        def send_400_response(self, msg: str) -> None:
            """Say that this is no request, in one line of JSON as all errors; nothing where another answer has begun."""
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                self._refuse(400, msg)
            else:
                self.transport.close()

        def _refuse(self, status: int, message: str) -> None:
            if self.cycle is not None:
                self.cycle.disconnected = True  # nothing follows
                self.cycle.message_event.set()
            body = json.dumps({"error": message}).encode()
            fields = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close", **HEADERS}
            fields |= {"retry-after": "5"} if status == 503 else {}
            lines = [f"HTTP/1.1 {status} {_REASONS[status]}", *(f"{name}: {field}" for name, field in fields.items()), "", ""]
            self.transport.write("\r\n".join(lines).encode() + body)
            self.transport.close()

        def _watch(self) -> None:
            """Close the connection in a while, unless a whole head is there; further bytes give no more time."""
            if self.conn.their_state is not h11.IDLE:
                _cancel(self._late)
                self._late = None
            elif self._late is None:
                self._late = self.loop.call_later(limits.head_seconds, self.transport.close)

    return Connection


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
