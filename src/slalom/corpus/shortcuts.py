"""Words and phrases that move the model but should not; docs/how-to/corpus-summary.md explains both halves of this file.

The score of a word with mean effect m in n of N texts:

    score = L (1 - (1 - d)(1 - c / 2)) (1 - n / N)

    L = max(0, |m| - t se)             with the moderated variance (d0 s0^2 + (n - 1) s^2) / (d0 + n - 1)
    d = max(0, 1 - max(0, U) / L)      U: upper end of the 95% interval of the log odds of the target among texts that have the
                                       word, relative to all texts, in the direction of m; two texts at the base rate are added
    c = max(0, KL - q) / log(1 / p)    KL: divergence of its slices from those of all texts; q: what chance reaches in 2.5 of
                                       100 cases; p: share of the slice where it is most frequent

Without labels d is 0, without slices c is 0; with neither the score is L (1 - n / N), the strong and rare.

A phrase, its words and their pieces compete; so do a word and its pieces. What a part does elsewhere, in texts without the
whole, decides which of them is listed (`Rival`): "xyzzy" stands for "great xyzzy", and "in my view" for "view".
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, stdtrit

from slalom.core.checks import Floats
from slalom.result import NORMAL_95

_PRIOR = 4.0  # texts that the usual variance counts for
_ADDED = 2.0  # texts at the base rate
_PART, _MOST, _SAME, _REST = 0.5, 0.8, 0.9, 0.25  # of an effect
_MORE, _OTHERS, _FEWEST = 1.25, 0.25, 3  # of texts; of texts; texts
_TAIL = 0.025


class Suspicion(NamedTuple):
    """How suspicious some words are, one number each."""

    score: Floats  # 0: nothing to suspect
    reliance: Floats  # L
    unsupported: Floats  # d; NaN without labels
    concentration: Floats  # c; NaN without slices
    support: Floats  # shrunken log odds of the target given the word, relative to all texts; NaN without labels
    slice: NDArray[np.int64]  # where it is most frequent relative to all texts; -1 without slices


def reliance(n: Floats, mean: Floats, variance: Floats) -> Floats:
    """Return L (k,), from the numbers of texts, means and variances of the effects over texts (k,)."""
    known = n > 1
    usual = float(np.median(variance[known])) if known.any() else 0.0
    freedom = _PRIOR + np.maximum(n - 1, 0)
    moderated = (_PRIOR * usual + np.maximum(n - 1, 0) * np.where(known, variance, 0.0)) / freedom
    half = stdtrit(freedom, 1 - _TAIL) * np.sqrt(moderated / np.maximum(n, 1))
    return np.asarray(np.maximum(0.0, np.abs(mean) - half))


def label_support(with_target: Floats, without: Floats, rate: float) -> tuple[Floats, Floats]:
    """Return how far labels support a word: the log odds of the target relative to all texts, and their standard error."""
    yes, no = with_target + _ADDED * rate, without + _ADDED * (1 - rate)
    return np.log(yes / no) - np.log(rate / (1 - rate)), np.sqrt(1 / yes + 1 / no)


def concentration(counts: Floats, shares: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Return c (k,), and the slice where each word is most frequent relative to all texts."""
    n = counts.sum(axis=1)
    q = (counts + _ADDED * shares) / (n + _ADDED)[:, None]
    divergence = np.sum(q * np.log(q / shares), axis=1)
    where = np.argmax(q / shares, axis=1)
    if len(shares) < 2:
        return np.zeros(len(counts)), where
    chance = chdtri(len(shares) - 1, _TAIL) / (2 * np.maximum(n, 1))
    return np.clip((divergence - chance) / -np.log(shares[where]), 0.0, 1.0), where


def suspicion(
    n: Floats,
    mean: Floats,
    variance: Floats,
    texts: int,
    *,
    labels: tuple[Floats, Floats, float] | None = None,
    slices: tuple[Floats, Floats] | None = None,
) -> Suspicion:
    """Return how suspicious words are, from the arguments of `label_support` and `concentration`."""
    least = reliance(n, mean, variance)
    unsupported = support = concentrated = np.full(len(n), np.nan)
    where, share = np.full(len(n), -1), np.ones(len(n))
    if labels is not None and 0 < labels[2] < 1:
        support, error = label_support(*labels)
        most = np.maximum(0.0, np.sign(mean) * support + NORMAL_95 * error)
        share = unsupported = np.where(least > 0, np.maximum(0.0, 1 - most / np.maximum(least, 1e-300)), 0.0)
    if slices is not None:
        concentrated, where = concentration(*slices)
        share = 1 - (1 - np.nan_to_num(unsupported)) * (1 - concentrated / 2)
    return Suspicion(least * share * (1 - n / texts), least, unsupported, concentrated, support, where)


class Known(NamedTuple):
    """What is known of a word, a phrase or a piece: texts and mean effect."""

    texts: float
    mean: float

    def explained_by(self, parts: Sequence["Known"]) -> bool:
        """Return whether a part of a phrase does alone what the phrase does."""
        return any(
            part.mean * self.mean > 0
            and abs(part.mean) >= (_PART if part.texts >= _MORE * self.texts else _SAME) * abs(self.mean)
            for part in parts
        )


class Rival(NamedTuple):
    """A part and the whole that it is in: a word and a phrase, a piece and a word; with mean effects."""

    whole: float  # over all its texts
    texts: float  # that have the whole
    part: float  # over all its texts
    inside: float  # of the part, in texts that have the whole
    elsewhere: float  # of the part, in texts that do not
    others: float  # number of these texts
    rest: float  # strongest effect, in the direction of the whole, of a word (piece) of the whole that is not in the part
    carried: float = 1.0  # score of the part as a share of the whole's

    @property
    def is_rare(self) -> bool:
        """Whether the part hardly occurs elsewhere."""
        return self.others < max(_FEWEST, _OTHERS * self.texts)

    def part_stands(self) -> bool:
        """Return whether the part stands for the whole.

        Elsewhere it has most of the whole's effect; or half of it, where it is as frequent and its own score is half of the
        whole's: a part that is everywhere must not hide a whole that comes from one source. Or the part has most of the effect
        within the whole, the rest does nothing, and elsewhere it keeps half of its own effect.
        """
        sign = 1.0 if self.whole >= 0 else -1.0
        is_suspect = self.others >= self.texts and self.carried >= _PART
        if not self.is_rare and sign * self.elsewhere >= (_PART if is_suspect else _MOST) * abs(self.whole):
            return True
        alone = sign * self.inside >= (_SAME if self.is_rare else _MOST) * abs(self.whole)
        if not alone or sign * self.rest >= _REST * abs(self.whole):
            return False
        return self.is_rare or sign * self.elsewhere >= _PART * abs(self.part)

    def whole_stands(self) -> bool:
        """Return whether the whole stands for the part, where the part does not stand for it."""
        sign = 1.0 if self.whole >= 0 else -1.0
        if self.is_rare:
            return sign * self.part > -_PART * abs(self.whole)
        return sign * self.part > 0 and sign * self.elsewhere < _PART * abs(self.part)


def representatives(rivals: Mapping[int, Mapping[int, Rival]]) -> dict[int, bool]:
    """Return which keys stand for themselves: no part stands for them, and no whole that itself does."""
    alone = {key: not any(rival.part_stands() for rival in parts.values()) for key, parts in rivals.items()}
    held = [part for key, parts in rivals.items() if alone[key] for part, rival in parts.items() if rival.whole_stands()]
    return alone | {part: False for part in held if part in alone}
