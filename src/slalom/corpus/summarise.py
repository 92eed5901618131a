"""`summary`: passes over the table of a corpus, with memory that does not grow with the number of texts.

1. Counts: statuses, targets, labels, slices.
2. A sketch of how often each key occurs (large corpora only), so that rare keys take no memory.
3. Sums over texts of every key that is frequent enough: exact for all that occur in at least `min_texts` texts.
4. For the 20,000 with the largest reliance: names, and sums in parts of the corpus.
5. For what is shown: examples, and a sample of effects.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats, whole_number
from slalom.corpus.details import Details
from slalom.corpus.moments import Moments, Sketch, effect_of
from slalom.corpus.opening import Corpus
from slalom.corpus.opening import open as open_corpus
from slalom.corpus.rivals import Rivals
from slalom.corpus.shortcuts import Known, Rival, explained_by_part, reliance, representatives, suspicion
from slalom.corpus.summarised import CorpusSummary, Kind, Shortcut, WordEffect
from slalom.corpus.table import EXPLAINED, GIVEN
from slalom.corpus.together import columns_of
from slalom.corpus.words import LONGEST, PIECE, WORD, Chunk, Index, Keys, Reader, observations
from slalom.errors import InputError

Sort: TypeAlias = Literal["effect", "total", "texts"]
SORTS: tuple[Sort, ...] = ("effect", "total", "texts")

_COLUMNS = ("number", "id", "status", "text", "label", "target", "n_units", "units", "starts", "ends", "removal")
_SKETCHED = 2_000_000  # units from which a sketch pays
_CANDIDATES = 1_500_000  # keys that are summed up
_SELECTED = 20_000  # keys with sums by groups
_SLICES = 8  # the others are taken together
_OTHERS = "(others)"
_SHORTCUTS = 30
_SUSPECTS = 1000  # of which those are shortcuts that stand for themselves
_UNITS_ABOVE = ("word", "sentence")  # kinds of units that are not merged into words
_WORTH = 0.25  # of a share, from which it is a reason
Inside: TypeAlias = Callable[[Mapping[int, Sequence[int]]], Mapping[tuple[int, int], tuple[float, float]]]

_KINDS: dict[int, Kind] = {PIECE: "piece", WORD: "word"}


def summary(
    corpus: Corpus | str | Path,
    *,
    gold: str | None = None,
    slices: str | None = None,
    target: str | None = None,
    min_texts: int | None = None,
    phrases: int = LONGEST,
    strongest: int = 5,
    sort: Sort = "effect",
    top: int = 100,
    case: bool = False,
    examples: int = 3,
) -> CorpusSummary:
    """Return what a model does in general: its words and phrases, and shortcuts among them.

    The effect of a word or phrase in a text is by how much the predicted score falls when all its units are removed together
    (`slalom.corpus.together`), averaged over its occurrences there; texts are the sampling units of all means and intervals.
    Numbers are exact for all that occur in at least `min_texts` texts.

    Args:
        corpus: What `slalom.corpus.open` returns, or the folder.
        gold: Column of the source with the true labels (labels of the model, or their indices), kept by `keep=`.
        slices: Column of the source with a part of the corpus per text, such as its origin; the eight largest are told apart.
        target: Class whose score is summarised. Default: the one that most texts explain.
        min_texts: Fewest texts of a word that is listed. Default: 5, or one in 10,000 texts.
        phrases: Words of the longest phrase, up to 5; 1: no phrases.
        strongest: How many words of a text count as its strongest.
        sort: Order within a kind: "effect" (the end of the mean's interval next to zero), "total" (texts times mean), "texts".
        top: How many words, phrases and pieces are listed, each.
        case: Whether "Good" and "good" are two words.
        examples: Texts shown for each word and each direction.

    Raises:
        InputError: There is no explained text, no such column, target or label.
    """
    table = open_corpus(corpus) if isinstance(corpus, str | Path) else corpus
    if sort not in SORTS:
        raise InputError(f"sort must be one of {', '.join(map(repr, SORTS))}; got {sort!r}")
    if phrases > 5:
        raise InputError(f"phrases must be from 1 to 5 words; got {phrases}")
    counts = Counts.of(table, gold, slices, target)
    least = max(5, counts.texts // 10_000) if min_texts is None else whole_number("min_texts", min_texts, 2)
    merges = unit_of(table) not in _UNITS_ABOVE
    reader = Reader(merges, whole_number("phrases", phrases, 1), whole_number("strongest", strongest, 1), case)
    run = _Run(table, reader, counts, least)
    keys, sums, least = run.sums()
    pooled = Pooled(keys, sums, least)
    selected = pooled.selected(sort, top)
    details = Details(reader, pooled.keys[selected], counts.groupings(), counts.codes)
    for chunk in run.chunks():
        details.add(chunk)
    candidates = _Candidates(pooled, selected, details, reader)
    shown = [key for kind in ("word", "phrase", "piece") for key in candidates.listed(kind, sort, top)]
    suspects = candidates.shortcuts(counts, run.inside)
    words = {key: candidates.word(key) for key in dict.fromkeys([*shown, *(key for key, _ in suspects)])}
    if examples or top:
        words = run.with_examples(words, whole_number("examples", examples, 0))
    about = {
        "model": table.model,
        "folder": table.folder,
        "target": counts.target,
        "labels": list(table.labels),
        "texts": sum(counts.statuses.values()),
        "explained": counts.texts,
        "other_targets": {name: n for name, n in counts.targets.items() if name != counts.target},
        "unit": unit_of(table),
        "min_texts": least,
        "strongest": strongest,
        "sort": sort,
        "phrases": phrases,
        "gold": gold,
        "slice": slices,
        "accuracy": counts.accuracy,
        "candidates": len(pooled.keys),
        "groups": {grouping: list(names) for grouping, names in counts.groupings().items()},
        "group_texts": {grouping: dict(sizes) for grouping, sizes in counts.sizes().items()},
    }
    found = tuple(replace(shortcut, word=words[key]) for key, shortcut in suspects)
    return CorpusSummary(tuple(words[key] for key in shown), found, about)


def unit_of(table: Corpus) -> str:
    """Return the kind of units that a corpus was explained with."""
    options: Mapping[str, Any] = table.manifest.get("options", {})
    return str(options.get("unit", "token"))


def label_of(gold: str | None, labels: Sequence[str]) -> str | None:
    """Return the model's label of a true label, which may be its index; None where it is neither.

    Args:
        gold: The true label.
        labels: Labels of the model.

    Example:
        >>> label_of("1", ["neg", "pos"]), label_of("neg", ["neg", "pos"]), label_of("odd", ["neg", "pos"])
        ('pos', 'neg', None)
    """
    if gold is None or gold in labels:
        return gold
    number = gold.removesuffix(".0")
    return labels[int(number)] if number.isascii() and number.isdecimal() and int(number) < len(labels) else None


@final
@dataclass(frozen=True)
class Counts:
    """What the rows of a corpus are: how many by status, target, label and slice.

    Attributes:
        target: The class that is summarised.
        labels: Labels of the model.
        gold: Column of the true labels.
        slices: Column of the slices.
        statuses, targets: Number of rows by status, and of explained ones by target.
        cells: Number of explained rows with the target by (label, gold, slice).
        units: Number of their units.
    """

    target: str
    labels: tuple[str, ...]
    gold: str | None
    slices: str | None
    statuses: Mapping[str, int]
    targets: Mapping[str, int]
    cells: Mapping[tuple[str | None, str | None, str | None], int]
    units: int

    @classmethod
    def of(cls, table: Corpus, gold: str | None, slices: str | None, target: str | None) -> "Counts":
        """Count the rows of a corpus."""
        given = [GIVEN + name for name in (gold, slices) if name is not None]
        columns = ["status", "target", "label", "n_units", *dict.fromkeys(given)]
        statuses: Counter[str] = Counter()
        cells: Counter[tuple[Any, ...]] = Counter()
        units: Counter[str | None] = Counter()
        for batch in table.batches(columns):
            rows = {name: batch.column(name).to_pylist() for name in columns}
            empty = [None] * len(rows["status"])
            golds, parts = (rows[GIVEN + name] if name is not None else empty for name in (gold, slices))
            statuses.update(rows["status"])
            cells.update(
                row[1:]
                for row in zip(rows["status"], rows["target"], rows["label"], golds, parts, strict=True)
                if row[0] == EXPLAINED
            )
            for name, n in zip(rows["target"], rows["n_units"], strict=True):
                units[name] += n or 0
        targets: Counter[str] = Counter()
        for (name, *_), n in cells.items():
            targets[name] += n
        if not targets:
            raise InputError(
                f"{table.folder!r} must have at least one explained text; it has {sum(statuses.values())} rows, none explained"
            )
        chosen = targets.most_common(1)[0][0] if target is None else target
        if chosen not in targets:
            raise InputError(f"target must be one of {', '.join(map(repr, targets))}, which texts explain; got {target!r}")
        of_target = {cell[1:]: n for cell, n in cells.items() if cell[0] == chosen}
        made = cls(chosen, table.labels, gold, slices, statuses, targets, of_target, units[chosen])
        return made._with_labels() if gold is not None else made

    def _with_labels(self) -> "Counts":
        """Check that the true labels are the model's."""
        odd = sorted({str(cell[1]) for cell in self.cells if cell[1] is not None and self.label_of(cell[1]) is None})
        if odd:
            raise InputError(
                f"the column {self.gold!r} must hold labels of the model ({', '.join(self.labels)}) or their indices;"
                f" got {odd[0]!r}"
            )
        return self

    def label_of(self, gold: str | None) -> str | None:
        """Return the model's label of a true label, which may be its index."""
        return label_of(gold, self.labels)

    @property
    def texts(self) -> int:
        """Explained texts with the target."""
        return sum(self.cells.values())

    @property
    def accuracy(self) -> float | None:
        """Share of correct predictions among texts with a true label."""
        known = {cell: n for cell, n in self.cells.items() if cell[1] is not None}
        right = sum(n for (label, gold, _), n in known.items() if label == self.label_of(gold))
        return right / sum(known.values()) if known else None

    def _slice_names(self) -> list[str]:
        sizes: Counter[str] = Counter()
        for (_, _, part), n in self.cells.items():
            if part is not None:
                sizes[part] += n
        names = [name for name, _ in sizes.most_common(_SLICES)]
        return [*names, _OTHERS] if len(sizes) > _SLICES else names

    def groupings(self) -> dict[str, tuple[str, ...]]:
        """Return the parts of the corpus, by grouping."""
        found: dict[str, tuple[str, ...]] = {}
        if self.gold is not None:
            found["prediction"] = ("correct", "wrong")
            found["gold"] = self.labels
        found["predicted"] = self.labels
        if self.slices is not None:
            found["slice"] = tuple(self._slice_names())
        return found

    def codes(self, label: Sequence[str | None], given: Mapping[str, Sequence[str | None]]) -> dict[str, Index]:
        """Return the part of each row, by grouping; -1 for none."""
        none: list[str | None] = [None] * len(label)
        golds = [self.label_of(name) for name in given.get(GIVEN + (self.gold or ""), none)]
        where = {name: i for i, name in enumerate(self.labels)}
        found = {"predicted": [where.get(name or "", -1) for name in label]}
        if self.gold is not None:
            found["gold"] = [where.get(name or "", -1) for name in golds]
            found["prediction"] = [-1 if g is None else int(g != p) for g, p in zip(golds, label, strict=True)]
        if self.slices is not None:
            parts = {name: i for i, name in enumerate(self._slice_names())}
            other = parts.get(_OTHERS, -1)
            found["slice"] = [-1 if name is None else parts.get(name, other) for name in given[GIVEN + self.slices]]
        return {name: np.array(code, dtype=np.int64) for name, code in found.items()}

    def sizes(self) -> dict[str, dict[str, int]]:
        """Return the number of texts of each part."""
        sizes = {grouping: dict.fromkeys(names, 0) for grouping, names in self.groupings().items()}
        cells = list(self.cells.items())
        given = {GIVEN + name: [cell[i] for cell, _ in cells] for i, name in ((1, self.gold), (2, self.slices)) if name}
        codes = self.codes([cell[0] for cell, _ in cells], given)
        for grouping, names in self.groupings().items():
            for code, (_, n) in zip(codes[grouping].tolist(), cells, strict=True):
                if code >= 0:
                    sizes[grouping][names[code]] += n
        return sizes


@final
@dataclass(frozen=True)
class _Run:
    """Passes over one corpus."""

    table: Corpus
    reader: Reader
    counts: Counts
    least: int

    def chunks(self, ranked: bool = False) -> Iterator[Chunk]:
        """Yield the explained rows with the target."""
        given = [GIVEN + name for name in (self.counts.gold, self.counts.slices) if name is not None]
        columns = [*_COLUMNS, *columns_of(self.table.columns), *dict.fromkeys(given)]
        return self.reader.chunks(explained(self.table.batches(columns), self.counts.target), ranked)

    def sums(self) -> tuple[Keys, Floats, int]:
        """Return keys (k,), their sums (k, 8), and the fewest texts for which these are complete."""
        sketch, least = None, self.least
        if self.counts.units * self.reader.longest > _SKETCHED:
            sketch = Sketch()
            for chunk in self.chunks():
                sketch.add(chunk.occurrences.key)
            least = sketch.threshold(least, _CANDIDATES)
        moments = Moments(8)
        for chunk in self.chunks(ranked=True):
            found = chunk.occurrences
            if sketch is not None:
                found = found[sketch.frequent(found.key, least)]
            seen = observations(found)
            y = seen.effect
            ones = np.ones(len(y))
            numbers = np.stack([ones, y, y * y, seen.count, seen.top, y > 0, y < 0, seen.level], axis=1).astype(np.float64)
            moments.add(seen.key, numbers)
        return (*moments.result(), least)

    def inside(self, parts: Mapping[int, Sequence[int]]) -> dict[tuple[int, int], tuple[float, float]]:
        """Return for each (whole, part) the texts that have both, and the sum of the part's effects there."""
        if not any(parts.values()):
            return {}
        rivals = Rivals(parts)
        for chunk in self.chunks():
            rivals.add(chunk)
        return rivals.inside()

    def with_examples(self, words: Mapping[int, WordEffect], examples: int) -> dict[int, WordEffect]:
        """Return the words with texts and a sample of effects."""
        from slalom.corpus.examples import Examples  # noqa: PLC0415

        collected = Examples(words, examples, self.counts)
        for chunk in self.chunks():
            collected.add(chunk)
        return collected.result()


def explained(batches: Iterable[Any], target: str) -> Iterator[Any]:
    """Yield the explained rows with a target."""
    import pyarrow.compute as pc  # noqa: PLC0415

    for batch in batches:
        mask = pc.and_(
            pc.equal(batch.column("status"), EXPLAINED), pc.fill_null(pc.equal(batch.column("target"), target), False)
        )
        rows = batch.filter(mask)
        if rows.num_rows:
            yield rows


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

    def order(self, sort: str) -> Floats:
        """Return the numbers to sort by, largest first."""
        return {"effect": self.least, "total": np.abs(self.sums[:, 1]), "texts": self.n}[sort]

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
class _Candidates:
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
        """Return for each key its parts, with what they do in its texts and elsewhere.

        Args:
            keys: The keys.
            score: Scores of the selected keys.
            inside: Returns the effects of parts in the texts of wholes, as `_Run.inside` does.
        """
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
        """Return the most suspicious keys.

        Args:
            counts: What the rows are.
            inside: Returns the effects of parts in the texts of wholes, as `_Run.inside` does.
        """
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
    reasons = [f"in {shortcut.word.effect.texts:,} of {counts.texts:,} texts"]
    if shortcut.unsupported is not None and shortcut.unsupported >= _WORTH:
        mean, support = shortcut.word.effect.mean or 0.0, shortcut.support or 0.0
        reasons.append(f"effect {mean:+.2f}, labels say {support:+.2f}")
    if shortcut.concentration is not None and shortcut.concentration >= _WORTH:
        part = shortcut.word.groups["slice"][shortcut.slice or ""]
        reasons.append(f"{part.texts / shortcut.word.effect.texts:.0%} of its texts in {shortcut.slice}")
    return tuple(reasons)
