"""The surrogate beside the model while units are removed.

`tested_curve` shows the queries that tested the fit: mean and standard deviation by how many units they lack; neighbouring
numbers are pooled until there are four queries. `asked_curve` asks the model: units are removed in a fixed order, by the sign
of the score times the removal effect in the whole text, largest first, beside the mean of random orders.

Removals are on a square-root axis, as the first ones matter most.
"""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator
from numpy.typing import NDArray
from scipy.special import logit

from slalom.errors import InputError
from slalom.explainer import Explainer
from slalom.render.charts import View
from slalom.render.figures.canvas import canvas, dress, header, key
from slalom.render.palette import Theme, mix
from slalom.result.wording import score_name

_LOW = (0.1, 0.01, 0.001, 0.25, 0.0001, 0.4, 0.3, 0.2, 0.05)  # probabilities to mark, the most important first
_PROBABILITIES = np.array([0.5, *(p for low in _LOW for p in (low, 1 - low))])
_SIZE = (7.4, 4.6)
_POOL = 4
_STEPS, _ORDERS = 20, 5  # of removals, and random orders
_REMOVALS = [0, *(m * 10**e for e in range(6) for m in (1, 2, 5))]


def tested_curve(view: View, ax: Axes | None, theme: Theme) -> Figure:
    """Draw the queries that tested the fit, by how many units they lack."""
    tested = view.explanation.held_out
    if not view.explanation.signed:
        raise InputError(
            f"removal_curve has no prediction to show: the scores of {view.explanation.method} have no sign; pass explainer= to"
            " ask the model in their order"
        )
    if tested is None:
        raise InputError(
            "removal_curve needs the queries that tested the fit, and this explanation has none (check=0, a very short text,"
            " merged or from an old file); pass explainer= to ask the model now"
        )
    removed = (~tested.keep).sum(axis=1)
    model, predicted = view.pick(tested.scores), view.pick(view.explanation.predict(tested.keep))
    figure, ax = _axes(view, f"{len(removed)} queries that the fit has not seen, their mean and standard deviation", ax, theme)
    groups = _pooled(removed)
    steps = np.array([removed[group].mean() for group in groups])
    for scores, colour, style, name in ((model, theme.ink, "-", "model"), (predicted, theme.neutral, "--", "surrogate")):
        mean, spread = (np.array([part(scores[group]) for group in groups]) for part in (np.mean, np.std))
        ax.fill_between(steps, mean - spread, mean + spread, color=colour, alpha=0.07, linewidth=0, zorder=1)
        ax.plot(steps, mean, color=colour, linestyle=style, linewidth=1.6, zorder=3, gid=name)
        ax.plot(removed, scores, ".", color=mix(theme.paper, colour, 0.55), markersize=4, zorder=2, gid=f"{name} queries")
    ax.vlines(removed, model, predicted, color=mix(theme.paper, theme.muted, 0.35), linewidth=0.6, zorder=1.5, gid="misses")
    _finish(ax, view, theme, int(removed.min()))
    return figure


def asked_curve(view: View, explainer: object, ax: Axes | None, theme: Theme) -> Figure:
    """Draw the model's answers while units are removed."""
    if not isinstance(explainer, Explainer):
        raise InputError(f"explainer must be the Explainer that made this explanation; got {type(explainer).__name__}")
    e, n = view.explanation, len(view.explanation)
    removed = np.unique((np.linspace(0, 1, _STEPS + 1) ** 2 * (n - 1)).round().astype(np.int64))
    effect = view.scores("removal")
    for_decision = np.abs(effect) if not e.signed else -effect if view.score < 0 else effect
    rng = np.random.default_rng(0)
    sequences = [np.argsort(-for_decision, kind="stable"), *(rng.permutation(n) for _ in range(_ORDERS))]
    ranks = np.argsort(sequences, axis=1)
    keep = (ranks[:, None] >= removed[:, None]).reshape(-1, n)
    model = np.asarray(view.pick(explainer.ask(e, keep))).reshape(len(sequences), -1)
    which = "largest effect for the decision" if e.signed else "highest scores"
    figure, ax = _axes(view, f"{e.unit}s with the {which} removed first", ax, theme)
    look: dict[str, Any] = {"linewidth": 1.6, "marker": "o", "markersize": 3.5}
    ax.plot(removed, model[0], color=theme.ink, zorder=3, gid="model", **look)
    if e.signed:  # scores without a sign predict nothing
        predicted = view.pick(e.predict(keep[: len(removed)]))
        ax.plot(removed, predicted, color=theme.neutral, linestyle="--", zorder=4, gid="surrogate", **look)
    muted = mix(theme.paper, theme.muted, 0.5)
    ax.plot(removed, model[1:].mean(axis=0), color=muted, linewidth=1.2, zorder=1, gid="random")
    _finish(ax, view, theme, 0)
    return figure


def _pooled(removed: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the rows of each group: those that lack the same number, and the next numbers until there are enough rows."""
    groups: list[NDArray[np.int64]] = []
    for k in np.unique(removed):
        rows = np.flatnonzero(removed == k)
        if groups and len(groups[-1]) < _POOL:
            groups[-1] = np.append(groups[-1], rows)
        else:
            groups.append(rows)
    if len(groups) > 1 and len(groups[-1]) < _POOL:
        groups[-2:] = [np.concatenate(groups[-2:])]
    return groups


def _axes(view: View, subtitle: str, ax: Axes | None, theme: Theme) -> tuple[Figure, Axes]:
    figure, ax = canvas(ax, theme, _SIZE)
    dress(ax, theme)
    ax.set_xlabel(f"{view.explanation.unit}s removed (of {len(view.explanation)})")
    ax.set_ylabel(score_name(view.explanation))
    header(ax, theme, view.title(), subtitle)
    return figure, ax


def _finish(ax: Axes, view: View, theme: Theme, first: int) -> None:
    """Add the zero line, the legend and, where the score is the log odds of one target, probabilities on the right."""
    n = len(view.explanation)
    ticks = [tick for tick in _REMOVALS if first <= tick < max(n, 2)]
    ax.set_xscale("function", functions=(lambda x: np.sign(x) * np.sqrt(np.abs(x)), lambda x: np.sign(x) * np.square(x)))
    ax.set_xlim(first - 0.3 if first else -0.02, max(n, 1.5))
    _mark(ax.xaxis, ticks, [f"{tick:,}" for tick in ticks])
    ax.margins(y=0.08)
    low, high = ax.get_ylim()
    middle, half = (low + high) / 2, max(high - low, 0.5) / 2
    low, high = middle - half, middle + half
    ax.axhline(0.0, color=theme.line, linewidth=0.8, zorder=0)
    ax.set_ylim(low, high)
    words = {
        "model": "model",
        "surrogate": "prediction of the explanation",
        "random": f"model, {view.explanation.unit}s in random order",
    }
    key(ax, [(_plain(line), words[str(gid)]) for line in ax.get_lines() if (gid := line.get_gid()) in words], theme)
    if score_name(view.explanation) == "log odds":
        right = ax.secondary_yaxis("right")
        dress(right, theme)
        right.spines["right"].set_visible(False)
        shown: list[float] = []  # round probabilities, none closer to another than a tenth of the axis
        for p in _PROBABILITIES:
            if low <= logit(p) <= high and all(abs(logit(p) - logit(q)) > 0.09 * (high - low) for q in shown):
                shown.append(float(p))
        _mark(right.yaxis, logit(sorted(shown)), [f"{100 * p:.4g}%" for p in sorted(shown)])
        right.set_ylabel("probability")


def _plain(line: Line2D) -> Line2D:
    return Line2D([], [], color=line.get_color(), linestyle=line.get_linestyle(), linewidth=1.6)


def _mark(axis: Any, places: Any, texts: list[str]) -> None:
    axis.set_major_locator(FixedLocator(places))
    axis.set_major_formatter(FixedFormatter(texts))
    axis.set_minor_locator(NullLocator())
