"""The strongest units as bars: to the right of zero for the target, to the left against it."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import blended_transform_factory

from slalom.core.checks import Floats
from slalom.errors import InputError
from slalom.render.figures.canvas import Words, canvas, header, key, moved, shorten
from slalom.render.figures.theme import dress
from slalom.render.figures.view import TIMES, View
from slalom.render.palette import Theme


def bar(view: View, k: int, name: str, score: Floats, intervals: bool | None, ax: Axes | None, theme: Theme) -> Figure:
    """Draw the k strongest units by the score of this name."""
    half = _half_width(view, name, intervals)
    directed = view.signed(name)
    chosen = view.strongest(score if name == "importance" else np.abs(score), k)
    units = np.array([i for i, _ in chosen])
    figure, ax = canvas(ax, theme, (6.8, (1.6 if directed else 1.25) + 0.3 * len(chosen)))
    dress(ax, theme)
    ax.spines["left"].set_visible(False)
    ax.set_yticks([])
    ax.set_xlabel(view.meaning(name))
    header(ax, theme, view.title(), view.subtitle())
    rows = np.arange(len(chosen))
    ax.barh(rows, score[units], height=0.68, color=[theme.hue(float(s), directed) for s in score[units]], gid="bars", zorder=2)
    ax.axvline(0.0, color=theme.line, linewidth=0.8, zorder=1)
    ends = score[units][:, None] + np.array([-1, 1]) * (np.zeros(len(units)) if half is None else half[units])[:, None]
    if half is not None:
        ax.hlines(rows, ends[:, 0], ends[:, 1], color=theme.ink, linewidth=1.1, zorder=3, gid="intervals")
    low, high = min(0.0, float(ends.min())), max(0.0, float(ends.max()))
    span = (high - low) or 1.0
    ax.set_xlim(low - (0.14 * span if low < 0 else 0.02 * span), high + (0.14 * span if high > 0 else 0.02 * span))
    ax.set_ylim(len(chosen) - 0.4, -0.6)
    if directed:
        squares = [Line2D([], [], linestyle="", marker="s", markersize=8, color=c) for c in (theme.positive, theme.negative)]
        key(ax, squares, [f"for “{shorten(view.target, 20)}”", "against"], theme)
    top = float(np.abs(score[units]).max())
    numbers = [view.write(float(s), top) for s in score[units]]
    _write(ax, _names(view, chosen), numbers, score[units], ends, theme)
    return figure


def _half_width(view: View, name: str, intervals: bool | None) -> Floats | None:
    half = None if intervals is False else view.half_width(name)
    if intervals and half is None:
        raise InputError(
            f"intervals=True needs standard errors, which {name!r} does not have here;"
            " 'value' and 'importance' have them after method='joint' or 'local' without merge"
        )
    return half


def _names(view: View, chosen: list[tuple[int, int]]) -> list[str]:
    """Return the names, with the number of the occurrence where there are several, or how many share the score."""
    names = []
    for i, times in chosen:
        name = shorten(view.explanation.units[i])
        if times > 1:
            name += f" {TIMES}{times}"
        elif view.explanation.units.count(view.explanation.units[i]) > 1:
            name += f" ({view.explanation.units[: i + 1].count(view.explanation.units[i])})"
        names.append(name)
    return names


def _write(ax: Axes, names: list[str], numbers: list[str], scores: Floats, ends: Floats, theme: Theme) -> None:
    """Write the names to the left of the axes, and each number at the free end of its bar."""
    left = blended_transform_factory(ax.transAxes, ax.transData) + moved(ax, -6, 0)
    for row, (name, number, score, end) in enumerate(zip(names, numbers, scores.tolist(), ends.tolist(), strict=True)):
        look = {"va": "center_baseline", "clip_on": False}
        ax.add_artist(Words(0, row, name, transform=left, ha="right", size=9.5, color=theme.ink, gid=f"name {row}", **look))
        away = ax.transData + moved(ax, 4 if score >= 0 else -4, 0)
        beside = end[1] if score >= 0 else end[0]
        hang = "left" if score >= 0 else "right"
        ax.add_artist(Words(beside, row, number, transform=away, ha=hang, size=8.5, color=theme.muted, **look))
