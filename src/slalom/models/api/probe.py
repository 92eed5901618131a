"""What a server can do, found out by asking it: a few requests about a fixed short text, counted like all others.

The first of these that works is used:

    1. completions with log-probabilities, where the template is a string
    2. chat with log-probabilities
    3. samples, unless log-probabilities are asked for by name

A label that is not among the listed tokens is spelled by the server itself, so that its first token is known. Requests that are
repeated show how much the answers vary. There is no list of models or servers.
"""

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from slalom.errors import ModelError
from slalom.models.api.answers import Keys, Row, begins_with, choices, from_log_probabilities, positions
from slalom.models.api.client import Answer, Client, Refused
from slalom.models.costs import about_tokens
from slalom.models.prompts import LabelSet, Template

TEXT = "It is what it is."  # the probe asks about it
SPELLED = 8  # tokens of a sample, and of a label that the server spells
_FEWER = 5  # log-probabilities, where a server refuses more
_SAME = 1e-8  # variance of log odds below which answers are equal
_REPEATS = 2  # equal requests at the same time; three times as many more where they differ
_DEPTH = 4  # tokens that the probe generates
_SPELLING = 100  # characters of the request that asks how a label is spelled, about
_BLANK = 0.01  # probability of a blank from which on a second token is asked for
_ELSEWHERE = (404, 405, 501)  # of a server that has no such route
_LIMITS = ("max_tokens", "max_completion_tokens")


@dataclass(frozen=True)
class Capabilities:
    """What a server can do, and how it is asked.

    Attributes:
        sampled: Whether answers are sampled; else they have log-probabilities.
        chat: Whether prompts go to the chat endpoint.
        size: Log-probabilities per token, or samples per request.
        tokens: Tokens to generate for an answer.
        limit: The name of the option that limits them.
        noise: Variance of the log odds between equal requests; 0 where they get equal answers.
        keys: How labels are recognised in log-probabilities.
        first_tokens: Labels that are longer than one token, with the beginning that they are scored by.
        requests: Requests that it took to find out.
    """

    sampled: bool
    chat: bool
    size: int
    tokens: int
    limit: str = _LIMITS[0]
    noise: float = 0.0
    keys: Keys = field(default_factory=lambda: Keys({}, 0))
    first_tokens: Mapping[str, str] = field(default_factory=dict)
    requests: int = 0

    @property
    def path(self) -> str:
        return "chat/completions" if self.chat else "completions"

    def request(self, model: str, prompt: str | list[dict[str, str]]) -> dict[str, Any]:
        """Return the body of a request."""
        body: dict[str, Any] = {"model": model, self.limit: self.tokens, "temperature": float(self.sampled)}
        if self.chat:
            body["messages"] = prompt if isinstance(prompt, list) else [{"role": "user", "content": prompt}]
        else:
            body["prompt"] = prompt
        if self.sampled:
            return body | ({"n": self.size} if self.size > 1 else {})
        return body | ({"logprobs": True, "top_logprobs": self.size} if self.chat else {"logprobs": self.size})


@dataclass(frozen=True)
class Probe:
    """Asks a server what it can do."""

    client: Client
    model: str
    template: Template
    labels: LabelSet  # with the continuations of a completion
    chat_labels: LabelSet  # with all spellings
    top: int  # log-probabilities to ask for
    samples: int
    tokens: int  # of a sample

    def most_tokens(self, mode: str) -> tuple[int, int]:
        """Return about how many tokens `find` reads and writes at most; refused requests have none."""
        one, n = about_tokens(len(self.template.characters) + len(TEXT)), len(self.labels.names)
        read, written = 0, 0
        if mode != "sample":  # both listings, all repeats, and how every label is spelled
            requests = 2 + 4 * _REPEATS
            read, written = requests * one + n * about_tokens(_SPELLING), requests * _DEPTH + n * SPELLED
        if mode != "logprobs":
            read, written = read + one, written + self.samples * self.tokens
        return read, written

    def ways(self, mode: str) -> Iterator[Capabilities]:
        """Yield ways to ask, the best first."""
        for sampled in (False, True):
            if mode in ("auto", "sample" if sampled else "logprobs"):
                sizes = (self.samples, 1) if sampled else (self.top, min(self.top, _FEWER))
                for chat in (True,) if self.template.is_chat else (False, True):
                    for size in dict.fromkeys(sizes):
                        for limit in _LIMITS if chat else _LIMITS[:1]:
                            yield Capabilities(sampled, chat, size, self.tokens if sampled else _DEPTH, limit)

    async def find(self, mode: str) -> Capabilities:
        """Return the first way that works."""
        before, problems, refused = self.client.usage.requests, dict[str, str](), None
        useless = set[tuple[bool, bool]]()  # kinds and endpoints
        for way in self.ways(mode):
            if (way.sampled, way.chat) in useless:
                continue
            try:
                answer = await self.ask(way, self.template.example(TEXT))
            except Refused as error:
                if error.status in (401, 403):
                    raise
                refused, problems[way.path] = error, f"status {error.status}{error.reason and f', {error.reason}'}"
                if error.status in _ELSEWHERE:
                    useless.add((way.sampled, way.chat))
                continue
            if way.sampled:
                size = way.size if len(choices(answer)) == way.size else 1
                return replace(way, size=size, requests=self.client.usage.requests - before)
            listed = positions(choices(answer)[0])
            if listed and len(listed[0].listed) > 1:
                keyed = await self._with_keys(way, answer)
                return replace(keyed, noise=await self._noise(keyed, answer), requests=self.client.usage.requests - before)
            problems[way.path] = "it ignores the option logprobs"
            useless.add((way.sampled, way.chat))
        if mode == "logprobs":
            why = "; ".join(f"{path}: {problem}" for path, problem in problems.items())
            raise ModelError(
                f'{self.client.address} gives no log-probabilities for mode="logprobs" ({why}); use mode="auto" or "sample"'
            )
        raise refused or ModelError(f"{self.client.address} answers neither completions nor chat")

    async def ask(self, way: Capabilities, text: Any) -> Answer:
        """Return the answer about a text or a record."""
        return await self.client.post(way.path, way.request(self.model, self.template.fill(text)))

    async def _noise(self, way: Capabilities, first: Answer) -> float:
        """Return the variance of the log odds over equal requests."""
        answers, noise = [first], 0.0
        for times in (_REPEATS, 3 * _REPEATS):
            answers += await asyncio.gather(*(self.ask(way, self.template.example(TEXT)) for _ in range(times)))
            noise = noise_of([from_log_probabilities(choices(answer)[0], way.keys) for answer in answers])
            if noise < _SAME:
                return 0.0
        return noise

    async def _with_keys(self, way: Capabilities, answer: Answer) -> Capabilities:
        """Return a way with how labels are recognised, and the tokens that takes."""
        labels, path = self.chat_labels if way.chat else self.labels, positions(choices(answer)[0])
        spellings = dict(zip(labels.names, labels.continuations, strict=True))
        listed = {token for position in path for token in position.listed}
        unseen = [name for name in labels.names if not listed & set(spellings[name])]
        spelled = await asyncio.gather(*(self._spell(way, name, spellings[name]) for name in unseen))
        early = {name: tokens[0] for name, tokens in zip(unseen, spelled, strict=True) if len(tokens) > 1}
        keys: dict[str, int] = {}
        for number, name in enumerate(labels.names):
            for key in [early[name], *spellings[name][1:]] if name in early else spellings[name]:
                if keys.setdefault(key, number) != number:
                    raise ModelError(
                        f"the labels {labels.names[keys[key]]!r} and {name!r} begin with the same token {key!r}; map them to"
                        f' other answers, such as labels={{{name!r}: " A", ...}}, or use mode="sample"'
                    )
        blank = sum(math.exp(log_p) for token, log_p in path[0].listed.items() if not token.strip())
        return replace(way, keys=Keys(keys, len(labels.names)), tokens=1 + (blank > _BLANK), first_tokens=early)

    async def _spell(self, way: Capabilities, name: str, spellings: Sequence[str]) -> list[str]:
        """Return the tokens of a label, as the server generates them."""
        ask = f"Repeat the following and write nothing else: {spellings[0].strip()}"
        prompt = ask if way.chat else f"Answer:{spellings[0]}\n" * 4 + "Answer:"
        answer = await self.client.post(way.path, replace(way, tokens=SPELLED).request(self.model, prompt))
        tokens: list[str] = []
        for position in positions(choices(answer)[0]):
            tokens.append(position.token)
            said = "".join(tokens)
            for spelling in spellings:
                if begins_with(said, spelling):
                    tokens[-1] = tokens[-1][: len(tokens[-1]) - len(said) + len(spelling)]
                    return tokens
        raise ModelError(
            f"{self.client.address} does not show how it spells the label {name!r} in tokens; choose labels of one token, map"
            f' them to short answers (labels={{{name!r}: " A", ...}}), or use mode="sample"'
        )


def noise_of(rows: Sequence[Row]) -> float:
    """Return the variance of the log odds of the labels over rows of one query, where all labels are listed; 0 for one."""
    logs = np.array([row.log_p for row in rows if (row.low > 0.0).all()])
    if len(logs) < 2:
        return 0.0
    others = [np.logaddexp.reduce(np.delete(logs, c, axis=1), axis=1) for c in range(logs.shape[1])]
    return float((logs - np.stack(others, axis=1)).var(axis=0, ddof=1).mean())
