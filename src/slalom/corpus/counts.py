"""What the rows of a corpus are: how many by status, target, label and slice."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from slalom.corpus.opening import Corpus
from slalom.corpus.table import EXPLAINED, GIVEN
from slalom.corpus.words import Index
from slalom.errors import InputError, count, did_you_mean
from slalom.result.fidelity import NEGLIGIBLE

POOR_R2 = 0.0  # a held-out R2 near the text below which a text is poorly explained: the mean answer predicts better
QUALITY = ("near_r2", "near_mse")  # columns that tell how well a text is explained
_SLICES = 8  # the others are taken together
_OTHERS = "(others)"


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
        include_poor: Whether poorly explained rows are among them.
        poor: Poorly explained rows with the target by (label, gold, slice).
    """

    target: str
    labels: tuple[str, ...]
    gold: str | None
    slices: str | None
    statuses: Mapping[str, int]
    targets: Mapping[str, int]
    cells: Mapping[tuple[str | None, str | None, str | None], int]
    units: int
    include_poor: bool
    poor: Mapping[tuple[str | None, str | None, str | None], int]

    @classmethod
    def of(cls, table: Corpus, gold: str | None, slices: str | None, target: str | None, include_poor: bool = True) -> "Counts":
        """Count the rows of a corpus."""
        given = [GIVEN + name for name in (gold, slices) if name is not None]
        columns = ["status", "target", "label", "n_units", *dict.fromkeys(given)]
        statuses: Counter[str] = Counter()
        cells: Counter[tuple[Any, ...]] = Counter()
        poor: Counter[tuple[Any, ...]] = Counter()
        units: Counter[str | None] = Counter()
        for batch in table.batches([*columns, *QUALITY]):
            rows = {name: batch.column(name).to_pylist() for name in columns}
            empty = [None] * len(rows["status"])
            golds, parts = (rows[GIVEN + name] if name is not None else empty for name in (gold, slices))
            statuses.update(rows["status"])
            every = zip(rows["target"], rows["label"], golds, parts, strict=True)
            for cell, status, bad in zip(every, rows["status"], poorly_explained(batch).to_pylist(), strict=True):
                if status == EXPLAINED:
                    poor[cell] += bad
                    cells[cell] += include_poor or not bad
            for name, n in zip(rows["target"], rows["n_units"], strict=True):
                units[name] += n or 0
        targets: Counter[str] = Counter()
        for (name, *_), n in cells.items():
            targets[name] += n
        targets = +targets
        if not targets and any(poor.values()):
            raise InputError(
                f"{table.folder!r} must have at least one text that is not poorly explained (a held-out R2 near the text of"
                f" {POOR_R2:g} or more); all {sum(poor.values())} are; explain with more queries, or add --include-poor"
                " (include_poor=True)"
            )
        if not targets:
            raise InputError(
                f"{table.folder!r} must have at least one explained text; it has {count(sum(statuses.values()), 'row')},"
                " none explained"
            )
        chosen = targets.most_common(1)[0][0] if target is None else target
        if chosen not in targets:
            listed = ", ".join(map(repr, targets))
            raise InputError(
                f"target must be one of {listed}, which texts explain; got {target!r}{did_you_mean(target, targets)}"
            )
        of_target, bad_ones = (
            {cell[1:]: n for cell, n in counted.items() if n and cell[0] == chosen} for counted in (cells, poor)
        )
        made = cls(
            chosen, table.labels, gold, slices, statuses, targets, of_target, units[chosen], include_poor, bad_ones
        )  # fmt: skip
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
        """Share of correct predictions among texts with a true label, however well they are explained."""
        every = Counter(self.cells) if self.include_poor else Counter(self.cells) + Counter(self.poor)
        known = {cell: n for cell, n in every.items() if cell[1] is not None}
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


def poorly_explained(rows: Any) -> Any:
    """Return which rows of a record batch are poorly explained, as a pyarrow array.

    These have a held-out R2 near the text below `POOR_R2`, and an error that matters; texts that were not tested do not.
    """
    import pyarrow.compute as pc  # noqa: PLC0415

    r2, error = (rows.column(name) for name in QUALITY)
    return pc.fill_null(pc.and_(pc.less(r2, POOR_R2), pc.greater(error, NEGLIGIBLE**2)), False)


def label_of(gold: str | None, labels: Sequence[str]) -> str | None:
    """Return the model's label of a true label, which may be its index; None where it is neither.

    Example:
        >>> label_of("1", ["neg", "pos"]), label_of("neg", ["neg", "pos"]), label_of("odd", ["neg", "pos"])
        ('pos', 'neg', None)
    """
    if gold is None or gold in labels:
        return gold
    number = gold.removesuffix(".0")
    return labels[int(number)] if number.isascii() and number.isdecimal() and int(number) < len(labels) else None
