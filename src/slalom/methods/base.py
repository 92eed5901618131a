"""The interface of explanation methods.

    plan(units, budget, ...)  -> QueryPlan       the queries to ask in advance, together with those of other texts
    next_rows(context)        -> rows, state     further ones that depend on the answers, asked in the same way
    explain(context)          -> MethodResult    a surrogate of the model around one text

There are four kinds. A `SurrogateMethod` fits a surrogate to the scores of its plan, a `JointMethod` to those of its plan and
of the strongest units. A `BlackBoxMethod` chooses its queries as it goes. A `WhiteBoxMethod` looks inside the model. The last
two return one effect per unit, an additive surrogate:

    score = base + sum_i effects_i
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom.core import Additive, Observed, Surrogate
from slalom.core.checks import Floats, real_array
from slalom.errors import InputError, SlalomError, one_line
from slalom.models import Model, Reading
from slalom.text import QueryPlan, Units


@dataclass(frozen=True, eq=False)
class MethodContext:
    """One text as a method sees it, with the scores of its plan.

    Attributes:
        model: The model.
        reading: The text as the model reads it.
        units: Its units.
        plan: The queries of the method, m rows.
        scores: Their scores, (m,) or (m, n_classes).
        score: Score of the whole text, () or (n_classes,).
        target: Index of the class to explain, or "all".
        budget: Largest number of rows to query, those of the plan included.
        seed: Seed of random choices.
        ask: Function from further rows (k, n) to their scores; they count as queries of the explanation. May be called any
            number of times.
        pairs: Whether to look for pairs of units that act together.
        observed: The scores of the plan with their variances and bounds, where the model does not give exact ones.
        before: The state that `next_rows` returned last; None before that.
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
    pairs: bool = True
    observed: Observed | None = None
    before: Any = None

    @property
    def empty(self) -> bool:
        """Whether the model accepts an empty input."""
        return self.reading.empty

    @property
    def exact(self) -> bool:
        """Whether the model gives exact scores."""
        return self.observed is None or self.observed.exact

    def one_class(self, method: str) -> int:
        """Return the target, for methods that explain one class at a time; `method` is their name, for the message."""
        if self.target == "all":
            raise InputError(f"method {method!r} explains one class at a time; choose a target")
        return self.target

    def shared(self, effects: Floats) -> Floats:
        """Return effects (n,) averaged over the units that share their parameters."""
        types = self.units.type_of_unit
        return (np.bincount(types, effects) / np.bincount(types))[types]


class MethodResult(NamedTuple):
    """The result of a method for one text.

    Attributes:
        surrogate: Surrogate of the n units.
        r2: R2 of the fit. None: computed on the rows that the method has queried beyond its plan, or else on the plan.
        diagnosis: What is wrong, in one sentence; empty where nothing is.
        errors: Standard errors by the names of scores, as far as they are known: (n,) or (n, n_classes).
        measured: The model's own answers by the names of scores, NaN where it was not asked.
        notes: Sentences that are shown with the explanation.
        part: Function from a part (m,) of the scores that were explained to the `MethodContext.before` with which that part is
            explained from the same fit; None: by a fit of its own.
    """

    surrogate: Surrogate
    r2: float | None = None
    diagnosis: str = ""
    errors: Mapping[str, Floats] = MappingProxyType({})
    measured: Mapping[str, Floats] = MappingProxyType({})
    notes: tuple[str, ...] = ()
    part: Callable[[Floats], Any] | None = None


class Method(ABC):
    """An explanation method. Concrete methods are final frozen dataclasses.

    Attributes:
        name: Name in tables, files and `Explainer(method=...)`.
        summary: One line on what it does.
        needs: What it needs of a model: "queries", "gradients", "attention", several or none.
        extra: Extra of this distribution that it needs; None: none.
        unit: Default unit.
        check: Largest default number of held-out queries.
        signed: Whether the sign of its scores means for or against the target.
        takes_budget: Whether the query budget matters.
        most: Largest budget by default where it grows in rounds.
        plans_all: Whether its queries are in its plan and `next_rows`, so that they can be counted in advance; else it may ask
            more.
    """

    name: str
    summary: str = ""
    needs: ClassVar[tuple[str, ...]] = ("queries",)
    extra: ClassVar[str | None] = None
    unit: str = "token"
    check: int = 100
    signed: bool = True
    takes_budget: ClassVar[bool] = True
    most: ClassVar[int] = 5000
    plans_all: ClassVar[bool] = False

    @property
    def prior(self) -> str | None:
        """Name of the lexicon that it begins with; default: none."""
        return None

    def on(self, reading: Reading, units: Units) -> "Method":
        """Return the method for one text: with what it knows of its words; default: itself."""
        return self

    def known(self, units: Units) -> NDArray[np.bool_]:
        """Return rows (k, n) whose answers it has already, so that they do not test it; default: none."""
        return np.zeros((0, len(units)), dtype=bool)

    @property
    def finds_pairs(self) -> bool:
        """Whether `Explanation.pairs` is asked; default: not."""
        return False

    def seconds(self, n: int, rows: int) -> float:
        """Return about how long the computation for n parameters takes on one core, without queries; 0: too short to matter."""
        return 0.0

    def further(self, n: int, budget: int) -> int:
        """Return how many rows `next_rows` returns at most; default: none."""
        return 0

    def plan(self, units: Units, budget: int, rng: np.random.Generator, empty: bool) -> QueryPlan:
        """Return the queries to send in advance; default: the whole text.

        Where the budget grows in rounds, further rows are taken from further calls.

        Args:
            units: Units of the text.
            budget: Largest number of rows.
            rng: Random generator.
            empty: Whether the model accepts an empty input.
        """
        return QueryPlan(np.ones((1, len(units)), dtype=bool), np.ones(1))

    def next_rows(self, context: MethodContext) -> tuple[NDArray[np.bool_], Any]:
        """Return rows (k, n) to ask before the text is explained, and a state that comes back as `context.before`.

        They are asked together with those of other texts and become part of the plan, as far as the budget allows. This is
        called again after that, until there are none; the state of rows that are asked should be small. Default: none.
        """
        return context.plan.keep[:0], context.before

    @abstractmethod
    def explain(self, context: MethodContext) -> MethodResult:
        """Return a surrogate of the units of one text, with its quality and standard errors where known.

        Raises:
            InputError: If the method does not support this model or target.
        """


class BlackBoxMethod(Method):
    """A method that chooses its queries as it goes. Subclasses implement `attribute`.

    Example:
        >>> class Halves(BlackBoxMethod):
        ...     name = "halves"
        ...
        ...     def attribute(self, context):
        ...         n = len(context.units)
        ...         whole, first = context.ask([[1] * n, [1] * (n // 2) + [0] * (n - n // 2)])
        ...         effects = [first / (n // 2)] * (n // 2) + [(whole - first) / (n - n // 2)] * (n - n // 2)
        ...         return Additive(effects, 0.0)
        >>> from slalom import Explainer
        >>> e = Explainer(lambda texts: [1.0 * ("bad" in t) for t in texts], output="log_odds")("so so bad", method=Halves())
        >>> e.removal.tolist()
        [0.0, 0.5, 0.5]
    """

    def explain(self, context: MethodContext) -> MethodResult:
        context.one_class(self.name)
        surrogate: object = self.attribute(context)
        if not isinstance(surrogate, Additive):
            raise InputError(f"method {self.name!r} must return an Additive; got {type(surrogate).__name__}")
        _check_shape(self, surrogate.effects, len(context.units), "units")
        return MethodResult(Additive(context.shared(surrogate.effects), surrogate.base))

    @abstractmethod
    def attribute(self, context: MethodContext) -> Additive:
        """Return the effects (n,) of the units and a base; InputError if the method does not support this model."""


class WhiteBoxMethod(Method):
    """A method that looks inside the model. Subclasses implement `attribute`.

    The base of its additive surrogate is chosen so that the prediction for the whole text is exact.
    """

    needs: ClassVar[tuple[str, ...]] = ("gradients",)
    check: int = 20
    takes_budget: ClassVar[bool] = False
    plans_all: ClassVar[bool] = True

    def explain(self, context: MethodContext) -> MethodResult:
        target = context.one_class(self.name)
        returned = self.attribute(context.model, context.reading, target, context.seed)
        atoms = real_array(f"the effects of method {self.name!r}", returned, (1,))
        _check_shape(self, atoms, len(context.reading.names), "atoms")
        per_unit = np.bincount(context.units.unit_of_atom, atoms, minlength=len(context.units)).astype(np.float64)
        effects = context.shared(per_unit)
        base = float(context.score) - float(effects.sum())
        return MethodResult(Additive(effects, base), r2=1.0)  # on the plan, the whole text

    @abstractmethod
    def attribute(self, model: Model, reading: Reading, target: int, seed: int) -> Floats:
        """Return the effects (n_atoms,) of the atoms on the score of a class. The model must be left unchanged.

        Args:
            model: The model.
            reading: The text as the model reads it.
            target: Index of the class; its score is that of `Head.scores`.
            seed: Seed of random choices.

        Raises:
            InputError: If the method does not support this model.
        """


@contextmanager
def named_failures(method: Method) -> Iterator[None]:
    """Name a method of another package whose code fails; errors of our own methods are passed on."""
    try:
        yield
    except (SlalomError, MemoryError):
        raise
    except Exception as error:
        if type(method).__module__.partition(".")[0] == __name__.partition(".")[0]:
            raise
        raise InputError(f"method {method.name!r} failed: {type(error).__name__}: {one_line(error)}") from error


def _check_shape(method: Method, effects: Floats, n: int, what: str) -> None:
    if effects.shape != (n,):
        raise InputError(f"method {method.name!r} must return one effect for each of {n} {what}; got shape {effects.shape}")
