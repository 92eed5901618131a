"""`Plots`: the figures of an explanation. Arguments are checked here, each figure is drawn by its own file."""

from typing import Literal, final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slalom.core.checks import whole_number
from slalom.explainer import Explainer
from slalom.render.charts import View
from slalom.render.figures.bar import bar, pairs
from slalom.render.figures.canvas import theme_of
from slalom.render.figures.curve import asked_curve, tested_curve
from slalom.render.figures.scatter import scatter
from slalom.result import Explanation

_Theme = Literal["light", "dark"]
_Target = int | str | None


@final
class Plots:
    """The figures of one explanation, as `explanation.plot`.

    Every method returns a matplotlib Figure: `figure.savefig("name.svg")` saves it. All take `target`, the label or index of a
    class where several were explained (default: the predicted one), and `theme`, "light" or "dark", and `ax`,
    matplotlib axes to draw into (default: a new figure). They raise InputError for an argument of the wrong kind.

    Blue is for the target, orange against it. Importances, and the scores of methods without a sign (such as attention), are
    violet.

    Args:
        explanation: What is drawn.

    Example:
        >>> import slalom
        >>> explainer = slalom.Explainer(lambda texts: [t.count("!") for t in texts], output="log_odds", progress=False)
        >>> figure = explainer("Stop! Now!").plot.bar(k=3)
        >>> figure.axes[0].get_xlabel()
        'removal: by how much the score falls without it'
    """

    def __init__(self, explanation: Explanation) -> None:
        self._explanation = explanation

    def __repr__(self) -> str:
        return "Plots: scatter(), bar(), pairs(), removal_curve()"

    def _view(self, target: _Target) -> View:
        return View(self._explanation, self._explanation.column(target))

    def scatter(self, label: int = 15, target: _Target = None, ax: Axes | None = None, theme: _Theme = "light") -> Figure:
        """Draw value against importance.

        Args:
            label: How many of the strongest units are named.

        Returns:
            The figure. The area of a point is its unit's share of attention, the colour the direction of its removal effect.
        """
        return scatter(self._view(target), whole_number("label", label, 0), ax, theme_of(theme))

    def bar(
        self, k: int = 10, score: str = "removal", target: _Target = None, ax: Axes | None = None, theme: _Theme = "light"
    ) -> Figure:
        """Draw the units with the strongest scores as bars, strongest on top, with 95% intervals where they are known.

        A bar whose interval contains zero is pale and hatched.

        Args:
            k: How many units.
            score: A name that `Explanation.scores` takes.
        """
        return bar(self._view(target), whole_number("k", k, 1), score, ax, theme_of(theme))

    def pairs(self, k: int = 10, target: _Target = None, ax: Axes | None = None, theme: _Theme = "light") -> Figure:
        """Draw pairs of units that act together as bars, strongest on top.

        Args:
            k: How many pairs.

        Returns:
            The figure. A bar is the effect of both units beyond the sum of their own, with its 95% interval.

        Raises:
            InputError: The explanation has no pairs.
        """
        return pairs(self._view(target), whole_number("k", k, 1), ax, theme_of(theme))

    def removal_curve(
        self, explainer: Explainer | None = None, target: _Target = None, ax: Axes | None = None, theme: _Theme = "light"
    ) -> Figure:
        """Draw the model's score beside the surrogate's while units are removed.

        Args:
            explainer: The explainer that made the explanation: the model is queried again while units are removed in a fixed
                order, those with the largest removal effect for the decision first, beside the mean of five random
                orders; at least one unit stays. Default: nothing
                is queried, and the queries that tested the fit are shown by how many units they lack.

        Raises:
            InputError: No explainer is given, and no query has tested the fit.
        """
        view, look = self._view(target), theme_of(theme)
        if explainer is None:
            return tested_curve(view, ax, look)
        return asked_curve(view, explainer, ax, look)
