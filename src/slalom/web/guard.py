"""What every request passes before a route sees it, and the headers of every answer.

Host        must be a name of this server: a page of another site that points its own name here (DNS rebinding) is refused
Origin      where a browser sends one it must be this server: no page of another site can act for the visitor (CSRF)
token       unless only the bundled model is served, on this machine: in the address once, then a cookie, or a header
body        of a bounded size, in a bounded time, and JSON
"""

import asyncio
import hmac
import ipaddress
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import final
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from slalom.web.limits import Limits

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
_MOST_HEADERS = 100
_WORK = "/api/corpus/"  # what reads there costs time
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_EVERY_ADDRESS = frozenset({"0.0.0.0", "::", ""})


@final
@dataclass(frozen=True)
class Access:
    """Who may use the server.

    Args:
        host: The address that the server listens on.
        token: What a visitor must know; None: nothing.
    """

    host: str = "127.0.0.1"
    token: str | None = None

    def names(self, host: str) -> bool:
        """Return whether a Host header names this server.

        Example:
            >>> Access().names("localhost:8000"), Access().names("evil.example"), Access("0.0.0.0").names("192.168.0.7:8000")
            (True, False, True)
        """
        name = host_name(host)
        if name is None:
            return False
        if name in _LOOPBACK or name == self.host.lower():
            return True
        # An address cannot be rebound, a name can: of names, only those of this machine.
        return self.host in _EVERY_ADDRESS and (_is_address(name) or name in _own_names())

    def admits(self, given: Iterable[str]) -> bool:
        """Return whether one of the given tokens is the right one; the time says nothing about how far it is from it."""
        token = self.token
        if token is None:
            return True
        return any(hmac.compare_digest(one.encode(), token.encode()) for one in given)


def is_loopback(host: str) -> bool:
    """Return whether an address is that of this machine only.

    Example:
        >>> is_loopback("localhost"), is_loopback("127.0.0.7"), is_loopback("0.0.0.0")
        (True, True, False)
    """
    if host.lower() in _LOOPBACK:
        return True
    return _is_address(host) and ipaddress.ip_address(host).is_loopback


def host_name(header: str) -> str | None:
    """Return the name of a Host header without its port, in lower case; None where it is not a host.

    Example:
        >>> host_name("[::1]:8000"), host_name("LOCALHOST"), host_name("a:b:c")
        ('::1', 'localhost', None)
    """
    match = re.fullmatch(r"(?:\[([^\[\]]+)\]|([^:\[\]]+))(?::[0-9]+)?", header.lower())
    return None if match is None else match[1] or match[2]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _own_names() -> frozenset[str]:
    return frozenset({socket.gethostname().lower(), f"{socket.gethostname().lower()}.local"})


@final
class Refusal(Exception):
    """A request that no route sees.

    Args:
        status: The status of the answer.
        message: One line.
    """

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers or {}


@final
class Guard:
    """Checks requests before an application, and adds headers to its answers.

    Args:
        app: The application.
        access: Who may use it.
        limits: Bounds of requests.
    """

    def __init__(self, app: ASGIApp, access: Access, limits: Limits) -> None:
        self.app, self.access, self.limits = app, access, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # a WebSocket
            await send({"type": "websocket.close", "code": 1008})
            return
        started = False
        extra: dict[str, str] = {}

        async def answer(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                for name, value in {**HEADERS, "cache-control": "no-store", **extra}.items():
                    MutableHeaders(scope=message).setdefault(name, value)
            await send(message)

        try:
            extra.update(self._check(scope))
            body = await self._body(scope, receive)
            await self.app(scope, _replayed(body, receive), answer)
        except Refusal as refusal:
            await JSONResponse({"error": str(refusal)}, refusal.status, refusal.headers)(scope, receive, answer)
        except Exception:
            if started:
                raise
            await JSONResponse({"error": "the server failed; this is a bug in slalom"}, 500)(scope, receive, answer)

    def _check(self, scope: Scope) -> dict[str, str]:
        """Raise a Refusal, or return headers of the answer."""
        if len(scope["headers"]) > _MOST_HEADERS:  # h11 bounds their size only where they arrive in several pieces
            raise Refusal(431, f"a request must have at most {_MOST_HEADERS} headers", {"connection": "close"})
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self.access.names(hosts[0]):
            raise Refusal(403, "the Host header must name this server; open the address that slalom serve has printed")
        if scope["method"] not in ("GET", "HEAD") or scope["path"].startswith(_WORK):
            self._check_origin(scope, headers, hosts[0])
        return self._check_token(scope, headers)

    @staticmethod
    def _check_origin(scope: Scope, headers: Headers, host: str) -> None:
        origins = headers.getlist("origin")
        if any(origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}") for origin in origins):
            raise Refusal(403, "requests of other sites are refused; open the page of this server itself")
        if any(site not in ("same-origin", "none") for site in headers.getlist("sec-fetch-site")):
            raise Refusal(403, "requests of other sites are refused; open the page of this server itself")
        if scope["method"] == "POST":
            kinds = [kind.partition(";")[0].strip().lower() for kind in headers.getlist("content-type")]
            if kinds != ["application/json"]:
                raise Refusal(400, "the body must be JSON, with the header Content-Type: application/json")

    def _check_token(self, scope: Scope, headers: Headers) -> dict[str, str]:
        if self.access.token is None:
            return {}
        parts = [header.partition(" ") for header in headers.getlist("authorization")]
        bearers = [token.strip() for kind, _, token in parts if kind.lower() == "bearer"]
        if self.access.admits([*bearers, *_cookies(headers.getlist("cookie"), _cookie(scope))]):
            return {}
        query = parse_qs(scope["query_string"][:4096].decode("latin-1"))
        if scope["path"] == "/" and self.access.admits(query.get("token", [])):
            # Lax: a link in a mail leads to the page. Whatever changes or costs anything is a POST, whose Origin is checked.
            return {"set-cookie": f"{_cookie(scope)}={self.access.token}; HttpOnly; SameSite=Lax; Path=/"}
        raise Refusal(
            401,
            "this server needs its token: open the address that slalom serve has printed, or send Authorization: Bearer TOKEN",
            {"www-authenticate": "Bearer"},
        )

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """Return the body; raise a Refusal where it is too large or too slow."""
        limit = self.limits.body
        lengths = Headers(scope=scope).getlist("content-length")
        if any(length.isdecimal() and length.isascii() and int(length[:20]) > limit for length in lengths):
            raise Refusal(413, f"the body must be at most {limit:,} bytes", {"connection": "close"})
        parts, size = list[bytes](), 0
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refusal(400, "the client has gone")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > limit:
                        raise Refusal(413, f"the body must be at most {limit:,} bytes", {"connection": "close"})
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError as error:
            raise Refusal(408, "the body took too long to arrive", {"connection": "close"}) from error


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a function that gives the body once, and then what the server says."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _cookie(scope: Scope) -> str:
    """Return the name of the cookie of this server; cookies do not know ports, and another one may run on this machine."""
    return f"slalom_token_{scope['server'][1]}"


def _cookies(headers: Iterable[str], name: str) -> list[str]:
    """Return the values of a cookie; whatever other programs of this machine have set beside it."""
    pairs = (part.strip().partition("=") for header in headers for part in header.split(";"))
    return [value for known, _, value in pairs if known == name]
