"""`summary`: queries over the table of a corpus (`slalom.corpus.queries`), whose memory does not grow with the number of texts.

1. Counts: statuses, targets, labels, slices.
2. Words, then phrases of two words, of three, ..., then pieces: effects added up by key and cell, of those that are in at least
   `min_texts` texts. A phrase can only be frequent where its first and its last words are.
3. Effects of parts of suspicious phrases and words within the texts that have the whole.
4. Examples and samples of what is shown.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, final

import numpy as np

from slalom.core.checks import check_choice, whole_number
from slalom.corpus import queries
from slalom.corpus.counts import Counts
from slalom.corpus.opening import Corpus, check_columns
from slalom.corpus.opening import open as open_corpus
from slalom.corpus.queries import Parts, connect, kind_of
from slalom.corpus.results import CorpusSummary, Example, Shortcut, WordEffect, effect_of
from slalom.corpus.shortcuts import Suspicion
from slalom.corpus.suspects import Selection
from slalom.corpus.table import GIVEN, LONGEST
from slalom.errors import InputError, plural

Sort: TypeAlias = Literal["effect", "total", "texts"]
SORTS: tuple[Sort, ...] = ("effect", "total", "texts")

PHRASES = 3
_SHORTCUTS = 30
_WORTH = 0.25  # of a share, from which it is a reason
_SAMPLE = 150  # effects of a word
_STRONGEST = 5  # words of a text that count as its strongest
_EXAMPLES = 3  # texts of a word in each direction
_AROUND = 70  # characters before and after it


def summary(
    corpus: Corpus | str | Path,
    *,
    gold: str | None = None,
    slices: str | None = None,
    target: str | None = None,
    min_texts: int | None = None,
    phrases: int = PHRASES,
    sort: Sort = "effect",
    top: int = 100,
    include_poor: bool = False,
    progress: Callable[[float], Any] = lambda share: None,
) -> CorpusSummary:
    """Return what a model does in general: its words and phrases, and shortcuts among them.

    The effect of a word or phrase in a text is by how much the predicted score falls when all its units are removed together,
    averaged over its occurrences there; texts are the sampling units of all means and intervals. Numbers are exact for all that
    occur in at least `min_texts` texts.

    Args:
        corpus: What `slalom.corpus.open` returns, or the folder.
        gold: Column of the source with the true labels (labels of the model, or their indices), kept by `keep=`.
        slices: Column of the source with a part of the corpus per text, such as its origin; the eight largest are told apart.
        target: Class whose score is summarised. Default: the one that most texts explain.
        min_texts: Fewest texts of a word that is listed. Default: 5, or one in 10,000 texts.
        phrases: Words of the longest phrase, up to 5; 1: no phrases.
        sort: Order within a kind: "effect" (the end of the listed interval near zero), "total" (texts times mean), "texts".
        top: How many words, phrases and pieces are listed, each.
        include_poor: Whether to include poorly explained texts: those whose explanation predicts held-out queries near the text
            worse than their mean does (R2 below 0, and an error above 0.05). Default: they are only counted.
        progress: Called with the share that is done; it may raise to stop.

    Raises:
        InputError: There is no explained text, no such column, target or label, or a part is damaged.
        MissingExtra: duckdb is not installed.
    """
    check_choice("sort", sort, SORTS)
    least = None if min_texts is None else whole_number("min_texts", min_texts, 2)
    if whole_number("phrases", phrases, 1) > LONGEST:
        raise InputError(f"phrases must be from 1 to {LONGEST} words; got {phrases}")
    lengths = (*range(1, phrases + 1), 0)
    table = open_corpus(corpus) if isinstance(corpus, str | Path) else corpus
    check_columns([GIVEN + name for name in (gold, slices) if name is not None], table.columns)
    with closing(connect()) as connection:
        parts = Parts(connection, table.place)
        counts = Counts(table, parts, gold, slices, target, include_poor)
        least = max(5, counts.texts // 10_000) if least is None else least
        rows = _Rows(parts, counts, lengths, include_poor, progress)
        rows.add_up(least)
        selection = Selection(connection, sort, top)
        listed = selection.listed()
        suspects = dict(list(selection.suspects(counts, rows.observe).items())[:_SHORTCUTS])
        words = rows.words(selection, dict.fromkeys([*listed, *suspects]))
    about = {
        "model": table.model, "folder": table.folder, "target": counts.target, "labels": list(table.labels),
        "texts": counts.rows, "explained": counts.texts, "poor": counts.poor, "include_poor": include_poor,
        "other_targets": {name: n for name, n in counts.targets.items() if name != counts.target},
        "unit": table.manifest["options"]["unit"],
        "min_texts": least, "strongest": _STRONGEST, "sort": sort, "phrases": phrases, "gold": gold, "slice": slices,
        "accuracy": counts.accuracy, "candidates": len(selection.sums["n"]),
        "groups": {grouping: list(sizes) for grouping, sizes in counts.sizes.items()}, "group_texts": counts.sizes,
    }  # fmt: skip
    shortcuts = tuple(_shortcut(words[key], numbers, counts) for key, numbers in suspects.items())
    return CorpusSummary(tuple(words[key] for key in listed), shortcuts, about)


@final
class _Rows:
    """The rows that are summarised, in passes over them, for keys of some lengths in words; 0: pieces."""

    def __init__(
        self, parts: Parts, counts: Counts, lengths: Sequence[int], include_poor: bool, progress: Callable[[float], Any]
    ) -> None:
        self._parts, self._counts, self._lengths = parts, counts, lengths
        self._include_poor, self._progress = include_poor, progress
        self._run, self._passes = parts.connection.execute, 0

    def _texts(self) -> str:
        """Return the query of the rows that are summarised, for one pass over them."""
        counts = self._counts
        self._progress(min(self._passes / (len(self._lengths) + 2), 0.99))
        self._passes += 1
        return queries.texts(self._parts.source(), counts.truth, counts.slices, self._lengths, _STRONGEST, self._include_poor)

    def add_up(self, least: int) -> None:
        """Make the tables `totals` (of a key), `sums` (of a key in a cell) and `pieces` (of a word)."""
        self._run(queries.TABLES)
        for length in self._lengths:
            texts = self._texts()
            self._run(f"INSERT INTO partial {queries.summed(texts, length)}")
            if length == 0:
                self._run(queries.split_words(texts))
            self._run(queries.frequent(length, least))
        self._run(queries.TOTALS)

    def observe(self, ids: Sequence[int]) -> None:
        """Make the table `seen` of the observations of some keys (number, id, y, place, cell)."""
        self._run("CREATE OR REPLACE TABLE wanted AS SELECT id, length, key FROM totals WHERE id IN (SELECT unnest(?))", [ids])
        lengths = [length for (length,) in self._run("SELECT DISTINCT length FROM wanted").fetchall()]
        self._run("TRUNCATE seen")
        for length in lengths:  # each by itself: all at once would need memory for all of them
            self._run(f"INSERT INTO seen {queries.seen(self._texts(), length)}")

    def words(self, selection: Selection, keys: Iterable[int]) -> dict[int, WordEffect]:
        """Return keys with their effects, examples in both directions, and samples."""
        groups = self._counts.effects(keys)
        if not groups:
            return {}
        sums = {key: {name: float(column[key]) for name, column in selection.sums.items()} for key in groups}
        signs = [1 if sums[key]["s1"] >= 0 else -1 for key in groups]
        self._run("CREATE TABLE shown AS SELECT unnest(?::BIGINT[]) AS id, unnest(?) AS sign", [list(groups), signs])
        self.observe(list(groups))
        cells = list(self._counts.cells)
        samples = defaultdict[int, list[tuple[float, bool | None]]](list)
        for key, y, cell in self._run(queries.drawn(_SAMPLE)).fetchall():
            samples[key].append((y, cells[cell].is_wrong))
        texts = defaultdict[int, tuple[list[Example], list[Example]]](lambda: ([], []))
        for key, is_usual, number, y, place, cell, name, *row in self._run(
            queries.example_texts(self._parts.source(), _EXAMPLES)
        ).fetchall():
            shown = snippet(selection.keys[key], place, *row)
            example = Example(number, name, y, cells[cell].label, cells[cell].gold, *shown)
            texts[key][not is_usual].append(example)
        words = {}
        for key, of in sums.items():
            name, (usual, unusual) = selection.keys[key], texts[key]
            words[key] = WordEffect(
                name=written(name, (usual or unusual)[0]),
                kind=kind_of(name),
                effect=effect_of(of["n"], of["s1"], of["s2"]),
                occurrences=int(of["times"]),
                strongest=of["top"] / of["n"],
                against=int(of["negative"] if of["s1"] >= 0 else of["positive"]),
                groups=groups[key],
                usual=tuple(usual),
                unusual=tuple(unusual),
                sample=tuple(samples[key]),
            )
        return words


class Snippet(NamedTuple):
    """An occurrence of a key, and some text around it; None where texts were not kept."""

    before: str | None
    word: str
    after: str | None


def snippet(
    key: str, place: int, text: str | None, starts: Sequence[int], ends: Sequence[int], word_of: Sequence[int]
) -> Snippet:
    if text is None:
        return Snippet(None, key.removeprefix(queries.PIECE).replace(queries.BETWEEN, " "), None)
    last = place + key.count(queries.BETWEEN)
    units = [place] if kind_of(key) == "piece" else [i for i, word in enumerate(word_of) if place <= word <= last]
    start, end = starts[units[0]], max(ends[i] for i in units)
    low, high = max(0, start - _AROUND), min(len(text), end + _AROUND)
    after = text[end:high] + ("…" if high < len(text) else "")
    return Snippet(("…" if low else "") + text[low:start], text[start:end], after)


def written(key: str, occurrence: Snippet | Example) -> str:
    """Return the name of a key: a phrase as it is written in a text."""
    if kind_of(key) == "phrase" and occurrence.before is not None and (name := " ".join(occurrence.word.split())):
        return name.lower()
    return key.removeprefix(queries.PIECE).replace(queries.BETWEEN, " ")


def _shortcut(word: WordEffect, numbers: Suspicion, counts: Counts) -> Shortcut:
    score, least, *shares, where = map(float, numbers)
    unsupported, concentration, support = (None if np.isnan(share) else share for share in shares)
    name = list(counts.sizes["slice"])[int(where)] if where >= 0 else None
    effect = word.effect
    reasons = [f"in {effect.texts:,} of {counts.texts:,} {plural(counts.texts, 'text')}"]
    if unsupported is not None and unsupported >= _WORTH:
        reasons.append(f"effect {effect.mean or 0.0:+.2f}, labels say {support or 0.0:+.2f}")
    if name is not None and concentration is not None and concentration >= _WORTH:
        reasons.append(f"{word.groups['slice'][name].texts / effect.texts:.0%} of its texts in {name}")
    return Shortcut(word, score, least, unsupported, support, concentration, name, tuple(reasons))
