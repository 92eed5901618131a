"""What adjacent units of a text do together: the decrease of the predicted score when all of them are removed at once.

The columns of the table determine the surrogate of each text (`slalom.core.two_scale`), so that nothing is estimated here. With
w_i = exp(s_i), background included in the sums over all units, t_i the unit's share of the tokens and G the units removed,

    change(G) = link(S) - link(S without G)              S = sum w v / sum w
              + r0 - (1 - t_G)^p (r0 + d_G)              the correction next to the text; d_G the sum of d over G
              + b(L) - b(L - |G|)                        the effect of the length in tokens
              - sum of h_g(tokens of G before knot g)    the effect of the places of what follows
              + sum of g_ij over the pairs that lose a unit

`removal` is the same for one unit, and gives d_i. A unit alone keeps its `removal`. Of an additive surrogate without an effect
of the length the change is the sum of the removals, exactly; so it is of a row that does not say what its surrogate is, as in
tables of older versions. Effects of the length are known up to 24 tokens; for more, that of 24 is taken.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.additive import Additive
from slalom.core.checks import Floats
from slalom.corpus.table import LENGTHS

Index = NDArray[np.int64]

COLUMNS = (
    "sizes", "values", "importances", "background_value", "background_importance", "surrogate", "link_middle", "link_reach",
    "near_offset", "near_power", "length_effects", "pair_units", "pair_effects",
)  # fmt: skip
SHIFTS = ("shift_places", "shift_effects")


def columns_of(names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that are needed, of those that a table has; none where it is of an older version.

    Example:
        >>> columns_of(["id", "removal"])
        ()
    """
    if not set(COLUMNS) <= set(names):
        return ()
    return COLUMNS + SHIFTS if set(SHIFTS) <= set(names) else COLUMNS


@final
@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over the units of groups, in parallel arrays; those of adjacent groups add up.

    Attributes:
        row: Text of each group.
        start: Tokens of the text before it.
        first, last: The first knot after its start, and after its last token.
        units: Number of units.
        weight, weighted: Sums of w and of w v.
        change: Sum of d.
        tokens: Sum of the sizes.
        paired: Sum of the effects of the pairs of its units; a pair within the group counts twice.
        single: Sum of `removal`.
    """

    row: Index
    start: Index
    first: Index
    last: Index
    units: Index
    weight: Floats
    weighted: Floats
    change: Floats
    tokens: Index
    paired: Floats
    single: Floats

    def followed_by(self, other: "Sums", n: int) -> "Sums":
        """Return the sums of the first n groups, each joined with one of the first n of another."""
        mine, theirs = vars(self), vars(other)
        added = (mine[name][:n] + theirs[name][:n] for name in list(mine)[4:])
        return Sums(self.row[:n], self.start[:n], self.first[:n], other.last[:n], *added)

    def __getitem__(self, chosen: Any) -> "Sums":
        return Sums(*(numbers[chosen] for numbers in vars(self).values()))


@final
class Together:
    """The surrogates of the texts of a chunk.

    Args:
        rows: A record batch with `COLUMNS` and `removal`; without `COLUMNS` removals are summed.
        row: Text of each unit, in order (n,).
        removal: Effect of each unit (n,).
    """

    def __init__(self, rows: Any, row: Index, removal: Floats) -> None:
        self._row, self._removal, self._n = row, removal, rows.num_rows
        self._slalom = self._joint = np.zeros(rows.num_rows, dtype=bool)
        if columns_of(rows.schema.names):
            kinds = rows.column("surrogate").to_pylist()
            self._slalom = np.array([kind not in (None, Additive.kind) for kind in kinds], dtype=bool)
            self._joint = self._slalom | np.asarray(rows.column("length_effects").is_valid().to_numpy(zero_copy_only=False))
        self.additive = not self._joint.any()
        if not self.additive:
            self._read(rows)

    def _read(self, rows: Any) -> None:
        row, single = self._row, self._removal
        known = self._slalom[row]
        s, v = (_units(rows, name, len(row)) for name in ("importances", "values"))
        v0, s0 = _column(rows, "background_value", 0.0), _column(rows, "background_importance", -np.inf)
        top = s0.copy()
        np.maximum.at(top, row[known], s[known])
        top[~np.isfinite(top)] = 0.0
        weight = np.where(known, np.exp(s - top[row]), 0.0)
        w0 = np.exp(s0 - top)
        self._weight = np.bincount(row, weight, self._n) + w0
        self._weighted = np.bincount(row, weight * v, self._n) + w0 * v0
        self._middle, self._reach = _column(rows, "link_middle", 0.0), _column(rows, "link_reach", np.inf)
        self._offset, self._power = _column(rows, "near_offset", 0.0), _column(rows, "near_power", 0.0)
        size = _units(rows, "sizes", len(row)).astype(np.int64)
        self._tokens = np.maximum(np.bincount(row, size, self._n), 1.0)
        self._lengths = _lengths(rows, self._n)
        self._read_pairs(rows, row)
        self._shifts = _Shifts.of(rows, self._n)
        start, first, last = self._shifts.located(row, size)
        paired = np.zeros(len(row))
        np.add.at(paired, self._first, self._effects)
        np.add.at(paired, self._second, self._effects)
        np.add.at(paired, self._first[self._alike], -self._effects[self._alike])
        ones = np.ones(len(row), dtype=np.int64)
        self._units = Sums(row, start, first, last, ones, weight, weight * v, np.zeros(len(row)), size, paired, single)
        # what the other parts leave of `removal` is the correction's own, r0 - (1 - t)^p (r0 + d)
        fade, offset = self._fade(self._units), self._offset[row]
        near = single - self._evidence(self._units) - self._length(self._units) - paired - self._shifts.change(self._units)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            change = np.where(fade > 0.0, (offset - near) / fade - offset, 0.0)
        self._units = replace(self._units, change=np.where(self._joint[row], change, 0.0))

    def _read_pairs(self, rows: Any, row: Index) -> None:
        """Find the units of the pairs, counted over all texts."""
        column = rows.column("pair_effects")
        of_row = np.repeat(np.arange(self._n), column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(int))
        effects = np.asarray(column.flatten().to_numpy(zero_copy_only=False), dtype=np.float64)
        units = np.asarray(rows.column("pair_units").flatten().to_numpy(zero_copy_only=False), dtype=np.int64).reshape(-1, 2)
        begins = np.searchsorted(row, of_row)
        self._first, self._second = np.sort(units + begins[:, None], axis=1).T
        self._effects, self._alike = effects, self._first == self._second

    def groups(self, group: Index, first: Index) -> Sums:
        """Return the sums over groups of adjacent units."""
        units = self._units
        if len(first) == len(group):
            return units
        added = [np.add.reduceat(numbers, first) if len(first) else numbers for numbers in list(vars(units).values())[4:]]
        ends = np.append(first[1:], len(group)) - 1 if len(first) else first
        return Sums(units.row[first], units.start[first], units.first[first], units.last[ends], *added)

    def twice(self, group: Index, length: int, n: int) -> Floats | float:
        """Return the effects of pairs that lie within each run of `length` groups, from each of n groups on."""
        different = ~self._alike
        if not different.any():
            return 0.0
        earlier, later, effects = group[self._first[different]], group[self._second[different]], self._effects[different]
        found = np.zeros(n)
        for before in range(length):  # groups of the run before the later unit's
            start = later - before
            fits = (start >= 0) & (start <= earlier) & (start < n)
            np.add.at(found, start[fits], effects[fits])
        return found

    def change(self, sums: Sums, twice: Floats | float = 0.0) -> Floats:
        """Return the decrease of the predicted score without the units of each group."""
        row = sums.row
        offset = self._offset[row]
        near = offset - self._fade(sums) * (offset + sums.change)
        whole = self._evidence(sums) + near + self._length(sums) + sums.paired - twice + self._shifts.change(sums)
        return np.where(self._joint[row] & (sums.units > 1), whole, sums.single)

    def _evidence(self, sums: Sums) -> Floats:
        """Return link(S) - link(S without the group); without anything left, the evidence is 0."""
        row = sums.row
        total, weighted = self._weight[row], self._weighted[row]
        rest = total - sums.weight
        some = rest > 1e-13 * total
        before = weighted / np.where(total > 0.0, total, 1.0)
        after = np.where(some, (weighted - sums.weighted) / np.where(some, rest, 1.0), 0.0)
        change = before - after
        linked = np.flatnonzero(np.isfinite(self._reach[row]))
        if len(linked):
            m, a = self._middle[row[linked]], self._reach[row[linked]]
            change[linked] = a * (np.tanh((before[linked] - m) / a) - np.tanh((after[linked] - m) / a))
        return np.asarray(change)

    def _fade(self, sums: Sums) -> Floats:
        """Return (1 - t_G)^p."""
        kept = np.clip(1.0 - sums.tokens / self._tokens[sums.row], 0.0, 1.0)
        return np.asarray(kept ** self._power[sums.row])

    def _length(self, sums: Sums) -> Floats | float:
        """Return b(L) - b(L - |G|)."""
        return 0.0 if self._lengths is None else self._lengths[sums.row, np.minimum(sums.tokens, LENGTHS)]


@final
@dataclass(frozen=True, eq=False)
class _Shifts:
    """The effect of places, of all texts.

    Attributes:
        begins: Number of the first knot of each text; one more for the end (n + 1,).
        places: Tokens of the text before each knot, of all texts.
        effects: -h of each knot without 0, 1, ... tokens, and 0 for more than it knows, (knots, R + 2).
        later: The sum of it over the knot and all later ones of the text; a last row is 0.
    """

    begins: Index
    places: Index
    effects: Floats
    later: Floats

    @classmethod
    def of(cls, rows: Any, n: int) -> "_Shifts":
        """Read those of a record batch of n texts."""
        if not set(SHIFTS) <= set(rows.schema.names):
            return cls(np.zeros(n + 1, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros((0, 2)), np.zeros((1, 2)))
        knots, entries = (
            np.asarray(rows.column(name).value_lengths().fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)
            for name in SHIFTS
        )
        places, flat = (np.asarray(rows.column(name).flatten().to_numpy(zero_copy_only=False)) for name in SHIFTS)
        width = np.repeat(entries // np.maximum(knots, 1), knots)
        effects = np.zeros((len(places), int(width.max(initial=0)) + 2))
        knot = np.repeat(np.arange(len(places)), width)
        effects[knot, np.arange(len(flat)) - np.repeat(np.cumsum(width) - width, width) + 1] = flat
        begins = np.concatenate([[0], np.cumsum(knots)])
        total = np.concatenate([np.zeros((1, effects.shape[1])), np.cumsum(effects, axis=0)])
        later = np.repeat(total[begins[1:]], knots, axis=0) - total[:-1]
        return cls(begins, places.astype(np.int64), effects, np.concatenate([later, np.zeros((1, effects.shape[1]))]))

    def located(self, row: Index, size: Index) -> tuple[Index, Index, Index]:
        """Return for each unit the tokens before it, the first knot after its start, and after its end."""
        before = np.cumsum(size) - size
        start = before - before[np.searchsorted(row, row)]
        if not len(self.places):
            return start, np.zeros_like(start), np.zeros_like(start)
        span = int(max(self.places.max(), (start + size).max())) + 2
        key = np.repeat(np.arange(len(self.begins) - 1), np.diff(self.begins)) * span + self.places
        first = np.searchsorted(key, row * span + start, side="right")
        return start, first, np.searchsorted(key, row * span + start + size, side="left")

    def change(self, sums: Sums) -> Floats | float:
        """Return minus the sum of h over the knots after each group, and over those within it."""
        if not len(self.places):
            return 0.0
        ends, none = self.begins[sums.row + 1], self.effects.shape[1] - 1
        last = np.minimum(sums.last, ends)  # of a run that ends in another text, too
        change = np.where(last < ends, self.later[last, np.minimum(sums.tokens, none)], 0.0)
        inside = np.flatnonzero(sums.first < last)
        knot = sums.first[inside]
        while len(inside):
            change[inside] += self.effects[knot, np.minimum(self.places[knot] - sums.start[inside], none)]
            knot = knot + 1
            more = knot < last[inside]
            inside, knot = inside[more], knot[more]
        return np.asarray(change)


def effects_by_length(rows: Any, row: Index, removal: Floats, group: Index, first: Index) -> Iterator[Floats]:
    """Yield the effects of groups of adjacent units, of runs of two groups, of three, ...: (k,), (k - 1,), ...

    A run that begins in one text and ends in another has a number that means nothing.
    """
    together, k = Together(rows, row, removal), len(first)
    if together.additive:
        alone: Floats = np.bincount(group, removal, k).astype(np.float64)
        total = alone
        for length in count(1):
            yield total
            total = total[:-1] + alone[length:]
    groups = together.groups(group, first)
    sums = groups
    for length in count(1):
        n = max(k - length + 1, 0)
        yield together.change(sums, together.twice(group, length, n))
        sums = sums.followed_by(groups[length:], max(n - 1, 0))


def _column(rows: Any, name: str, missing: float) -> Floats:
    return np.asarray(rows.column(name).fill_null(missing).to_numpy(zero_copy_only=False), dtype=np.float64)


def _units(rows: Any, name: str, n: int) -> Floats:
    """Return a list column with one number per unit; zeros where no row has it."""
    column = rows.column(name)
    flat = np.asarray(column.flatten().to_numpy(zero_copy_only=False), dtype=np.float64)
    if len(flat) == n:
        return flat
    full = np.zeros(n)  # rows without a list have no numbers: put those of the others at their units
    sizes = rows.column("n_units").to_numpy(zero_copy_only=False)
    there = np.asarray(column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)) > 0
    full[np.repeat(there, sizes)] = flat
    return full


def _lengths(rows: Any, n: int) -> Floats | None:
    """Return the effect of the length without 0, 1, ... tokens (n, LENGTHS + 1); None where it has none."""
    column = rows.column("length_effects")
    sizes = np.asarray(column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)
    if not sizes.any():
        return None
    full = np.zeros((n, LENGTHS + 1))
    row = np.repeat(np.arange(n), sizes)
    at = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
    full[row, at] = np.asarray(column.flatten().to_numpy(zero_copy_only=False), dtype=np.float64)
    last = np.maximum.accumulate(np.where(np.arange(LENGTHS + 1) <= sizes[:, None], np.arange(LENGTHS + 1), 0), axis=1)
    return np.asarray(np.take_along_axis(full, last, axis=1))
