"""The words and phrases that a summary may show: sums over all texts, and among them those that are listed or suspicious."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats
from slalom.corpus.counts import Counts
from slalom.corpus.details import Details
from slalom.corpus.moments import effect_of, interval_half
from slalom.corpus.shortcuts import Known, Rival, explained_by_part, reliance, representatives, suspicion
from slalom.corpus.summarised import Kind, Shortcut, WordEffect
from slalom.corpus.words import PIECE, WORD, Index, Keys, Reader
from slalom.errors import plural

_SELECTED = 20_000  # keys with sums by groups
_SHORTCUTS = 30
_SUSPECTS = 1000  # of which those are shortcuts that stand for themselves
_WORTH = 0.25  # of a share, from which it is a reason
Inside: TypeAlias = Callable[[Mapping[int, Sequence[int]]], Mapping[tuple[int, int], tuple[float, float]]]

_KINDS: dict[int, Kind] = {PIECE: "piece", WORD: "word"}


@final
class Pooled:
    """Sums over all texts of the keys that occur often enough.

    Args:
        keys: Keys in ascending order (k,).
        sums: Their sums (k, 8).
        least: Fewest texts.
    """

    def __init__(self, keys: Keys, sums: Floats, least: int) -> None:
        kept = sums[:, 0] >= least
        self.keys, self.sums = keys[kept], sums[kept]
        self.n, self.mean = self.sums[:, 0], self.sums[:, 1] / np.maximum(self.sums[:, 0], 1)
        spread = np.maximum(self.sums[:, 2] - self.sums[:, 1] * self.mean, 0.0)
        self.variance = spread / np.maximum(self.n - 1, 1)
        self.level = np.round(self.sums[:, 7] / np.maximum(self.n, 1)).astype(np.int64)
        self.least = reliance(self.n, self.mean, self.variance)
        self.end: Floats = np.abs(self.mean) - interval_half(self.n, self.variance)  # of the listed interval, on zero's side

    def order(self, sort: str) -> Floats:
        """Return the numbers to sort by, largest first."""
        return {"effect": self.end, "total": np.abs(self.sums[:, 1]), "texts": self.n}[sort]

    def selected(self, sort: str, top: int) -> Index:
        """Return the keys whose details are needed: those with the largest reliance, and candidates of the lists."""
        chosen = [np.argsort(-self.least, kind="stable")[:_SELECTED]]
        order = self.order(sort)
        for level in np.unique(self.level).tolist():
            of_level = np.flatnonzero(self.level == level)
            chosen.append(of_level[np.argsort(-order[of_level], kind="stable")[: 10 * top]])
        return np.unique(np.concatenate(chosen))

    def find(self, keys: Keys) -> tuple[Index, NDArray[np.bool_]]:
        """Return where keys are, and which of them are there."""
        if not len(self.keys):
            return np.zeros(len(keys), dtype=np.int64), np.zeros(len(keys), dtype=bool)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return at, self.keys[at] == keys

    def known(self, at: int) -> Known:
        """Return texts and mean effect."""
        return Known(float(self.n[at]), float(self.mean[at]))


def kind_of(level: int) -> Kind:
    """Return what a level is."""
    return _KINDS.get(level, "phrase")


def parts_of(key: int, level: int, details: Details, reader: Reader) -> dict[int, list[int]]:
    """Return the keys of the shorter phrases and words of a phrase, or of the pieces of a word.

    Each comes with the keys of the words (pieces) of the whole that are not in it.
    """
    if level == PIECE:
        return {}
    words, pieces = details.words[key], details.pieces.get(key, ())
    single = [reader.key((word,), WORD) for word in words]
    small = [reader.key((piece,), PIECE) for piece in pieces]
    parts = {piece: [other for other in small if other != piece] for piece in small}
    for n in range(1, level):
        for i in range(level - n + 1):
            parts[reader.key(words[i : i + n], n)] = [*single[:i], *single[i + n :]]
    return parts


@final
class Candidates:
    """The selected keys with their names, parts and sums by groups."""

    def __init__(self, pooled: Pooled, selected: Index, details: Details, reader: Reader) -> None:
        self._pooled, self._selected, self._details = pooled, selected, details
        self._at = {int(key): i for i, key in enumerate(pooled.keys[selected].tolist())}
        level = pooled.level[selected].tolist()
        self._parts = {key: parts_of(key, level[i], details, reader) for key, i in self._at.items()}
        every = np.array(sorted({part for parts in self._parts.values() for part in parts}), dtype=np.uint64)
        at, there = pooled.find(every)
        self._lookup = {int(key): pooled.known(int(i)) for key, i, ok in zip(every, at, there, strict=True) if ok}

    def known(self, key: int) -> Known:
        """Return texts and mean effect of a key."""
        return self._pooled.known(int(self._selected[self._at[key]]))

    def listed(self, kind: str, sort: str, top: int) -> list[int]:
        """Return the strongest of a kind; phrases that a part explains are left out."""
        level = self._pooled.level[self._selected]
        of_kind = np.flatnonzero(level >= 2 if kind == "phrase" else level == (WORD if kind == "word" else PIECE))
        order = self._pooled.order(sort)[self._selected[of_kind]]
        found: list[int] = []
        for i in of_kind[np.argsort(-order, kind="stable")].tolist():
            key = int(self._pooled.keys[self._selected[i]])
            parts = [self._lookup[part] for part in self._parts[key] if part in self._lookup] if kind == "phrase" else []
            if len(found) < top and not explained_by_part(self.known(key), parts):
                found.append(key)
        return found

    def word(self, key: int) -> WordEffect:
        """Return a word with its effects."""
        i = self._at[key]
        n, s1, s2, count, strong, positive, negative, level = self._pooled.sums[self._selected[i]].tolist()
        groups = self._details.groups(i)
        return WordEffect(
            name=self._details.names[key],
            kind=kind_of(round(level / n)),
            effect=effect_of(n, s1, s2),
            occurrences=int(count),
            strongest=strong / n,
            against=int(negative if s1 >= 0 else positive),
            groups=groups,
        )

    def _words_of_pieces(self, keys: Collection[int]) -> list[int]:
        """Return words that have some of these keys as pieces, beside those that are among them: the strongest ones."""
        pooled, chosen = self._pooled, self._selected
        words = np.flatnonzero(pooled.level[chosen] == WORD)
        strongest = words[np.argsort(-pooled.least[chosen[words]], kind="stable")]
        found = [int(pooled.keys[chosen[i]]) for i in strongest.tolist()]
        return [key for key in found if key not in keys and any(part in keys for part in self._parts[key])][:_SUSPECTS]

    def _rivals(self, keys: Iterable[int], score: Floats, inside: Inside) -> dict[int, dict[int, Rival]]:
        """Return for each key its parts, with what they do in its texts and elsewhere."""
        parts = {key: [part for part in self._parts[key] if part in self._lookup] for key in keys}
        found = inside(parts)
        rivals: dict[int, dict[int, Rival]] = {}
        for key, several in parts.items():
            whole, sign = self.known(key), 1.0 if self.known(key).mean >= 0 else -1.0
            means = {part: total / n if n else 0.0 for part in several for n, total in [found[key, part]]}
            rivals[key] = {}
            for part in several:
                n, total = found[key, part]
                known = self._lookup[part]
                others = max(known.texts - n, 0.0)
                elsewhere = (known.texts * known.mean - total) / others if others else 0.0
                rest = max((sign * means[other] for other in self._parts[key][part] if other in means), default=0.0)
                carried = score[self._at[part]] if part in self._at else 0.0
                share = carried / score[self._at[key]] if score[self._at[key]] > 0 else 1.0
                rivals[key][part] = Rival(
                    whole.mean, whole.texts, known.mean, means[part], elsewhere, others, sign * rest, share
                )
        return rivals

    def shortcuts(self, counts: Counts, inside: Inside) -> list[tuple[int, Shortcut]]:
        """Return the most suspicious keys."""
        pooled, chosen = self._pooled, self._selected
        sizes = counts.sizes()
        labels = slices = None
        if "gold" in sizes and counts.target in counts.labels:
            n_gold = self._details.counts("gold")
            column = counts.labels.index(counts.target)
            known = sum(sizes["gold"].values())
            rate = sizes["gold"][counts.target] / known if known else 0.0
            labels = n_gold[:, column], n_gold.sum(axis=1) - n_gold[:, column], rate
        if "slice" in sizes and (total := sum(sizes["slice"].values())):
            slices = self._details.counts("slice"), np.array(list(sizes["slice"].values())) / total
        found = suspicion(
            pooled.n[chosen], pooled.mean[chosen], pooled.variance[chosen], counts.texts, labels=labels, slices=slices
        )
        suspects = np.flatnonzero(found.score > 0)
        suspects = suspects[np.argsort(-found.score[suspects], kind="stable")][:_SUSPECTS]
        keys = {int(pooled.keys[chosen[i]]): i for i in suspects.tolist()}
        alone = representatives(self._rivals([*keys, *self._words_of_pieces(keys)], found.score, inside))
        order = sorted((key for key in keys if alone[key]), key=lambda key: -found.score[keys[key]])[:_SHORTCUTS]
        names = counts.groupings().get("slice", ())

        def number(x: float) -> float | None:
            return None if np.isnan(x) else float(x)

        listed = []
        for key in order:
            i = keys[key]
            where = names[found.slice[i]] if found.slice[i] >= 0 else None
            shortcut = Shortcut(
                word=self.word(key),
                score=float(found.score[i]),
                reliance=float(found.reliance[i]),
                unsupported=number(found.unsupported[i]),
                support=number(found.support[i]),
                concentration=number(found.concentration[i]),
                slice=where,
                reasons=(),
            )
            listed.append((key, replace(shortcut, reasons=_reasons(shortcut, counts))))
        return listed


def _reasons(shortcut: Shortcut, counts: Counts) -> tuple[str, ...]:
    reasons = [f"in {shortcut.word.effect.texts:,} of {counts.texts:,} {plural(counts.texts, 'text')}"]
    if shortcut.unsupported is not None and shortcut.unsupported >= _WORTH:
        mean, support = shortcut.word.effect.mean or 0.0, shortcut.support or 0.0
        reasons.append(f"effect {mean:+.2f}, labels say {support:+.2f}")
    if shortcut.concentration is not None and shortcut.concentration >= _WORTH:
        part = shortcut.word.groups["slice"][shortcut.slice or ""]
        reasons.append(f"{part.texts / shortcut.word.effect.texts:.0%} of its texts in {shortcut.slice}")
    return tuple(reasons)
