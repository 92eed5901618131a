"""One attempt of a request: its time limit covers everything, it reads a bounded answer, and it ends when it is told to.

The openai client retries what this raises as an error of httpx2 or returns with a status such as 500; `Final` ends a request.
"""

import asyncio
import json
from typing import Any, NoReturn, final

import httpx2
import openai

from slalom.errors import one_line

_CONNECT = 10.0  # seconds to connect
_MAX_BYTES = 1_000_000  # of one answer


class Final(Exception):
    """What went wrong, where another attempt makes no sense."""


@final
class Transport(openai.DefaultAsyncHttpxClient):
    """The HTTP client of the openai client; it follows no redirects.

    Attributes:
        requests: Attempts so far.
        stopping: Whether nothing may start, or be repeated.
        tasks: Requests, those that wait for another attempt among them.
        sending: Requests that the server works on.
    """

    def __init__(self, seconds: float, proxies: bool) -> None:
        timeout = httpx2.Timeout(seconds, connect=min(_CONNECT, seconds))
        super().__init__(timeout=timeout, follow_redirects=False, trust_env=proxies)
        self.seconds, self.requests, self.answered, self.stopping = seconds, 0, False, False
        self.tasks, self.sending = set[asyncio.Task[Any]](), set[asyncio.Task[Any]]()

    def drain(self) -> None:
        """Let what the server works on come to its end, and nothing else."""
        for task in self.tasks - self.sending:
            task.cancel()

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if self.stopping:
            raise Final("was not asked after an interruption")
        self.requests += 1
        task = asyncio.current_task()
        assert task is not None
        self.sending.add(task)
        try:
            async with asyncio.timeout(self.seconds):
                response = await self._whole(request, options)
        except TimeoutError:
            self._check_repeatable(f"did not answer within {self.seconds:g} s")
            raise httpx2.ReadTimeout("", request=request) from None
        except httpx2.RequestError as error:
            reason = f"could not be reached ({one_line(error)})"
            self._check_repeatable(reason)
            if not self.answered and request.headers.get("x-stainless-retry-count", "0") != "0":
                raise Final(f"{reason} (2 times); check that the server runs") from None
            raise
        finally:
            self.sending.discard(task)
        self.answered = True
        if response.is_success:
            response.extensions["answer"] = _decoded(response.content)
        else:
            self._check_repeatable(f"answers with status {response.status_code}")
        return response

    def _check_repeatable(self, reason: str) -> None:
        if self.stopping:
            raise Final(f"{reason}; not asked again after an interruption") from None

    async def _whole(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        """Return a response that is read to its end, up to a number of bytes, and not decompressed."""
        response = await super().send(request, **options | {"stream": True})
        try:
            if response.headers.get("content-encoding", "identity").lower() != "identity":
                raise Final("compresses its answers though it is asked not to; switch that off")
            content = bytearray()
            async for part in response.aiter_raw():
                content += part
                if len(content) > _MAX_BYTES:
                    raise Final(f"answered with more than {_MAX_BYTES // 1_000_000} MB, which no completion is")
        finally:
            await response.aclose()
        headers = httpx2.Headers(response.headers)
        for name in ("content-length", "transfer-encoding"):
            headers.pop(name, None)
        if b"insufficient_quota" in content:
            headers["x-should-retry"] = "false"
        return httpx2.Response(response.status_code, headers=headers, content=bytes(content), request=request)


def _decoded(content: bytes) -> dict[str, Any]:
    """Return a JSON object; what is no JSON may have been cut off, and is asked for again."""
    try:
        answer = json.loads(content, parse_constant=_not_a_number)
    except RecursionError:
        raise Final("answered with nested JSON, which no completion is") from None
    except ValueError:
        start = content[:80].decode("utf-8", "replace")
        raise httpx2.DecodingError(f"malformed JSON ({start}...)" if content.strip() else "nothing") from None
    if not isinstance(answer, dict):
        raise Final(f"must answer with a JSON object; got {type(answer).__name__}")
    return answer


def _not_a_number(name: str) -> NoReturn:
    raise Final(f"answered with {name} in place of a number; check its weights")
