"""Rows of bars: to the right of zero for the target, to the left against it.

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
from slalom.render.charts import View
from slalom.render.figures.canvas import Words, canvas, dress, header, key, moved
from slalom.render.palette import Colour, Theme, mix
from slalom.result import NORMAL_95, SCORES

_PALE, _HATCH = 0.22, "/////"
_REACH = 0.5  # of the range of the bars: whiskers beyond it are cut


def bar(view: View, k: int, name: str, ax: Axes | None, theme: Theme) -> Figure:
    """Draw the k strongest units by the score of this name."""
    score = view.scores(name)
    half = view.half_width(name)
    strength = np.abs(score) if SCORES[name].signed else score
    chosen = view.strongest(strength, k)
    units = np.array([i for i, _ in chosen])
    doubtful = view.doubtful(name)[units]
    return _draw_view(
        view, view.meaning(name), view.names(chosen), score[units], None if half is None else half[units], doubtful,
        view.signed(name), ax, theme,
    )  # fmt: skip


def pairs(view: View, k: int, ax: Axes | None, theme: Theme) -> Figure:
    """Draw the k strongest pairs of units that act together."""
    strongest = sorted(view.explanation.pairs, key=lambda pair: -abs(view.pick(pair.effect)))[:k]
    if not strongest:
        raise InputError(
            "pairs() needs pairs of units that act together, and this explanation has none; explanation.pairs lists them"
        )
    names = [" + ".join(view.names([(i, 1) for i in pair.units])) for pair in strongest]
    effects = np.array([float(view.pick(pair.effect)) for pair in strongest])
    half = NORMAL_95 * np.array([0.0 if pair.se is None else float(view.pick(pair.se)) for pair in strongest])
    meaning = "effect of both beyond the sum of their own"
    return _draw_view(view, meaning, names, effects, half, np.abs(effects) <= half, True, ax, theme)


def _draw_view(
    view: View,
    meaning: str,
    names: list[str],
    scores: Floats,
    half: Floats | None,
    doubtful: NDArray[np.bool_],
    directed: bool,
    ax: Axes | None,
    theme: Theme,
) -> Figure:
    figure, ax = rows_of(len(names), meaning, view.title(), view.subtitle(), ax, theme, legend=directed)
    top = float(np.abs(scores).max())
    numbers = [view.write(score, top) for score in scores.tolist()]
    draw_bars(ax, names, scores, numbers, half, doubtful, view.sides() if directed else None, theme)
    return figure


def rows_of(
    rows: int, meaning: str, title: str, subtitle: str, ax: Axes | None, theme: Theme, legend: bool = True
) -> tuple[Figure, Axes]:
    """Return axes for rows with names, the first on top."""
    figure, ax = canvas(ax, theme, (6.8, (1.6 if legend else 1.25) + 0.3 * rows))
    dress(ax, theme)
    ax.spines["left"].set_visible(False)
    ax.set_yticks([])
    ax.set_ylim(rows - 0.4, -0.6)
    ax.axvline(0.0, color=theme.line, linewidth=0.8, zorder=1)
    ax.set_xlabel(meaning)
    header(ax, theme, title, subtitle)
    return figure, ax


def draw_bars(
    ax: Axes,
    names: list[str],
    scores: Floats,
    numbers: list[str],
    half: Floats | None,
    doubtful: NDArray[np.bool_],
    sides: tuple[str, str] | None,
    theme: Theme,
) -> None:
    """Draw bars with names, numbers, whiskers and a legend; sides: what both directions mean, None where there are none."""
    rows = np.arange(len(scores))
    hues = [theme.hue(score, sides is not None) for score in scores.tolist()]
    bars = ax.barh(rows, scores, height=0.68, color=hues, gid="bars", zorder=2)
    for patch, hue, hatched in zip(bars, hues, doubtful, strict=True):
        if hatched:
            patch.set(**_hatched(hue, theme))
    low, high = min(0.0, float(scores.min())), max(0.0, float(scores.max()))
    reach = _REACH * ((high - low) or 1.0)
    ends = np.stack([scores, scores], axis=1)
    if half is not None:
        ends = np.clip(scores[:, None] + np.array([-1, 1]) * half[:, None], low - reach, high + reach)
        _whiskers(ax, rows, scores, half, ends, theme)
    low, high = min(low, float(ends.min())), max(high, float(ends.max()))
    span = (high - low) or 1.0
    ax.set_xlim(low - (0.14 if low < 0 else 0.02) * span, high + (0.14 if high > 0 else 0.02) * span)
    _key(ax, sides, half is not None, bool(doubtful.any()), theme)
    write_rows(ax, names, theme)
    for row, (number, score, end) in enumerate(zip(numbers, scores.tolist(), ends.tolist(), strict=True)):
        free, away, hang = (end[1], 5, "left") if score >= 0 else (end[0], -5, "right")
        look: dict[str, Any] = {"ha": hang, "va": "center_baseline", "size": 8.5, "color": theme.muted, "clip_on": False}
        ax.add_artist(Words(free, row, number, transform=ax.transData + moved(ax, away, 0), **look))


def write_rows(ax: Axes, texts: list[str], theme: Theme, right: bool = False) -> None:
    """Write a text beside each row: names on the left, muted numbers on the right."""
    x, away, hang, colour, size, gid = (
        (1, 6, "left", theme.muted, 8.5, "texts") if right else (0, -6, "right", theme.ink, 9.5, "name")
    )
    at = blended_transform_factory(ax.transAxes, ax.transData) + moved(ax, away, 0)
    for row, text in enumerate(texts):
        look: dict[str, Any] = {"ha": hang, "va": "center_baseline", "size": size, "color": colour, "clip_on": False}
        ax.add_artist(Words(x, row, text, transform=at, gid=f"{gid} {row}", **look))


def _hatched(hue: Colour, theme: Theme) -> dict[str, Any]:
    strong = mix(theme.paper, hue, 0.6)
    return {"facecolor": mix(theme.paper, hue, _PALE), "edgecolor": strong, "hatch": _HATCH, "linewidth": 0.0}


def _whiskers(ax: Axes, rows: Any, scores: Floats, half: Floats, ends: Floats, theme: Theme) -> None:
    """Draw intervals; where one is longer than the picture, an arrow at its edge."""
    ax.hlines(rows, ends[:, 0], ends[:, 1], color=theme.ink, linewidth=1.1, zorder=3, gid="intervals")
    for side, marker in ((0, "<"), (1, ">")):
        cut = scores + (2 * side - 1) * half != ends[:, side]
        look: dict[str, Any] = {"linestyle": "", "color": theme.ink, "zorder": 3}
        ax.plot(ends[~cut, side], rows[~cut], marker="|", markersize=5, markeredgewidth=1.1, gid=f"ends {side}", **look)
        if cut.any():
            ax.plot(ends[cut, side], rows[cut], marker=marker, markersize=4, gid=f"arrows {side}", **look)


def _key(ax: Axes, sides: tuple[str, str] | None, whiskers: bool, doubtful: bool, theme: Theme) -> None:
    entries: list[tuple[Any, str]] = []
    for colour, side in zip((theme.positive, theme.negative), sides or (), strict=False):
        entries.append((Line2D([], [], linestyle="", marker="s", markersize=8, color=colour), side))
    if whiskers:
        line = Line2D([], [], color=theme.ink, linewidth=1.1, marker="|", markersize=5, markeredgewidth=1.1)
        entries.append((line, "95% interval"))
    if doubtful:
        entries.append((Patch(**_hatched(theme.muted, theme)), "not distinguishable from zero"))
    if entries:
        key(ax, entries, theme)
