"""Language models behind a server that gives log probabilities of given words, for `slalom.context`.

    echo        a completion that repeats its prompt, with log probabilities: vLLM
    grammar     a completion that a grammar of tokens forces; log probabilities are those before the grammar: llama.cpp

Which of the two a server can do is found out by asking it about a fixed short text. Prompts are strings: the server puts no
chat template around them.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats
from slalom.errors import InputError, ModelError
from slalom.models.api.client import Answer, Client, Refused
from slalom.models.continuation import LanguageModel
from slalom.models.costs import Usage, about_tokens
from slalom.models.sources import Prompt

_PROBE = ("The sun rises in the east and sets in the", " west")
_REQUESTS = 6  # with the probe, at most
_MODES: tuple[Literal["echo", "grammar"], ...] = ("echo", "grammar")


@final
class AnswerServer(LanguageModel):
    """A language model behind an OpenAI-compatible server, for `slalom.context`.

    Args:
        model: Name of the model on the server.
        base_url: The address, up to and with ``/v1``. Default: the environment variable OPENAI_BASE_URL, else OpenAI.
        api_key_env: The environment variable that has the key, as in `slalom.models.Api`.
        concurrency: Largest number of requests in flight.
        timeout: Seconds for one attempt.

    Raises:
        InputError: An argument is wrong.
        MissingExtra: The package openai is not installed.

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
        named: object = model
        if not isinstance(named, str) or not named.strip():
            raise InputError(f"model must be the name of a model on the server; got {model!r}")
        self.client = Client(base_url, api_key_env=api_key_env, concurrency=concurrency, timeout=timeout)
        self.name = self._model = model
        self._mode: Literal["echo", "grammar"] | None = None
        self._tokens: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {}

    def tokens(self, answer: str, lead: str) -> NDArray[np.int64]:
        pieces = self._answer(lead + answer)[1]
        ends = np.cumsum([0, *map(len, pieces)]) - len(lead)
        return np.asarray(np.maximum(np.stack([ends[:-1], ends[1:]], axis=1), 0), dtype=np.int64)

    def log_probs(self, prompts: Sequence[Prompt], answer: str, lead: str) -> Floats:
        text = lead + answer
        ids, pieces = self._answer(text)
        waiting = [self.client.submit("completions", self._request(_string(prompt), text, ids)) for prompt in prompts]
        rows = [self._read(future.result(), text, ids) for future in waiting]
        for row, _ in rows:
            if len(row) != len(pieces):
                raise ModelError(
                    f"{self._where} reads the answer as other tokens after another prompt; let the template end without white"
                    " space"
                )
        return np.array([row for row, _ in rows])

    def generate(self, prompt: Prompt, most: int) -> str:
        answer = self.client.ask("completions", {**self._basis(_string(prompt)), "max_tokens": most})
        try:
            text = answer["choices"][0]["text"]
        except (KeyError, IndexError, TypeError):
            text = None
        if not isinstance(text, str):
            raise ModelError(f"{self._where} answered a completion without text")
        return text.strip().partition("\n")[0].strip()

    def identity(self) -> str:
        return f"{self.client.address} {self._model}"

    @property
    def usage(self) -> Usage:
        return self.client.usage

    @property
    def start_tokens(self) -> tuple[int, int]:
        return (0, 0) if self._mode is not None else (_REQUESTS * about_tokens(len("".join(_PROBE))), _REQUESTS)

    @property
    def mode(self) -> Literal["echo", "grammar"]:
        """How the server gives log probabilities of given words; found out by the first call.

        Raises:
            ModelError: It gives none.
        """
        prompt, words = _PROBE
        for mode in () if self._mode else _MODES:
            try:
                ids = self._tokenized(words)[0] if mode == "grammar" else ()
                self._read(self.client.ask("completions", self._request(prompt, words, ids)), words, ids)
                self._mode = mode
                break
            except Refused as error:
                if error.status in (401, 403, 404) and mode == "echo":
                    raise
            except ModelError:
                if mode == "echo" and not self._answers(prompt):
                    raise
        if self._mode is None:
            raise ModelError(
                f"{self._where} gives no log probabilities of given words; an answer can be explained with vLLM, llama.cpp or a"
                " local model"
            )
        return self._mode

    @property
    def _where(self) -> str:
        return f"{self._model} at {self.client.address}"

    def _answers(self, prompt: str) -> bool:
        """Return whether the server completes a prompt at all."""
        try:
            return "choices" in self.client.ask("completions", {**self._basis(prompt), "max_tokens": 1})
        except ModelError:
            return False

    def _basis(self, prompt: str) -> dict[str, Any]:
        return {"model": self._model, "prompt": prompt, "temperature": 0}

    def _request(self, prompt: str, text: str, ids: Sequence[int]) -> Mapping[str, Any]:
        """Return the request for the log probabilities of a text after a prompt."""
        if ids:  # of a grammar; an echo needs none
            forced = "root ::= " + " ".join(f"<[{token}]>" for token in ids)
            return {**self._basis(prompt), "max_tokens": len(ids), "logprobs": 1, "grammar": forced}
        return {**self._basis(prompt + text), "max_tokens": 1, "logprobs": 1, "echo": True}

    def _read(self, answer: Answer, text: str, ids: Sequence[int]) -> tuple[list[float], tuple[str, ...]]:
        """Return the log probabilities and the tokens of a text, from the answer to `_request`."""
        try:
            found = answer["choices"][0]["logprobs"]
            if ids:  # of a grammar; an echo needs none
                rows = found["content"][: len(ids)]
                if [row["id"] for row in rows] != list(ids):
                    raise ModelError(f"{self._where} does not follow a grammar of tokens")
                logs, pieces = [row["logprob"] for row in rows], tuple(row["token"] for row in rows)
            else:
                logs, pieces = self._echoed(found, answer, text)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError):
            raise ModelError(f"{self._where} gives no log probabilities of given words") from None
        if not all(isinstance(log, (int, float)) and math.isfinite(log) and -1e4 < log <= 1e-3 for log in logs):
            raise ModelError(f"{self._where} answered with a log probability that is none")
        return [min(float(log), 0.0) for log in logs], pieces

    def _echoed(self, found: Mapping[str, Any], answer: Answer, text: str) -> tuple[list[Any], tuple[str, ...]]:
        """Return the last tokens of an echoed prompt that make up a text."""
        tokens, logs = list(found["tokens"]), list(found["token_logprobs"])
        said = answer.get("usage") or {}
        written = int(said.get("completion_tokens", 1))
        tokens, logs = tokens[: len(tokens) - written], logs[: len(logs) - written]
        first, joined = len(tokens), ""
        while first and len(joined) < len(text):
            first -= 1
            joined = tokens[first] + joined
        if joined != text:
            raise ModelError(f"{self._where} does not repeat the prompt in its own tokens")
        return logs[first:], tuple(tokens[first:])

    def _answer(self, text: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Return the tokens of an answer and their strings; ids are needed for a grammar only."""
        if text not in self._tokens:
            if self.mode == "grammar":
                self._tokens[text] = self._tokenized(text)
            else:
                read = self._read(self.client.ask("completions", self._request(_PROBE[0] + ".", text, ())), text, ())
                self._tokens[text] = (), read[1]
        return self._tokens[text]

    def _tokenized(self, text: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Return the tokens of a text by the route of llama.cpp, beside /v1."""
        answer = self.client.ask("tokenize", {"content": text, "add_special": False, "with_pieces": True})
        try:
            ids = tuple(int(token["id"]) for token in answer["tokens"])
            pieces = tuple(_pieces([token["piece"] for token in answer["tokens"]]))
        except (KeyError, TypeError, ValueError):
            raise ModelError(f"{self._where} does not say what its tokens are") from None
        if not ids or "".join(pieces) != text:
            raise ModelError(
                f"{self._where} reads {text[:40]!r} as the tokens of {''.join(pieces)[:40]!r}; use vLLM or a local model"
            )
        return ids, pieces


def _string(prompt: Prompt) -> str:
    if not isinstance(prompt, str):
        raise InputError("a server is asked with strings; pass template= as a string with {context} and {question}")
    return prompt


def _pieces(raw: list[Any]) -> list[str]:
    """Return the strings of tokens; bytes that are part of a character belong to the token that completes it."""
    strings, left = [], b""
    for piece in raw:
        if isinstance(piece, str):
            strings.append(piece)
            continue
        left += bytes(list(piece))
        try:
            strings.append(left.decode("utf-8"))
            left = b""
        except UnicodeDecodeError:
            strings.append("")
    return strings
