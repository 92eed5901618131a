"""What every request passes before a route sees it, and the headers of every answer.

Host        must be a name of this server: a page of another site that points its own name here (DNS rebinding) is refused
Origin      where a browser sends one it must be this server: no page of another site can act for the visitor (CSRF)
token       unless only the bundled model is served, on this machine: in the address once, then a cookie, or a header
body        of a bounded size, in a bounded time, and JSON
"""

import asyncio
from dataclasses import dataclass
from typing import final
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from slalom.web.access import Access, Limits

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
_MAX_HEADERS = 100
_WORK = "/api/corpus/"  # what reads there costs time
_CLOSE = {"connection": "close"}


@final
@dataclass
class Guard:
    """Checks requests before an application, and adds headers to its answers."""

    app: ASGIApp
    access: Access
    limits: Limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
            body = iter([{"type": "http.request", "body": await self._body(scope, receive), "more_body": False}])

            async def replay() -> Message:
                return next(body, None) or await receive()

            await self.app(scope, replay, answer)
        except HTTPException as refusal:
            await JSONResponse({"error": refusal.detail}, refusal.status_code, refusal.headers)(scope, receive, answer)
        except Exception:
            if started:
                raise
            await JSONResponse({"error": "the server failed; this is a bug in slalom"}, 500)(scope, receive, answer)

    def _check(self, scope: Scope) -> dict[str, str]:
        if len(scope["headers"]) > _MAX_HEADERS:  # h11 bounds their size only where they arrive in several pieces
            raise HTTPException(431, f"a request must have at most {_MAX_HEADERS} headers", _CLOSE)
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self.access.names(hosts[0]):
            raise HTTPException(403, "the Host header must name this server; open the address that slalom serve has printed")
        if scope["method"] not in ("GET", "HEAD") or scope["path"].startswith(_WORK):
            origins = {f"http://{hosts[0].lower()}", f"https://{hosts[0].lower()}"}
            if not (
                origins.issuperset(map(str.lower, headers.getlist("origin")))
                and {"same-origin", "none"}.issuperset(headers.getlist("sec-fetch-site"))
            ):
                raise HTTPException(403, "requests of other sites are refused; open the page of this server itself")
        if scope["method"] == "POST":
            kinds = [kind.partition(";")[0].strip().lower() for kind in headers.getlist("content-type")]
            if kinds != ["application/json"]:
                raise HTTPException(400, "the body must be JSON, with the header Content-Type: application/json")
        return self._check_token(scope, headers)

    def _check_token(self, scope: Scope, headers: Headers) -> dict[str, str]:
        cookie = f"slalom_token_{scope['server'][1]}"  # cookies do not know ports, and another server may run on this machine
        authorizations = [header.partition(" ") for header in headers.getlist("authorization")]
        bearers = [token.strip() for kind, _, token in authorizations if kind.lower() == "bearer"]
        pairs = (part.strip().partition("=") for header in headers.getlist("cookie") for part in header.split(";"))
        if self.access.admits([*bearers, *(value for name, _, value in pairs if name == cookie)]):
            return {}
        query = parse_qs(scope["query_string"][:4096].decode("latin-1"))
        if scope["path"] == "/" and self.access.admits(query.get("token", [])):
            # Lax: a link in a mail leads to the page. Whatever changes or costs anything is a POST, whose Origin is checked.
            return {"set-cookie": f"{cookie}={self.access.token}; HttpOnly; SameSite=Lax; Path=/"}
        raise HTTPException(
            401,
            "this server needs its token: open the address that slalom serve has printed, or send Authorization: Bearer TOKEN",
            {"www-authenticate": "Bearer"},
        )

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """Return the body; refuse one that is too large or too slow."""
        limit = self.limits.body
        too_large = HTTPException(413, f"the body must be at most {limit:,} bytes", _CLOSE)
        lengths = Headers(scope=scope).getlist("content-length")
        if any(length.isdecimal() and length.isascii() and int(length[:20]) > limit for length in lengths):
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise HTTPException(400, "the client has gone")
                    body += message.get("body", b"")
                    if len(body) > limit:
                        raise too_large
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError as error:
            raise HTTPException(408, "the body took too long to arrive", _CLOSE) from error
