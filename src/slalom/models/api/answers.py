"""From the answer of a server to numbers: a row per query, which says what is known of each label and how well.

    log-probabilities   p(label) = sum over its spellings of the probability of the listed token; a label that is not listed
                        is at most as probable as the least probable listed token, and as everything unlisted together
    samples             p(label) = (count + 1) / (samples + labels)

A refusal, an empty answer, a content filter, and an answer without log-probabilities or without any label are no answer: such
a row is marked, and never read as a class.

A label is recognised by the first token of one of its spellings, also after blanks that the server generated.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from hashlib import blake2b
from itertools import takewhile
from typing import Any, NamedTuple, NoReturn

import numpy as np

from slalom.core.checks import Floats
from slalom.errors import ModelError

KNOWN = 0.02  # log odds: bounds that are closer together are a number
_OUTSIDE = -700.0  # log-probabilities below it stand for "not known": -9999 of some servers
_THOUGHT = "</think>"
_SMALLEST = 1e-30  # probabilities are at least this


class Outcome(IntEnum):
    """What became of a query; all but ANSWERED are missing answers."""

    ANSWERED = 0
    REFUSED = 1
    FILTERED = 2
    EMPTY = 3
    MALFORMED = 4
    NO_LABEL = 5

    @property
    def title(self) -> str:
        """Its name in reports."""
        return self.name.lower().replace("_", " ")


class Position(NamedTuple):
    """One generated token."""

    token: str
    listed: Mapping[str, float]  # log-probabilities, with that of the generated token where it has a number
    least: float  # the smallest that the server listed: only the generated token may be above what it did not list


class Keys(NamedTuple):
    """How the labels are recognised."""

    labels: Mapping[str, int]  # from the first token of a spelling to the number of its label
    n_labels: int

    def label(self, token: str, blank: bool) -> int | None:
        """Return the label that a token begins, after generated blanks or at the start; None for no label."""
        if token in self.labels and not blank:
            return self.labels[token]
        said = token.lstrip() if blank else token
        return next((label for key, label in self.labels.items() if begins_with(said, key.lstrip() if blank else key)), None)


def begins_with(text: str, name: str) -> bool:
    """Return whether a text begins with a name, as a word of its own: "yes\\n" with "yes"."""
    return text.startswith(name) and not text[len(name) : len(name) + 1].isalnum()


class Row(NamedTuple):
    """What is known of one query."""

    low: Floats  # bounds of the probability of each label (C,)
    high: Floats
    counts: Floats  # samples of each label (C,); zeros without samples
    share: float  # of the probability that falls on labels at all
    outcome: Outcome = Outcome.ANSWERED
    censored: bool = False  # whether a label is known by its bounds only; unlisted spellings count where they may double it

    @property
    def log_p(self) -> Floats:
        """Log-probability of each label (C,); the upper bound of one that is not listed."""
        return np.log(np.where(self.low > 0.0, self.low, self.high))

    def packed(self, how: int, noise: float, model: str | None) -> Floats:
        """Return the row as outputs, with what `Rows` has besides; the model is named by a number."""
        name = 0 if model is None else int.from_bytes(blake2b(model.encode("utf-8", "surrogatepass"), digest_size=6).digest())
        numbers = [self.share, self.outcome, self.censored, how, noise, name]
        return np.concatenate([self.log_p, self.low, self.high, self.counts, np.array(numbers, dtype=np.float64)])


class Rows(NamedTuple):
    """Outputs of m queries: parts (m, C) of all labels, and numbers (m,) of each query."""

    log_p: Floats
    low: Floats
    high: Floats
    counts: Floats
    share: Floats
    outcome: Floats
    censored: Floats
    how: Floats  # log-probabilities per token that were asked for; less the number of samples, where it was sampled
    noise: Floats  # variance of the log odds between equal requests
    model: Floats  # a number for the model, as the server names it

    @staticmethod
    def width(n_labels: int) -> int:
        """Return the number of columns."""
        return 4 * n_labels + 6

    @classmethod
    def of(cls, outputs: Floats, n_labels: int) -> "Rows":
        """Return outputs (m, width) in parts."""
        return cls(*np.split(outputs[:, : 4 * n_labels], 4, axis=1), *outputs[:, 4 * n_labels :].T)


def missing(outcome: Outcome, n_labels: int) -> Row:
    """Return the row of a query without an answer."""
    nothing = np.zeros(n_labels)
    return Row(nothing, np.ones(n_labels), nothing, 0.0, outcome)


def unusable(what: str) -> NoReturn:
    """Raise for an answer that no server should give."""
    raise ModelError(f"the server answered with {what}; check base_url (most servers: .../v1) and mode=")


# --- the parts of an answer -------------------------------------------------------------------------------------------------


def choices(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the choices of an answer."""
    listed = answer.get("choices")
    if not isinstance(listed, list) or not listed or not all(isinstance(choice, dict) for choice in listed):
        unusable("an answer without choices")
    return listed


def content(choice: Mapping[str, Any]) -> tuple[str, Outcome]:
    """Return the text of a choice, of completions or chat, and what became of it."""
    message = choice.get("message")
    chat = message if isinstance(message, dict) else {}
    text = chat.get("content") if chat else choice.get("text")
    if choice.get("finish_reason") == "content_filter":
        return "", Outcome.FILTERED
    if chat.get("refusal"):
        return "", Outcome.REFUSED
    if isinstance(text, str):
        text = text.rpartition(_THOUGHT)[2]  # a model may reason first
    if not isinstance(text, str) or not text.strip():
        return "", Outcome.EMPTY
    return text, Outcome.ANSWERED


def positions(choice: Mapping[str, Any]) -> list[Position]:
    """Return the tokens of a choice with their log-probabilities, in the shape of completions or of chat."""
    logprobs = choice.get("logprobs")
    if not isinstance(logprobs, dict):
        return []
    try:
        if isinstance(logprobs.get("content"), list):
            return [
                _position(
                    item["token"],
                    item.get("logprob"),
                    [(top["token"], top.get("logprob")) for top in item.get("top_logprobs") or []],
                )
                for item in logprobs["content"]
            ]
        tokens, tops = logprobs.get("tokens") or [], logprobs.get("top_logprobs") or []
        numbers = logprobs.get("token_logprobs") or [None] * len(tokens)
        listed = takewhile(lambda item: item[2] is not None, zip(tokens, numbers, tops, strict=False))
        return [_position(token, number, top.items()) for token, number, top in listed]
    except (AttributeError, KeyError, TypeError):
        unusable("log-probabilities without tokens")


def _position(token: object, number: Any, top: Iterable[tuple[object, Any]]) -> Position:
    listed: dict[str, float] = {}
    for name, log_p in ((str(name), _log_probability(value)) for name, value in top):
        if log_p is not None:
            listed[name] = float(np.logaddexp(listed.get(name, -math.inf), log_p))
    least = min(listed.values(), default=0.0)
    if number is not None and str(token) not in listed and (log_p := _log_probability(number)) is not None:
        listed[str(token)] = log_p
    total = sum(map(math.exp, listed.values()))
    if total > 1.05:
        unusable(f"probabilities that add up to {total:.3g}")
    return Position(str(token), listed, least)


def _log_probability(value: Any) -> float | None:
    """Return a log-probability; None where the number says that it is not known."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        unusable(f"a log-probability that is no number ({type(value).__name__})")
    if not -1e300 < value <= 1e-3:
        unusable(f"a log-probability of {value!s:.20}")
    return None if value < _OUTSIDE else min(float(value), 0.0)


# --- rows -------------------------------------------------------------------------------------------------------------------


def from_log_probabilities(choice: Mapping[str, Any], keys: Keys) -> Row:
    """Return the row of an answer with log-probabilities."""
    path = positions(choice)
    text, outcome = content(choice)
    if outcome in (Outcome.FILTERED, Outcome.REFUSED):
        return missing(outcome, keys.n_labels)
    if not path or not path[0].listed:
        return missing(Outcome.MALFORMED if text else Outcome.EMPTY, keys.n_labels)
    low, open_, unlisted = _masses(path, keys)
    if not low.any():
        return missing(Outcome.NO_LABEL, keys.n_labels)
    high = np.clip(low + open_ + unlisted, _SMALLEST, 1.0)
    censored = bool(((low == 0.0) | (unlisted > low) | (open_ > KNOWN * low)).any())
    share = min(float(low.sum()), 1.0)
    return Row(low, np.maximum(high, low), np.zeros(keys.n_labels), share, censored=censored)


def _masses(path: Sequence[Position], keys: Keys) -> tuple[Floats, float, Floats]:
    """Return the probability of each label that is listed (C,), and what may have to be added: by an answer that ends before
    a label, and by spellings that are not listed (C,)."""
    low, unlisted, reach = np.zeros(keys.n_labels), np.zeros(keys.n_labels), 1.0  # the last: probability of the blanks so far
    for i, position in enumerate(path):
        spell = str.lstrip if i else str
        listed = set(map(spell, position.listed))
        unseen = np.bincount([n for key, n in keys.labels.items() if spell(key) not in listed], minlength=keys.n_labels)
        for token, log_p in position.listed.items():
            label = keys.label(token, blank=i > 0)
            if label is not None:
                low[label] += reach * math.exp(log_p)
        rest = max(1.0 - sum(map(math.exp, position.listed.values())), 0.0)
        unlisted += reach * np.minimum(rest, math.exp(position.least) * unseen)
        if position.token.strip() or position.token not in position.listed:
            return low, 0.0, unlisted
        reach *= math.exp(position.listed[position.token])
    return low, reach, unlisted


def from_samples(texts: Sequence[tuple[str, Outcome]], continuations: Sequence[Sequence[str]]) -> Row:
    """Return the row of a query that was answered several times."""
    n = len(continuations)
    counts = np.zeros(n)
    failures: list[Outcome] = []
    for text, outcome in texts:
        label = named_label(text, continuations) if outcome is Outcome.ANSWERED else None
        if label is not None:
            counts[label] += 1
        else:
            failures.append(Outcome.NO_LABEL if outcome is Outcome.ANSWERED else outcome)
    if not counts.any():
        return missing(max(set(failures), key=failures.count, default=Outcome.EMPTY), n)
    p = (counts + 1.0) / (counts.sum() + n)
    return Row(p, p, counts, float(counts.sum() / max(len(texts), 1)))


def named_label(text: str, continuations: Sequence[Sequence[str]]) -> int | None:
    """Return the label that an answer begins with, whatever its case; None where it begins with none."""
    answer = text.lstrip(" \t\n\r\"'*`([{").casefold()
    for label, spellings in enumerate(continuations):
        for spelling in spellings:
            if begins_with(answer, spelling.strip().casefold()):
                return label
    return None
