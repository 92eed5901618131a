"""Methods side by side: ours in strong colours and thick lines, the others muted, with names beside the curves.

What is drawn where is decided by `slalom.render.charts`; the page of a comparison draws the same.
"""

import textwrap
from typing import Any, Literal, final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from slalom.errors import InputError
from slalom.evaluate import Compared
from slalom.render.charts import (
    LINE_HEIGHT,
    TEXT_SIZE,
    Chart,
    Curve,
    NamePlace,
    name_places,
    profile_chart,
    queries_chart,
    seconds_chart,
)
from slalom.render.figures.canvas import Words, canvas, header, moved, settle, shorten
from slalom.render.figures.theme import dress, theme_of
from slalom.render.palette import Colour, Theme, mix

_NOTE_WIDTH = 100  # characters


@final
class ComparedPlots:
    """The figures of a comparison, as `compared.plot`.

    Every method returns a matplotlib Figure. Our methods are drawn in strong colours with 95% intervals, the others in muted
    ones; smaller budgets are paler. A method without the measure is named below the figure.

    Args:
        compared: What `slalom.compare` returns.
    """

    def __init__(self, compared: Compared) -> None:
        self._compared = compared

    def __repr__(self) -> str:
        return "ComparedPlots: profile(), against_queries(), against_seconds()"

    def profile(self, ax: Axes | None = None, theme: Literal["light", "dark"] = "light") -> Figure:
        """Draw the near error against the number of units removed.

        Args:
            ax: Matplotlib axes to draw into. Default: a new figure.
            theme: "light" or "dark".

        Returns:
            The figure.

        Raises:
            InputError: No method has a profile.
        """
        return _drawn(profile_chart(self._compared), ax, theme)

    def against_queries(
        self, measure: str = "near", ax: Axes | None = None, theme: Literal["light", "dark"] = "light"
    ) -> Figure:
        """Draw the mean of a measure against the query budget.

        Args:
            measure: One of `compared.measures`.
            ax: Matplotlib axes to draw into. Default: a new figure.
            theme: "light" or "dark".

        Returns:
            The figure: a line where a method was given several budgets, else a point. The budget "auto", and a
            method that takes none, are at the mean number of queries that were made.

        Raises:
            InputError: The measure was not taken, or no method has it.
        """
        return _drawn(queries_chart(self._compared, measure), ax, theme)

    def against_seconds(
        self, measure: str = "near", ax: Axes | None = None, theme: Literal["light", "dark"] = "light"
    ) -> Figure:
        """Draw the mean of a measure against the time of an explanation.

        Args:
            measure: One of `compared.measures`.
            ax: Matplotlib axes to draw into. Default: a new figure.
            theme: "light" or "dark".

        Returns:
            The figure: one point per method and budget.

        Raises:
            InputError: The measure was not taken, or no method has it.
        """
        return _drawn(seconds_chart(self._compared, measure), ax, theme)


def _drawn(chart: Chart, ax: Axes | None, theme_name: str) -> Figure:
    theme = theme_of(theme_name)
    figure, ax = _axes(chart, ax, theme, (7.8, max(5.2, 1.7 + len(chart.curves) * LINE_HEIGHT / 72)))
    for curve in chart.curves:
        _line(ax, chart, curve, theme)
    _names(figure, ax, chart, theme)
    return figure


def _colour(curve: Curve, theme: Theme) -> Colour:
    return mix(theme.paper, theme.method(curve.method), curve.strength)


def _axes(chart: Chart, ax: Axes | None, theme: Theme, size: tuple[float, float]) -> tuple[Figure, Axes]:
    if not chart.curves:
        raise InputError(f"there is nothing to draw: {'; '.join(chart.notes)}")
    figure, ax = canvas(ax, theme, size)
    dress(ax, theme)
    header(ax, theme, chart.title, chart.subtitle)
    ax.set_xlabel(chart.x_label)
    ax.set_ylabel(chart.y_label)
    for i, axis in enumerate((ax.xaxis, ax.yaxis)):
        getattr(ax, ("set_xscale", "set_yscale")[i])("log" if chart.log[i] else "linear")
        (ax.set_ylim if i else ax.set_xlim)(*chart.limits(i))
        numbers, labels = zip(*chart.ticks(i), strict=True)
        axis.set_ticks(numbers, labels)
        axis.set_ticks([], minor=True)
    ax.grid(axis="y", color=theme.faint, linewidth=0.6)
    ax.set_axisbelow(True)
    for k, line in enumerate(line for note in chart.notes for line in textwrap.wrap(note, _NOTE_WIDTH)):
        at = ax.transAxes + moved(ax, 0, -48 - 11 * k)
        ax.add_artist(Words(0, 0, line, transform=at, size=8, color=theme.muted, va="baseline", clip_on=False, gid="note"))
    return figure, ax


def _line(ax: Axes, chart: Chart, curve: Curve, theme: Theme) -> None:
    colour, intervals = _colour(curve, theme), np.array(chart.intervals(curve)).reshape(-1, 3).T
    ax.plot(
        curve.x,
        curve.y,
        color=colour,
        linewidth=curve.line_width,
        linestyle=(0, curve.dash) if curve.dash else "solid",
        marker="o",
        markersize=2 * curve.radius,
        markeredgecolor=theme.paper,
        markeredgewidth=0.5,
        zorder=4 if curve.ours else 3,
        gid=f"curve {curve.name}",
        clip_on=False,
    )
    if chart.bands and len(curve.x) > 1:
        if intervals.size:
            ax.fill_between(*intervals, color=colour, alpha=0.16, linewidth=0, zorder=2, gid=f"band {curve.name}")
    elif intervals.size:
        ax.vlines(*intervals, color=colour, linewidth=1.1, zorder=3.5, gid=f"intervals {curve.name}")


def _names(figure: Any, ax: Axes, chart: Chart, theme: Theme) -> None:
    """Write the names at their `name_places`, and the number of names without room."""
    words = [_name(curve, theme) for curve in chart.curves]
    for name, in_column in zip(words, chart.in_column(), strict=True):
        ax.add_artist(name)
        if in_column:  # the layout makes room for the column
            name.set(x=1.0, y=0.5, transform=ax.transAxes + moved(ax, 16, 0), ha="left")
        else:
            name.set_in_layout(False)
    settle(figure)
    points = 72 / figure.dpi
    frame = ax.get_window_extent()
    size = np.array([frame.width, frame.height]) * points
    boxes = [name.get_window_extent() for name in words]
    sizes = np.array([[box.width, box.height] for box in boxes]) * points
    places = name_places(chart, (float(size[0]), float(size[1])), sizes)
    for curve, name, place in zip(chart.curves, words, places, strict=True):
        if place is None:
            name.remove()
        else:
            _put(ax, curve, name, place, size, theme)
    if missing := places.count(None):
        note = f"no room for {missing} of {len(places)} names"
        look: dict[str, Any] = {"size": 8, "color": theme.muted, "ha": "right", "va": "bottom", "clip_on": False, "gid": "room"}
        ax.add_artist(Words(1, 1, note, transform=ax.transAxes, **look))


def _name(curve: Curve, theme: Theme) -> Words:
    colour = theme.text(theme.method(curve.method)) if curve.ours else theme.muted
    look: dict[str, Any] = {"weight": "bold" if curve.ours else "normal", "va": "center", "ha": "center", "zorder": 6}
    return Words(0, 0, shorten(curve.name), size=TEXT_SIZE, color=colour, clip_on=False, gid=f"name {curve.name}", **look)


def _put(ax: Axes, curve: Curve, name: Words, place: NamePlace, size: Any, theme: Theme) -> None:
    left, bottom, right, top = place.box
    name.set(x=(left + right) / 2 / size[0], y=(bottom + top) / 2 / size[1], transform=ax.transAxes, ha="center")
    if place.leader:
        x, y = (np.array(place.leader) / size).T
        look: dict[str, Any] = {"color": mix(theme.paper, _colour(curve, theme), 0.6), "linewidth": 0.7, "zorder": 1.5}
        ax.add_artist(Line2D(x, y, transform=ax.transAxes, clip_on=False, gid=f"leader {curve.name}", **look))
