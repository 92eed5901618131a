"""Scores as bars: to the right of zero for the target, to the left against it.

Whiskers are 95% intervals. A bar whose whisker contains zero is pale and hatched. A whisker longer than the picture ends in an
arrow at its edge.
"""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.transforms import blended_transform_factory
from numpy.typing import NDArray

from slalom.core.checks import Floats
from slalom.errors import InputError
from slalom.render.charts import PairBar, known_part
from slalom.render.figures.canvas import Words, canvas, header, key, moved, shorten
from slalom.render.figures.theme import dress
from slalom.render.figures.view import View
from slalom.render.palette import Colour, Theme, mix
from slalom.result import SCORES

_PALE, _HATCH = 0.22, "/////"
_REACH = 0.5  # of the range of the bars: whiskers beyond it are cut


def bar(view: View, k: int, name: str, score: Floats, intervals: bool | None, ax: Axes | None, theme: Theme) -> Figure:
    """Draw the k strongest units by the score of this name."""
    half = _half_width(view, name, intervals)
    strength = np.abs(score) if SCORES[name].signed else score
    if name in ("value", "linear"):  # a huge one that nobody knows does not lead
        strength = np.abs(known_part(score, view.half_width(name)))
    chosen = view.strongest(strength, k)
    units = np.array([i for i, _ in chosen])
    figure, ax = _axes(view, len(chosen), view.meaning(name), view.signed(name), ax, theme)
    doubtful = view.doubtful(name)[units] & (half is not None)
    _draw(ax, view, view.names(chosen), score[units], None if half is None else half[units], doubtful, view.signed(name), theme)
    return figure


def pairs(view: View, bars: list[PairBar], ax: Axes | None, theme: Theme) -> Figure:
    """Draw units that act together, in the order given."""
    if not bars:
        raise InputError(
            "pairs() needs pairs of units that act together, and this explanation has none; explanation.pairs lists them"
        )
    figure, ax = _axes(view, len(bars), "effect of both beyond the sum of their own", True, ax, theme)
    names = [" + ".join(view.names([(i, 1) for i in pair.units])) for pair in bars]
    effects, half = (np.array([getattr(pair, part) for pair in bars]) for part in ("effect", "half_width"))
    _draw(ax, view, names, effects, half, np.abs(effects) <= half, True, theme)
    return figure


def _axes(view: View, rows: int, meaning: str, directed: bool, ax: Axes | None, theme: Theme) -> tuple[Figure, Axes]:
    figure, ax = canvas(ax, theme, (6.8, (1.6 if directed else 1.25) + 0.3 * rows))
    dress(ax, theme)
    ax.spines["left"].set_visible(False)
    ax.set_yticks([])
    ax.set_xlabel(meaning)
    header(ax, theme, view.title(), view.subtitle())
    return figure, ax


def _draw(
    ax: Axes,
    view: View,
    names: list[str],
    scores: Floats,
    half: Floats | None,
    doubtful: NDArray[np.bool_],
    directed: bool,
    theme: Theme,
) -> None:
    """Draw bars, whiskers, names and numbers, and the legend."""
    rows = np.arange(len(scores))
    hues = [theme.hue(float(s), directed) for s in scores]
    bars = ax.barh(rows, scores, height=0.68, color=hues, gid="bars", zorder=2)
    for patch, hue, hatched in zip(bars, hues, doubtful, strict=True):
        if hatched:
            patch.set(**_hatched(hue, theme))
    ax.axvline(0.0, color=theme.line, linewidth=0.8, zorder=1)
    low, high = min(0.0, float(scores.min())), max(0.0, float(scores.max()))
    span = (high - low) or 1.0
    ends = np.stack([scores, scores], axis=1)
    if half is not None:
        ends = np.clip(scores[:, None] + np.array([-1, 1]) * half[:, None], low - _REACH * span, high + _REACH * span)
        _whiskers(ax, rows, scores, half, ends, theme)
    low, high = min(low, float(ends.min())), max(high, float(ends.max()))
    span = (high - low) or 1.0
    ax.set_xlim(low - (0.14 * span if low < 0 else 0.02 * span), high + (0.14 * span if high > 0 else 0.02 * span))
    ax.set_ylim(len(scores) - 0.4, -0.6)
    _key(ax, view, directed, half is not None, bool(doubtful.any()), theme)
    top = float(np.abs(scores).max())
    _write(ax, names, [view.write(float(s), top) for s in scores], scores, ends, theme)


def _hatched(hue: Colour, theme: Theme) -> dict[str, Any]:
    """Return the look of a bar that is not distinguishable from zero."""
    strong = mix(theme.paper, hue, 0.6)
    return {"facecolor": mix(theme.paper, hue, _PALE), "edgecolor": strong, "hatch": _HATCH, "linewidth": 0.0}


def _whiskers(ax: Axes, rows: Any, scores: Floats, half: Floats, ends: Floats, theme: Theme) -> None:
    """Draw intervals; where one is longer than the picture, an arrow at its edge."""
    ax.hlines(rows, ends[:, 0], ends[:, 1], color=theme.ink, linewidth=1.1, zorder=3, gid="intervals")
    for side, marker in ((0, "<"), (1, ">")):
        whole = scores + (2 * side - 1) * half
        cut = whole != ends[:, side]
        look: dict[str, Any] = {"linestyle": "", "color": theme.ink, "zorder": 3}
        ax.plot(ends[~cut, side], rows[~cut], marker="|", markersize=5, markeredgewidth=1.1, gid=f"ends {side}", **look)
        if cut.any():
            ax.plot(ends[cut, side], rows[cut], marker=marker, markersize=4, gid=f"arrows {side}", **look)


def _key(ax: Axes, view: View, directed: bool, whiskers: bool, doubtful: bool, theme: Theme) -> None:
    handles: list[Any] = []
    labels = []
    if directed:
        handles += [Line2D([], [], linestyle="", marker="s", markersize=8, color=c) for c in (theme.positive, theme.negative)]
        labels += [f"for “{shorten(view.target, 20)}”", view.against]
    if whiskers:
        handles.append(Line2D([], [], color=theme.ink, linewidth=1.1, marker="|", markersize=5, markeredgewidth=1.1))
        labels.append("95% interval")
    if doubtful:
        handles.append(Patch(**_hatched(theme.muted, theme)))
        labels.append("not distinguishable from zero")
    if handles:
        key(ax, handles, labels, theme)


def _half_width(view: View, name: str, intervals: bool | None) -> Floats | None:
    half = None if intervals is False else view.half_width(name)
    if intervals and half is None:
        raise InputError(
            f"intervals=True needs standard errors, which {name!r} does not have here;"
            " explain with method='joint' or 'local' and do not merge, or leave intervals out"
        )
    return half


def _write(ax: Axes, names: list[str], numbers: list[str], scores: Floats, ends: Floats, theme: Theme) -> None:
    """Write the names to the left of the axes, and each number at the free end of its bar."""
    left = blended_transform_factory(ax.transAxes, ax.transData) + moved(ax, -6, 0)
    for row, (name, number, score, end) in enumerate(zip(names, numbers, scores.tolist(), ends.tolist(), strict=True)):
        look = {"va": "center_baseline", "clip_on": False}
        ax.add_artist(Words(0, row, name, transform=left, ha="right", size=9.5, color=theme.ink, gid=f"name {row}", **look))
        away = ax.transData + moved(ax, 5 if score >= 0 else -5, 0)
        beside = end[1] if score >= 0 else end[0]
        hang = "left" if score >= 0 else "right"
        ax.add_artist(Words(beside, row, number, transform=away, ha=hang, size=8.5, color=theme.muted, **look))
