"""What a model does on a corpus: the strongest words as bars with intervals, or as swarms of texts."""

from typing import Literal, final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slalom.core.checks import Floats, check_choice, whole_number
from slalom.corpus import CorpusSummary, WordEffect
from slalom.corpus.results import KINDS
from slalom.errors import InputError
from slalom.render.charts import shorten, signed
from slalom.render.figures.bar import draw_bars, rows_of, write_rows
from slalom.render.figures.canvas import theme_of
from slalom.render.palette import Theme

_BINS = 120  # places along the axis that a swarm tells apart
_SWARM = 0.4  # half the height of a swarm, in rows


@final
class CorpusPlots:
    """The figures of a summary of a corpus, as `summary.plot`.

    Every method returns a matplotlib Figure and takes `ax`, matplotlib axes to draw into (default: a new figure), and `theme`.
    Blue is for the target, orange against it.

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

        Returns:
            The figure. A bar whose interval contains zero is pale and hatched. On the right: in how many texts.

        Raises:
            InputError: There is nothing of this kind, or an argument is of the wrong kind.
        """
        words, look = self._words(k, kind), theme_of(theme)
        figure, ax = self._axes(words, ax, look, legend=True)
        mean = np.array([word.effect.mean for word in words], dtype=np.float64)
        high = np.array([word.effect.high for word in words], dtype=np.float64)
        half = np.nan_to_num(high - mean, nan=np.inf)  # of a single text nothing is known
        numbers = [signed(m, float(np.abs(mean).max())) for m in mean.tolist()]
        sides = (f"for “{shorten(self._summary.about['target'], 20)}”", "against")
        draw_bars(ax, [shorten(word.name) for word in words], mean, numbers, half, np.abs(mean) <= half, sides, look)
        return figure

    def beeswarm(
        self, k: int = 15, kind: str = "word", ax: Axes | None = None, theme: Literal["light", "dark"] = "light"
    ) -> Figure:
        """Draw the effects of the strongest words in single texts, one point per text (a sample of at most 150 each).

        Args:
            k: How many words.
            kind: "word", "phrase" or "piece".

        Returns:
            The figure. A vertical line is the mean over all texts; a ringed point is a text with a wrong prediction.

        Raises:
            InputError: There is nothing of this kind, or an argument is of the wrong kind.
        """
        words, look = self._words(k, kind), theme_of(theme)
        figure, ax = self._axes(words, ax, look, legend=False)
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
        write_rows(ax, [shorten(word.name) for word in words], look)
        return figure

    def _words(self, k: int, kind: str) -> list[WordEffect]:
        check_choice("kind", kind, KINDS)
        words = self._summary.of_kind(kind)[: whole_number("k", k, 1)]
        if not words:
            raise InputError(f"there is nothing to draw: the summary has no {kind}; take a smaller min_texts")
        return words

    def _axes(self, words: list[WordEffect], ax: Axes | None, theme: Theme, legend: bool) -> tuple[Figure, Axes]:
        about = self._summary.about
        subtitle = f"{about['explained']:,} texts; mean effect over those that have the word"
        meaning = f"effect on the score of “{shorten(about['target'], 20)}”"
        figure, ax = rows_of(len(words), meaning, shorten(about["model"], 60), subtitle, ax, theme, legend)
        write_rows(ax, [f"{word.effect.texts:,}" for word in words], theme, right=True)
        return figure, ax


def swarm(numbers: Floats, step: float) -> Floats:
    """Return offsets within half a row, so that points of nearly one place lie beside each other.

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
