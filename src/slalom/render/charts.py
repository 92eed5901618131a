"""What is drawn where, as plain data, for figures and pages alike.

Of one explanation: `scatter_frame`, the limits of the picture of value and importance, and `pair_bars`. Of a comparison:

profile          near error         against  units removed     one curve per method and budget
against_queries  mean of a measure  against  the budget        one curve per method
against_seconds  mean of a measure  against  mean seconds      one point per method and budget

`slalom.render.figures.compared` puts matplotlib's ink on a `Chart`, `slalom.render.page.charts` SVG's. Both are in points, with
the origin in the lower left corner of the axes.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats
from slalom.errors import InputError, count
from slalom.evaluate import MEASURES, Compared
from slalom.render.labels import Place, place
from slalom.render.palette import is_ours, method_number
from slalom.result import NORMAL_95, Explanation

LOG = ("near", "far", "queries", "tokens", "seconds")  # spread over decades, and above 0 except by chance
TEXT_SIZE, LINE_HEIGHT = 9.0, 12.0  # of the names, points
_DASHES: tuple[tuple[float, ...], ...] = ((), (5, 2), (1.2, 1.6), (6, 2, 1.2, 2))  # in line widths
_COLUMN = 16.0  # points from the axes to the column of names
_KEEP_AWAY, _STEP, _GAP = 3.5, 6.0, 1.5  # points: names from a curve, along a curve, between two things
_MARGIN = 0.06
_ROUNDING = 1e-8  # of the usual number: what is smaller is an error of rounding

_MOST = 0.5  # of the attention of the units: what the limits must hold to be followed
_NEAR = 0.75  # of the range: zero is on an axis if it is no further away

Row = tuple[str, int | str | None]  # a method and its budget, which may be "auto"
Point = tuple[float, float]
_Estimate = tuple[float, float, float | None]  # x, y, half the 95% interval of y


class ScatterFrame(NamedTuple):
    """What the picture of value (x) and importance (y) shows.

    Attributes:
        x, y: Lowest and highest number that must be inside, without margins; units outside are at the edge.
        pale: Units whose value or importance the queries do not determine (n,).
    """

    x: tuple[float, float]
    y: tuple[float, float]
    pale: NDArray[np.bool_]


def scatter_frame(e: Explanation, column: int | None = None) -> ScatterFrame:
    """Return the limits of the picture, so that values that nobody knows do not decide them.

    Values ask for room by their `known_part`. Where these limits hold less than half of the units' attention, all values are
    inside. All importances are.
    """
    values, weights = e.scores("value", column), e.weights
    low, high = x = _range(known_part(values, half_width(e, "value", column)), 1.0)
    if weights[(low <= values) & (values <= high)].sum() < _MOST * weights.sum():
        x = _range(values, 1.0)
    return ScatterFrame(x, _range(e.importances, 0.5), ~_determined(e, column))


def _determined(e: Explanation, column: int | None) -> NDArray[np.bool_]:
    """Return which units (n,) have a value and an importance that the queries determine; all where nothing is known of it."""
    known = (e.determined(name, _label(e, column)) for name in ("value", "importance"))
    return np.asarray(np.all([np.ones(len(e), dtype=bool), *(part for part in known if part is not None)], axis=0))


def half_width(e: Explanation, name: str, column: int | None = None) -> Floats | None:
    """Return half the 95% intervals of a score (n,); None where they are not known."""
    errors = e.standard_errors(name, _label(e, column))
    return None if errors is None else np.nan_to_num(NORMAL_95 * errors, nan=np.inf, posinf=np.inf)


def full_effect(e: Explanation, name: str, column: int | None = None) -> float:
    """Return the size of a score that has the full colour, `Explanation.full_effect`."""
    return e.full_effect(name, _label(e, column))


def _label(e: Explanation, column: int | None) -> str | None:
    """Return the label of a column: an index could be read as a label where labels are numbers."""
    return None if column is None else e.labels[column]


def known_part(numbers: Floats, half: Floats | None) -> Floats:
    """Return how much of each number is known: x min(1, |x| / h), all of it where the interval x +- h does not contain zero.

    >>> known_part(np.array([8.0, -20.0, 3.0]), np.array([1.0, 40.0, np.inf])).tolist()
    [8.0, -10.0, 0.0]
    """
    if half is None:
        return numbers
    share = np.divide(np.abs(numbers), half, out=np.ones_like(numbers), where=~(half <= np.abs(numbers)))
    return np.asarray(numbers * np.nan_to_num(share))


def _range(numbers: Floats, flat: float) -> tuple[float, float]:
    """Return the lowest and the highest number, and zero if it is near; `flat` is the least width of a range without one."""
    low, high = float(numbers.min()), float(numbers.max())
    near = _NEAR * ((high - low) or max(flat, 1.4 * abs(high)))
    return (min(low, 0.0), max(high, 0.0)) if low - near <= 0.0 <= high + near else (low, high)


class PairBar(NamedTuple):
    """Two units that act together.

    Attributes:
        units: Their indices.
        effect: Effect of both beyond the sum of their own effects.
        half_width: Half its 95% interval.
    """

    units: tuple[int, int]
    effect: float
    half_width: float


def pair_bars(pairs: Sequence[Any], column: int | None = None) -> list[PairBar]:
    """Return pairs of units as bars, the strongest first.

    >>> [bar.units for bar in pair_bars([((0, 1), 0.5, 0.1), ((1, 3), -2.0, 0.2)])]
    [(1, 3), (0, 1)]
    """

    def number(part: Any) -> float:
        return float(part if column is None or np.ndim(part) == 0 else part[column])

    bars = [
        PairBar((int(i), int(j)), number(effect), 0.0 if se is None else NORMAL_95 * number(se)) for (i, j), effect, se in pairs
    ]
    return sorted(bars, key=lambda pair: -abs(pair.effect))


class Curve(NamedTuple):
    """Points of one method, from left to right.

    Attributes:
        name: What it is called in the chart.
        method: The method, which decides the colour.
        strength: Share of the colour, 0 to 1: smaller budgets are paler.
        x, y: The points.
        half_widths: Half the 95% interval of each y; None where it is not known.
    """

    name: str
    method: str
    strength: float
    x: tuple[float, ...]
    y: tuple[float, ...]
    half_widths: tuple[float | None, ...]

    @property
    def ours(self) -> bool:
        """Whether the method is one of ours."""
        return is_ours(self.method)

    @property
    def line_width(self) -> float:
        """In points."""
        return 2.4 if self.ours else 1.2

    @property
    def dash(self) -> tuple[float, ...]:
        """Lengths of dashes and gaps in line widths; empty where the line is solid."""
        return () if self.ours else _DASHES[method_number(self.method) % len(_DASHES)]

    @property
    def radius(self) -> float:
        """Of its dots, in points."""
        if len(self.x) == 1:
            return 3.5 if self.ours else 2.75
        return 2.25 if self.ours else 1.6


class Chart(NamedTuple):
    """Curves in axes that may be logarithmic.

    Attributes:
        title, subtitle, x_label, y_label: What is written.
        log: Whether x and y are logarithmic.
        curves: What is drawn, ours last.
        notes: What could not be drawn.
        column: Whether names of curves that reach the right edge stand in a column there.
        bands: Whether intervals are bands along a curve instead of bars at its points.
    """

    title: str
    subtitle: str
    x_label: str
    y_label: str
    log: tuple[bool, bool]
    curves: tuple[Curve, ...] = ()
    notes: tuple[str, ...] = ()
    column: bool = False
    bands: bool = False

    def limits(self, axis: int) -> tuple[float, float]:
        """Return the ends of the axis x (0) or y (1): all points with a margin."""
        numbers = [number for curve in self.curves for number in (curve.x, curve.y)[axis]]
        low, high = min(numbers), max(numbers)
        if self.log[axis]:
            low, high = math.log10(low), math.log10(high)
        margin = _MARGIN * (high - low) or (0.3 if self.log[axis] else 0.1 * abs(high) or 1.0)
        low, high = low - margin, high + margin
        return (10**low, 10**high) if self.log[axis] else (low, high)

    def ticks(self, axis: int) -> list[tuple[float, str]]:
        """Return the numbers to mark on an axis, as numbers and as text."""
        return [(number, tick_label(number)) for number in ticks(*self.limits(axis), self.log[axis])]

    def shares(self, points: Sequence[Point]) -> Floats:
        """Return where points (k, 2) are between the ends of both axes, from 0 to 1."""
        columns = []
        for axis, numbers in enumerate(np.array(points, dtype=float).reshape(-1, 2).T):
            ends = np.array(self.limits(axis))
            low, high = np.log10(ends) if self.log[axis] else ends
            columns.append(((np.log10(numbers) if self.log[axis] else numbers) - low) / (high - low))
        return np.stack(columns, axis=1)

    def intervals(self, curve: Curve) -> list[tuple[float, float, float]]:
        """Return x, lower and upper end of the 95% intervals; none for the methods that are not ours.

        A lower end below the axis, which a logarithmic one may not even have, is at the end of the axis.
        """
        if not curve.ours or all(half is None for half in curve.half_widths):
            return []
        floor = self.limits(1)[0]
        ends = zip(curve.x, curve.y, curve.half_widths, strict=True)
        return [(x, max(y - (half or 0.0), floor), y + (half or 0.0)) for x, y, half in ends]

    def in_column(self) -> list[bool]:
        """Return which curves are named in the column; the others are named beside their last point."""
        right = max(curve.x[-1] for curve in self.curves)
        return [self.column and curve.x[-1] == right for curve in self.curves]


class NamePlace(NamedTuple):
    """Where the name of a curve is written, in points.

    Attributes:
        box: Left, bottom, right, top.
        anchor: The end of the name that must stay where it is, if it turns out to be longer or shorter.
        leader: Points of a line from the curve to its name; empty where the name is next to it.
    """

    box: tuple[float, float, float, float]
    anchor: Literal["start", "middle", "end"]
    leader: tuple[Point, ...]


def name_places(chart: Chart, size: tuple[float, float], name_sizes: Floats) -> list[NamePlace | None]:
    """Return where the names of the curves go; None where there is no room."""
    drawn = [chart.shares(list(zip(curve.x, curve.y, strict=True))) * size for curve in chart.curves]
    places: list[NamePlace | None] = [None] * len(drawn)
    column = [i for i, in_column in enumerate(chart.in_column()) if in_column]
    heights = spread([drawn[i][-1, 1] for i in column], LINE_HEIGHT, 0.0, size[1])
    left, half = size[0] + _COLUMN, name_sizes[:, 1] / 2
    for i, y in zip(column, heights, strict=True):
        x_end, y_end = drawn[i][-1].tolist()
        leader = ((x_end, y_end), (max(x_end, size[0]), y_end), (left - 3.0, y))
        places[i] = NamePlace((left, y - half[i], left + name_sizes[i, 0], y + half[i]), "start", leader)
    beside = sorted(set(range(len(drawn))) - set(column), key=lambda i: not chart.curves[i].ours)
    if beside:
        discs, radii, last = _occupied(chart, size, drawn)
        inside = np.array([2.0, 2.0, size[0] - 2, size[1] - 2])
        free = place(discs, radii, [last[i] for i in beside], name_sizes[beside] + (2.0, 1.0), inside, _GAP)
        for i, label in zip(beside, free, strict=True):
            places[i] = None if label is None else _beside(drawn[i][-1], label)
    return places


def _beside(end: Floats, label: Place) -> NamePlace:
    """Return a place beside the last point of a curve."""
    left, bottom, right, top = label.box.tolist()
    anchor: Literal["start", "middle", "end"] = "start" if left >= end[0] else "end" if right <= end[0] else "middle"
    near = np.clip(end, label.box[:2], label.box[2:])
    leader = ((float(end[0]), float(end[1])), (float(near[0]), float(near[1]))) if label.moved else ()
    return NamePlace((left, bottom, right, top), anchor, leader)


def _occupied(chart: Chart, size: tuple[float, float], drawn: list[Floats]) -> tuple[Floats, Floats, list[int]]:
    """Return discs that names keep away from, (n, 2) and (n,), and which of them are the last points of the curves.

    A line is a chain of discs, and so is an interval.
    """
    discs, radii, last = list[Floats](), list[Floats](), list[int]()
    for curve, points in zip(chart.curves, drawn, strict=True):
        for x, low, high in chart.intervals(curve):
            ends = chart.shares([(x, low), (x, high)]) * size
            discs.append(ends[0] + (ends[1] - ends[0]) * np.linspace(0, 1, 9)[:, None])
            radii.append(np.full(9, 0.5))
        chain = [points[:1]]
        for start, end in pairwise(points):
            n = max(2, int(np.linalg.norm(end - start) / _STEP))
            chain.append(start + (end - start) * np.linspace(0, 1, n + 1)[1:, None])
        discs += chain
        radii.append(np.full(sum(map(len, chain)), _KEEP_AWAY if curve.ours else 3.0))
        last.append(sum(map(len, discs)) - 1)
    return np.concatenate(discs), np.concatenate(radii), last


def profile_chart(compared: Compared) -> Chart:
    """Return the near error by the number of units removed."""
    points = {
        row: [(float(k), one.mean, one.half_width) for k, one in compared.profile(row).items() if one.mean is not None]
        for row in compared.rows
    }
    chart = Chart(
        title="How far predictions are off near the text",
        subtitle=f"{_texts(compared, model=True)}; bands are 95% intervals",
        x_label="units removed",
        y_label="squared error of the predicted change",
        log=(False, True),
        column=True,
        bands=True,
    )
    return _filled(chart, compared, "profile", points)


def queries_chart(compared: Compared, measure: str) -> Chart:
    """Return a measure against the budget; "auto", or a method that takes none, is where its number of queries is."""
    _check(compared, measure)
    points: dict[Row, list[_Estimate]] = {}
    for row in compared.rows:
        method, budget = row
        queries = float(budget) if isinstance(budget, int) else compared.summary(row, "queries").mean
        summary = compared.summary(row, measure)
        points.setdefault((method, None), [])
        if summary.mean is not None and queries is not None:
            points[method, None].append((queries, summary.mean, summary.half_width))
    for estimates in points.values():
        estimates.sort(key=lambda point: point[0])
    x_label = "query budget; queries made, where there is no number"
    chart = _against(compared, measure, "queries", x_label)._replace(column=True)
    return _filled(chart, compared, measure, points)


def seconds_chart(compared: Compared, measure: str) -> Chart:
    """Return a measure against the time of an explanation."""
    _check(compared, measure)
    points: dict[Row, list[_Estimate]] = {}
    for row in compared.rows:
        summary, time = compared.summary(row, measure), compared.summary(row, "seconds").mean
        points[row] = [] if summary.mean is None or time is None else [(time, summary.mean, summary.half_width)]
    chart = _against(compared, measure, "time", "seconds per explanation")
    return _filled(chart, compared, measure, points)


def _against(compared: Compared, measure: str, x_name: str, x_label: str) -> Chart:
    """Return the chart of a measure against something on a logarithmic axis, still without curves."""
    return Chart(
        title=f"{measure.replace('_', ' ').capitalize()} against {x_name}",
        subtitle=f"{MEASURES[measure][1]}; {_texts(compared)}; bars are 95% intervals",
        x_label=x_label,
        y_label=measure_label(measure),
        log=(True, measure in LOG),
    )


def row_name(compared: Compared, row: Row) -> str:
    """Return the method, with its budget where it was given several."""
    method, budget = row
    several = sum(name == method for name, _ in compared.rows) > 1
    return f"{method} {budget}" if several and budget is not None else method


def measure_label(measure: str) -> str:
    """Return the name with the direction that is better."""
    more = MEASURES[measure][0]
    return measure if more is None else f"{measure} ({'more' if more else 'less'} is better)"


def ticks(low: float, high: float, log: bool) -> list[float]:
    """Return round numbers between two others, about five.

    >>> ticks(0.02, 3.0, True), ticks(0.0, 1.1, False)
    ([0.1, 1.0], [0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    """
    if log:
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for digits in ((1,), (1, 3), (1, 2, 5)):
            inside = [t for t in (float(f"{d}e{e}") for e in decades for d in digits) if low <= t <= high]
            if len(inside) >= (2 if digits == (1,) else 3):
                return inside[:: -(-len(inside) // 8)]
    step10 = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next(m * step10 for m in (1, 2, 5, 10) if (high - low) / (m * step10) <= 6)
    return [round(k * step, 12) for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def tick_label(number: float) -> str:
    """Write a tick: 0.05, 2000, 1e-6."""
    if number and not 1e-4 <= abs(number) < 1e5:
        digits, power = f"{number:.0e}".split("e")
        return f"{digits}e{int(power)}".replace("-", "\N{MINUS SIGN}")
    return f"{number:.6g}".replace("-", "\N{MINUS SIGN}")


def spread(wanted: Sequence[float], apart: float, low: float, high: float) -> list[float]:
    """Return the places between low and high, at least `apart` and in order, that are closest to those wanted in least squares.

    Where there is no room for that, they are evenly spread.

    >>> spread([5.0, 5.0, 9.0], 2.0, 0.0, 10.0)
    [4.0, 6.0, 9.0]
    """
    n = len(wanted)
    apart = min(apart, (high - low) / max(n - 1, 1))
    order = sorted(range(n), key=lambda i: wanted[i])
    pools: list[tuple[float, int]] = []  # mean and size, growing: isotonic regression of what is left without the distances
    for k, i in enumerate(order):
        mean, size = wanted[i] - k * apart, 1
        while pools and pools[-1][0] >= mean:
            other, more = pools.pop()
            mean, size = (mean * size + other * more) / (size + more), size + more
        pools.append((mean, size))
    flat = [min(max(mean, low), high - (n - 1) * apart) for mean, size in pools for _ in range(size)]
    places = [0.0] * n
    for k, i in enumerate(order):
        places[i] = flat[k] + k * apart
    return places


def _check(compared: Compared, measure: str) -> None:
    if measure not in compared.measures:
        raise InputError(f"measure must be one that was taken, {', '.join(compared.measures)}; got {measure!r}")


def _texts(compared: Compared, model: bool = False) -> str:
    n = len({record["text"] for record in compared.records})
    name = str(compared.about.get("model") or "") if model else ""
    return f"mean of {count(n, 'text')}" + (f", {name if len(name) <= 40 else name[:39] + '…'}" if name else "")


def _filled(chart: Chart, compared: Compared, measure: str, points: dict[Row, list[_Estimate]]) -> Chart:
    """Return the chart with those points that its axes can show, and notes about the others."""
    curves, missing, outside = list[Curve](), list[str](), list[str]()
    drawn = [point for estimates in points.values() for point in estimates]
    usual = [median(map(abs, axis)) for axis in ([p[0] for p in drawn], [p[1] for p in drawn])] if drawn else [0.0, 0.0]
    least = [_ROUNDING * number if log else -math.inf for number, log in zip(usual, chart.log, strict=True)]
    for row, estimates in points.items():
        shown = sorted((p for p in estimates if p[0] > least[0] and p[1] > least[1]), key=lambda p: (p[0], p[1]))
        name = row_name(compared, row) if row in compared.rows else row[0]
        if shown:
            x, y, half_widths = zip(*shown, strict=True)
            curves.append(Curve(name, row[0], _strength(compared, row), x, y, half_widths))
        elif not estimates:
            missing.append(name)
        if len(shown) < len(estimates):
            outside.append(name)
    notes = [f"no {measure} for {', '.join(missing)}"] if missing else []
    notes += [f"0 or less (but for rounding), so not on a logarithmic axis: {', '.join(outside)}"] if outside else []
    return chart._replace(curves=tuple(sorted(curves, key=lambda curve: curve.ours)), notes=tuple(notes))


def _strength(compared: Compared, row: Row) -> float:
    """Return how strong the colour of a budget is: the largest one has all of it."""
    method, budget = row
    budgets = sorted(b for name, b in compared.rows if name == method and isinstance(b, int))
    return 1.0 if not isinstance(budget, int) or len(budgets) < 2 else 0.5 + 0.5 * budgets.index(budget) / (len(budgets) - 1)
