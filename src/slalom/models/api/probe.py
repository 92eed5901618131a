"""What a server can do, found out by asking it: a few requests about a fixed short text, counted like all others.

The first of these that works is used:

    1. completions with log-probabilities, where the template is a string
    2. chat with log-probabilities
    3. samples, unless log-probabilities are asked for by name

Each is tried with the options in `Probe.ways`, in their order. A label that is not among the listed tokens is spelled by the
server itself, so that its first token is known. Two requests at once show whether equal requests get equal answers. There is no
list of models or servers.
"""

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

from slalom.errors import ModelError
from slalom.models.api.answers import Keys, Mode, Position, Unusable, choices, positions
from slalom.models.api.client import Answer, Client, Refused
from slalom.models.costs import about_tokens
from slalom.models.prompts import LabelSet, Template

TEXT = "It is what it is."  # the probe asks about it
_FEWER = 5  # log-probabilities, where a server refuses more
_SAME = 1e-4  # log-probabilities that differ by less are equal
_DEPTH = 4  # tokens that the probe generates
SPELLED = 8  # tokens of a sample, and of a label that the server spells
_SPELLING = 100  # characters of the request that asks for it, about
_BLANK = 0.01  # probability of a blank from which on a second token is asked for
_ELSEWHERE = (404, 405, 501)  # of a server that has no such route
_PATHS = {True: "chat/completions", False: "completions"}


@final
@dataclass(frozen=True)
class Capabilities:
    """What a server can do, and how it is asked.

    Attributes:
        mode: How it is asked.
        chat: Whether prompts go to the chat endpoint.
        top: Number of log-probabilities per token; 0 where there are none.
        tokens: Tokens to generate for an answer.
        several: Whether one request gives several samples.
        seed: Seed of samples; None where the server takes none.
        deterministic: Whether equal requests got equal answers; None where that was not asked.
        limit: The name of the option that limits the answer: "max_tokens", or "max_completion_tokens".
        keys: How labels are recognised in log-probabilities.
        first_tokens: Labels that are longer than one token, with the beginning that they are scored by.
        requests: Requests that it took to find out.
    """

    mode: Mode
    chat: bool
    top: int = 0
    tokens: int = 1
    several: bool = False
    seed: int | None = None
    deterministic: bool | None = None
    limit: str = "max_tokens"
    keys: Keys = field(default_factory=lambda: Keys({}, frozenset(), 0))
    first_tokens: Mapping[str, str] = field(default_factory=dict)
    requests: int = 0

    def __str__(self) -> str:
        where = "chat" if self.chat else "completions"
        how = f"{self.top} log-probabilities per token of {where}"
        if self.mode is Mode.SAMPLE:
            how = f"samples of {where}, {'several' if self.several else 'one'} per request"
        same = {True: "; equal requests get equal answers", False: "; equal requests get different answers", None: ""}
        return f"{how}{same[self.deterministic]} ({self.requests} requests to find out)"

    @property
    def path(self) -> str:
        """The route of the server."""
        return _PATHS[self.chat]

    def request(self, model: str, prompt: str | list[dict[str, str]], samples: int = 1, number: int = 0) -> dict[str, Any]:
        """Return the body of a request; for samples, of several in one answer, or of the one with a number."""
        messages = prompt if isinstance(prompt, list) else [{"role": "user", "content": prompt}]
        body = {"model": model, self.limit: self.tokens, **({"messages": messages} if self.chat else {"prompt": prompt})}
        if self.mode is Mode.SAMPLE:
            seed = {} if self.seed is None else {"seed": self.seed + number}
            return body | {"temperature": 1.0} | seed | ({"n": samples} if samples > 1 else {})
        listed = {"logprobs": True, "top_logprobs": self.top} if self.chat else {"logprobs": self.top}
        return body | {"temperature": 0.0} | listed


@final
@dataclass(frozen=True)
class Probe:
    """Asks a server what it can do.

    Args:
        client: The client.
        model: The name of the model.
        template: The prompt.
        plain: The labels with the continuations of a completion.
        spelled: The labels with all spellings, for chat.
        top: Log-probabilities to ask for.
        samples: Samples to ask for.
        tokens: Tokens of a sample.
        seed: Seed of samples.
        repeats: Whether to find out if equal requests get equal answers.
    """

    client: Client
    model: str
    template: Template
    plain: LabelSet
    spelled: LabelSet
    top: int
    samples: int
    tokens: int
    seed: int | None
    repeats: bool

    def most_tokens(self, mode: str) -> tuple[int, int]:
        """Return about how many tokens `find` reads and writes at most; refused requests have none."""
        one, names = about_tokens(self.template.n_characters + len(TEXT)), self.plain.names
        read, written = 0, 0
        if mode != "sample":  # both listings, two repeats, and how every label is spelled
            read, written = 4 * one + len(names) * about_tokens(_SPELLING), 4 * _DEPTH + len(names) * SPELLED
        if mode != "logprobs":
            read, written = read + one, written + self.samples * self.tokens
        return read, written

    def ways(self, mode: str) -> Iterator[Capabilities]:
        """Yield ways to ask, the best first."""
        endpoints = (True,) if self.template.is_chat else (False, True)
        if mode != "sample":
            for chat in endpoints:
                kind = Mode.CHAT if chat else Mode.COMPLETIONS
                for top in dict.fromkeys((self.top, min(self.top, _FEWER))):
                    for limit in ("max_tokens", "max_completion_tokens")[: 1 + chat]:
                        yield Capabilities(kind, chat, top, _DEPTH, limit=limit)
        if mode != "logprobs":
            for chat in endpoints:
                for several, seed in dict.fromkeys([(self.samples > 1, self.seed), (False, self.seed), (False, None)]):
                    for limit in ("max_tokens", "max_completion_tokens")[: 1 + chat]:
                        yield Capabilities(Mode.SAMPLE, chat, 0, self.tokens, several, seed, limit=limit)

    async def find(self, mode: str) -> Capabilities:
        """Return the first way that works.

        Raises:
            ModelError: None does.
        """
        before, problems, refused = self.client.usage.requests, dict[str, str](), None
        useless = set[tuple[Mode, bool]]()  # kinds and endpoints
        for way in self.ways(mode):
            if (way.mode, way.chat) in useless:
                continue
            try:
                answer = await self._ask(way, self.template.fill(TEXT))
            except Refused as error:
                if error.status in (401, 403) or error.code == "insufficient_quota":
                    raise
                refused, problems[way.path] = error, f"status {error.status}{error.reason and f', {error.reason}'}"
                if error.status in _ELSEWHERE:
                    useless.add((way.mode, way.chat))
                continue
            try:
                found = await self._tried(way, answer)
            except Unusable as error:
                raise ModelError(
                    f"{self.client.address} answered with {error}; check base_url (most servers: .../v1) and the server"
                ) from None
            if found is not None:
                return replace(found, requests=self.client.usage.requests - before)
            problems[way.path] = "it ignores the option logprobs"
            useless.add((way.mode, way.chat))
        if mode == "logprobs":
            why = "; ".join(f"{path}: {problem}" for path, problem in problems.items())
            raise ModelError(
                f'{self.client.address} gives no log-probabilities for mode="logprobs" ({why}); use mode="auto" or "sample"'
            )
        raise refused or ModelError(f"{self.client.address} answers neither completions nor chat")

    async def _ask(self, way: Capabilities, prompt: str | list[dict[str, str]]) -> Answer:
        return await self.client.post(way.path, way.request(self.model, prompt, self.samples if way.several else 1))

    async def _tried(self, way: Capabilities, answer: Answer) -> Capabilities | None:
        """Return a way that the server has answered, with what else has to be known; None where it gives too little."""
        if way.mode is Mode.SAMPLE:
            return replace(way, several=way.several and len(choices(answer)) == self.samples)
        path = positions(choices(answer)[0])
        if not path or len(path[0].listed) < 2:
            return None
        same = await self._same_again(way, path[0]) if self.repeats else None
        return replace(await self._with_keys(way, path), deterministic=same)

    async def _same_again(self, way: Capabilities, first: Position) -> bool:
        """Return whether two more requests, at the same time, get the same answer."""
        answers = await asyncio.gather(*(self._ask(way, self.template.fill(TEXT)) for _ in range(2)))
        try:
            return all(_same(first, positions(choices(answer)[0])[0]) for answer in answers)
        except (Unusable, IndexError):
            return False

    async def _with_keys(self, way: Capabilities, path: Sequence[Position]) -> Capabilities:
        """Return a way with how labels are recognised, and the tokens that takes."""
        labels = self.spelled if way.chat else self.plain
        spellings = dict(zip(labels.names, labels.continuations, strict=True))
        listed = {token for position in path for token in position.listed}
        unseen = [name for name in labels.names if not listed & set(spellings[name])]
        tokens = await asyncio.gather(*(self._spell(way, name, spellings[name]) for name in unseen))
        paths = {name: [[spelling] for spelling in spellings[name]] for name in labels.names}
        for name, spelled in zip(unseen, tokens, strict=True):
            paths[name] = [spelled, *(single for single in paths[name] if single[0] != "".join(spelled))]
        keys, prefixes, first_tokens = keys_of(paths)
        depth = 1 + max(prefixes.values(), default=0)
        blank = sum(math.exp(log_p) for token, log_p in path[0].listed.items() if not token.strip())
        found = Keys({key: labels.names.index(name) for key, name in keys.items()}, frozenset(prefixes), len(labels.names))
        return replace(way, keys=found, tokens=depth + (blank > _BLANK), first_tokens=first_tokens)

    async def _spell(self, way: Capabilities, name: str, spellings: Sequence[str]) -> list[str]:
        """Return the tokens of a label, as the server generates them."""
        wanted = spellings[0]
        ask = f"Repeat the following and write nothing else: {wanted.strip()}"
        answer = await self._ask(replace(way, tokens=SPELLED), ask if way.chat else f"Answer:{wanted}\n" * 4 + "Answer:")
        tokens: list[str] = []
        for position in positions(choices(answer)[0]):
            tokens.append(position.token)
            said = "".join(tokens)
            for spelling in spellings:
                if said.startswith(spelling) and not said[len(spelling) : len(spelling) + 1].isalnum():
                    tokens[-1] = tokens[-1][: len(tokens[-1]) - len(said) + len(spelling)]
                    return tokens
        raise ModelError(
            f"{self.client.address} does not show how it spells the label {name!r} in tokens; choose labels of one token, map"
            f' them to short answers (labels={{{name!r}: " A", ...}}), or use mode="sample"'
        )


def keys_of(paths: Mapping[str, Sequence[Sequence[str]]]) -> tuple[dict[str, str], dict[str, int], dict[str, str]]:
    """Return the labels by the beginnings of answers that decide them, from the tokens of their spellings.

    Returns:
        The label of each deciding beginning, the number of tokens of each beginning that decides nothing yet, and the labels
        that are decided before their end, with where.

    Example:
        >>> keys_of({"good": [[" very", " good"]], "bad": [[" very", " bad"]], "odd": [[" od", "d"]]})
        ({' very good': 'good', ' very bad': 'bad', ' od': 'odd'}, {' very': 1}, {'odd': ' od'})
    """
    starts = [(name, ["".join(tokens[: i + 1]) for i in range(len(tokens))]) for name, all_ in paths.items() for tokens in all_]
    owners: dict[str, set[str]] = {}
    for name, parts in starts:
        for part in parts:
            owners.setdefault(part, set()).add(name)
    keys, prefixes, early = dict[str, str](), dict[str, int](), dict[str, str]()
    for name, parts in starts:
        first = next((i for i, part in enumerate(parts) if owners[part] == {name}), len(parts) - 1)
        keys[parts[first]] = name
        prefixes |= {part: i + 1 for i, part in enumerate(parts[:first])}
        if first < len(parts) - 1:
            early[name] = parts[first]
    return keys, prefixes, early


def _same(a: Position, b: Position) -> bool:
    """Return whether two positions list the same tokens with equal log-probabilities, but for the last few."""
    common = a.listed.keys() & b.listed.keys()
    return len(common) >= 0.8 * len(a.listed) and all(abs(a.listed[t] - b.listed[t]) < _SAME for t in common)
