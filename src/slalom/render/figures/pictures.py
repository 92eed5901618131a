"""The pictures of an explanation: arguments are checked here, each picture is drawn by a file of its own."""

from typing import Any, Literal, cast, final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slalom.explainer import Explainer
from slalom.render.figures.bar import bar
from slalom.render.figures.curve import asked_curve, tested_curve
from slalom.render.figures.highlight import highlight
from slalom.render.figures.scatter import scatter
from slalom.render.figures.theme import theme_of
from slalom.render.figures.view import View, count, truth
from slalom.result import Explanation


@final
class Plots:
    """The pictures of one explanation, each a matplotlib Figure: `figure.savefig("name.svg")` saves it.

    In all of them: target is the label or index of a class, where several were explained (None: the predicted one); theme is
    "light" or "dark"; ax are matplotlib axes to draw into, None makes a new figure. Blue speaks for the target, orange against.
    """

    def __init__(self, explanation: Explanation) -> None:
        self._explanation = explanation

    def __repr__(self) -> str:
        """Name the pictures."""
        return "Plots: scatter(), text(), bar(), removal_curve()"

    def scatter(
        self,
        label: int = 15,
        intervals: bool = False,
        target: int | str | None = None,
        ax: Axes | None = None,
        theme: Literal["light", "dark"] = "light",
    ) -> Figure:
        """Draw value against importance, with the share of attention as area and the side of the removal effect as colour.

        label: how many of the strongest units are named. intervals: whether to show 95% intervals.
        """
        view = View.on(self._explanation, target)
        return _figure(scatter(view, count("label", label, 0), truth("intervals", intervals), ax, theme_of(theme)))

    def text(
        self,
        score: str = "removal",
        target: int | str | None = None,
        max_lines: int = 60,
        theme: Literal["light", "dark"] = "light",
    ) -> Figure:
        """Draw the text with each unit on a colour by its score; the figure is as tall as the text.

        score: a name that `Explanation.scores` takes. max_lines: of a longer text the rest is left out, and the figure says so.
        """
        view = View.on(self._explanation, target)
        return _figure(highlight(view, score, view.scores(score), count("max_lines", max_lines, 1), theme_of(theme)))

    def bar(
        self,
        k: int = 10,
        score: str = "removal",
        intervals: bool | None = None,
        target: int | str | None = None,
        ax: Axes | None = None,
        theme: Literal["light", "dark"] = "light",
    ) -> Figure:
        """Draw the k units with the strongest scores as bars, strongest on top.

        score: a name that `Explanation.scores` takes. intervals: 95% intervals, which "value" and "importance" have; None shows
        them where they are known.
        """
        view = View.on(self._explanation, target)
        wanted = None if intervals is None else truth("intervals", intervals)
        return _figure(bar(view, count("k", k, 1), score, view.scores(score), wanted, ax, theme_of(theme)))

    def removal_curve(
        self,
        explainer: Explainer | None = None,
        steps: int = 20,
        orders: int = 5,
        seed: int = 0,
        target: int | str | None = None,
        ax: Axes | None = None,
        theme: Literal["light", "dark"] = "light",
    ) -> Figure:
        """Draw the model's score beside the surrogate's for growing removals.

        Without an explainer nothing is asked: the queries that tested the fit are shown by how many units they lack. With the
        explainer, the model is asked again while units are taken away in a fixed order, those that speak most for the decision
        first, as the surrogate's removal effects of the whole text have it; at least one unit stays. steps: how many removals.
        orders: how many random orders (of this seed) are averaged for comparison; 0 leaves them out.
        """
        view, look = View.on(self._explanation, target), theme_of(theme)
        steps, orders, seed = count("steps", steps, 1), count("orders", orders, 0), count("seed", seed, 0)
        if explainer is None:
            return _figure(tested_curve(view, ax, look))
        return _figure(asked_curve(view, explainer, steps, orders, seed, ax, look))


def _figure(drawn: Any) -> Figure:
    return cast(Figure, drawn)
