"""`summary`: queries over the table of a corpus (`slalom.corpus.queries`), whose memory does not grow with the number of texts.

1. Counts: statuses, targets, labels, slices.
2. Words, then phrases of two words, of three, ..., then pieces: effects added up by key and cell, of those that are in at least
   `min_texts` texts. A phrase can only be frequent where its first and its last words are.
3. Effects of parts of suspicious phrases and words within the texts that have the whole.
4. Examples and samples of what is shown.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, final

import numpy as np

from slalom.core.checks import whole_number
from slalom.corpus import queries
from slalom.corpus.counts import Counts, Groups, label_of
from slalom.corpus.effects import Effect, effect_of
from slalom.corpus.engine import Parts, connect
from slalom.corpus.opening import Corpus, check_columns
from slalom.corpus.opening import open as open_corpus
from slalom.corpus.queries import kind_of
from slalom.corpus.summarised import KINDS, CorpusSummary, Example, Shortcut, WordEffect
from slalom.corpus.suspects import Selection, Totals
from slalom.corpus.table import GIVEN, LONGEST
from slalom.errors import InputError, plural

Sort: TypeAlias = Literal["effect", "total", "texts"]
Step: TypeAlias = Callable[[float], Any]
SORTS: tuple[Sort, ...] = ("effect", "total", "texts")

PHRASES = 3
UNITS = 1_000_000  # that are grouped by text at once
_SHORTCUTS = 30
_WORTH = 0.25  # of a share, from which it is a reason
_SAMPLE = 150  # effects of a word
_AROUND = 70  # characters before and after it


def summary(
    corpus: Corpus | str | Path,
    *,
    gold: str | None = None,
    slices: str | None = None,
    target: str | None = None,
    min_texts: int | None = None,
    phrases: int = PHRASES,
    strongest: int = 5,
    sort: Sort = "effect",
    top: int = 100,
    case: bool = False,
    examples: int = 3,
    include_poor: bool = False,
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
        strongest: How many words of a text count as its strongest.
        sort: Order within a kind: "effect" (the end of the listed interval near zero), "total" (texts times mean), "texts".
        top: How many words, phrases and pieces are listed, each.
        case: Whether "Good" and "good" are two words.
        examples: Texts shown for each word and each direction.
        include_poor: Whether to include poorly explained texts: those whose explanation predicts held-out queries near the text
            worse than their mean does (R2 below 0, and an error above 0.05). Default: they are only counted.

    Raises:
        InputError: There is no explained text, no such column, target or label, or a part is damaged.
        MissingExtra: duckdb is not installed.
    """
    if sort not in SORTS:
        raise InputError(f"sort must be one of {', '.join(map(repr, SORTS))}; got {sort!r}")
    least = None if min_texts is None else whole_number("min_texts", min_texts, 2)
    counted = whole_number("strongest", strongest, 1), whole_number("examples", examples, 0)
    options = Options(
        gold, slices, target, least, checked_phrases(phrases), counted[0], sort, top, case, counted[1], include_poor
    )
    return summarised(open_corpus(corpus) if isinstance(corpus, str | Path) else corpus, options)


class Options(NamedTuple):
    """The options of a summary."""

    gold: str | None = None
    slices: str | None = None
    target: str | None = None
    min_texts: int | None = None
    phrases: int = PHRASES
    strongest: int = 5
    sort: Sort = "effect"
    top: int = 100
    case: bool = False
    examples: int = 3
    include_poor: bool = False


def summarised(table: Corpus, options: Options, step: Callable[[float], Any] = lambda share: None) -> CorpusSummary:
    """Return a summary; `step` is called with the share that is done, and may raise to stop."""
    check_columns([GIVEN + name for name in (options.gold, options.slices) if name is not None], table.columns)
    connection = connect()
    try:
        parts = Parts(connection, table.place)
        counts = Counts.of(table, parts, options.gold, options.slices, options.target, options.include_poor)
        least = max(5, counts.texts // 10_000) if options.min_texts is None else options.min_texts
        words, shortcuts, candidates = _Run(parts, counts, options._replace(min_texts=least), step).result()
    finally:
        connection.close()
    about = {
        "model": table.model,
        "folder": table.folder,
        "target": counts.target,
        "labels": list(table.labels),
        "texts": counts.rows,
        "explained": counts.texts,
        "poor": sum(counts.poor.values()),
        "include_poor": options.include_poor,
        "other_targets": {name: n for name, n in counts.targets.items() if name != counts.target},
        "unit": table.manifest.get("options", {}).get("unit", "token"),
        "min_texts": least,
        "strongest": options.strongest,
        "sort": options.sort,
        "phrases": options.phrases,
        "gold": options.gold,
        "slice": options.slices,
        "accuracy": counts.accuracy,
        "candidates": candidates,
        "groups": {grouping: list(names) for grouping, names in counts.groupings.items()},
        "group_texts": counts.sizes(),
    }
    return CorpusSummary(words, shortcuts, about)


def checked_phrases(phrases: int) -> int:
    """Return the words of the longest phrase."""
    if phrases > LONGEST:
        raise InputError(f"phrases must be from 1 to {LONGEST} words; got {phrases}")
    return whole_number("phrases", phrases, 1)


@final
class _Run:
    """One summary: its database, and passes over the texts.

    Args:
        parts: The parts of the corpus.
        counts: What its rows are.
        options: The options.
        step: Called with the share that is done.
    """

    def __init__(self, parts: Parts, counts: Counts, options: Options, step: Callable[[float], Any]) -> None:
        self._parts, self._counts, self._options, self._step = parts, counts, options, step
        self._run, self._done = parts.connection.execute, 0.0
        self._lengths = (*range(1, options.phrases + 1), 0)

    def result(self) -> tuple[tuple[WordEffect, ...], tuple[Shortcut, ...], int]:
        """Return the words that are listed, the shortcuts, and the number of candidates."""
        sort, top = self._options.sort, self._options.top
        self._add_up()
        totals = Totals(self._parts.connection)
        ids = totals.selected(sort, top)
        self._run("CREATE TABLE selected AS SELECT unnest(?::BIGINT[]) AS id", [ids.tolist()])
        selection = Selection(self._parts.connection, totals)
        groups = Groups(self._counts, ids, self._parts.connection)
        listed = [key for kind in KINDS for key in selection.listed(kind, sort, top)]
        suspects, numbers = selection.suspects(self._counts, groups, self._observed)
        shown = dict.fromkeys([*listed, *list(suspects)[:_SHORTCUTS]])
        words = self._with_examples(
            {key: _word(key, selection, groups.effects(int(np.searchsorted(ids, key)))) for key in shown}
        )
        names = self._counts.groupings.get("slice", ())
        shortcuts = []
        for key, i in list(suspects.items())[:_SHORTCUTS]:
            score, least, *shares, where = (float(column[i]) for column in numbers)
            unsupported, concentration, support = (None if np.isnan(share) else share for share in shares)
            part = names[int(where)] if where >= 0 else None
            shortcut = Shortcut(words[key], score, least, unsupported, support, concentration, part, ())
            shortcuts.append(replace(shortcut, reasons=_reasons(shortcut, self._counts.texts)))
        return tuple(words[key] for key in listed), tuple(shortcuts), len(totals.n)

    def _chunks(self) -> Iterator[str]:
        """Yield the query of the rows that are summarised, some parts at a time."""
        counts, options = self._counts, self._options
        texts = UNITS * counts.rows / max(counts.units, 1)
        for source in self._parts.chunks(texts):
            self._step(min(self._done / (len(self._lengths) + 2) / counts.rows, 0.99))
            yield queries.texts(source, options.gold, options.slices, self._lengths, options.strongest, options.include_poor)
            self._done += texts

    def _add_up(self) -> None:
        """Make the tables `totals` (of a key), `sums` (of a key in a cell) and `pieces` (of a word)."""
        self._run(queries.TABLES)
        for length in self._lengths:
            for texts in self._chunks():
                found = queries.occurrences(texts, length, self._options.case, frequent=True)
                self._run(f"INSERT INTO partial {queries.summed(queries.observations(found))}")
                if length == 0:
                    self._run(queries.split_words(texts, self._options.case))
            for statement in queries.frequent(length, self._options.min_texts or 2):
                self._run(statement)
        self._run(queries.TOTALS)

    def _observed(self, ids: Sequence[int]) -> Iterator[None]:
        """Yield after each chunk whose observations of some keys are in the table `seen` (number, id, y, place, cell)."""
        self._run("CREATE OR REPLACE TABLE wanted AS SELECT id, length, key FROM totals WHERE id IN (SELECT unnest(?))", [ids])
        lengths = [length for (length,) in self._run("SELECT DISTINCT length FROM wanted").fetchall()]
        for texts in self._chunks():
            self._run(f"CREATE OR REPLACE TABLE seen AS {queries.seen(texts, lengths, self._options.case)}")
            yield

    def _with_examples(self, words: Mapping[int, WordEffect]) -> dict[int, WordEffect]:
        """Return the words as they are written, with texts and a sample of effects."""
        if not words:
            return {}
        signs = [1 if (word.effect.mean or 0.0) >= 0 else -1 for word in words.values()]
        self._run("CREATE TABLE shown AS SELECT unnest(?::BIGINT[]) AS id, unnest(?) AS sign", [list(words), signs])
        most = max(self._options.examples, 1)
        for _ in self._observed(list(words)):
            for statement in queries.examples("seen JOIN shown USING (id)", most, _SAMPLE):
                self._run(statement)
        samples: dict[int, list[tuple[float, bool | None]]] = {}
        cells = list(self._counts.cells)
        for key, effect, cell in self._run(queries.drawn(_SAMPLE)).fetchall():
            samples.setdefault(key, []).append((effect, self._counts.wrong(cells[cell])))
        texts: dict[tuple[int, bool], list[Example]] = {}
        for key, usual, number, effect, place, cell, *row in self._run(
            queries.example_texts(self._parts.source(), most)
        ).fetchall():
            about = cells[cell]
            before, word, after = snippet(words[key].name, place, *row[1:])
            example = Example(
                number, row[0], effect, about.label, label_of(about.gold, self._counts.labels), before, word, after
            )
            texts.setdefault((key, usual), []).append(example)
        return {
            key: replace(
                word,
                name=written(word.name, (texts.get((key, True)) or texts[key, False])[0][5:], self._options.case),
                usual=tuple(texts.get((key, True), ())[: self._options.examples]),
                unusual=tuple(texts.get((key, False), ())[: self._options.examples]),
                sample=tuple(samples[key]),
            )
            for key, word in words.items()
        }


def written(key: str, parts: tuple[str | None, str, str | None], case: bool) -> str:
    """Return the name of a key: a phrase as it is written in a text, of which `parts` is a snippet."""
    if kind_of(key) == "phrase" and parts[0] is not None and (name := " ".join(parts[1].split())):
        return name if case else name.lower()
    return key.removeprefix(queries.PIECE).replace(queries.BETWEEN, " ")


def _word(key: int, selection: Selection, groups: Mapping[str, Mapping[str, Effect]]) -> WordEffect:
    """Return a word with its effects; its name is the key."""
    sums = {name: float(column[key]) for name, column in selection.totals.sums.items()}
    return WordEffect(
        name=selection.keys[key],
        kind=kind_of(selection.keys[key]),
        effect=effect_of(sums["n"], sums["s1"], sums["s2"]),
        occurrences=int(sums["times"]),
        strongest=sums["top"] / sums["n"],
        against=int(sums["negative"] if sums["s1"] >= 0 else sums["positive"]),
        groups=groups,
    )


def snippet(
    key: str, place: int, text: str | None, starts: Sequence[int], ends: Sequence[int], word_of: Sequence[int]
) -> tuple[str | None, str, str | None]:
    """Return some text before an occurrence of a key, the occurrence, and some text after it."""
    if text is None:
        return None, key.removeprefix(queries.PIECE).replace(queries.BETWEEN, " "), None
    last = place + key.count(queries.BETWEEN)
    units = [place] if kind_of(key) == "piece" else [i for i, word in enumerate(word_of) if place <= word <= last]
    start, end = starts[units[0]], max(ends[i] for i in units)
    low, high = max(0, start - _AROUND), min(len(text), end + _AROUND)
    return ("…" if low else "") + text[low:start], text[start:end], text[end:high] + ("…" if high < len(text) else "")


def _reasons(shortcut: Shortcut, texts: int) -> tuple[str, ...]:
    effect = shortcut.word.effect
    reasons = [f"in {effect.texts:,} of {texts:,} {plural(texts, 'text')}"]
    if shortcut.unsupported is not None and shortcut.unsupported >= _WORTH:
        reasons.append(f"effect {effect.mean or 0.0:+.2f}, labels say {shortcut.support or 0.0:+.2f}")
    if shortcut.concentration is not None and shortcut.concentration >= _WORTH:
        part = shortcut.word.groups["slice"][shortcut.slice or ""]
        reasons.append(f"{part.texts / effect.texts:.0%} of its texts in {shortcut.slice}")
    return tuple(reasons)
