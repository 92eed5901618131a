"""Methods side by side: ours in strong colours and thick lines, the others quiet; names stand beside what they name.

What is shown is decided by `slalom.render.charts`; the page of a comparison shows the same.
"""

import textwrap
from itertools import pairwise
from typing import Any, Literal, cast, final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from slalom.errors import InputError
from slalom.evaluate import Compared
from slalom.render import palette as colours
from slalom.render.charts import Chart, Curve, Look, profile_chart, queries_chart, seconds_chart, spread, tick_label, ticks
from slalom.render.figures.canvas import Words, canvas, header, moved, settle, shorten
from slalom.render.figures.labels import place
from slalom.render.figures.theme import Colour, Theme, dress, mix, theme_of

_TEXT = 9.0
_LINE = 12.0  # points from one name to the next
_DASHES: tuple[Any, ...] = ("solid", (0, (5, 2)), (0, (1.2, 1.6)), (0, (6, 2, 1.2, 2)))
_MARKERS = "osD^v"


@final
class ComparedPlots:
    """The pictures of a comparison, each a matplotlib Figure; theme and ax as in `Plots`."""

    def __init__(self, compared: Compared) -> None:
        self._compared = compared

    def __repr__(self) -> str:
        """Name the pictures."""
        return "ComparedPlots: profile(), against_queries(), against_seconds()"

    def profile(self, ax: Axes | None = None, theme: Literal["light", "dark"] = "light") -> Figure:
        """Draw the near error against the number of units removed; bands are one standard error."""
        return profile(self._compared, ax, theme)

    def against_queries(
        self, measure: str = "near", ax: Axes | None = None, theme: Literal["light", "dark"] = "light"
    ) -> Figure:
        """Draw the mean of a measure against the budget."""
        return against_queries(self._compared, measure, ax, theme)

    def against_seconds(
        self, measure: str = "near", ax: Axes | None = None, theme: Literal["light", "dark"] = "light"
    ) -> Figure:
        """Draw the mean of a measure against the time of an explanation."""
        return against_seconds(self._compared, measure, ax, theme)


def profile(compared: Compared, ax: Axes | None = None, theme: Literal["light", "dark"] = "light") -> Figure:
    """Draw the near error against the number of units removed, one line a method and budget; bands are one standard error."""
    chart, look = profile_chart(compared), theme_of(theme)
    figure, ax = _axes(chart, ax, look, (7.8, max(5.0, 1.7 + len(chart.curves) * _LINE / 72)))
    floor = chart.limits(1)[0]
    for curve in chart.curves:
        _line(ax, curve, look)
        if curve.look.ours and any(se is not None for se in curve.se):
            y, se = np.array(curve.y), np.array([one or 0.0 for one in curve.se])
            hue = colour(curve.look, look)
            ax.fill_between(
                curve.x,
                np.maximum(y - se, floor),
                y + se,
                color=hue,
                alpha=0.16,
                linewidth=0,
                zorder=2,
                gid=f"band {curve.name}",
            )
    _names(figure, ax, chart, look)
    return cast(Figure, figure)


def against_queries(
    compared: Compared, measure: str = "near", ax: Axes | None = None, theme: Literal["light", "dark"] = "light"
) -> Figure:
    """Draw the mean of a measure against the budget: a line where a method was given several, else a point."""
    return _points(queries_chart(compared, measure), ax, theme_of(theme))


def against_seconds(
    compared: Compared, measure: str = "near", ax: Axes | None = None, theme: Literal["light", "dark"] = "light"
) -> Figure:
    """Draw the mean of a measure against the time of an explanation, one point a method and budget."""
    return _points(seconds_chart(compared, measure), ax, theme_of(theme))


def colour(look: Look, theme: Theme) -> Colour:
    """Return the colour of a method's look."""
    dark = theme.name == "dark"
    palette: tuple[tuple[int, int, int], ...]
    if look.ours:
        palette = colours.OURS_DARK if dark else colours.OURS_LIGHT
    else:
        palette = colours.OTHERS_DARK if dark else colours.OTHERS_LIGHT
    red, green, blue = palette[look.number % len(palette)]
    return mix(theme.paper, (red / 255, green / 255, blue / 255), look.strength)


def _axes(chart: Chart, ax: Axes | None, theme: Theme, size: tuple[float, float]) -> tuple[Any, Axes]:
    if not chart.curves:
        raise InputError(f"there is nothing to draw: {'; '.join(chart.notes)}")
    figure, ax = canvas(ax, theme, size)
    dress(ax, theme)
    header(ax, theme, chart.title, chart.subtitle)
    ax.set_xlabel(chart.x_label)
    ax.set_ylabel(chart.y_label)
    for i, axis in enumerate((ax.xaxis, ax.yaxis)):
        getattr(ax, ("set_xscale", "set_yscale")[i])("log" if chart.log[i] else "linear")
        low, high = chart.limits(i)
        (ax.set_ylim if i else ax.set_xlim)(low, high)
        at = ticks(low, high, chart.log[i])
        axis.set_ticks(at, [tick_label(t) for t in at])
        axis.set_ticks([], minor=True)
    ax.grid(axis="y", color=mix(theme.paper, theme.line, 0.5), linewidth=0.6)
    ax.set_axisbelow(True)
    if chart.notes:
        lines = [line for note in chart.notes for line in textwrap.wrap(note, 100)]
        for k, line in enumerate(lines):
            at = ax.transAxes + moved(ax, 0, -48 - 11 * k)
            ax.add_artist(Words(0, 0, line, transform=at, size=8, color=theme.muted, va="baseline", clip_on=False, gid="note"))
    return figure, ax


def _line(ax: Axes, curve: Curve, theme: Theme) -> None:
    ours, number = curve.look.ours, curve.look.number
    alone = len(curve.x) == 1
    ax.plot(
        curve.x,
        curve.y,
        color=colour(curve.look, theme),
        linewidth=2.4 if ours else 1.2,
        linestyle="solid" if ours else _DASHES[number % len(_DASHES)],
        marker="o" if ours else _MARKERS[number % len(_MARKERS)],
        markersize=(7.0 if ours else 5.5) if alone else (4.5 if ours else 3.2),
        markeredgecolor=theme.paper,
        markeredgewidth=0.5,
        zorder=4 if ours else 3,
        gid=f"curve {curve.name}",
        clip_on=False,
    )


def _points(chart: Chart, ax: Axes | None, theme: Theme) -> Figure:
    figure, ax = _axes(chart, ax, theme, (7.8, 5.4))
    floor = chart.limits(1)[0] if chart.log[1] else -np.inf
    for curve in chart.curves:
        _line(ax, curve, theme)
        if curve.look.ours:
            y, se = np.array(curve.y), np.array([one or 0.0 for one in curve.se])
            ax.vlines(
                curve.x,
                np.maximum(y - se, floor),
                y + se,
                color=colour(curve.look, theme),
                linewidth=1.1,
                zorder=3.5,
                gid=f"errors {curve.name}",
            )
    _names(figure, ax, chart, theme)
    return cast(Figure, figure)


def _words(curve: Curve, theme: Theme) -> Words:
    ours = curve.look.ours
    ink = colour(curve.look._replace(strength=1.0), theme) if ours else theme.muted
    look: dict[str, Any] = {"size": _TEXT, "color": ink, "weight": "bold" if ours else "normal", "zorder": 6, "clip_on": False}
    return Words(0, 0, shorten(curve.name), gid=f"name {curve.name}", **look)


def _names(figure: Any, ax: Axes, chart: Chart, theme: Theme) -> None:
    """Write the names: in a column to the right of the axes, or beside the points."""
    aside = [curve for curve, there in zip(chart.curves, chart.aside(), strict=True) if there]
    beside = [curve for curve, there in zip(chart.curves, chart.aside(), strict=True) if not there]
    _name_ends(figure, ax, aside, theme)
    if beside:
        _name_points(figure, ax, chart, beside, theme)


def _name_ends(figure: Any, ax: Axes, curves: list[Curve], theme: Theme) -> None:
    """Write names to the right of the axes, each as near to the end of its line as the others allow; lay the figure out."""
    right = ax.transAxes + moved(ax, 16, 0)
    names = []
    for curve in curves:
        name = _words(curve, theme)
        name.set(x=1.0, y=0.5, transform=right, va="center", ha="left")
        ax.add_artist(name)
        names.append(name)
    settle(figure)
    if not curves:
        return
    frame = ax.get_window_extent()
    back = ax.transAxes.inverted()
    ends = back.transform(ax.transData.transform([(curve.x[-1], curve.y[-1]) for curve in curves]))
    apart = _LINE / 72 * figure.dpi / frame.height
    places = spread(ends[:, 1].tolist(), apart, 0.0, 1.0)
    reach = 1.0 + 13 / 72 * figure.dpi / frame.width
    for curve, name, (x, y), at in zip(curves, names, ends.tolist(), places, strict=True):
        name.set(y=at)
        hue = mix(theme.paper, colour(curve.look, theme), 0.6)
        look: dict[str, Any] = {"color": hue, "linewidth": 0.7, "zorder": 1.5, "clip_on": False}
        ax.add_artist(Line2D([x, max(x, 1.0), reach], [y, y, at], transform=ax.transAxes, gid=f"leader {curve.name}", **look))


def _name_points(figure: Any, ax: Axes, chart: Chart, curves: list[Curve], theme: Theme) -> None:
    """Write these names each beside the last point of its curve, where it covers nothing."""
    pixels = figure.dpi / 72
    anchors: list[list[float]] = []
    radii: list[float] = []
    wanted = []
    for curve in sorted(chart.curves, key=lambda curve: not curve.look.ours):
        at = np.asarray(ax.transData.transform(np.stack([curve.x, curve.y], axis=1)))
        steps = [at[:1]]
        for start, end in pairwise(at):  # a line is a chain of points that names keep away from
            n = max(2, int(np.linalg.norm(end - start) / (6 * pixels)))
            steps.append(start + (end - start) * np.linspace(0, 1, n + 1)[1:, None])
        if curve.look.ours:  # so are errors
            floor = chart.limits(1)[0]
            for x, y, se in zip(curve.x, curve.y, curve.se, strict=True):
                heights = np.linspace(max(y - (se or 0.0), floor), y + (se or 0.0), 9)
                anchors += ax.transData.transform(np.stack([np.full(9, x), heights], axis=1)).tolist()
                radii += [0.5] * 9
        anchors += np.concatenate(steps).tolist()
        radii += [3.5 if curve.look.ours else 3.0] * sum(len(step) for step in steps)
        if curve not in curves:
            continue
        name = _words(curve, theme)
        name.set(va="center", ha="center")
        name.set_in_layout(False)
        ax.add_artist(name)
        wanted.append((len(anchors) - 1, name, curve))
    frame = ax.get_window_extent()
    inside = np.array([frame.x0, frame.y0, frame.x1, frame.y1]) + np.array([1, 1, -1, -1]) * 2 * pixels
    boxes = [name.get_window_extent() for _, name, _ in wanted]
    sizes = np.array([[box.width + 2 * pixels, box.height + pixels] for box in boxes])
    points = np.array(anchors)
    places = place(points, np.array(radii) * pixels, [i for i, _, _ in wanted], sizes, inside, 1.5 * pixels)
    back = ax.transAxes.inverted()
    missing = []
    for (i, name, curve), where in zip(wanted, places, strict=True):
        if where is None:
            name.remove()
            missing.append(curve.name)
            continue
        x, y = back.transform((where.box[:2] + where.box[2:]) / 2)
        name.set(x=x, y=y, transform=ax.transAxes)
        if where.moved:
            end = np.clip(points[i], where.box[:2], where.box[2:])
            line = back.transform(np.array([points[i], end]))
            look: dict[str, Any] = {"color": theme.muted, "linewidth": 0.6, "zorder": 2.5, "clip_on": False}
            ax.add_artist(Line2D(*line.T, transform=ax.transAxes, gid=f"leader {curve.name}", **look))
    if missing:
        note = f"no room for {len(missing)} of {len(wanted)} names"
        side: dict[str, Any] = {"size": 8, "color": theme.muted, "ha": "right", "va": "bottom", "clip_on": False, "gid": "room"}
        ax.add_artist(Words(1, 1, note, transform=ax.transAxes, **side))
