"""Requests to an OpenAI-compatible server, on the `openai` client: limits, retries, and nothing that leaks a key.

submit(path, body)  -> Future     of the answer, a JSON object; at most `concurrency` requests are in flight
ask(path, body)     -> object     the same, waited for

    answer                                          what follows
    200 with a JSON object                          the answer
    408, 409, 425, 5xx, connection lost, time out,
    JSON that ends too early                        asked again after a wait that doubles, `attempts` times in all
    429                                             all requests pause, as long as the server says; up to `patience` seconds
    400, 401, 403, 404, ...                         Refused, with what to do
    a redirect, more than 1 MB, NaN,
    another model than the one that answered first  ModelError

The requests run in one event loop in a thread of its own, so that the time limit of a request covers everything: name lookup,
connection, headers and body.
"""

import asyncio
import json
import os
import random
import re
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, NoReturn, final
from urllib.parse import urlsplit

from slalom.core.checks import whole_number
from slalom.errors import InputError, ModelError, one_line, require
from slalom.forks import renew_after_fork
from slalom.models.api.bounded import TooLarge, bounded
from slalom.models.api.loop import RequestLoop
from slalom.models.api.waiting import asked_wait
from slalom.models.costs import Usage

DEFAULT_URL = "https://api.openai.com/v1"
DEFAULT_KEY = "OPENAI_API_KEY"
_CONNECT = 10.0  # seconds to connect
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0  # seconds before the second attempt, and the most that doubling makes of it
_FIRST_CONTACT = 2  # attempts to reach a server that has not answered yet
_TRANSIENT = (408, 409, 425, 429)  # and all from 500
_LOCAL = ("localhost", "127.0.0.1", "::1")
_KEY_LIKE = re.compile(r"\b(?:sk|key|Bearer)[-_ ][^\s\"',;]{6,}")
_ADVICE = {
    401: "the server does not accept the key; put a valid one into the environment variable {variable}",
    403: "the key in {variable} may not use this model",
    404: "check base_url (most servers: .../v1) and the name of the model",
    413: "the prompt is too long for the server; use a shorter text or template",
}
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


class _Again(Exception):
    """An attempt failed, and another may succeed.

    Attributes:
        reason: Why it failed.
        wait: Seconds that the server asks to wait; None where it does not say.
        limited: Whether it is a rate limit.
        unreachable: Whether there was no connection.
    """

    def __init__(self, reason: str, wait: float | None = None, limited: bool = False, unreachable: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.wait, self.limited, self.unreachable = reason, wait, limited, unreachable


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
        attempts: Attempts per request, without those that met a rate limit.
        patience: Seconds without any answer after which a rate limit is an error.

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
        attempts: int = 6,
        patience: float = 600.0,
    ) -> None:
        with require("a model behind an API", "api"):
            import openai  # noqa: F401, PLC0415
        self.base_url, self.address = server_address(base_url)
        if not isinstance(api_key_env, (str, type(None))):
            raise InputError("api_key_env must be the name of an environment variable, not the key itself")
        self.api_key_env = api_key_env
        self.concurrency = whole_number("concurrency", concurrency, 1)
        self.attempts = whole_number("attempts", attempts, 1)
        if not (is_number(timeout) and is_number(patience) and 0 < timeout < 1e6 and 0 <= patience < 1e6):
            raise InputError(f"timeout and patience must be seconds below a million; got {timeout!r} and {patience!r}")
        self.timeout, self.patience = float(timeout), float(patience)
        self._secret()  # a malformed key is refused here
        self.answering: str | None = None  # the model, as the server names it
        self.replaced: str | None = None  # by this one, in the middle
        self._requests = self._prompt_tokens = self._completion_tokens = 0
        self._running: RequestLoop | None = None
        self._lock = threading.Lock()
        renew_after_fork(self)

    def __repr__(self) -> str:
        return f"Client({self.base_url!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: part for name, part in self.__dict__.items() if name not in ("_running", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _running=None, _lock=threading.Lock())
        renew_after_fork(self)

    @property
    def usage(self) -> Usage:
        """What was asked so far."""
        return Usage(self._requests, self._prompt_tokens, self._completion_tokens)

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
        with self._lock:
            if self._running is None or self._running.pid != os.getpid():  # threads do not survive a fork
                self._running = RequestLoop(self, self.connected, self.concurrency)
            return asyncio.run_coroutine_threadsafe(start(), self._running.loop)

    def drain(self) -> None:
        """Let no request be repeated, and none start that waits: after an error or an interruption."""
        running = self._running
        if running is not None:
            running.loop.call_soon_threadsafe(running.stopping.set)

    def resume(self) -> None:
        """Repeat requests again where it may help; after another model has answered, that one is expected."""
        self.answering = self.replaced or self.answering
        running = self._running
        if running is not None:
            running.loop.call_soon_threadsafe(running.stopping.clear)

    def close(self) -> None:
        """Close the connections; a later request opens them again."""
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            running.close()

    async def post(self, path: str, body: Mapping[str, Any]) -> Answer:
        """Return the answer to a request, inside the thread of the requests; arguments as in `submit`."""
        running = self._running
        if running is None:
            raise ModelError(f"the connection to {self.address} was closed while a request was in flight")
        async with running.slots:
            if running.stopping.is_set():
                raise ModelError(f"{self.address} was not asked after an interruption")
            failures = 0
            while True:
                await running.pause()
                try:
                    answer = await self._attempt(running, path, body)
                except _Again as again:
                    failures += not again.limited
                    self._give_up(running, again, failures)
                    wait = again.wait
                    if wait is None:
                        wait = min(_FIRST_WAIT * 2.0 ** max(failures - 1, 0), _LONGEST_WAIT) * random.uniform(0.5, 1.0)
                    if again.limited or again.wait is not None:
                        running.resume_at = max(running.resume_at, time.monotonic() + wait)
                    else:
                        await running.sleep(wait)
                else:
                    running.answered, running.answered_at = True, time.monotonic()
                    self._count(answer)
                    self._check_model(answer)
                    return answer

    def _give_up(self, running: RequestLoop, again: _Again, failures: int) -> None:
        """Raise where another attempt makes no sense."""
        if running.stopping.is_set():
            raise ModelError(f"{self.address} {again.reason}; not asked again after an interruption") from None
        silent = time.monotonic() - running.answered_at
        if again.limited and ((again.wait or 0.0) > self.patience or silent > self.patience):
            raise ModelError(
                f"{self.address} {again.reason}, and asks to wait {again.wait or 0:.0f} s; run it again later"
                " (with cache= nothing is asked twice), or set patience= in Python"
            ) from None
        never = again.unreachable and not running.answered
        if (again.wait or 0.0) > self.patience or failures >= (min(self.attempts, _FIRST_CONTACT) if never else self.attempts):
            times = f"{failures} times" if failures > 1 else "once"
            raise ModelError(
                f"{self.address} {again.reason} ({times}); check that the server runs, or set timeout= and attempts= in Python"
            ) from None

    async def _attempt(self, running: RequestLoop, path: str, body: Mapping[str, Any]) -> Answer:
        """Make one request; raise _Again where another may help."""
        import openai  # noqa: PLC0415

        self._requests += 1
        failure: Exception
        try:
            async with asyncio.timeout(self.timeout):
                response = await self._sent(running, path, body)
        except (openai.OpenAIError, TimeoutError, TooLarge) as error:
            failure = error
        else:
            running.note_limits(response.headers)
            return self._decoded(response.content)
        # Outside of the handler, so that nothing the server said about the key is in the chain of exceptions.
        if isinstance(failure, openai.APIStatusError):
            self._refuse(failure.status_code, failure.response.headers, failure.response.content)
        if isinstance(failure, (openai.APITimeoutError, TimeoutError)):
            raise _Again(f"did not answer within {self.timeout:g} s")
        cause = failure.__cause__ or failure
        if isinstance(cause, TooLarge):
            raise ModelError(f"{self.address} {cause}")
        if isinstance(failure, openai.APIConnectionError):
            raise _Again(f"could not be reached ({self.quoted(cause)})", unreachable=True)
        raise ModelError(f"{self.address} could not be asked: {self.quoted(failure)}")

    async def _sent(self, running: RequestLoop, path: str, body: Mapping[str, Any]) -> Any:
        """Return the response to one request; the route of llama.cpp for tokens is beside /v1."""
        if path == "tokenize":
            address = f"{self.base_url.removesuffix('/v1')}/tokenize"
            raw = {"headers": {"X-Stainless-Raw-Response": "true"}}  # as with_raw_response does for routes of OpenAI
            return await running.client.post(address, cast_to=object, body=dict(body), options=raw)
        kind = running.client.chat.completions if path == "chat/completions" else running.client.completions
        named = {name: body[name] for name in ("model", "prompt", "messages") if name in body}
        rest = {name: value for name, value in body.items() if name not in named}
        return await kind.with_raw_response.create(**named, extra_body=rest)

    def _refuse(self, status: int, headers: Mapping[str, str], content: bytes) -> NoReturn:
        """Raise what an HTTP status means."""
        reason, code = self._reason(content)
        said = f" ({reason})" if reason and status != 401 else ""
        if 300 <= status < 400:
            host = urlsplit(headers.get("location", "")).hostname or "another path"
            raise ModelError(
                f"{self.address} redirects to {self.quoted(host)}, which is not followed; set base_url to the final address"
            )
        final = headers.get("x-should-retry", "").lower() == "false" or code == "insufficient_quota"
        if not final and (status in _TRANSIENT or status >= 500):
            limited = status == 429
            raise _Again(f"answers with status {status}{said}", asked_wait(headers, limited), limited)
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
        if isinstance(error, dict):
            return self.quoted(error.get("message", error.get("detail", ""))), str(error.get("code", error.get("type", "")))[
                :100
            ]
        return self.quoted(error), ""

    def _decoded(self, content: bytes) -> Answer:
        """Return the JSON object of an answer."""
        try:
            answer = json.loads(content, parse_constant=_not_a_number)
        except RecursionError:
            raise ModelError(f"{self.address} answered with nested JSON, which no completion is") from None
        except ValueError:
            if not content.strip():
                raise _Again("answered with nothing") from None
            raise _Again(f"answered with malformed JSON ({self.quoted(content[:80].decode('utf-8', 'replace'))}...)") from None
        except _NotANumber as error:
            raise ModelError(f"{self.address} answered with {error} in place of a number; check its weights") from None
        if not isinstance(answer, dict):
            raise ModelError(f"{self.address} must answer with a JSON object; got {type(answer).__name__}")
        if "error" in answer and "choices" not in answer:  # some gateways answer so with status 200
            reason, _ = self._reason(content)
            raise ModelError(f"{self.address} answered with an error: {reason}")
        return answer

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

    def quoted(self, said: object) -> str:
        """Return what a server says as one short printable line, without the key.

        Args:
            said: Anything with a string.
        """
        text, secret = str(said), self._secret()
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

    def connected(self) -> Any:
        """Return a client of openai; call it in the thread of the requests."""
        import openai  # noqa: PLC0415

        timeout = openai.Timeout(self.timeout, connect=min(_CONNECT, self.timeout))
        url = urlsplit(self.base_url)
        proxies = url.scheme == "https" or url.hostname not in _LOCAL  # no proxy gets what is for this machine
        http_client = bounded(openai.DefaultAsyncHttpxClient)
        client = openai.AsyncOpenAI(
            api_key=self._secret() or "none",
            base_url=self.base_url,
            timeout=timeout,
            max_retries=0,
            default_headers={"Accept-Encoding": "identity"},
            http_client=http_client(timeout=timeout, follow_redirects=False, trust_env=proxies),
        )
        if url.hostname != urlsplit(DEFAULT_URL).hostname:  # of an account at OpenAI, from the environment
            client.organization = client.project = None
        return client


class _NotANumber(Exception):
    """NaN or Infinity in JSON."""


def _not_a_number(name: str) -> NoReturn:
    raise _NotANumber(name)


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
