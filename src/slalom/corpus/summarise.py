"""`summary`: passes over the table of a corpus, with memory that does not grow with the number of texts.

1. Counts: statuses, targets, labels, slices.
2. A sketch of how often each key occurs (large corpora only), so that rare keys take no memory.
3. Sums over texts of every key that is frequent enough: exact for all that occur in at least `min_texts` texts.
4. For the 20,000 with the largest reliance: names, and sums in parts of the corpus.
5. For what is shown: examples, and a sample of effects.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, final

import numpy as np

from slalom.core.checks import Floats, whole_number
from slalom.corpus.candidates import Candidates, Pooled
from slalom.corpus.counts import QUALITY, Counts, poorly_explained
from slalom.corpus.details import Details
from slalom.corpus.moments import Moments, Sketch
from slalom.corpus.opening import Corpus
from slalom.corpus.opening import open as open_corpus
from slalom.corpus.rivals import Rivals
from slalom.corpus.summarised import CorpusSummary, WordEffect
from slalom.corpus.table import EXPLAINED, GIVEN
from slalom.corpus.together import columns_of
from slalom.corpus.words import LONGEST, Chunk, Keys, Reader, observations
from slalom.errors import InputError

Sort: TypeAlias = Literal["effect", "total", "texts"]
SORTS: tuple[Sort, ...] = ("effect", "total", "texts")

_COLUMNS = ("number", "id", "status", "text", "label", "target", "n_units", "units", "starts", "ends", "removal")
_SKETCHED = 2_000_000  # units from which a sketch pays
_CANDIDATES = 1_500_000  # keys that are summed up
_UNITS_ABOVE = ("word", "sentence")  # kinds of units that are not merged into words


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
    include_poor: bool = False,
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
        sort: Order within a kind: "effect" (the end of the listed interval near zero), "total" (texts times mean), "texts".
        top: How many words, phrases and pieces are listed, each.
        case: Whether "Good" and "good" are two words.
        examples: Texts shown for each word and each direction.
        include_poor: Whether to include poorly explained texts: those whose explanation predicts held-out queries near the text
            worse than their mean does (R2 below 0, and an error above 0.05). Default: they are only counted.

    Raises:
        InputError: There is no explained text, no such column, target or label, or a part is damaged.
    """
    table = open_corpus(corpus) if isinstance(corpus, str | Path) else corpus
    if sort not in SORTS:
        raise InputError(f"sort must be one of {', '.join(map(repr, SORTS))}; got {sort!r}")
    if phrases > 5:
        raise InputError(f"phrases must be from 1 to 5 words; got {phrases}")
    counts = Counts.of(table, gold, slices, target, include_poor)
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
    candidates = Candidates(pooled, selected, details, reader)
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
        "poor": sum(counts.poor.values()),
        "include_poor": include_poor,
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
        columns = [*_COLUMNS, *QUALITY, *columns_of(self.table.columns), *dict.fromkeys(given)]
        return self.reader.chunks(explained(self.table.batches(columns), self.counts), ranked)

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


def explained(batches: Iterable[Any], counts: Counts) -> Iterator[Any]:
    """Yield the explained rows with the target, without those that are poorly explained unless they are to be included."""
    import pyarrow.compute as pc  # noqa: PLC0415

    for batch in batches:
        mask = pc.and_(
            pc.equal(batch.column("status"), EXPLAINED), pc.fill_null(pc.equal(batch.column("target"), counts.target), False)
        )
        rows = batch.filter(mask if counts.include_poor else pc.and_not(mask, poorly_explained(batch)))
        if rows.num_rows:
            yield rows
