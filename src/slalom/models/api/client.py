"""Requests to an OpenAI-compatible server by the `openai` client, with its retries; nothing leaks a key.

    answer                                          what follows
    200 with a JSON object                          the answer
    408, 409, 429, 5xx, connection lost, time out,  asked again, `attempts` times in all: after the time that the server asks
    JSON that ends too early                        for (Retry-After), else one that doubles
    400, 401, 403, 404, ...                         Refused, with what to do
    a redirect, more than 1 MB,
    another model than the one that answered first  ModelError

An answer that streams is put together, and is then one like all others; parts that miss their end are asked for again.

All requests of a process run in one event loop in a thread of its own, so that the time limit of an attempt covers everything,
and a request can be cancelled at any time.
"""

import asyncio
import json
import os
import re
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, final
from urllib.parse import urlsplit

from slalom.core.checks import whole_number
from slalom.errors import InputError, ModelError, one_line, require
from slalom.forks import wait_before_fork
from slalom.models.costs import Usage

with require("a model behind an API", "api"):
    import httpx2
    import openai

DEFAULT_URL = "https://api.openai.com/v1"
DEFAULT_KEY = "OPENAI_API_KEY"
_LOCAL = ("localhost", "127.0.0.1", "::1")
_CONNECT_SECONDS = 10.0
FILTERS = ("content_filter", "content_policy_violation")  # codes of errors that are about the text
_MAX_BYTES = 1_000_000  # of one answer
_KEY_LIKE = re.compile(r"\b(?:sk|key|Bearer)[-_ ][^\s\"',;]{6,}")
_RETRIES = "x-stainless-retry-count"  # header in which the openai client counts
_ADVICE = {
    401: "the server does not accept the key; put a valid one into the environment variable {variable}",
    403: "the key in {variable} may not use this model",
    404: "check base_url (most servers: .../v1) and the name of the model",
    413: "the prompt is too long for the server; use a shorter text or template",
    429: "run it again later (with cache= nothing is asked twice), or set a lower concurrency",
}
_STARTING = threading.Lock()
wait_before_fork(_STARTING)
Answer = Mapping[str, Any]
_HEARD: ContextVar[Callable[[Answer], None] | None] = ContextVar("_HEARD", default=None)  # of the request of this task


class Refused(ModelError):
    """The server refused a request for good: HTTP status, its reason in one line without the key, and its code or ""."""

    def __init__(self, message: str, status: int, reason: str, code: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.code = status, reason, code


@dataclass
class _Counts:
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    answered: bool = False


class _Stream:
    """The server-sent events of a completion, as the answer that they make up."""

    def __init__(self, heard: Callable[[Answer], None] | None) -> None:
        self.heard, self.ended = heard, False
        self.answer, self.message = dict[str, Any](), {"content": ""}

    def take(self, content: bytearray) -> bytearray:
        """Read what has come; return the beginning of a line that has no end yet."""
        *lines, rest = content.split(b"\n")
        for line in lines:
            kind, _, data = line.partition(b":")
            if kind == b"data" and data.strip() == b"[DONE]":
                self.ended = True
            elif kind == b"data" and data.strip():
                self._add(json.loads(data))
        return rest

    def _add(self, part: dict[str, Any]) -> None:
        if error := self.answer.get("error") or part.get("error"):  # then all that was written is no answer
            self.answer, self.ended = {"error": error}, True
            return
        self.answer |= {name: part[name] for name in ("model", "usage") if part.get(name) is not None}
        for choice in part.get("choices") or ():
            delta = choice.get("delta") or {}
            self.message["content"] += delta.get("content") or choice.get("text") or ""
            self.message |= {"refusal": delta["refusal"]} if delta.get("refusal") else {}
            self.answer["choices"] = [{"message": self.message, "finish_reason": choice.get("finish_reason")}]
            self.ended |= choice.get("finish_reason") is not None
            if self.heard is not None:
                self.heard(self.answer)


class _Transport(openai.DefaultAsyncHttpxClient):
    """Attempts of requests: each has one time limit, reads a bounded answer, decompresses nothing and follows no redirect."""

    def __init__(self, address: str, seconds: float, counts: _Counts, proxies: bool) -> None:
        timeout = httpx2.Timeout(seconds, connect=min(_CONNECT_SECONDS, seconds))
        super().__init__(timeout=timeout, follow_redirects=False, trust_env=proxies)
        self.address, self.seconds, self.counts = address, seconds, counts

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        self.counts.requests += 1
        try:
            async with asyncio.timeout(self.seconds):
                response = await self._read(request, options)
        except TimeoutError:
            raise httpx2.ReadTimeout("", request=request) from None
        except httpx2.RequestError as error:
            if not self.counts.answered and request.headers.get(_RETRIES, "0") != "0":  # it does not run: no more attempts
                raise openai.APIConnectionError(request=request) from error
            raise
        self.counts.answered = True
        if response.is_success:
            try:
                response.extensions["answer"] = json.loads(response.content)
            except (ValueError, RecursionError):  # it may have been cut off, and is asked for again
                start = response.content[:80].decode("utf-8", "replace")
                raise httpx2.DecodingError(f"malformed JSON ({start}...)" if start.strip() else "nothing") from None
        return response

    async def _read(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        response = await super().send(request, **options | {"stream": True})
        content, stream = bytearray(), None
        if response.is_success and response.headers.get("content-type", "").startswith("text/event-stream"):
            stream = _Stream(_HEARD.get())
        try:
            async for part in response.aiter_raw():
                content += part
                if stream is not None:
                    content = stream.take(content)
                if len(content) + (0 if stream is None else len(stream.message["content"])) > _MAX_BYTES:
                    raise ModelError(f"{self.address} answered with more than 1 MB, which no completion is")
            if stream is not None:
                stream.take(content + b"\n")
        except (ValueError, TypeError, AttributeError, RecursionError):
            raise httpx2.DecodingError("malformed events") from None
        finally:
            await response.aclose()
        if stream is not None:
            content = bytearray(json.dumps(stream.answer).encode() if stream.ended else b"")  # b"": it is asked again
        headers = httpx2.Headers(response.headers)
        for name in ("content-encoding", "content-length", "transfer-encoding"):
            headers.pop(name, None)
        return httpx2.Response(response.status_code, headers=headers, content=bytes(content), request=request)


class _Connection(NamedTuple):
    pid: int
    openai: openai.AsyncOpenAI
    slots: asyncio.Semaphore


@final
class Client:
    """Asks one server. Thread-safe; copies and pickles connect anew.

    Args:
        base_url: The address, up to and with ``/v1``. Default: the environment variable OPENAI_BASE_URL, else OpenAI.
        api_key_env: The environment variable that has the key. Default: OPENAI_API_KEY, which is sent over https or to this
            machine only; over plain http to another machine a key is sent only where its variable is named. A server
            without keys needs none.
        concurrency: Largest number of requests in flight.
        timeout: Seconds for one attempt, from the connection to the last byte.
        attempts: Attempts per request.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key_env: str | None = None,
        concurrency: int = 8,
        timeout: float = 60.0,
        attempts: int = 8,
    ) -> None:
        self.base_url, self.address = server_address(base_url)
        if not isinstance(api_key_env, (str, type(None))):
            raise InputError("api_key_env must be the name of an environment variable, not the key itself")
        self.api_key_env = api_key_env
        self.concurrency = whole_number("concurrency", concurrency, 1)
        self.attempts = whole_number("attempts", attempts, 1)
        if not is_number(timeout) or not 0 < timeout < 1e6:
            raise InputError(f"timeout must be seconds below a million; got {timeout!r}")
        self.timeout = float(timeout)
        self._secret()  # a malformed key is refused here
        self.answering: str | None = None  # the model, as the server names it
        self.replaced: str | None = None  # by this one, in the middle
        self.uncounted = (0, 0)  # about how many tokens were read and written for answers without counts
        self._counts = _Counts()
        self._connection: _Connection | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_connection": None}

    @property
    def usage(self) -> Usage:
        """What was asked so far; answers without counts are estimated where the server counts others."""
        counts = self._counts
        about = self.uncounted if counts.prompt_tokens else (0, 0)
        return Usage(counts.requests, counts.prompt_tokens + about[0], counts.completion_tokens + about[1])

    def ask(self, path: str, body: Mapping[str, Any]) -> Answer:
        """Return the answer to a request; as `post`, for other threads."""
        answer: Answer = self.run(self.post(path, body)).result()
        return answer

    def run(self, work: Coroutine[Any, Any, Any]) -> "Future[Any]":
        """Run a coroutine, which may await `post` any number of times, in the thread of the requests."""
        with _STARTING:
            return asyncio.run_coroutine_threadsafe(work, _loop(os.getpid()))

    def resume(self) -> None:
        """After another model has answered, expect that one."""
        self.answering = self.replaced or self.answering

    def close(self) -> None:
        connection, self._connection = self._connection, None
        _close(connection)

    async def post(self, path: str, body: Mapping[str, Any], heard: Callable[[Answer], None] | None = None) -> Answer:
        """Return the answer to a request, a JSON object whose content is not checked; in the thread of the requests.

        The path is "completions", "chat/completions", or "tokenize" of llama.cpp. Of an answer that streams, `heard` gets what
        has come so far.

        Raises:
            Refused: The server refuses the request.
            ModelError: The server cannot be reached, or answers with something unusable.
        """
        if self._connection is None or self._connection.pid != os.getpid():  # threads do not survive a fork
            self._connection = self._connected()
            weakref.finalize(self, _close, self._connection).atexit = False
        connection, failure = self._connection, None
        _HEARD.set(heard)
        url = f"{self.base_url.removesuffix('/v1')}/tokenize" if path == "tokenize" else f"/{path}"
        try:
            async with connection.slots:
                response = await connection.openai.post(url, cast_to=httpx2.Response, body=dict(body))
        except (openai.APIStatusError, openai.APIConnectionError) as error:
            failure = error
        if failure is not None:  # outside of the handler: what the server said of the key is not in the chain of exceptions
            raise self._error(failure)
        content = response.extensions["answer"]
        if not isinstance(content, dict):
            raise ModelError(f"{self.address} must answer with a JSON object; got {type(content).__name__}")
        answer: Answer = content
        if "error" in answer and "choices" not in answer:  # some gateways answer so with status 200
            raise ModelError(f"{self.address} answered with an error: {self._reason(answer['error'])[0]}")
        self._count(answer.get("usage"))
        self._check_model(answer.get("model"))
        return answer

    def _error(self, failure: openai.APIStatusError | openai.APIConnectionError) -> ModelError:
        times = 1 + int(failure.request.headers.get(_RETRIES, 0))
        again = f" ({times} times); check that the server runs, or set timeout= and attempts= in Python"
        if isinstance(failure, openai.APIStatusError):
            return self._status_error(failure, again)
        cause = failure.__cause__ or failure
        if isinstance(failure, openai.APITimeoutError):
            return ModelError(f"{self.address} did not answer within {self.timeout:g} s{again}")
        if isinstance(cause, httpx2.DecodingError):
            return ModelError(f"{self.address} answered with {self.quoted(cause)}{again}")
        return ModelError(f"{self.address} could not be reached ({self.quoted(cause)}){again}")

    def _status_error(self, failure: openai.APIStatusError, again: str) -> ModelError:
        status, headers = failure.status_code, failure.response.headers
        reason, code = self._reason(failure.body)
        said = f" ({reason})" if reason and status != 401 else ""
        if 300 <= status < 400:
            host = urlsplit(headers.get("location", "")).hostname or "another path"
            return ModelError(
                f"{self.address} redirects to {self.quoted(host)}, which is not followed; set base_url to the final address"
            )
        if status in (408, 409) or status >= 500:
            return ModelError(f"{self.address} answers with status {status}{said}{again}")
        advice = _ADVICE.get(status, "check the model and its options").format(variable=self.api_key_env or DEFAULT_KEY)
        if status == 429:
            wait = self.quoted(headers.get("retry-after", ""))
            asks = f", and asks to wait {wait}{' s' if wait.isdigit() else ''}" if wait else ""
            return ModelError(f"{self.address} answers with status 429{said}{asks}; {advice}")
        if status == 401 and self._secret() is None and os.environ.get(DEFAULT_KEY):
            advice = (
                f'no key was sent over plain http; use https, or pass api_key_env="{DEFAULT_KEY}" in Python to send it anyway'
            )
        return Refused(f"{self.address} refuses the request with status {status}{said}; {advice}", status, reason, code)

    def _reason(self, error: object) -> tuple[str, str]:
        """Return what a server says of an error, in one line, and its code."""
        if not isinstance(error, dict):
            return self.quoted(error or ""), ""
        return self.quoted(error.get("message", error.get("detail", ""))), str(error.get("code", error.get("type", "")))[:100]

    def _count(self, usage: Any) -> None:
        for name in ("prompt_tokens", "completion_tokens") if isinstance(usage, dict) else ():
            tokens = usage.get(name)
            if isinstance(tokens, int) and 0 <= tokens < 10**9:
                setattr(self._counts, name, getattr(self._counts, name) + tokens)

    def _check_model(self, name: object) -> None:
        """Raise where another model answers than before: numbers of two models cannot be compared."""
        if not isinstance(name, str):
            return
        self.answering = self.answering or name
        if name != self.answering:
            self.replaced = name
            raise ModelError(
                f"{self.address} answered as the model {self.quoted(self.answering)!r}, and now as {self.quoted(name)!r}; name"
                " one that does not change, such as a dated one"
            )

    def quoted(self, said: object) -> str:
        """Return what a server says as one short printable line, without the key."""
        text, secret = str(said)[:2000], self._secret()
        if secret:
            text = text.replace(secret, "[key]")
        text = _KEY_LIKE.sub("[key]", text)
        return one_line("".join(c if c.isprintable() else " " for c in text), 200)

    def _secret(self) -> str | None:
        """Return the key, from the environment; it is stored nowhere else."""
        name = self.api_key_env or DEFAULT_KEY
        key = os.environ.get(name, "").strip()
        if not key:
            if self.api_key_env is not None:
                raise InputError(f"api_key_env must name an environment variable with a key; {name} is not set")
            return None
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise InputError(f"the key in {name} must be one line of plain characters; check the variable")
        url = urlsplit(self.base_url)
        if self.api_key_env is None and url.scheme == "http" and url.hostname not in _LOCAL:
            return None
        return key

    def _connected(self) -> _Connection:
        url = urlsplit(self.base_url)
        proxies = url.scheme == "https" or url.hostname not in _LOCAL  # no proxy gets what is for this machine
        transport = _Transport(self.address, self.timeout, self._counts, proxies)
        client = openai.AsyncOpenAI(
            api_key=self._secret() or "none",
            base_url=self.base_url,
            timeout=transport.timeout,
            max_retries=self.attempts - 1,
            default_headers={"Accept-Encoding": "identity"},
            http_client=transport,
        )
        if url.hostname != urlsplit(DEFAULT_URL).hostname:  # of an account at OpenAI, from the environment
            client.organization = client.project = None
        return _Connection(os.getpid(), client, asyncio.Semaphore(self.concurrency))


def _close(connection: _Connection | None) -> None:
    if connection is not None and connection.pid == os.getpid():  # not of the parent of a fork
        asyncio.run_coroutine_threadsafe(connection.openai.close(), _loop(connection.pid))


@cache
def _loop(pid: int) -> asyncio.AbstractEventLoop:
    """Return the event loop of all requests of a process, in a thread of its own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="slalom requests", daemon=True).start()
    return loop


def is_number(part: object) -> bool:
    """Return whether an argument is a number."""
    return isinstance(part, (int, float))


def server_address(base_url: str | None) -> tuple[str, str]:
    """Return the address of a server (default: OPENAI_BASE_URL, else OpenAI), and its name: the same without a scheme."""
    url = str(base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_URL)
    expected = (
        "base_url must begin with http:// or https://, name a host and have no query (?) or fragment (#), such as"
        " https://api.openai.com/v1 or http://localhost:8080/v1"
    )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InputError(expected, "base_url") from None
    if "@" in parts.netloc:
        raise InputError(
            "base_url must not contain a user or a password; put the key into an environment variable (api_key_env= in Python)",
            "base_url",
        )
    known = parts.scheme in ("http", "https") and parts.hostname and url.isprintable() and " " not in url
    if not known or parts.hostname is None or parts.query or parts.fragment:
        raise InputError(expected, "base_url")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    place = (f"{host}:{port}" if port else host) + parts.path.rstrip("/")
    return f"{parts.scheme}://{place}", place
