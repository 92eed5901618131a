"""Who may use the server, what one request may cost, and the socket; all of it before anything heavy is loaded."""

import hmac
import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from slalom.errors import InputError

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_EVERY_ADDRESS = frozenset({"0.0.0.0", "::", ""})


@final
@dataclass(frozen=True)
class Access:
    """Who may use the server."""

    host: str = "127.0.0.1"  # that it listens on
    token: str | None = None  # that a visitor must know

    def names(self, host: str) -> bool:
        """Return whether a Host header names this server.

        Example:
            >>> Access().names("localhost:8000"), Access().names("evil.example"), Access("0.0.0.0").names("192.168.0.7:8000")
            (True, False, True)
        """
        match = re.fullmatch(r"(?:\[([^\[\]]+)\]|([^:\[\]]+))(?::[0-9]+)?", host.lower())
        if match is None:
            return False
        name = match[1] or match[2]
        if name in _LOOPBACK or name == self.host.lower():
            return True
        # An address cannot be rebound, a name can: of names, only those of this machine.
        machine = socket.gethostname().lower()
        return self.host in _EVERY_ADDRESS and (_is_address(name) or name in (machine, f"{machine}.local"))

    def admits(self, tokens: Iterable[str]) -> bool:
        """Return whether one of the tokens is the right one; the time says nothing about how far it is from it."""
        right = self.token
        return right is None or any(hmac.compare_digest(token.encode(), right.encode()) for token in tokens)


@final
@dataclass(frozen=True)
class Limits:
    """Bounds of requests and of the work behind them, so that no visitor takes more than a share."""

    characters: int = 50_000  # of a text, or of all sources of an answer
    units: int = 6_000  # of a text, as far as the model reads it
    sources: int = 2_000  # of an answer
    queries: int = 5_000  # of an explanation
    keep_rows: int = 1_000  # rows, or texts, of one question to the model
    body: int = 2_000_000  # bytes
    seconds: float = 300.0  # between a request and the end of its answer
    head_seconds: float = 10.0  # until the head of a request is there
    body_seconds: float = 20.0  # until its body is there
    waiting: int = 64  # requests that wait or are worked on, per model; one more is told to come back (429)
    workers: int = 4  # threads per model, which answers one of them at a time; fits run side by side
    kept: int = 64  # recent explanations, so that questions about them need no new one
    connections: int = 512
    address_connections: int = 128  # from one address
    pipelined: int = 16  # requests of a connection in a row that are sent before the answer to the one before
    unread_seconds: float = 30.0  # that a client lets an answer wait without reading any of it


def is_loopback(host: str) -> bool:
    """Return whether an address is that of this machine only.

    Example:
        >>> is_loopback("localhost"), is_loopback("127.0.0.7"), is_loopback("0.0.0.0")
        (True, True, False)
    """
    return host.lower() in _LOOPBACK or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def listen(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address, family=family, backlog=1024)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"could not listen on {host} port {port}: {reason}; choose another --port or --host") from error


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
