"""Requests to an OpenAI-compatible server by the `openai` client, with its retries; nothing leaks a key.

    answer                                          what follows
    200 with a JSON object                          the answer
    408, 409, 429, 5xx, connection lost, time out,  asked again, `attempts` times in all: after the time that the server asks
    JSON that ends too early                        for (Retry-After), else one that doubles
    400, 401, 403, 404, ...                         Refused, with what to do
    a redirect, more than 1 MB, NaN,
    another model than the one that answered first  ModelError

All requests run in one event loop in a thread of its own, so that the time limit of an attempt covers everything, and an
interruption ends what waits for another attempt.
"""

import asyncio
import json
import os
import re
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, final
from urllib.parse import urlsplit

from slalom.core.checks import whole_number
from slalom.errors import InputError, ModelError, one_line, require
from slalom.forks import wait_before_fork
from slalom.models.costs import Usage

if TYPE_CHECKING:
    from slalom.models.api.transport import Transport

DEFAULT_URL = "https://api.openai.com/v1"
DEFAULT_KEY = "OPENAI_API_KEY"
_LOCAL = ("localhost", "127.0.0.1", "::1")
_KEY_LIKE = re.compile(r"\b(?:sk|key|Bearer)[-_ ][^\s\"',;]{6,}")
_ADVICE = {
    401: "the server does not accept the key; put a valid one into the environment variable {variable}",
    403: "the key in {variable} may not use this model",
    404: "check base_url (most servers: .../v1) and the name of the model",
    413: "the prompt is too long for the server; use a shorter text or template",
}
_STARTING = threading.Lock()
wait_before_fork(_STARTING)
Answer = Mapping[str, Any]


class Refused(ModelError):
    """The server refused a request for good.

    Attributes:
        status: The HTTP status, such as 400.
        reason: What the server says, in one line, without the key.
        code: Its name for the error, such as "content_filter"; "" where it gives none.
    """

    def __init__(self, message: str, status: int, reason: str, code: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.code = status, reason, code


class _Connection(NamedTuple):
    """The connections to a server, of one process."""

    pid: int
    openai: Any
    transport: "Transport"
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

    Raises:
        InputError: An argument is wrong.
        MissingExtra: The package openai is not installed.
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
        with require("a model behind an API", "api"):
            import openai  # noqa: F401, PLC0415
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
        self._requests = self._prompt_tokens = self._completion_tokens = 0
        self._connection: _Connection | None = None

    def __repr__(self) -> str:
        return f"Client({self.base_url!r})"

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_connection": None, "_requests": self.usage.requests}

    @property
    def usage(self) -> Usage:
        """What was asked so far."""
        sent = self._requests + (self._connection.transport.requests if self._connection else 0)
        return Usage(sent, self._prompt_tokens, self._completion_tokens)

    def submit(self, path: str, body: Mapping[str, Any]) -> "Future[Answer]":
        """Start a request.

        Args:
            path: "completions", "chat/completions", or "tokenize" of llama.cpp.
            body: The request as a JSON object; `model` and `prompt` or `messages` among it.

        Returns:
            A future of the answer, a JSON object whose content is not checked.
        """
        return self.run(lambda: self.post(path, body))

    def ask(self, path: str, body: Mapping[str, Any]) -> Answer:
        """Return the answer to a request; arguments as in `submit`.

        Raises:
            Refused: The server refuses the request.
            ModelError: The server cannot be reached, or answers with something unusable.
        """
        return self.submit(path, body).result()

    def run(self, start: Callable[[], Coroutine[Any, Any, Any]]) -> "Future[Any]":
        """Run a coroutine in the thread of the requests.

        Args:
            start: Returns the coroutine, which may await `post` any number of times.
        """
        with _STARTING:
            if self._connection is None or self._connection.pid != os.getpid():  # threads do not survive a fork
                self._requests = self.usage.requests
                self._connection = self._connected()
                weakref.finalize(self, _closed, self._connection).atexit = False
            return asyncio.run_coroutine_threadsafe(start(), _loop(os.getpid()))

    def drain(self) -> None:
        """Let no request be repeated, and none start that waits: after an error or an interruption."""
        if self._connection is not None:
            self._connection.transport.stopping = True
            _loop(self._connection.pid).call_soon_threadsafe(self._connection.transport.drain)

    def resume(self) -> None:
        """Ask again; after another model has answered, that one is expected."""
        self.answering = self.replaced or self.answering
        if self._connection is not None:
            self._connection.transport.stopping = False

    def close(self) -> None:
        """Close the connections; a later request opens them again."""
        with _STARTING:
            self._requests, connection, self._connection = self.usage.requests, self._connection, None
        if connection is not None:
            _closed(connection, wait=True)

    async def post(self, path: str, body: Mapping[str, Any]) -> Answer:
        """Return the answer to a request, inside the thread of the requests; arguments as in `submit`."""
        import httpx2  # noqa: PLC0415
        import openai  # noqa: PLC0415

        from slalom.models.api.transport import Final  # noqa: PLC0415

        connection, task, failure = self._connection, asyncio.current_task(), None
        if connection is None or task is None:
            raise ModelError(f"the connection to {self.address} was closed while a request was in flight")
        url = f"{self.base_url.removesuffix('/v1')}/tokenize" if path == "tokenize" else f"/{path}"
        connection.transport.tasks.add(task)
        try:
            async with connection.slots:
                response = await connection.openai.post(url, cast_to=httpx2.Response, body=dict(body))
        except (openai.OpenAIError, Final) as error:
            failure = error
        finally:
            connection.transport.tasks.discard(task)
        if failure is not None:  # outside of the handler: what the server said of the key is not in the chain of exceptions
            self._fail(failure)
        answer: Answer = response.extensions["answer"]
        if "error" in answer and "choices" not in answer:  # some gateways answer so with status 200
            raise ModelError(f"{self.address} answered with an error: {self._reason(response.content)[0]}")
        self._count(answer)
        self._check_model(answer)
        return answer

    def _fail(self, failure: Exception) -> NoReturn:
        """Raise what a failure means."""
        import httpx2  # noqa: PLC0415
        import openai  # noqa: PLC0415

        if isinstance(failure, openai.APIStatusError):
            self._refuse(failure.status_code, failure.response.headers, failure.response.content)
        if not isinstance(failure, openai.APIConnectionError):
            raise ModelError(f"{self.address} {self.quoted(failure, 400)}")
        cause = failure.__cause__ or failure
        reason = f"could not be reached ({self.quoted(cause)})"
        if isinstance(failure, openai.APITimeoutError):
            reason = f"did not answer within {self.timeout:g} s"
        elif isinstance(cause, httpx2.DecodingError):
            reason = f"answered with {self.quoted(cause)}"
        raise ModelError(f"{self.address} {reason}{self._times}")

    @property
    def _times(self) -> str:
        times = f"{self.attempts} times" if self.attempts > 1 else "once"
        return f" ({times}); check that the server runs, or set timeout= and attempts= in Python"

    def _refuse(self, status: int, headers: Mapping[str, str], content: bytes) -> NoReturn:
        """Raise what an HTTP status means."""
        reason, code = self._reason(content)
        said = f" ({reason})" if reason and status != 401 else ""
        if 300 <= status < 400:
            host = urlsplit(headers.get("location", "")).hostname or "another path"
            raise ModelError(
                f"{self.address} redirects to {self.quoted(host)}, which is not followed; set base_url to the final address"
            )
        if status == 429 and code != "insufficient_quota":
            wait = self.quoted(headers.get("retry-after", ""))
            asks = f", and asks to wait {wait}{' s' if wait.isdigit() else ''}" if wait else ""
            raise ModelError(
                f"{self.address} answers with status 429{said}{asks}; run it again later (with cache= nothing is asked twice),"
                " or set a lower concurrency"
            )
        if status in (408, 409) or status >= 500:
            raise ModelError(f"{self.address} answers with status {status}{said}{self._times}")
        advice = _ADVICE.get(status, "check the model and its options").format(variable=self.api_key_env or DEFAULT_KEY)
        if status == 401 and self._secret() is None and os.environ.get(DEFAULT_KEY) and self.api_key_env is None:
            advice = (
                f'no key was sent over plain http; use https, or pass api_key_env="{DEFAULT_KEY}" in Python to send it anyway'
            )
        raise Refused(f"{self.address} refuses the request with status {status}{said}; {advice}", status, reason, code)

    def _reason(self, content: bytes) -> tuple[str, str]:
        """Return what a server says of an error, in one line, and its code."""
        try:
            error = json.loads(content)
        except (ValueError, RecursionError):
            return self.quoted(content[:2000].decode("utf-8", "replace")), ""
        if isinstance(error, dict):
            error = error.get("error", error)
        if not isinstance(error, dict):
            return self.quoted(error), ""
        return self.quoted(error.get("message", error.get("detail", ""))), str(error.get("code", error.get("type", "")))[:100]

    def _count(self, answer: Answer) -> None:
        usage = answer.get("usage")
        if isinstance(usage, dict):
            prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
            self._prompt_tokens += prompt if isinstance(prompt, int) and 0 <= prompt < 10**9 else 0
            self._completion_tokens += completion if isinstance(completion, int) and 0 <= completion < 10**9 else 0

    def _check_model(self, answer: Answer) -> None:
        """Raise where another model answers than before: numbers of two models cannot be compared."""
        name = answer.get("model")
        if not isinstance(name, str) or name == self.answering:
            return
        if self.answering is None:
            self.answering = name
            return
        self.replaced = name
        raise ModelError(
            f"{self.address} answered as the model {self.quoted(self.answering)!r}, and now as {self.quoted(name)!r}; name one"
            " that does not change, such as a dated one"
        )

    def quoted(self, said: object, limit: int = 200) -> str:
        """Return what a server says as one short printable line, without the key.

        Args:
            said: Anything with a string.
            limit: Most characters.
        """
        text, secret = str(said), self._secret()
        if secret:
            text = text.replace(secret, "[key]")
        text = _KEY_LIKE.sub("[key]", text)
        return one_line("".join(c if c.isprintable() else " " for c in text), limit)

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
        import openai  # noqa: PLC0415

        from slalom.models.api.transport import Transport  # noqa: PLC0415

        url = urlsplit(self.base_url)
        proxies = url.scheme == "https" or url.hostname not in _LOCAL  # no proxy gets what is for this machine
        transport = Transport(self.timeout, proxies)
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
        return _Connection(os.getpid(), client, transport, asyncio.Semaphore(self.concurrency))


def _closed(connection: _Connection, wait: bool = False) -> None:
    """Close connections, and cancel what is in flight."""

    async def end() -> None:
        for task in connection.transport.tasks:
            task.cancel()
        await connection.openai.close()
        await asyncio.sleep(0)  # sockets are closed by callbacks

    if connection.pid == os.getpid():  # not of the parent of a fork
        ending = asyncio.run_coroutine_threadsafe(end(), _loop(connection.pid))
        if wait:
            ending.result()


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
    url = base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_URL
    advice = "expected something like https://api.openai.com/v1 or http://localhost:8080/v1"
    try:
        parts = urlsplit(str(url))
        port = parts.port
    except ValueError:
        raise InputError(f"base_url must be an address; {advice}") from None
    if parts.username or parts.password or "@" in parts.netloc:
        raise InputError(
            "base_url must not contain a user or a password; put the key into an environment variable (api_key_env= in Python)"
        )
    if parts.query or parts.fragment:
        raise InputError(f"base_url must have no query or fragment (? or #); {advice}")
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable() or " " in url:
        raise InputError(
            f"base_url must begin with http:// or https:// and name a host; got {one_line(ascii(url), 80)}; {advice}"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    place = f"{host}:{port}" if port else host
    path = parts.path.rstrip("/")
    return f"{parts.scheme}://{place}{path}", f"{place}{path}"
