"""What the rows of a corpus are: how many by status, target, label and slice; and effects in parts of it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from slalom.core.checks import Floats
from slalom.corpus import queries
from slalom.corpus.effects import Effect, effect_of
from slalom.corpus.engine import Parts
from slalom.corpus.table import EXPLAINED
from slalom.errors import InputError, count, did_you_mean

_SLICES = 8  # the others are taken together
_OTHERS = "(others)"


class Cell(NamedTuple):
    """A predicted label, a true label and a slice; None where there is none."""

    label: str | None
    gold: str | None
    slice: str | None


@final
@dataclass(frozen=True)
class Counts:
    """What the rows of a corpus are.

    Attributes:
        target: The class that is summarised.
        labels: Labels of the model.
        gold: Column of the true labels.
        slices: Column of the slices.
        statuses, targets: Number of rows by status, and of explained ones by target.
        cells: Number of rows that are summarised, by cell.
        poor: Poorly explained rows with the target, by cell.
        rows, units: Number of all rows and of all units.
        include_poor: Whether poorly explained rows are summarised.
    """

    target: str
    labels: tuple[str, ...]
    gold: str | None
    slices: str | None
    statuses: Mapping[str, int]
    targets: Mapping[str, int]
    cells: Mapping[Cell, int]
    poor: Mapping[Cell, int]
    rows: int
    units: int
    include_poor: bool

    @classmethod
    def of(
        cls, table: Any, parts: Parts, gold: str | None, slices: str | None, target: str | None, include_poor: bool
    ) -> "Counts":
        """Count the rows of a corpus, and make the table `cells`."""
        statuses, targets, units = Counter[str](), Counter[str](), 0
        cells, poor = dict[str, Counter[Cell]](), dict[str, Counter[Cell]]()
        found = parts.connection.execute(queries.facts(parts.source(), gold, slices)).fetchall() if len(parts) else []
        for status, name, *cell, bad, n, n_units in found:
            statuses[status] += n
            units += n_units
            if status == EXPLAINED:
                targets[name] += n if include_poor or not bad else 0
                cells.setdefault(name, Counter())[Cell(*cell)] += n if include_poor or not bad else 0
                poor.setdefault(name, Counter())[Cell(*cell)] += n if bad else 0
        targets = +targets
        if not targets and poor:
            raise InputError(
                f"{table.folder!r} must have at least one text that is not poorly explained (a held-out R2 near the text of"
                f" {queries.POOR_R2:g} or more); all {sum(map(Counter.total, poor.values()))} are; explain with more queries,"
                " or add --include-poor (include_poor=True)"
            )
        if not targets:
            raise InputError(
                f"{table.folder!r} must have at least one explained text; it has {count(statuses.total(), 'row')},"
                " none explained"
            )
        chosen = targets.most_common(1)[0][0] if target is None else target
        if chosen not in targets:
            listed = ", ".join(map(repr, targets))
            raise InputError(
                f"target must be one of {listed}, which texts explain; got {target!r}{did_you_mean(target, targets)}"
            )
        golds = [cell.gold for cell in cells[chosen]]
        if odd := sorted({g for g in golds if g is not None and label_of(g, table.labels) is None}):
            raise InputError(
                f"the column {gold!r} must hold labels of the model ({', '.join(table.labels)}) or their indices;"
                f" got {odd[0]!r}"
            )
        rows = statuses.total()
        of_target = +cells[chosen], +poor[chosen]
        made = cls(chosen, table.labels, gold, slices, statuses, targets, *of_target, rows, units, include_poor)
        parts.connection.execute("CREATE TABLE cells(cell INTEGER, target VARCHAR, label VARCHAR, gold VARCHAR, slice VARCHAR)")
        for number, cell in enumerate(made.cells):
            parts.connection.execute("INSERT INTO cells VALUES (?, ?, ?, ?, ?)", [number, chosen, *cell])
        return made

    @property
    def texts(self) -> int:
        """Texts that are summarised."""
        return sum(self.cells.values())

    @property
    def accuracy(self) -> float | None:
        """Share of correct predictions among texts with a true label, however well they are explained."""
        every = Counter(self.cells) if self.include_poor else Counter(self.cells) + Counter(self.poor)
        right = sum(n for cell, n in every.items() if self.wrong(cell) is False)
        known = sum(n for cell, n in every.items() if cell.gold is not None)
        return right / known if known else None

    def wrong(self, cell: Cell) -> bool | None:
        """Return whether the prediction is wrong; None without a true label."""
        return None if cell.gold is None else label_of(cell.gold, self.labels) != cell.label

    @property
    def groupings(self) -> dict[str, tuple[str, ...]]:
        """Names of the parts of the corpus, by grouping."""
        found: dict[str, tuple[str, ...]] = {}
        if self.gold is not None:
            found = {"prediction": ("correct", "wrong"), "gold": self.labels}
        found["predicted"] = self.labels
        if self.slices is not None:
            sizes = Counter[str]()
            for cell, n in self.cells.items():
                sizes[cell.slice or ""] += n if cell.slice is not None else 0
            names = [name for name, _ in (+sizes).most_common(_SLICES)]
            found["slice"] = (*names, _OTHERS) if len(+sizes) > _SLICES else tuple(names)
        return found

    def part_of(self, cell: Cell, grouping: str) -> str | None:
        """Return the part of the corpus that a cell is in; None where it is in none."""
        if grouping == "prediction":
            wrong = self.wrong(cell)
            return None if wrong is None else ("correct", "wrong")[wrong]
        if grouping == "slice":
            return cell.slice if cell.slice is None or cell.slice in self.groupings["slice"] else _OTHERS
        return cell.label if grouping == "predicted" else label_of(cell.gold, self.labels)

    def sizes(self) -> dict[str, dict[str, int]]:
        """Return the number of texts of each part."""
        sizes = {grouping: dict.fromkeys(names, 0) for grouping, names in self.groupings.items()}
        for grouping, parts in sizes.items():
            for cell, n in self.cells.items():
                if (name := self.part_of(cell, grouping)) in parts:
                    parts[name] += n
        return sizes


@final
class Groups:
    """The effects of some keys in parts of the corpus.

    Args:
        counts: The parts.
        ids: Ids of the keys, in ascending order.
        connection: Has the sums of keys by cell, in the table `sums`, and the ids in `selected`.
    """

    def __init__(self, counts: Counts, ids: Any, connection: Any) -> None:
        query = "SELECT id, cell, n, s1, s2 FROM sums SEMI JOIN selected USING (id)"
        found = connection.execute(query).fetchnumpy()
        index, self._groupings = np.searchsorted(ids, found["id"]), counts.groupings
        self._sums: dict[str, Floats] = {}
        for grouping, names in self._groupings.items():
            where = {name: i for i, name in enumerate(names)}
            code = np.array([where.get(counts.part_of(cell, grouping) or "", -1) for cell in counts.cells])[found["cell"]]
            sums = np.zeros((3, len(ids), len(names)))
            for row, name in enumerate(("n", "s1", "s2")):
                np.add.at(sums[row], (index[code >= 0], code[code >= 0]), np.asarray(found[name], dtype=float)[code >= 0])
            self._sums[grouping] = sums

    def texts(self, grouping: str) -> Floats:
        """Return the texts of each key by part (k, parts)."""
        return np.asarray(self._sums[grouping][0])

    def effects(self, i: int) -> dict[str, dict[str, Effect]]:
        """Return the effect of the i-th key in all parts of the corpus."""
        return {
            grouping: {name: effect_of(*self._sums[grouping][:, i, part]) for part, name in enumerate(names)}
            for grouping, names in self._groupings.items()
        }


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
