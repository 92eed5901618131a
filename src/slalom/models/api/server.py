"""Language models behind a server, for `slalom.context`: log probabilities of given words, or samples.

    echo        a completion that repeats its prompt, with log probabilities: vLLM
    grammar     a completion that a grammar of tokens forces; log probabilities are those before the grammar: llama.cpp

Which of the two a server can do is found out by asking it about a fixed short text. Prompts are strings then: the server puts
no chat template around them. Samples are asked of any server: chat messages by chat completions, strings by completions.
"""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats
from slalom.errors import InputError, ModelError
from slalom.interrupt import check
from slalom.models.api.answers import choices, content
from slalom.models.api.client import FILTERS, Answer, Client, Refused
from slalom.models.continuation import LanguageModel, finished, prompt_tokens
from slalom.models.costs import Usage, about_tokens
from slalom.models.sources import Prompt
from slalom.text import printable

_PROBE = ("The sun rises in the east and sets in the", " west")
_REQUESTS = 6  # with the probe, at most
_NO_LOGS = 'gives no log probabilities of given words; use mode="sample", or vLLM, llama.cpp or a local model'
_UNSUPPORTED = (400, 422)  # status where a server does not take an option
_STREAM = {"stream": True, "stream_options": {"include_usage": True}}
_AGAIN = 0.1  # seconds after which it is seen whether the work was given up
_LIMITS = ("max_tokens", "max_completion_tokens")


class _Unreadable(ModelError):
    """An answer without the log probabilities of given words."""


@final
class AnswerServer(LanguageModel):
    """A language model behind an OpenAI-compatible server, for `slalom.context`.

    Args:
        model: Name of the model on the server.
        base_url: The address, up to and with ``/v1``. Default: the environment variable OPENAI_BASE_URL, else OpenAI.
        api_key_env: The environment variable that has the key, as in `slalom.models.Api`.
        concurrency: Largest number of requests in flight.
        timeout: Seconds for one attempt.

    Example:
        >>> server = AnswerServer("qwen", "http://localhost:8000/v1")  # doctest: +SKIP
        >>> e = slalom.context(server, context=["Ada lives in Graz."], question="Where is Ada?")  # doctest: +SKIP
    """

    chats = False

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        *,
        api_key_env: str | None = None,
        concurrency: int = 8,
        timeout: float = 60.0,
    ) -> None:
        if not str(model or "").strip():
            raise InputError(f"model must be the name of a model on the server; got {model!r}")
        self.client = Client(base_url, api_key_env=api_key_env, concurrency=concurrency, timeout=timeout)
        self.name = model
        self._mode: Literal["echo", "grammar"] | None = None
        self._tokens: dict[str, tuple[list[int], list[str]]] = {}
        self._several: bool | None = None  # whether it takes n=
        self._limit: str | None = None  # its name of the option that limits tokens
        self._streams = True  # as far as is known

    def tokens(self, answer: str, lead: str) -> NDArray[np.int64]:
        pieces = self._tokenized(lead + answer)[1]
        ends = np.cumsum([0, *map(len, pieces)]) - len(lead)
        return np.asarray(np.maximum(np.stack([ends[:-1], ends[1:]], axis=1), 0), dtype=np.int64)

    def log_probs(self, prompts: Sequence[Prompt], answer: str, lead: str) -> Floats:
        text = lead + answer
        ids, pieces = self._tokenized(text)
        requests = [self._request(prompt, text, ids) for prompt in prompts]
        answers = _together([self.client.run(self.client.post("completions", request)) for request in requests])
        rows = [self._read(answer, text, ids)[0] for answer in answers]
        if any(len(row) != len(pieces) for row in rows):
            raise ModelError(
                f"{self._where} reads the answer as other tokens after another prompt; let the template end without white space"
            )
        return np.array(rows)

    def generate(self, prompt: Prompt, most: int) -> str:
        return self.sample([prompt], most, 1, 0.0)[0][0]

    def write(self, prompt: Prompt, most: int, on_text: Callable[[str], None]) -> str:
        texts, text, counted = SimpleQueue[str | None](), "", self.usage.prompt_tokens
        future = self.client.run(self._drawn(prompt, most, 1, 0.0, texts.put))
        future.add_done_callback(lambda _: texts.put(None))
        try:
            while True:
                check()
                with suppress(Empty):
                    if (so_far := texts.get(timeout=_AGAIN)) is None:
                        return str(future.result()[0])
                    if so_far != text:
                        text = so_far
                        on_text(text)
        finally:
            future.cancel()
            if text and self.usage.prompt_tokens == counted:  # the end of the stream would say it
                read, written = self.client.uncounted
                self.client.uncounted = read + prompt_tokens(prompt), written + about_tokens(len(text))

    def sample(
        self, prompts: Sequence[Prompt], most: int, count: int, temperature: float = 1.0, seed: int = 0
    ) -> list[list[str]]:
        options = (most, count, temperature)
        unknown = self._limit is None or (count > 1 and self._several is None)  # the first prompt finds it out
        first = _together([self.client.run(self._drawn(prompt, *options)) for prompt in prompts[:unknown]])
        return first + _together([self.client.run(self._drawn(prompt, *options)) for prompt in prompts[len(first) :]])

    async def _drawn(
        self, prompt: Prompt, most: int, count: int, temperature: float, on_text: Callable[[str], None] | None = None
    ) -> list[str]:
        """Return samples: several of one request where the server takes n=, else of as many requests.

        `on_text` gets what is written so far of a single one, where the server streams.
        """
        chat = not isinstance(prompt, str)
        path, body = ("chat/completions", {"messages": prompt}) if chat else ("completions", {"prompt": prompt})

        def texts_of(answer: Answer) -> list[str]:
            written = [printable(content(choice)[0]).rstrip("\ufffd") for choice in choices(answer)]
            return [finished(text, prompt) for text in written]  # without a part of a character at its end

        async def ask(n: int, limit: str, stream: bool = False) -> list[str]:
            options = {"model": self.name, "temperature": temperature, limit: most} | ({"n": n} if n > 1 else {})
            heard = None if on_text is None else lambda answer: on_text(texts_of(answer)[0])
            return texts_of(await self.client.post(path, body | options | (_STREAM if stream else {}), heard))

        streams = (True, False) if self._streams and on_text is not None else (False,)
        sizes = (count,) if self._several else (1,) if self._several is False else tuple(dict.fromkeys((count, 1)))
        limits = (self._limit,) if self._limit else _LIMITS
        ways = [(size, limit, stream) for stream in streams for size in sizes for limit in limits]
        for way in ways:
            try:
                texts = await ask(*way)
            except Refused as error:
                if error.code in FILTERS:
                    return [""] * count
                if error.status not in _UNSUPPORTED or way == ways[-1]:
                    raise
            else:
                break
        self._limit, self._several = way[1], len(texts) > 1 if count > 1 else self._several
        self._streams &= way[2] or on_text is None
        more = await asyncio.gather(*(ask(1, way[1]) for _ in range(count - len(texts))))
        return [text for part in (texts, *more) for text in part][:count]

    @property
    def samples_chats(self) -> bool:
        return True

    def times_read(self, count: int) -> int:
        return 1 if self._several else count

    def identity(self) -> str:
        return f"{self.client.address} {self.name}"

    @property
    def usage(self) -> Usage:
        return self.client.usage

    @property
    def start_tokens(self) -> tuple[int, int]:
        return (0, 0) if self._mode is not None else (_REQUESTS * about_tokens(len("".join(_PROBE))), _REQUESTS)

    @property
    def mode(self) -> Literal["echo", "grammar"]:
        """How the server gives log probabilities of given words; found out by the first call."""
        prompt, words = _PROBE
        modes: tuple[Literal["echo", "grammar"], ...] = ("echo", "grammar")
        for mode in modes if self._mode is None else ():
            try:
                ids = self._ids(words)[0] if mode == "grammar" else []
                self._read(self.client.ask("completions", self._request(prompt, words, ids)), words, ids)
            except Refused as error:
                if error.status in (401, 403, 404) and mode == "echo":
                    raise
            except _Unreadable:
                pass
            else:
                self._mode = mode
                break
        if self._mode is None:
            raise ModelError(f"{self._where} {_NO_LOGS}")
        return self._mode

    @property
    def _where(self) -> str:
        return f"{self.name} at {self.client.address}"

    def _body(self, prompt: Prompt, **options: Any) -> Mapping[str, Any]:
        return {"model": self.name, "prompt": prompt, "temperature": 0, **options}

    def _request(self, prompt: Prompt, text: str, ids: Sequence[int]) -> Mapping[str, Any]:
        """Return the request for the log probabilities of a text after a prompt: by a grammar of its tokens, or by an echo."""
        if ids:
            forced = "root ::= " + " ".join(f"<[{token}]>" for token in ids)
            return self._body(prompt, max_tokens=len(ids), logprobs=1, grammar=forced)
        return self._body(f"{prompt}{text}", max_tokens=1, logprobs=1, echo=True)

    def _read(self, answer: Answer, text: str, ids: Sequence[int]) -> tuple[list[float], list[str]]:
        """Return the log probabilities and the tokens of a text, from the answer to `_request`."""
        try:
            logprobs = answer["choices"][0]["logprobs"]
            if ids:
                rows = logprobs["content"][: len(ids)]
                as_asked = [row["id"] for row in rows] == ids
                logs, pieces = [row["logprob"] for row in rows], [row["token"] for row in rows]
            else:
                written = int((answer.get("usage") or {}).get("completion_tokens", 1))
                tokens = list(logprobs["tokens"])[: len(logprobs["tokens"]) - written]
                first, joined = len(tokens), ""
                while first and len(joined) < len(text):  # the last tokens of the echo make up the text
                    first -= 1
                    joined = tokens[first] + joined
                as_asked = joined == text
                logs, pieces = list(logprobs["token_logprobs"])[first : len(tokens)], tokens[first:]
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError):
            raise _Unreadable(f"{self._where} {_NO_LOGS}") from None
        if not as_asked:
            raise _Unreadable(f"{self._where} does not {'follow a grammar' if ids else 'repeat the prompt'} in its own tokens")
        if not all(isinstance(log, (int, float)) and math.isfinite(log) and -1e4 < log <= 1e-3 for log in logs):
            raise _Unreadable(f"{self._where} answered with a log probability that is none")
        return [min(float(log), 0.0) for log in logs], pieces

    def _tokenized(self, text: str) -> tuple[list[int], list[str]]:
        """Return the tokens of an answer and their strings; ids are needed for a grammar only."""
        if text not in self._tokens:
            if self.mode == "grammar":
                self._tokens[text] = self._ids(text)
            else:
                echo = self.client.ask("completions", self._request(f"{_PROBE[0]}.", text, ()))
                self._tokens[text] = [], self._read(echo, text, ())[1]
        return self._tokens[text]

    def _ids(self, text: str) -> tuple[list[int], list[str]]:
        """Return the tokens of a text by the route of llama.cpp, beside /v1."""
        answer = self.client.ask("tokenize", {"content": text, "add_special": False, "with_pieces": True})
        try:
            ids = [int(token["id"]) for token in answer["tokens"]]
            pieces = _strings([token["piece"] for token in answer["tokens"]])
        except (KeyError, TypeError, ValueError, OverflowError):
            raise _Unreadable(f"{self._where} does not say what its tokens are") from None
        if not ids or "".join(pieces) != text:
            raise _Unreadable(
                f"{self._where} reads {text[:40]!r} as the tokens of {''.join(pieces)[:40]!r}; use vLLM or a local model"
            )
        return ids, pieces


def _together(futures: Sequence[Future[Any]]) -> list[Any]:
    """Return the results of requests; where one fails, or the work is given up, those that are not answered are given up."""
    results = []
    try:
        for future in futures:
            while not wait([future], _AGAIN).done:
                check()
            results.append(future.result())
        return results
    finally:
        for future in futures:
            future.cancel()


def _strings(pieces: Sequence[Any]) -> list[str]:
    """Return the strings of tokens; bytes that are part of a character belong to the token that completes it."""
    strings, pending = [], b""
    for piece in pieces:
        if isinstance(piece, str):
            strings.append(piece)
            continue
        pending += bytes(list(piece))
        try:
            strings.append(pending.decode("utf-8"))
            pending = b""
        except UnicodeDecodeError:
            strings.append("")
    return strings
