"""Methods side by side: ours in strong colours and thick lines, the others muted.

profile          near error         against  units removed     one curve per method and budget
against_queries  mean of a measure  against  the budget        one curve per method
against_seconds  mean of a measure  against  mean seconds      one point per method and budget
"""

import math
import textwrap
from statistics import median
from typing import Literal, NamedTuple, final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from slalom.core.checks import Floats
from slalom.errors import InputError, count
from slalom.evaluate import MEASURES, Compared
from slalom.evaluate.compared import Row
from slalom.render.charts import measure_label, row_name, shorten
from slalom.render.figures.canvas import Words, canvas, dress, header, key, moved, plain, theme_of
from slalom.render.palette import Colour, Theme, is_ours, method_number, mix

_LOG = ("near", "far", "queries", "tokens", "seconds")  # measures spread over decades, and above 0 except by chance
_DASHES: tuple[tuple[float, ...], ...] = ((), (5, 2), (1.2, 1.6), (6, 2, 1.2, 2))  # in line widths
_LINE_HEIGHT = 14.0  # of the names, points
_MARGIN = 0.06  # around the points, of the axes
_ROUNDING = 1e-8  # of the usual number: what is smaller is an error of rounding
_NOTE_WIDTH = 100  # characters

_Point = tuple[float, float, float | None]  # x, y, half the 95% interval of y
_Theme = Literal["light", "dark"]


class _Curve(NamedTuple):
    """The points of one method, from left to right, and its look: smaller budgets are paler."""

    name: str
    ours: bool
    points: Floats  # (n, 2)
    half_widths: Floats  # of the 95% intervals (n,); 0 where they are not known or not shown
    colour: Colour
    dash: tuple[float, ...]


@final
class ComparedPlots:
    """The figures of a comparison, as `compared.plot`.

    Every method returns a matplotlib Figure and takes `ax`, matplotlib axes to draw into (default: a new figure), and `theme`.
    Our methods are drawn in strong colours with 95% intervals, the others in muted ones; smaller budgets are paler. A method
    without the measure is named below the figure. Where there is nothing to draw, InputError is raised.

    Args:
        compared: What `slalom.compare` returns.
    """

    def __init__(self, compared: Compared) -> None:
        self._compared = compared

    def __repr__(self) -> str:
        return "ComparedPlots: profile(), against_queries(), against_seconds()"

    def profile(self, ax: Axes | None = None, theme: _Theme = "light") -> Figure:
        """Draw the near error against the number of units removed."""
        compared = self._compared
        points: dict[Row, list[_Point]] = {
            row: [(float(k), one.mean, one.half_width) for k, one in compared.profile(row).items() if one.mean is not None]
            for row in compared.rows
        }
        model = compared.about.get("model")
        subtitle = f"{self._texts}{f', {shorten(str(model), 40)}' if model else ''}; bands are 95% intervals"
        labels = ("units removed", "squared error of the predicted change")
        title = "How far predictions are off near the text"
        return self._draw("profile", points, title, subtitle, labels, (False, True), ax, theme)

    def against_queries(self, measure: str = "near", ax: Axes | None = None, theme: _Theme = "light") -> Figure:
        """Draw the mean of a measure against the query budget.

        Args:
            measure: One of `compared.measures`.

        Returns:
            The figure: a line where a method was given several budgets, else a point. The budget "auto", and a
            method that takes none, are at the mean number of queries that were made.
        """
        points: dict[Row, list[_Point]] = {}
        for method, budget in self._compared.rows:
            x = float(budget) if isinstance(budget, int) else None
            points.setdefault((method, None), []).extend(self._point((method, budget), measure, "queries", x))
        return self._against("queries", "query budget; queries made, where there is no number", measure, points, ax, theme)

    def against_seconds(self, measure: str = "near", ax: Axes | None = None, theme: _Theme = "light") -> Figure:
        """Draw the mean of a measure against the time of an explanation, one point per method and budget.

        Args:
            measure: One of `compared.measures`.
        """
        points = {row: self._point(row, measure, "seconds") for row in self._compared.rows}
        return self._against("time", "seconds per explanation", measure, points, ax, theme)

    @property
    def _texts(self) -> str:
        return f"mean of {count(len({record['text'] for record in self._compared.records}), 'text')}"

    def _point(self, row: Row, measure: str, across: str, x: float | None = None) -> list[_Point]:
        if measure not in self._compared.measures:
            raise InputError(f"measure must be one that was taken, {', '.join(self._compared.measures)}; got {measure!r}")
        summary = self._compared.summary(row, measure)
        x = self._compared.summary(row, across).mean if x is None else x
        return [] if summary.mean is None or x is None else [(x, summary.mean, summary.half_width)]

    def _against(
        self, x_name: str, x_label: str, measure: str, points: dict[Row, list[_Point]], ax: Axes | None, theme: str
    ) -> Figure:
        title = f"{measure.replace('_', ' ').capitalize()} against {x_name}"
        subtitle = f"{MEASURES[measure][1]}; {self._texts}; bars are 95% intervals"
        labels, log = (x_label, measure_label(measure)), (True, measure in _LOG)
        return self._draw(measure, points, title, subtitle, labels, log, ax, theme)

    def _draw(
        self,
        measure: str,
        points: dict[Row, list[_Point]],
        title: str,
        subtitle: str,
        labels: tuple[str, str],
        log: tuple[bool, bool],
        ax: Axes | None,
        theme: str,
    ) -> Figure:
        look = theme_of(theme)
        curves, notes = _curves(self._compared, measure, points, log, look)
        if not curves:
            raise InputError(f"there is nothing to draw: {'; '.join(notes)}")
        figure, ax = canvas(ax, look, (7.8, max(5.2, 1.7 + len(curves) * _LINE_HEIGHT / 72)))
        dress(ax, look)
        ax.margins(_MARGIN)
        ax.set(xscale="log" if log[0] else "linear", yscale="log" if log[1] else "linear", xlabel=labels[0], ylabel=labels[1])
        ax.grid(axis="y", color=look.faint, linewidth=0.6)
        ax.set_axisbelow(True)
        header(ax, look, title, subtitle)
        for k, line in enumerate(line for note in notes for line in textwrap.wrap(note, _NOTE_WIDTH)):
            at = ax.transAxes + moved(ax, 0, -48 - 11 * k)
            ax.add_artist(Words(0, 0, line, transform=at, size=8, color=look.muted, va="baseline", clip_on=False, gid="note"))
        lines = _lines(ax, curves, look, bands=measure == "profile")
        listed = sorted(zip(curves, lines, strict=True), key=lambda pair: -pair[0].points[-1, 1])  # as the ends of the curves
        key(ax, [(line, shorten(curve.name)) for curve, line in listed], look, beside=True)
        return figure


def _curves(
    compared: Compared, measure: str, points: dict[Row, list[_Point]], log: tuple[bool, bool], theme: Theme
) -> tuple[list[_Curve], list[str]]:
    """Return those points that the axes can show, ours last, and notes about the others."""
    curves, missing, outside = list[_Curve](), list[str](), list[str]()
    every = [point for row in points.values() for point in row]
    least = [_ROUNDING * median(abs((x, y)[i]) for x, y, _ in every) if every and log[i] else -math.inf for i in (0, 1)]
    for row, measured in points.items():
        shown = sorted((p for p in measured if p[0] > least[0] and p[1] > least[1]), key=lambda p: p[:2])
        name, ours = plain(row_name(compared, row) if row in compared.rows else row[0]), is_ours(row[0])
        if shown:
            at, half_widths = np.array([p[:2] for p in shown]), np.array([p[2] or 0.0 for p in shown]) * ours
            full = theme.method(row[0])
            dash = () if ours else _DASHES[method_number(row[0]) % len(_DASHES)]
            curves.append(_Curve(name, ours, at, half_widths, mix(theme.paper, full, _strength(compared, row)), dash))
        elif not measured:
            missing.append(name)
        if len(shown) < len(measured):
            outside.append(name)
    notes = [f"no {measure} for {', '.join(missing)}"] if missing else []
    notes += [f"0 or less (but for rounding), so not on a logarithmic axis: {', '.join(outside)}"] if outside else []
    return sorted(curves, key=lambda curve: curve.ours), notes


def _strength(compared: Compared, row: Row) -> float:
    """Return how strong the colour of a budget is: the largest one has all of it."""
    method, budget = row
    budgets = sorted(b for name, b in compared.rows if name == method and isinstance(b, int))
    return 1.0 if not isinstance(budget, int) or len(budgets) < 2 else 0.5 + 0.5 * budgets.index(budget) / (len(budgets) - 1)


def _lines(ax: Axes, curves: list[_Curve], theme: Theme, bands: bool) -> list[Line2D]:
    """Draw curves and the intervals of our methods, with ticks; return the lines."""
    lines = []
    for curve in curves:
        radius = (3.5, 2.25) if curve.ours else (2.75, 1.6)  # of a point alone, and along a line
        lines += ax.plot(
            *curve.points.T,
            color=curve.colour,
            linewidth=2.4 if curve.ours else 1.2,
            linestyle=(0, curve.dash) if curve.dash else "solid",
            marker="o",
            markersize=2 * radius[len(curve.points) > 1],
            markeredgecolor=theme.paper,
            markeredgewidth=0.5,
            zorder=4 if curve.ours else 3,
            gid=f"curve {curve.name}",
            clip_on=False,
        )
    ax.set(xlim=ax.get_xlim(), ylim=ax.get_ylim())  # intervals take no room
    for axis, scale, ends in ((ax.xaxis, ax.get_xscale(), ax.get_xlim()), (ax.yaxis, ax.get_yscale(), ax.get_ylim())):
        if scale == "log":
            axis.set_major_locator(LogLocator(subs=(1.0,) if ends[1] > 300 * ends[0] else (1.0, 2.0, 5.0), numticks=8))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}".replace("-", "\N{MINUS SIGN}")))
    for curve in curves:
        if curve.half_widths.any():
            x, y = curve.points.T
            low, high = np.maximum(y - curve.half_widths, ax.get_ylim()[0]), y + curve.half_widths
            if bands and len(x) > 1:
                ax.fill_between(x, low, high, color=curve.colour, alpha=0.16, linewidth=0, zorder=2, gid=f"band {curve.name}")
            else:
                ax.vlines(x, low, high, color=curve.colour, linewidth=1.1, zorder=3.5, gid=f"intervals {curve.name}")
    return lines
