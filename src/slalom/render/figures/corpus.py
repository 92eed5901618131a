"""What a model does on a corpus: the strongest words as bars with intervals, or as swarms of texts."""

from typing import Any, Literal, final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import blended_transform_factory

from slalom.core.checks import Floats, whole_number
from slalom.corpus import CorpusSummary, WordEffect
from slalom.corpus.results import KINDS
from slalom.errors import InputError
from slalom.render.figures.canvas import Words, canvas, header, moved, shorten
from slalom.render.figures.theme import dress, theme_of
from slalom.render.palette import Theme, mix

_BINS = 120  # places along the axis that a swarm tells apart
_SWARM = 0.4  # half the height of a swarm, in rows


@final
class CorpusPlots:
    """The figures of a summary of a corpus, as `summary.plot`.

    Every method returns a matplotlib Figure. Blue is for the target, orange against it.

    Args:
        summary: What `slalom.corpus.summary` returns.
    """

    def __init__(self, summary: CorpusSummary) -> None:
        self._summary = summary

    def __repr__(self) -> str:
        return "CorpusPlots: bar(), beeswarm()"

    def bar(self, k: int = 15, kind: str = "word", ax: Axes | None = None, theme: Literal["light", "dark"] = "light") -> Figure:
        """Draw the mean effects of the strongest words as bars with 95% intervals, strongest on top.

        Args:
            k: How many.
            kind: "word", "phrase" or "piece".
            ax: Matplotlib axes to draw into. Default: a new figure.
            theme: "light" or "dark".

        Returns:
            The figure. A bar whose interval contains zero is pale.

        Raises:
            InputError: There is nothing of this kind, or an argument is of the wrong kind.
        """
        words, look = self._words(k, kind), theme_of(theme)
        figure, ax = self._axes(words, ax, look)
        mean = np.array([word.effect.mean for word in words], dtype=np.float64)
        ends = np.array([[word.effect.low, word.effect.high] for word in words], dtype=np.float64)
        sure = ends[:, 0] * ends[:, 1] > 0
        hues = [look.hue(m) if s else mix(look.paper, look.hue(m), 0.35) for m, s in zip(mean.tolist(), sure, strict=True)]
        rows = np.arange(len(words))
        ax.barh(rows, mean, height=0.68, color=hues, gid="bars", zorder=2)
        ax.hlines(rows, ends[:, 0], ends[:, 1], color=look.ink, linewidth=1.1, zorder=3, gid="intervals")
        marks: dict[str, Any] = {"linestyle": "", "marker": "|", "markersize": 5, "markeredgewidth": 1.1, "zorder": 3}
        ax.plot(ends.ravel(), np.repeat(rows, 2), color=look.ink, **marks)
        self._finish(ax, words, look)
        return figure

    def beeswarm(
        self, k: int = 15, kind: str = "word", ax: Axes | None = None, theme: Literal["light", "dark"] = "light"
    ) -> Figure:
        """Draw the effects of the strongest words in single texts, one point per text (a sample of at most 150 each).

        Args:
            k: How many words.
            kind: "word", "phrase" or "piece".
            ax: Matplotlib axes to draw into. Default: a new figure.
            theme: "light" or "dark".

        Returns:
            The figure. A vertical line is the mean over all texts; a ringed point is a text with a wrong prediction.

        Raises:
            InputError: There is nothing of this kind, or an argument is of the wrong kind.
        """
        words, look = self._words(k, kind), theme_of(theme)
        figure, ax = self._axes(words, ax, look)
        effects = [np.array([effect for effect, _ in word.sample]) for word in words]
        every = np.concatenate(effects)
        width = (float(np.ptp(every)) if len(every) else 0.0) or 1.0
        for row, (word, y) in enumerate(zip(words, effects, strict=True)):
            rings = [look.ink if wrong else "none" for _, wrong in word.sample]
            hues = [look.hue(effect) for effect in y.tolist()]
            offsets = row + swarm(y, width / _BINS)
            ax.scatter(y, offsets, s=9, c=hues, alpha=0.7, linewidths=0.7, edgecolors=rings, gid=f"texts {row}", zorder=2)
            mean = word.effect.mean or 0.0
            ax.vlines(mean, row - _SWARM, row + _SWARM, color=look.ink, linewidth=1.6, gid=f"mean {row}", zorder=3)
        self._finish(ax, words, look)
        return figure

    def _words(self, k: int, kind: str) -> list[WordEffect]:
        if kind not in KINDS:
            raise InputError(f"kind must be one of {', '.join(map(repr, KINDS))}; got {kind!r}")
        words = self._summary.of_kind(kind)[: whole_number("k", k, 1)]
        if not words:
            raise InputError(f"there is nothing to draw: the summary has no {kind}; take a smaller min_texts")
        return words

    def _axes(self, words: list[WordEffect], ax: Axes | None, theme: Theme) -> tuple[Figure, Axes]:
        figure, ax = canvas(ax, theme, (6.8, 1.4 + 0.3 * len(words)))
        dress(ax, theme)
        ax.spines["left"].set_visible(False)
        ax.set_yticks([])
        ax.set_ylim(len(words) - 0.4, -0.6)
        ax.axvline(0.0, color=theme.line, linewidth=0.8, zorder=1)
        about = self._summary.about
        ax.set_xlabel(f"effect on the score of “{shorten(about['target'], 20)}”")
        header(
            ax, theme, shorten(about["model"], 60), f"{about['explained']:,} texts; mean effect over those that have the word"
        )
        return figure, ax

    def _finish(self, ax: Axes, words: list[WordEffect], theme: Theme) -> None:
        """Write the names on the left, and the number of texts on the right."""
        sides = (("name", 0, -6, "right", theme.ink, 9.5), ("texts", 1, 6, "left", theme.muted, 8.5))
        for gid, x, away, hang, colour, size in sides:
            at = blended_transform_factory(ax.transAxes, ax.transData) + moved(ax, away, 0)
            for row, word in enumerate(words):
                text = shorten(word.name) if gid == "name" else f"{word.effect.texts:,}"
                look: dict[str, Any] = {"ha": hang, "va": "center_baseline", "size": size, "color": colour, "clip_on": False}
                ax.add_artist(Words(x, row, text, transform=at, gid=f"{gid} {row}", **look))


def swarm(numbers: Floats, step: float) -> Floats:
    """Return offsets within half a row, so that points of nearly one place lie beside each other.

    Example:
        >>> swarm(np.array([0.0, 0.0, 0.0, 5.0]), 1.0).tolist()
        [0.0, 0.08, -0.08, 0.0]
    """
    level: dict[int, int] = {}
    offsets = np.zeros(len(numbers))
    for i, cell in enumerate(np.round(numbers / step).astype(np.int64).tolist()):
        k = level.get(cell, 0)
        level[cell] = k + 1
        offsets[i] = 0.08 * ((k + 1) // 2 if k % 2 else -(k // 2))
    return np.clip(offsets, -_SWARM, _SWARM)
