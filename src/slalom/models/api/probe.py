"""What a server can do, found out by asking it: a few requests about a fixed short text, counted like all others.

1. completions with log-probabilities, where the template is a string
2. chat with log-probabilities
3. several samples by one request

The first that works is used. Options that a server refuses (temperature, seed, 20 log-probabilities) are left out or made
smaller. A label that is not among the listed tokens is spelled by the server itself, so that its first token is known. Two
requests at once show whether equal requests get equal answers. There is no list of models or servers.
"""

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
_SPELLED = 8  # tokens for a label that the server spells
_SPELLING = 100  # characters of the request that asks for it, about
_BLANK = 0.01  # probability of a blank from which on a second token is asked for
_UNUSABLE = "check base_url (most servers: .../v1) and the server"
PATHS = {True: "chat/completions", False: "completions"}


@final
@dataclass(frozen=True)
class Capabilities:
    """What a server can do.

    Attributes:
        mode: How it is asked.
        chat: Whether prompts go to the chat endpoint.
        top: Number of log-probabilities per token; 0 where there are none.
        tokens: Tokens to generate for an answer.
        several: Whether one request gives several samples.
        deterministic: Whether equal requests got equal answers; None where that was not asked.
        options: What every request contains besides: temperature, seed.
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
    deterministic: bool | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    limit: str = "max_tokens"
    keys: Keys | None = None
    first_tokens: Mapping[str, str] = field(default_factory=dict)
    requests: int = 0

    def __str__(self) -> str:
        where = "chat" if self.chat else "completions"
        how = {
            Mode.COMPLETIONS: f"{self.top} log-probabilities per token of completions",
            Mode.CHAT: f"{self.top} log-probabilities per token of chat",
            Mode.SAMPLE: f"samples of {where}, {'several' if self.several else 'one'} per request",
            Mode.STATED: "probabilities that the model states in JSON",
        }[self.mode]
        same = {True: "; equal requests get equal answers", False: "; equal requests get different answers", None: ""}
        return f"{how}{same[self.deterministic]} ({self.requests} requests to find out)"


@final
class Probe:
    """Asks a server what it can do.

    Args:
        client: The client.
        model: The name of the model.
        template: The prompt.
        plain: The labels with the continuations of a completion.
        spelled: The labels with all spellings, for chat.
        options: Options of every request: temperature, seed.
        top: Log-probabilities to ask for.
        samples: Samples to ask for.
        tokens: Tokens of a sample or of stated probabilities. Default: 8, or what the JSON takes.
    """

    def __init__(
        self,
        client: Client,
        model: str,
        template: Template,
        plain: LabelSet,
        spelled: LabelSet,
        options: Mapping[str, Any],
        top: int,
        samples: int,
        tokens: int | None = None,
    ) -> None:
        self.client, self.model, self.template, self.plain, self.spelled = client, model, template, plain, spelled
        self.options, self.top, self.samples, self.limit = dict(options), top, samples, "max_tokens"
        self.tokens = tokens

    def most_tokens(self, mode: Mode | None) -> tuple[int, int]:
        """Return about how many tokens `find` reads and writes at most, where the server refuses nothing."""
        given = self.template.content
        fixed = len(given) if isinstance(given, str) else sum(len(part) for message in given for part in message)
        one, names = about_tokens(fixed + len(TEXT)), self.plain.names
        if mode is Mode.STATED:
            return one + about_tokens(len(instruction(names))), self.tokens or stated_tokens(names)
        read, written = 0, 0
        if mode is not Mode.SAMPLE:  # both listings, two repeats, and how every label is spelled
            read, written = 4 * one + len(names) * about_tokens(_SPELLING), 4 * _DEPTH + len(names) * _SPELLED
        if mode in (None, Mode.SAMPLE):
            read, written = read + one, written + self.samples * (self.tokens or _SPELLED)
        return read, written

    async def find(self, mode: Mode | None, repeats: bool) -> Capabilities:
        """Return what the server can do."""
        before = self.client.usage.requests
        found = await self._find(mode, repeats)
        return Capabilities(**found, options=self.options, limit=self.limit, requests=self.client.usage.requests - before)

    async def _find(self, mode: Mode | None, repeats: bool) -> dict[str, Any]:
        problems: list[str] = []
        for kind in (Mode.COMPLETIONS, Mode.CHAT):
            chat = kind is Mode.CHAT
            if mode not in (None, kind) or (self.template.is_chat and not chat):
                continue
            path, why = await self._listing(chat)
            if path:
                keys, tokens, firsts = await self._keys(path, self.spelled if chat else self.plain, chat)
                same = await self._repeats(path, chat) if repeats else None
                return {"mode": kind, "chat": chat, "top": self.top, "keys": keys, "tokens": tokens,
                        "first_tokens": firsts, "deterministic": same}  # fmt: skip
            problems.append(f"{PATHS[chat]}: {why}")
        if mode in (Mode.COMPLETIONS, Mode.CHAT):
            raise ModelError(
                f'{self.client.address} gives no log-probabilities for mode="{mode.name.lower()}"'
                f' ({"; ".join(problems) or "the template is a chat"}); use mode="auto" or mode="sample"'
            )
        if mode is Mode.STATED:
            return {"mode": Mode.STATED, "chat": True, "tokens": await self._stated()}
        return {"mode": Mode.SAMPLE, **await self._samples()}

    def request(self, text: str, chat: bool) -> dict[str, Any]:
        """Return a request about a text, without its limit."""
        return {"model": self.model, **prompt(self.template, text, chat), **self.options}

    async def _listing(self, chat: bool) -> tuple[list[Position], str]:
        """Return the tokens that the server generates, with log-probabilities; none, and why, where it gives none."""
        try:
            answer = await self._negotiated(lambda: self.request(TEXT, chat) | self._log_probabilities(chat), _DEPTH, chat)
            path = positions(choices(answer)[0])
        except Refused as error:
            if error.status in (401, 403, 429):
                raise
            return [], f"status {error.status}" + (f", {error.reason}" if error.reason else "")
        except Unusable as error:
            raise ModelError(f"{self.client.address} answered with {error}; {_UNUSABLE}") from None
        if not path or len(path[0].listed) < 2:
            return [], "it ignores the option logprobs"
        return path, ""

    def _log_probabilities(self, chat: bool) -> dict[str, Any]:
        return {"logprobs": True, "top_logprobs": self.top} if chat else {"logprobs": self.top}

    async def _negotiated(self, request: Any, tokens: int, chat: bool) -> Answer:
        """Ask, and leave out what the server does not take."""
        for _ in range(4):
            try:
                return await self.client.post(PATHS[chat], request() | {self.limit: tokens})
            except Refused as error:
                if error.status not in (400, 422) or not self._concede(error.reason.lower()):
                    raise
        return await self.client.post(PATHS[chat], request() | {self.limit: tokens})

    def _concede(self, reason: str) -> bool:
        """Change one option that the server complains about; return whether there is one."""
        if "max_completion_tokens" in reason and self.limit == "max_tokens":
            self.limit = "max_completion_tokens"
        elif "temperature" in reason and "temperature" in self.options:
            del self.options["temperature"]
        elif "seed" in reason and "seed" in self.options:
            del self.options["seed"]
        elif "logprobs" in reason and self.top > _FEWER:
            self.top = _FEWER
        else:
            return False
        return True

    async def _keys(self, path: Sequence[Position], labels: LabelSet, chat: bool) -> tuple[Keys, int, dict[str, str]]:
        """Return how labels are recognised, the number of tokens that takes, and the labels that are longer than a token."""
        listed = {token for position in path for token in position.listed}
        unseen = [
            (name, spellings)
            for name, spellings in zip(labels.names, labels.continuations, strict=True)
            if not listed & set(spellings)
        ]
        spelled = await asyncio.gather(*(self._spell(name, spellings, chat) for name, spellings in unseen))
        paths = {
            name: [[spelling] for spelling in spellings]
            for name, spellings in zip(labels.names, labels.continuations, strict=True)
        }
        for (name, _), tokens in zip(unseen, spelled, strict=True):
            paths[name] = [tokens, *(single for single in paths[name] if single[0] != "".join(tokens))]
        keys, prefixes = keys_of(paths)
        number = {name: i for i, name in enumerate(labels.names)}
        firsts = {
            name: key
            for name, found in keys.items()
            for key, whole in zip(found, paths[name], strict=True)
            if key != "".join(whole)
        }
        depth = 1 + max((_tokens_of(prefix, paths) for prefix in prefixes), default=0)
        blank = sum(math.exp(log_p) for token, log_p in path[0].listed.items() if not token.strip())
        table = {key: number[name] for name, found in keys.items() for key in found}
        return Keys(table, frozenset(prefixes), len(labels.names)), depth + (blank > _BLANK), firsts

    async def _spell(self, name: str, spellings: Sequence[str], chat: bool) -> list[str]:
        """Return the tokens of a label, as the server generates them."""
        wanted = spellings[0]
        if chat:
            ask = f"Repeat the following and write nothing else: {wanted.strip()}"
            request = {"messages": [{"role": "user", "content": ask}]}
        else:
            request = {"prompt": f"Answer:{wanted}\n" * 4 + "Answer:"}  # type: ignore[dict-item]
        body = {"model": self.model, **request, **self.options, **self._log_probabilities(chat), self.limit: _SPELLED}
        try:
            path = positions(choices(await self.client.post(PATHS[chat], body))[0])
        except Unusable as error:
            raise ModelError(f"{self.client.address} answered with {error}; {_UNUSABLE}") from None
        tokens: list[str] = []
        for position in path:
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

    async def _repeats(self, first: Sequence[Position], chat: bool) -> bool:
        """Return whether two more requests, at the same time, get the same answer."""
        body = self.request(TEXT, chat) | self._log_probabilities(chat) | {self.limit: _DEPTH}
        answers = await asyncio.gather(*(self.client.post(PATHS[chat], body) for _ in range(2)))
        try:
            return all(_same(first[0], positions(choices(answer)[0])[0]) for answer in answers)
        except (Unusable, IndexError):
            return False

    async def _stated(self) -> int:
        """Choose the way to ask for JSON that the server takes; return the tokens of an answer."""
        names = self.plain.names
        tokens = self.tokens or stated_tokens(names)
        for form in ({"type": "json_schema", "json_schema": _schema(names)}, {"type": "json_object"}, None):
            extra = {} if form is None else {"response_format": form}
            messages = with_instruction(prompt(self.template, TEXT, True)["messages"], names)
            try:
                await self._negotiated(lambda m=messages, e=extra: self.request(TEXT, True) | {"messages": m} | e, tokens, True)
            except Refused as error:
                if error.status not in (400, 422, 501) or form is None:
                    raise
                continue
            self.options |= extra
            break
        return tokens

    async def _samples(self) -> dict[str, Any]:
        """Return where samples come from, and whether one request gives several."""
        last: Refused | None = None
        tokens = self.tokens or _SPELLED
        for chat in (True,) if self.template.is_chat else (False, True):
            for several in (True, False) if self.samples > 1 else (False,):
                self.options["temperature"] = 1.0
                extra = {"n": self.samples} if several else {}  # some servers have a limit, and others ignore it
                try:
                    answer = await self._negotiated(lambda c=chat, e=extra: self.request(TEXT, c) | e, tokens, chat)
                    many = several and len(choices(answer)) == self.samples
                    return {"chat": chat, "several": many, "tokens": tokens}
                except Refused as error:
                    if error.status in (401, 403):
                        raise
                    last = error
                    if error.status in (404, 405, 501):
                        break
                except Unusable as error:
                    raise ModelError(f"{self.client.address} answered with {error}; {_UNUSABLE}") from None
        raise last or ModelError(f"{self.client.address} answers neither completions nor chat")


def prompt(template: Template, text: str, chat: bool) -> dict[str, Any]:
    """Return the prompt or the messages of a request."""
    filled = template.fill(text)
    if not chat:
        return {"prompt": filled}
    return {"messages": filled if isinstance(filled, list) else [{"role": "user", "content": filled}]}


def stated_tokens(names: Sequence[str]) -> int:
    """Return the tokens that stated probabilities of some labels may have."""
    return 16 * (1 + len(names))


def instruction(names: Sequence[str]) -> str:
    """Return the sentence that asks for the probability of each label in JSON."""
    example = json.dumps({name: round(1.0 / len(names), 2) for name in names}, ensure_ascii=False)
    return f"Answer with JSON only: the probability of each answer, numbers that add up to 1, in the form {example}"


def with_instruction(messages: Sequence[Mapping[str, str]], names: Sequence[str]) -> list[dict[str, str]]:
    """Return messages, the last of which asks for the probability of each label in JSON."""
    *before, last = (dict(message) for message in messages)
    return [*before, last | {"content": f"{last['content']}\n\n{instruction(names)}"}]


def _schema(names: Sequence[str]) -> dict[str, Any]:
    """Return the JSON schema of an object with a number for each label."""
    numbers = {name: {"type": "number"} for name in names}
    schema = {"type": "object", "properties": numbers, "required": list(names), "additionalProperties": False}
    return {"name": "probabilities", "strict": True, "schema": schema}


def keys_of(paths: Mapping[str, Sequence[Sequence[str]]]) -> tuple[dict[str, list[str]], set[str]]:
    """Return what decides each label, and the beginnings that decide nothing yet.

    Example:
        >>> keys_of({"good": [[" very", " good"]], "bad": [[" very", " bad"]], "odd": [[" od", "d"]]})
        ({'good': [' very good'], 'bad': [' very bad'], 'odd': [' od']}, {' very'})
    """
    begins: dict[str, set[str]] = {}
    for name, spellings in paths.items():
        for tokens in spellings:
            for i in range(len(tokens)):
                begins.setdefault("".join(tokens[: i + 1]), set()).add(name)
    keys: dict[str, list[str]] = {}
    prefixes: set[str] = set()
    for name, spellings in paths.items():
        for tokens in spellings:
            parts = ["".join(tokens[: i + 1]) for i in range(len(tokens))]
            first = next((i for i, part in enumerate(parts) if begins[part] == {name}), len(parts) - 1)
            keys.setdefault(name, []).append(parts[first])
            prefixes.update(parts[:first])
    return keys, prefixes


def _tokens_of(prefix: str, paths: Mapping[str, Sequence[Sequence[str]]]) -> int:
    """Return how many tokens a shared beginning has."""
    return next(
        i + 1
        for spellings in paths.values()
        for tokens in spellings
        for i in range(len(tokens))
        if "".join(tokens[: i + 1]) == prefix
    )


def _same(a: Position, b: Position) -> bool:
    """Return whether two positions list the same tokens with equal log-probabilities, but for the last few."""
    common = a.listed.keys() & b.listed.keys()
    return len(common) >= 0.8 * len(a.listed) and all(abs(a.listed[t] - b.listed[t]) < _SAME for t in common)
