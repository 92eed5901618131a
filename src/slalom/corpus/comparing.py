"""`compare`: two models, or two versions of one, on the texts that both have explained.

    d(text, word) = effect after - effect before        one observation per text that has the word in both
    change(word)  = mean of d, with a paired 95% interval (Student's t over texts)

Texts are matched by id. Where both corpora have them in the same order, as two runs on one source do, both are read in step and
memory does not grow with the number of texts; else the second one is held in memory.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, final

import numpy as np

from slalom.core.checks import Floats, whole_number
from slalom.corpus.candidates import Pooled, kind_of, parts_of
from slalom.corpus.compared import Change, CorpusComparison, Flip, WordChange
from slalom.corpus.counts import Counts
from slalom.corpus.details import Details
from slalom.corpus.moments import Moments, effect_of
from slalom.corpus.opening import Corpus
from slalom.corpus.opening import open as open_corpus
from slalom.corpus.shortcuts import explained_by_part
from slalom.corpus.summarise import unit_of
from slalom.corpus.summarised import KINDS
from slalom.corpus.table import EXPLAINED, GIVEN
from slalom.corpus.together import columns_of
from slalom.corpus.words import LONGEST, WORD, Chunk, Observations, Reader, observations
from slalom.errors import InputError

_COLUMNS = ("number", "id", "text", "label", "score", "n_units", "units", "starts", "ends", "removal")
_ROWS = 2000  # rows of each corpus at once
_SELECTED = 20_000
_WHY = 5  # words of a flip
_OPENING = 160  # characters


def compare(
    before: Corpus | str | Path,
    after: Corpus | str | Path,
    *,
    gold: str | None = None,
    target: str | None = None,
    min_texts: int | None = None,
    phrases: int = LONGEST,
    top: int = 100,
    flips: int = 50,
    case: bool = False,
) -> CorpusComparison:
    """Return what changed between two corpora of explanations of the same texts: words and phrases, and flipped predictions.

    Args:
        before: What `slalom.corpus.open` returns, or the folder.
        after: The same for the other model.
        gold: Column of the source with the true labels.
        target: Class whose score is compared. Default: the one that most texts of the first corpus explain.
        min_texts: Fewest shared texts of a word that is listed. Default: 5, or one in 10,000 texts.
        phrases: Words of the longest phrase, up to 5; 1: no phrases.
        top: How many words, phrases and pieces are listed, each.
        flips: How many texts with another prediction are listed; all are counted.
        case: Whether "Good" and "good" are two words.

    Raises:
        InputError: No text is in both, ids are not unique, or an argument is invalid.
    """
    first, second = (open_corpus(table) if isinstance(table, str | Path) else table for table in (before, after))
    if phrases > 5:
        raise InputError(f"phrases must be from 1 to 5 words; got {phrases}")
    counts = Counts.of(first, gold, None, target)
    matched = _Matched(first, second, counts.target, gold)
    least = max(5, matched.n // 10_000) if min_texts is None else whole_number("min_texts", min_texts, 2)
    kinds = {unit_of(table) for table in (first, second)}
    reader = Reader(not kinds <= {"word", "sentence"}, whole_number("phrases", phrases, 1), case=case)
    listed = _Flips(counts, whole_number("flips", flips, 0))
    moments = Moments(8)
    for pair in matched.pairs(reader):
        y0, y1, key, level = pair.both()
        d = y1 - y0
        moments.add(key, np.stack([np.ones(len(d)), d, d * d, y0, y0 * y0, y1, y1 * y1, level], axis=1))
        listed.add(pair)
    pooled = Pooled(*moments.result(), least)
    order = pooled.order("effect")
    selected = np.sort(np.argsort(-order, kind="stable")[:_SELECTED])
    details = Details(reader, pooled.keys[selected], {}, counts.codes)
    for pair in matched.pairs(reader):
        details.add(pair.before)
    lookup = _known_parts(pooled, details, reader)
    changes: dict[str, list[Change]] = {kind: [] for kind in KINDS}
    for i in selected[np.argsort(-order[selected], kind="stable")].tolist():
        kind = kind_of(int(pooled.level[i]))
        key = int(pooled.keys[i])
        parts = [lookup[part] for part in parts_of(key, int(pooled.level[i]), details, reader) if part in lookup]
        if len(changes[kind]) < top and not (kind == "phrase" and explained_by_part(pooled.known(i), parts)):
            n, d1, d2, a1, a2, b1, b2, _ = pooled.sums[i].tolist()
            ends = effect_of(n, a1, a2), effect_of(n, b1, b2)
            changes[kind].append(Change(details.names[key], kind, effect_of(n, d1, d2), *ends))
    about = {
        "models": [first.model, second.model],
        "folders": [first.folder, second.folder],
        "target": counts.target,
        "shared": matched.n,
        "only": [matched.only_first, matched.only_second],
        "min_texts": least,
        "gold": gold,
        **listed.totals(),
    }
    return CorpusComparison(tuple(change for kind in KINDS for change in changes[kind]), tuple(listed.kept), about)


def _known_parts(pooled: Pooled, details: Details, reader: Reader) -> dict[int, Any]:
    """Return texts and change of the parts of all phrases."""
    level = {int(key): int(level) for key, level in zip(pooled.keys.tolist(), pooled.level.tolist(), strict=True)}
    parts = {part for key in details.words for part in parts_of(key, level[key], details, reader)}
    every = np.array(sorted(parts), dtype=np.uint64)
    at, there = pooled.find(every)
    return {int(key): pooled.known(int(i)) for key, i, ok in zip(every, at, there, strict=True) if ok}


@final
class _Pair:
    """The same texts, explained twice."""

    def __init__(self, before: Chunk, after: Chunk) -> None:
        self.before, self.after = before, after
        seen = observations(before.occurrences), observations(after.occurrences)
        one, other = (_text_and_key(found) for found in seen)
        _, i, j = np.intersect1d(one, other, assume_unique=True, return_indices=True)
        self.first, self.second, self.i, self.j = *seen, i, j

    def both(self) -> tuple[Floats, Floats, Any, Floats]:
        """Return effects before and after, keys and levels of what both have."""
        level = self.first.level[self.i].astype(np.float64)
        return self.first.effect[self.i], self.second.effect[self.j], self.first.key[self.i], level


def _text_and_key(found: Observations) -> Any:
    return found.key * np.uint64(0xBF58476D1CE4E5B9) + found.row.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)


@final
class _Matched:
    """Rows of two corpora with the same ids, explained for the target in both."""

    def __init__(self, first: Corpus, second: Corpus, target: str, gold: str | None) -> None:
        self._tables, self._target, self._gold = (first, second), target, gold
        ids = [self._ids(table) for table in self._tables]
        shared = set(ids[0]) & set(ids[1])
        self.n, self.only_first, self.only_second = len(shared), len(ids[0]) - len(shared), len(ids[1]) - len(shared)
        if not shared:
            raise InputError(
                f"{first.folder!r} and {second.folder!r} must have texts with equal ids, explained for {target!r};"
                " they share none"
            )
        order = [[name for name in names if name in shared] for names in ids]
        self._in_step = order[0] == order[1]
        self._order, self._shared = order[0], shared

    def _ids(self, table: Corpus) -> list[str]:
        found: list[str] = []
        for batch in table.batches(["id", "status", "target"]):
            rows = zip(*(batch.column(name).to_pylist() for name in ("id", "status", "target")), strict=True)
            found += [name for name, status, target in rows if (status, target) == (EXPLAINED, self._target)]
        if len(set(found)) < len(found):
            twice = Counter(found).most_common(1)[0][0]
            raise InputError(f"ids must be unique to match texts; {twice!r} occurs more than once in {table.folder!r}")
        return found

    def _rows(self, table: Corpus, gold: str | None) -> Iterator[Any]:
        """Yield tables of `_ROWS` shared rows each."""
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.compute as pc  # noqa: PLC0415

        columns = [*_COLUMNS, *columns_of(table.columns), *([GIVEN + gold] if gold is not None else [])]
        wanted = pa.array(sorted(self._shared))
        waiting: list[Any] = []
        n = 0
        for batch in table.batches([*columns, "status", "target"]):
            mask = pc.and_(pc.is_in(batch.column("id"), wanted), pc.equal(batch.column("status"), EXPLAINED))
            rows = batch.filter(pc.and_(mask, pc.fill_null(pc.equal(batch.column("target"), self._target), False)))
            waiting.append(rows.select(columns))
            n += rows.num_rows
            while n >= _ROWS:
                joined = pa.Table.from_batches(waiting)
                yield joined.slice(0, _ROWS)
                rest = joined.slice(_ROWS)
                waiting, n = rest.to_batches(), rest.num_rows
        if n:
            yield pa.Table.from_batches(waiting)

    def _second_rows(self) -> Iterator[Any]:
        """Yield the rows of the second corpus in the order of the first."""
        if self._in_step:
            yield from self._rows(self._tables[1], None)
            return
        import pyarrow as pa  # noqa: PLC0415

        whole = pa.concat_tables(list(self._rows(self._tables[1], None)))
        place = {name: i for i, name in enumerate(whole.column("id").to_pylist())}
        order = [place[name] for name in self._order]
        for k in range(0, len(order), _ROWS):
            yield whole.take(order[k : k + _ROWS])

    def pairs(self, reader: Reader) -> Iterator[_Pair]:
        """Yield the shared rows of both corpora, a chunk at a time."""
        for rows in zip(self._rows(self._tables[0], self._gold), self._second_rows(), strict=True):
            yield _Pair(*(Chunk(part.combine_chunks().to_batches()[0], reader, False) for part in rows))


@final
class _Flips:
    """Counts flipped predictions and keeps those whose score changed most."""

    def __init__(self, counts: Counts, most: int) -> None:
        self._counts, self._most = counts, most
        self._ways: Counter[tuple[str, str]] = Counter()
        self._right = np.zeros(3)  # first, second, texts with a label
        self.kept: list[Flip] = []

    def add(self, pair: _Pair) -> None:
        """Look at a pair of chunks."""
        columns = [
            (chunk.column("label"), np.array(chunk.column("score"), dtype=np.float64)) for chunk in (pair.before, pair.after)
        ]
        (labels, scores), (new_labels, new_scores) = columns
        gold = self._counts.gold
        golds = [None] * len(labels) if gold is None else [self._counts.label_of(g) for g in pair.before.column(GIVEN + gold)]
        for g, a, b in zip(golds, labels, new_labels, strict=True):
            if g is not None:
                self._right += (a == g, b == g, 1)
        flipped = [row for row, (a, b) in enumerate(zip(labels, new_labels, strict=True)) if a != b]
        self._ways.update((labels[row], new_labels[row]) for row in flipped)
        bar = abs(self.kept[-1].change) if len(self.kept) >= self._most > 0 else -1.0
        change = new_scores - scores
        for row in sorted((row for row in flipped if abs(change[row]) > bar), key=lambda row: -abs(change[row]))[: self._most]:
            rows = pair.before.rows
            text = rows.column("text")[row].as_py()
            self.kept.append(
                Flip(
                    number=int(rows.column("number")[row].as_py()),
                    id=rows.column("id")[row].as_py(),
                    before=labels[row],
                    after=new_labels[row],
                    gold=golds[row],
                    change=float(change[row]),
                    words=_why(pair, row, float(np.sign(change[row]))),
                    text=None if text is None else " ".join(text[: 2 * _OPENING].split())[:_OPENING],
                )
            )
        self.kept.sort(key=lambda flip: (-abs(flip.change), flip.number))
        del self.kept[self._most :]

    def totals(self) -> Mapping[str, Any]:
        """Return how many predictions flipped, by labels, and both accuracies."""
        ways = [{"before": a, "after": b, "texts": n} for (a, b), n in self._ways.most_common()]
        known = self._right[2]
        accuracy = None if not known else [float(right / known) for right in self._right[:2]]
        return {"flipped": sum(self._ways.values()), "flips": ways, "accuracy": accuracy}


def _why(pair: _Pair, row: int, sign: float) -> tuple[WordChange, ...]:
    """Return the words whose effects moved most in the direction in which the score did."""
    here = np.flatnonzero((pair.first.row[pair.i] == row) & (pair.first.level[pair.i] == WORD))
    i, j = pair.i[here], pair.j[here]
    d = pair.second.effect[j] - pair.first.effect[i]
    order = [k for k in np.argsort(-sign * d, kind="stable").tolist() if sign * d[k] > 0][:_WHY]
    return tuple(
        WordChange(
            pair.before.text_of(int(pair.first.first[i[k]])), float(pair.first.effect[i[k]]), float(pair.second.effect[j[k]])
        )
        for k in order
    )
