"""From the answer of a server to numbers: a row per query, which says what is known of each label and how well.

    log-probabilities   p(label) = sum over its spellings of the probability of the listed token; a label that is not listed
                        is at most as probable as the least probable listed token, and as everything unlisted together
    samples             p(label) = (count + 1) / (samples + labels)

A refusal, an empty answer, a content filter, and an answer without log-probabilities or without any label are no answer: such
a row is marked, and never read as a class.

A label is recognised by its key: its first token, or as many tokens as tell it apart from the others. Tokens are followed
along what the server generated, so that a blank before the label, or a beginning that labels share, is read through.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import blake2b
from typing import Any, NamedTuple, final

import numpy as np

from slalom.core.checks import Floats

OUTSIDE = -700.0  # log-probabilities below it stand for "not known": -9999 of some servers
_THOUGHT = "</think>"
KNOWN = 0.02  # log odds: bounds that are closer together are a number
_SMALLEST = 1e-30  # probabilities are at least this


class Unusable(Exception):
    """An answer that no server should give."""


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


class Mode(IntEnum):
    """How a server is asked."""

    COMPLETIONS = 0
    CHAT = 1
    SAMPLE = 2


class Position(NamedTuple):
    """One generated token.

    Attributes:
        token: The token.
        listed: Log-probabilities of the listed tokens, with the generated one where it has a number.
        least: The smallest that the server listed; what it did not list is not above it. The generated token may be.
    """

    token: str
    listed: Mapping[str, float]
    least: float


@final
@dataclass(frozen=True)
class Keys:
    """How the labels are recognised.

    Attributes:
        labels: From the beginning of an answer to the number of the label that it decides.
        prefixes: Beginnings that several labels share, token by token.
        count: Number of labels.
    """

    labels: Mapping[str, int]
    prefixes: Collection[str]
    count: int

    def label(self, before: str, token: str) -> int | None:
        """Return the label that the beginning of an answer decides; None where it decides none."""
        answer, skip = before + token, bool(before) and not before.strip()
        exact = self.labels.get(answer)
        if exact is not None:
            return exact
        for key, label in self.labels.items():
            name, said = (key.lstrip(), answer.lstrip()) if skip else (key, answer)
            if said.startswith(name) and not said[len(name) : len(name) + 1].isalnum():  # or with what ends it: "yes\\n"
                return label
        return None

    def undecided(self, answer: str) -> bool:
        """Return whether the beginning of an answer decides nothing yet."""
        return not answer.strip() or answer in self.prefixes

    def following(self, answer: str) -> list[str]:
        """Return the keys that an answer with this beginning may have."""
        return [key for key in self.labels if not answer.strip() or key.startswith(answer)]


@final
@dataclass(frozen=True, eq=False)
class Row:
    """What is known of one query.

    Attributes:
        log_p: Log-probability of each label (C,); a bound where low and high differ.
        low, high: Bounds of each probability (C,).
        counts: Number of samples of each label (C,); zeros without samples.
        share: Probability that falls on labels at all.
        outcome: What became of the query.
        censored: Whether a label is known by its bounds only. Spellings that are not listed censor none that is listed, as
            long as they cannot double its probability.
        spread: Variance of the log odds of each label over repeats (C,); -1 where the query was not repeated.
    """

    log_p: Floats
    low: Floats
    high: Floats
    counts: Floats
    share: float
    outcome: Outcome = Outcome.ANSWERED
    censored: bool = False
    spread: Floats = field(default_factory=lambda: np.zeros(0))


def missing(outcome: Outcome, n_labels: int) -> Row:
    """Return the row of a query without an answer."""
    nothing = np.zeros(n_labels)
    return Row(np.full(n_labels, -math.log(n_labels)), nothing, np.ones(n_labels), nothing, 0.0, outcome)


# --- the parts of an answer -------------------------------------------------------------------------------------------------


def choices(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the choices of an answer."""
    found = answer.get("choices")
    if not isinstance(found, list) or not found or not all(isinstance(choice, dict) for choice in found):
        raise Unusable("an answer without choices")
    return found


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
    given = choice.get("logprobs")
    if not isinstance(given, dict):
        return []
    if isinstance(given.get("content"), list):
        return [_chat_position(item) for item in given["content"]]
    tokens, chosen, tops = (given.get(name) for name in ("tokens", "token_logprobs", "top_logprobs"))
    if not isinstance(tokens, list) or not isinstance(tops, list):
        return []
    own = chosen if isinstance(chosen, list) and len(chosen) == len(tokens) else [None] * len(tokens)
    found: list[Position] = []
    for token, number, top in zip(tokens, own, tops, strict=False):
        if not isinstance(token, str) or not isinstance(top, dict):
            return found
        found.append(_position(token, number, [(str(name), value) for name, value in top.items()]))
    return found


def _chat_position(item: Any) -> Position:
    if not isinstance(item, dict) or not isinstance(item.get("token"), str):
        raise Unusable("log-probabilities without tokens")
    top = item.get("top_logprobs") or []
    if not isinstance(top, list) or not all(isinstance(part, dict) and isinstance(part.get("token"), str) for part in top):
        raise Unusable("log-probabilities without tokens")
    return _position(item["token"], item.get("logprob"), [(part["token"], part.get("logprob")) for part in top])


def _position(token: str, own: Any, top: list[tuple[str, Any]]) -> Position:
    listed: dict[str, float] = {}
    for name, value in top:
        number = _log_probability(value)
        if number is not None:
            listed[name] = float(np.logaddexp(listed[name], number)) if name in listed else number
    least = min(listed.values(), default=0.0)
    if own is not None and token not in listed:
        number = _log_probability(own)
        if number is not None:
            listed[token] = number
    total = sum(math.exp(value) for value in listed.values())
    if total > 1.05:
        raise Unusable(f"probabilities that add up to {total:.3g}")
    return Position(token, listed, least)


def _log_probability(value: Any) -> float | None:
    """Return a log-probability; None where the number says that it is not known."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Unusable(f"a log-probability that is no number ({type(value).__name__})")
    if not math.isfinite(value) or value > 1e-3:
        raise Unusable(f"a log-probability of {float(value):.3g}")
    return None if value < OUTSIDE else min(float(value), 0.0)


# --- rows -------------------------------------------------------------------------------------------------------------------


def from_log_probabilities(choice: Mapping[str, Any], keys: Keys) -> Row:
    """Return the row of an answer with log-probabilities."""
    path = positions(choice)
    text, outcome = content(choice)
    if outcome in (Outcome.FILTERED, Outcome.REFUSED):
        return missing(outcome, keys.count)
    if not path or not path[0].listed:
        return missing(Outcome.MALFORMED if text else Outcome.EMPTY, keys.count)
    low, open_, unlisted = _masses(path, keys)
    if not low.any():
        return missing(Outcome.NO_LABEL, keys.count)
    high = np.clip(low + open_ + unlisted, _SMALLEST, 1.0)
    point = np.where(low > 0.0, low, high)
    censored = bool(((low == 0.0) | (unlisted > low) | (open_ > KNOWN * low)).any())
    share = min(float(low.sum()), 1.0)
    return Row(np.log(point), low, np.maximum(high, low), np.zeros(keys.count), share, censored=censored)


def _masses(path: Sequence[Position], keys: Keys) -> tuple[Floats, Floats, Floats]:
    """Return the probability of each label that is listed (C,), and what may have to be added (C,): by tokens that were not
    followed, and by spellings that are not listed."""
    low, open_, unlisted = np.zeros(keys.count), np.zeros(keys.count), np.zeros(keys.count)
    before, reach = "", 1.0  # what was generated so far without a decision, and its probability
    for position in path:
        found: set[str] = set()
        for token, log_p in position.listed.items():
            label = keys.label(before, token)
            if label is not None:
                low[label] += reach * math.exp(log_p)
                found.add(before + token)
            elif (before + token) in keys.prefixes:
                shared = keys.following(before + token)
                found.update(shared)
                if token != position.token:  # not followed
                    open_[list({keys.labels[key] for key in shared})] += reach * math.exp(log_p)
        rest = reach * max(1.0 - sum(map(math.exp, position.listed.values())), 0.0)
        unseen = np.zeros(keys.count)
        for key in set(keys.following(before)) - found:
            unseen[keys.labels[key]] += 1
        unlisted += np.minimum(rest, reach * math.exp(position.least) * unseen)
        step = position.listed.get(position.token)
        if step is None or not keys.undecided(before + position.token):
            return low, open_, unlisted
        before, reach = before + position.token, reach * math.exp(step)
    open_[list({keys.labels[key] for key in keys.following(before)})] += reach
    return low, open_, unlisted


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
    return Row(np.log(p), p, p, counts, float(counts.sum() / max(len(texts), 1)))


def named_label(text: str, continuations: Sequence[Sequence[str]]) -> int | None:
    """Return the label that an answer begins with, whatever its case; None where it begins with none.

    Example:
        >>> named_label(" Positive.", [[" positive"], [" negative"]])
        0
        >>> named_label("positively awful", [[" positive"], [" negative"]]) is None
        True
    """
    answer = text.lstrip(" \t\n\r\"'*`([{").casefold()
    for label, spellings in enumerate(continuations):
        for spelling in spellings:
            name = spelling.strip().casefold()
            if answer.startswith(name) and not answer[len(name) : len(name) + 1].isalnum():
                return label
    return None


def repeated(rows: Sequence[Row]) -> Row:
    """Return one row for a query; where it was asked several times, with the variance of its log odds."""
    answered = [row for row in rows if row.outcome is Outcome.ANSWERED]
    listed = [row for row in answered if (row.low > 0.0).all()]
    if len(listed) < 2:
        return answered[0] if answered else rows[0]
    logs = np.array([row.log_p for row in listed])
    mean = logs.mean(axis=0)
    others = np.array([[np.logaddexp.reduce(np.delete(log_p, c)) for c in range(len(log_p))] for log_p in logs])
    low = np.exp(mean)
    high = low * np.exp(np.mean([np.log(row.high / row.low) for row in listed], axis=0))
    share = float(np.mean([row.share for row in listed]))
    censored = any(row.censored for row in listed)
    return Row(mean, low, high, listed[0].counts, share, censored=censored, spread=np.var(logs - others, axis=0, ddof=1))


# --- rows as outputs of a model -------------------------------------------------------------------------------------------


class Rows(NamedTuple):
    """Rows of m queries as the outputs of a model: parts (m, C) of all labels, and numbers (m,) of the query."""

    log_p: Floats
    low: Floats
    high: Floats
    counts: Floats
    spread: Floats
    share: Floats
    outcome: Floats
    mode: Floats
    size: Floats
    whole: Floats
    censored: Floats
    model: Floats

    @staticmethod
    def width(n_labels: int) -> int:
        """Return the number of columns."""
        return 5 * n_labels + 7

    @classmethod
    def of(cls, outputs: Floats, n_labels: int) -> "Rows":
        """Return outputs (m, width) in parts."""
        return cls(*np.split(outputs[:, : 5 * n_labels], 5, axis=1), *outputs[:, 5 * n_labels :].T)

    @staticmethod
    def packed(row: Row, mode: Mode, size: int, whole: bool, model: str | None = None) -> Floats:
        """Return a row as outputs (width,)."""
        name = 0 if model is None else int.from_bytes(blake2b(model.encode("utf-8", "surrogatepass"), digest_size=6).digest())
        spread = row.spread if len(row.spread) else np.full(len(row.log_p), -1.0)
        numbers = [row.share, row.outcome, mode, size, whole, row.censored, name]
        return np.concatenate([row.log_p, row.low, row.high, row.counts, spread, np.array(numbers, dtype=np.float64)])
