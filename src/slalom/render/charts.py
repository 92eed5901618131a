"""What the pictures of a comparison show, whoever draws it: `slalom.render.figures` as figures, `slalom.render.page` as a page.

profile          near error        against  units removed     one curve a method and budget
against_queries  mean of a measure  against  the budget        one curve a method
against_seconds  mean of a measure  against  mean seconds      one point a method and budget
"""

import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from slalom.errors import InputError
from slalom.evaluate import MEASURES, Compared
from slalom.render.palette import OURS

LOG = ("near", "far", "queries", "tokens", "seconds")  # spread over decades, and above 0 except by chance
_MARGIN = 0.06
_ROUNDING = 1e-8  # of the usual number: what is smaller is an error of rounding


class Look(NamedTuple):
    """Whether a method is ours, its number among those or among the others, and how strong its budget's colour is, 0 to 1."""

    ours: bool
    number: int
    strength: float = 1.0


class Curve(NamedTuple):
    """Points of one method, from left to right; se has None where a standard error is not known."""

    name: str
    look: Look
    x: tuple[float, ...]
    y: tuple[float, ...]
    se: tuple[float | None, ...]


class Chart(NamedTuple):
    """Curves in axes that may be logarithmic; notes say what could not be shown."""

    title: str
    subtitle: str
    x_label: str
    y_label: str
    log: tuple[bool, bool]
    curves: tuple[Curve, ...]
    notes: tuple[str, ...]
    column: bool = False  # whether names of curves that reach the right stand in a column there

    def limits(self, axis: int) -> tuple[float, float]:
        """Return the ends of the axis x (0) or y (1): all points with a margin."""
        every = [number for curve in self.curves for number in (curve.x, curve.y)[axis]]
        low, high = min(every), max(every)
        if self.log[axis]:
            low, high = math.log10(low), math.log10(high)
        margin = _MARGIN * (high - low) or (0.3 if self.log[axis] else 0.1 * abs(high) or 1.0)
        low, high = low - margin, high + margin
        return (10**low, 10**high) if self.log[axis] else (low, high)

    def aside(self) -> list[bool]:
        """Return which curves are named in the column; the others are named beside their last point."""
        right = max(curve.x[-1] for curve in self.curves)
        return [self.column and curve.x[-1] == right for curve in self.curves]

    def share(self, axis: int, number: float) -> float:
        """Return where a number is between the ends of an axis, from 0 to 1."""
        low, high = self.limits(axis)
        if self.log[axis]:
            low, high, number = math.log10(low), math.log10(high), math.log10(number)
        return (number - low) / (high - low)


def profile_chart(compared: Compared) -> Chart:
    """Return the near error by the number of units removed."""
    found = {row: compared.profile(row) for row in compared.rows}
    points = {
        row: [(float(k), one.mean, one.se) for k, one in profile.items() if one.mean is not None]
        for row, profile in found.items()
    }
    chart = Chart(
        title="How far predictions are off near the text",
        subtitle=f"{_texts(compared, model=True)}; bands are one standard error",
        x_label="units removed",
        y_label="squared error of the predicted change",
        log=(False, True),
        curves=(),
        notes=(),
        column=True,
    )
    return _filled(chart, compared, "profile", points)


def queries_chart(compared: Compared, measure: str) -> Chart:
    """Return a measure against the budget; a method that takes none is where its number of queries is."""
    _check(compared, measure)
    points: dict[tuple[str, int | None], list[tuple[float, float, float | None]]] = {}
    for row in compared.rows:
        method, budget = row
        asked = float(budget) if budget is not None else compared.summary(row, "queries").mean
        one = compared.summary(row, measure)
        points.setdefault((method, None), [])
        if one.mean is not None and asked is not None:
            points[method, None].append((asked, one.mean, one.se))
    asked_for = "queries asked for; those made, where a method takes no number"
    chart = _against(compared, measure, "queries", asked_for)._replace(column=True)
    return _filled(chart, compared, measure, points)


def seconds_chart(compared: Compared, measure: str) -> Chart:
    """Return a measure against the time of an explanation."""
    _check(compared, measure)
    points: dict[tuple[str, int | None], list[tuple[float, float, float | None]]] = {}
    for row in compared.rows:
        one, time = compared.summary(row, measure), compared.summary(row, "seconds").mean
        points[row] = [] if one.mean is None or time is None else [(time, one.mean, one.se)]
    chart = _against(compared, measure, "time", "seconds an explanation")
    return _filled(chart, compared, measure, points)


def _against(compared: Compared, measure: str, what: str, x_label: str) -> Chart:
    """Return the chart of a measure against something that takes a logarithmic axis, with nothing in it yet."""
    return Chart(
        title=f"{_said(measure)} against {what}",
        subtitle=f"{MEASURES[measure][1]}; {_texts(compared)}",
        x_label=x_label,
        y_label=measure_label(measure),
        log=(True, measure in LOG),
        curves=(),
        notes=(),
    )


def row_name(compared: Compared, row: tuple[str, int | None]) -> str:
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
            found = [t for t in (float(f"{d}e{e}") for e in decades for d in digits) if low <= t <= high]
            if len(found) >= (2 if digits == (1,) else 3):
                return found[:: -(-len(found) // 8)]
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
    """Return places between low and high that are `apart`, in the order of those wanted and as near to them as squares tell.

    Where there is no room for that, they are as far apart as there is.

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


def _said(measure: str) -> str:
    return measure.replace("_", " ").capitalize()


def _texts(compared: Compared, model: bool = False) -> str:
    n = len({record["text"] for record in compared.records})
    name = str(compared.about.get("model") or "") if model else ""
    return f"mean of {n} text{'' if n == 1 else 's'}" + (f", {name if len(name) <= 40 else name[:39] + '…'}" if name else "")


def _filled(
    chart: Chart,
    compared: Compared,
    what: str,
    points: dict[tuple[str, int | None], list[tuple[float, float, float | None]]],
) -> Chart:
    """Return the chart with those points that its axes can show, and notes about the others."""
    curves, without, outside = list[Curve](), list[str](), list[str]()
    usual = [median([abs(number) for number in axis] or [0.0]) for axis in _axes(points)]
    least = [_ROUNDING * number if log else -math.inf for number, log in zip(usual, chart.log, strict=True)]
    for row, every in points.items():
        shown = sorted((p for p in every if p[0] > least[0] and p[1] > least[1]), key=lambda p: (p[0], p[1]))
        name = row_name(compared, row) if row in compared.rows else row[0]
        if shown:
            x, y, se = zip(*shown, strict=True)
            curves.append(Curve(name, _look(compared, row), x, y, se))
        elif not every:
            without.append(name)
        if len(shown) < len(every):
            outside.append(name)
    notes = [f"no {what} for {', '.join(without)}"] if without else []
    notes += [f"0 or less (but for rounding), so not on a logarithmic axis: {', '.join(outside)}"] if outside else []
    return chart._replace(curves=tuple(curves), notes=tuple(notes))


def _axes(points: dict[tuple[str, int | None], list[tuple[float, float, float | None]]]) -> tuple[list[float], list[float]]:
    every = [point for some in points.values() for point in some]
    return [point[0] for point in every], [point[1] for point in every]


def _look(compared: Compared, row: tuple[str, int | None]) -> Look:
    """Return the look of a method: fixed for ours, in their order for the others; the largest budget is strongest."""
    method, budget = row
    budgets = sorted(b for name, b in compared.rows if name == method and b is not None)
    strength = 1.0 if budget is None or len(budgets) < 2 else 0.5 + 0.5 * budgets.index(budget) / (len(budgets) - 1)
    if method in OURS:
        return Look(True, OURS.index(method), strength)
    others = list(dict.fromkeys(name for name, _ in compared.rows if name not in OURS))
    return Look(False, others.index(method), strength)
