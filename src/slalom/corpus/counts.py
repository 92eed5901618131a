"""What the rows of a corpus are: how many by status, target, label and slice; and effects in parts of it."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats
from slalom.corpus import queries
from slalom.corpus.queries import Parts
from slalom.corpus.results import Effect, effect_of
from slalom.corpus.table import EXPLAINED, GIVEN
from slalom.errors import InputError, count, did_you_mean

_SLICES = 8  # the others are taken together
_OTHERS = "(others)"


class Cell(NamedTuple):
    """A predicted label, a true label and a slice; None where there is none."""

    label: str | None
    gold: str | None
    slice: str | None

    @property
    def is_wrong(self) -> bool | None:
        """Whether the prediction is wrong; None without a true label."""
        return None if self.gold is None else self.gold != self.label


@final
class Counts:
    """What the rows of a corpus are.

    Makes two tables: `cells` has the rows that are summarised by label, true label and slice, and `groups` the parts of the
    corpus (by grouping) that each cell is in. The arguments are those of `summary`.

    Attributes:
        targets: Number of explained rows by class.
        cells: Number of rows that are summarised, by cell.
        texts, poor, rows, units: Number of texts that are summarised, of poorly explained ones, of all rows and of all units.
        accuracy: Share of correct predictions among texts with a true label, however well they are explained.
        sizes: Number of texts in each part of the corpus, by grouping.
    """

    def __init__(
        self, corpus: Any, parts: Parts, gold: str | None, slices: str | None, target: str | None, include_poor: bool
    ) -> None:
        self._run, self.labels, self.slices = parts.connection.execute, corpus.labels, slices
        self.truth = queries.truth(corpus.labels, gold)  # as SQL
        rows = self._run(queries.facts(parts.source(), self.truth, slices)).fetchall() if len(parts) else []
        explained = [(name, Cell(*cell), bad, n) for status, name, *cell, bad, n, _ in rows if status == EXPLAINED]
        self.rows, self.units = sum(row[-2] for row in rows), sum(row[-1] for row in rows)
        self.targets = Counter[str]()
        for name, _, bad, n in explained:
            self.targets[name] += n if include_poor or not bad else 0
        self.targets = +self.targets
        self.target = self._chosen(target, corpus.folder, sum(n for *_, n in explained))
        every, self.cells, self.poor = Counter[Cell](), Counter[Cell](), 0
        for name, cell, bad, n in explained:
            if name == self.target:
                every[cell] += n
                self.poor += n if bad else 0
                self.cells[cell] += n if include_poor or not bad else 0
        self.cells = +self.cells
        if gold is not None:
            column = queries.identifier(GIVEN + gold)
            query = f"SELECT min({column}) FROM {parts.source()} WHERE target = ? AND {self.truth} IS NULL"
            if (odd := self._run(query, [self.target]).fetchone()[0]) is not None:
                labels = ", ".join(self.labels)
                raise InputError(f"the column {gold!r} must hold labels of the model ({labels}) or their indices; got {odd!r}")
        self.texts = self.cells.total()
        known = sum(n for cell, n in every.items() if cell.gold is not None)
        self.accuracy = sum(n for cell, n in every.items() if cell.is_wrong is False) / known if known else None
        self.sizes = self._grouped(gold is not None)

    def _chosen(self, target: str | None, folder: str, explained: int) -> str:
        if not self.targets and explained:
            raise InputError(
                f"{folder!r} must have at least one text that is not poorly explained (a held-out R2 near the text of"
                f" {queries.POOR_R2:g} or more); all {explained} are; explain with more queries, or add --include-poor"
                " (include_poor=True)"
            )
        if not self.targets:
            raise InputError(
                f"{folder!r} must have at least one explained text; it has {count(self.rows, 'row')}, none explained"
            )
        if target is not None and target not in self.targets:
            listed = ", ".join(map(repr, self.targets))
            raise InputError(
                f"target must be one of {listed}, which texts explain; got {target!r}{did_you_mean(target, self.targets)}"
            )
        return self.targets.most_common(1)[0][0] if target is None else target

    def _grouped(self, has_gold: bool) -> dict[str, dict[str, int]]:
        """Make the tables `cells` and `groups`; return the number of texts of each part of the corpus."""
        sizes: dict[str, dict[str, int]] = {}
        if has_gold:
            sizes = {"prediction": {"correct": 0, "wrong": 0}, "gold": dict.fromkeys(self.labels, 0)}
        sizes["predicted"] = dict.fromkeys(self.labels, 0)
        largest = list[str]()
        if self.slices is not None:
            slices = Counter[str]()
            for cell, n in self.cells.items():
                slices[cell.slice or ""] += n if cell.slice is not None else 0
            largest = [name for name, _ in (+slices).most_common(_SLICES)]
            sizes["slice"] = dict.fromkeys([*largest, _OTHERS] if len(+slices) > _SLICES else largest, 0)
        self._run("CREATE TABLE cells(cell INTEGER, target VARCHAR, label VARCHAR, gold VARCHAR, slice VARCHAR)")
        self._run("CREATE TABLE groups(cell INTEGER, grouping VARCHAR, part VARCHAR)")
        for number, (cell, n) in enumerate(self.cells.items()):
            self._run("INSERT INTO cells VALUES (?, ?, ?, ?, ?)", [number, self.target, *cell])
            parts = {
                "prediction": None if cell.is_wrong is None else ("correct", "wrong")[cell.is_wrong],
                "gold": cell.gold,
                "predicted": cell.label,
                "slice": cell.slice if cell.slice is None or cell.slice in largest else _OTHERS,
            }
            for grouping, part in parts.items():
                if part is not None and part in sizes.get(grouping, ()):
                    sizes[grouping][part] += n
                    self._run("INSERT INTO groups VALUES (?, ?, ?)", [number, grouping, part])
        return sizes

    def texts_by_part(self, ids: NDArray[np.int64], grouping: str) -> Floats:
        """Return the texts of keys, whose ids ascend, by part of the corpus (k, parts)."""
        query = (
            "SELECT id, part, sum(n)::BIGINT FROM sums JOIN groups USING (cell) SEMI JOIN selected USING (id)"
            " WHERE grouping = ? GROUP BY ALL"
        )
        places = {part: i for i, part in enumerate(self.sizes[grouping])}
        texts = np.zeros((len(ids), len(places)))
        for key, part, n in self._run(query, [grouping]).fetchall():
            texts[np.searchsorted(ids, key), places[part]] = n
        return texts

    def effects(self, ids: Iterable[int]) -> dict[int, dict[str, dict[str, Effect]]]:
        """Return the effects of keys in all parts of the corpus."""
        none = Effect(0)
        effects = {key: {grouping: dict.fromkeys(parts, none) for grouping, parts in self.sizes.items()} for key in ids}
        query = (
            "SELECT id, grouping, part, sum(n), sum(s1), sum(s2) FROM sums JOIN groups USING (cell)"
            " WHERE id IN (SELECT unnest(?::BIGINT[])) GROUP BY ALL"
        )
        for key, grouping, part, *sums in self._run(query, [list(effects)]).fetchall():
            effects[key][grouping][part] = effect_of(*sums)
        return effects
