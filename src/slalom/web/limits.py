"""What one request may cost, so that no visitor takes more than a share."""

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Limits:
    """Bounds of requests and of the work behind them.

    Args:
        characters: Longest text.
        units: Most units of a text, as far as the model reads it: a fit takes long for many, and cannot be interrupted.
        queries: Largest budget of model queries of an explanation.
        keep_rows: Most rows, or texts, of one question to the model.
        body: Largest body of a request, in bytes.
        seconds: Longest time between a request and the end of its answer.
        head_seconds: Longest time that the head of a request takes to arrive.
        body_seconds: Longest time that a body takes to arrive.
        waiting: Most requests that wait or are worked on, per model; one more is told to come back (429).
        workers: Threads per model. The model itself answers one thread at a time; fits run side by side, so that a long text
            does not hold up a short one.
        kept: Recent explanations that are kept, so that questions about them need no new one.
        connections: Most connections at a time.
        address_connections: Most connections at a time from one address.
        pipelined: Most requests of a connection in a row that are sent before the answer to the one before; then it is closed.
        unread_seconds: Longest time that a client lets an answer wait without reading any of it.
    """

    characters: int = 50_000
    units: int = 6_000
    queries: int = 5_000
    keep_rows: int = 1_000
    body: int = 2_000_000
    seconds: float = 300.0
    head_seconds: float = 10.0
    body_seconds: float = 20.0
    waiting: int = 64
    workers: int = 4
    kept: int = 64
    connections: int = 512
    address_connections: int = 128
    pipelined: int = 16
    unread_seconds: float = 30.0
