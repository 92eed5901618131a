"""What an explanation method is.

    plan(units, budget, ...)  -> QueryPlan       which parts of the text are asked about before it begins
    explain(context)          -> MethodResult    a surrogate of the model around one text

There are three kinds. A `SurrogateMethod` fits a surrogate to the answers of its plan. A `BlackBoxMethod` asks in its own way.
A `WhiteBoxMethod` looks inside the model. The last two give one number per unit, an additive surrogate:

    score = base + sum_i effects_i
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom.core import Additive, Lengths, Surrogate
from slalom.core.checks import Floats
from slalom.errors import InputError
from slalom.models import Model, Reading
from slalom.text import QueryPlan, Units, Whole


class QueryContext(NamedTuple):
    """A text as a black-box method meets it.

    Attributes:
        text: The text.
        units: Names of its units (n,).
        spans: Where they are (n, 2).
        ask: Presence of units (m, n) -> scores (m,) of the target, in as many calls as the method likes.
        budget: How many different rows it may ask.
        empty: Whether it may ask about no unit at all.
        seed: Of its random choices.
    """

    text: str
    units: tuple[str, ...]
    spans: NDArray[np.int64]
    ask: Callable[[ArrayLike], Floats]
    budget: int
    empty: bool
    seed: int


@dataclass(frozen=True, eq=False)
class MethodContext:
    """One text as a method meets it, its plan answered.

    Attributes:
        model: The model.
        reading: The text as the model reads it.
        units: Its units.
        plan: The rows that were asked.
        scores: The answers to them, (m,) or (m, n_classes).
        score: The model's score of the whole text, () or (n_classes,).
        target: Index of the class, or "all".
        budget: How many rows may be asked in all.
        seed: Of random choices.
        ask: Asks further rows (k, n); they count as queries of the explanation.
    """

    model: Model
    reading: Reading
    units: Units
    plan: QueryPlan
    scores: Floats
    score: Floats
    target: int | Literal["all"]
    budget: int
    seed: int
    ask: Callable[[ArrayLike], Floats]

    def one_class(self, method: str) -> int:
        """Return the target, for methods that explain one class at a time."""
        if self.target == "all":
            raise InputError(f"method {method!r} explains one class at a time; choose a target")
        return self.target

    def shared(self, effects: Floats) -> Floats:
        """Return effects (n,) averaged over the units that share their parameters."""
        own = self.units.type_of_unit
        return (np.bincount(own, effects) / np.bincount(own))[own]


class MethodResult(NamedTuple):
    """What a method found.

    Attributes:
        surrogate: Of the units (n,).
        lengths: What the mere length of the input does; None where it does nothing.
        r2: Share of the variance of the plan's answers that both explain; None leaves it to the caller.
        diagnosis: Plain words where something is wrong.
        values_se, importances_se: Standard errors, shaped as the surrogate's values and importances; None where unknown.
    """

    surrogate: Surrogate
    lengths: Lengths | None = None
    r2: float | None = None
    diagnosis: str = ""
    values_se: Floats | None = None
    importances_se: Floats | None = None


class Method(ABC):
    """A way to explain. Concrete methods are final frozen dataclasses.

    Attributes:
        name: What it is called in tables and files.
        summary: One line on what it does.
        needs: What it needs of a model: "queries", "gradients", both or neither.
        extra: The optional dependencies that it needs, by the name of the extra; None where it needs none.
        unit: The unit that it takes by default.
        check: How many further queries test it at most, by default.
        signed: Whether the sign of its scores means for or against the target.
        takes_budget: Whether more queries give a better explanation.
    """

    name: str
    summary: str = ""
    needs: ClassVar[tuple[str, ...]] = ("queries",)
    extra: ClassVar[str | None] = None
    unit: str = "token"
    check: int = 100
    signed: bool = True
    takes_budget: ClassVar[bool] = True

    @abstractmethod
    def plan(self, units: Units, budget: int, rng: np.random.Generator, empty: bool) -> QueryPlan:
        """Return the rows to ask: at most `budget`, one where the method asks for itself.

        empty: whether the model can be asked about nothing at all.
        """

    @abstractmethod
    def explain(self, context: MethodContext) -> MethodResult:
        """Return the explanation of one text.

        Raises:
            InputError: The model or the target is not of a kind that the method knows.
        """


class BlackBoxMethod(Method):
    """A method that asks in its own way: subclasses give `attribute`."""

    def plan(self, units: Units, budget: int, rng: np.random.Generator, empty: bool) -> QueryPlan:
        """Return the whole text; the method asks the rest."""
        return Whole().draw(units.type_of_unit, budget, rng, empty)

    def explain(self, context: MethodContext) -> MethodResult:
        """Let the method ask, and share its effects between equal units; the pipeline knows the rows that it asked."""
        context.one_class(self.name)
        c = context
        found = self.attribute(
            QueryContext(c.reading.text, c.units.names, c.units.spans, c.ask, c.budget, c.reading.empty, c.seed)
        )
        return MethodResult(Additive(context.shared(found.effects), found.base))

    @abstractmethod
    def attribute(self, context: QueryContext) -> Additive:
        """Return effects (n_units,) and a base."""


class WhiteBoxMethod(Method):
    """A method that looks inside the model: subclasses give `attribute`.

    The base takes up what its numbers do not add up to, so that the surrogate is right on the whole text.
    """

    needs: ClassVar[tuple[str, ...]] = ("gradients",)
    check: int = 20
    takes_budget: ClassVar[bool] = False

    def plan(self, units: Units, budget: int, rng: np.random.Generator, empty: bool) -> QueryPlan:
        """Return the whole text."""
        return Whole().draw(units.type_of_unit, budget, rng, empty)

    def explain(self, context: MethodContext) -> MethodResult:
        """Sum the numbers of the tokens of each unit."""
        target = context.one_class(self.name)
        atoms = self.attribute(context.model, context.reading, target, context.seed)
        per_unit = np.bincount(context.units.unit_of_atom, atoms, minlength=len(context.units)).astype(np.float64)
        effects = context.shared(per_unit)
        return MethodResult(Additive(effects, float(context.score) - float(effects.sum())), r2=1.0)  # of the text itself

    @abstractmethod
    def attribute(self, model: Model, reading: Reading, target: int, seed: int) -> Floats:
        """Return the effects (n_atoms,) on the score of a target (an index into the labels), as `Head.scores` has it.

        The model is left as it was found.

        Raises:
            InputError: The model is not of a kind that the method knows.
        """
