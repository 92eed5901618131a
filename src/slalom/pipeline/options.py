"""Options: how to explain a text, checked where they enter, with the defaults filled in."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from slalom.budget import AUTO, CHECK, Goal
from slalom.core.checks import check_choice, whole_number
from slalom.errors import InputError, did_you_mean
from slalom.methods import Method
from slalom.models import Target
from slalom.text import CHOSEN, GIVEN, KINDS, UnitFunction, function_name

LEAST_QUERIES = 2  # without a lexicon
_LEAST_CHECK = 20  # held-out queries with which a gain can be told from noise


@final
@dataclass(frozen=True)
class Options:
    """How to explain a text, checked: the options of a call of the `Explainer`, with a seed that is drawn."""

    method: Method
    unit: str | UnitFunction | None
    queries: int | str | None
    check: int | None
    target: Target
    seed: int
    long: str
    errors: str = "raise"  # at a text that fails; "keep" yields a Failure for it and continues
    pairs: bool = True
    tolerance: float | None = None
    max_queries: int | None = None
    removal: str = "drop"
    background: str | None = None  # a digest of it

    def __post_init__(self) -> None:
        unit = self.unit_or_default
        if not callable(unit) and unit not in (*KINDS, *GIVEN):
            kinds = ", ".join(map(repr, KINDS))
            near = did_you_mean(unit, KINDS) or "; in Python it may be a function text -> spans"
            raise InputError(f"unit must be one of {kinds}; got {unit!r}{near}")
        check_choice("long", self.long, ("cut", "window"))
        check_choice("errors", self.errors, ("raise", "keep"))
        if self.queries is not None and self.queries != AUTO:
            if isinstance(self.queries, str):
                raise InputError(f"queries must be a whole number of at least 2, or 'auto'; got {self.queries!r}")
            whole_number("queries", self.queries, LEAST_QUERIES if self.method.prior is None else 0)
        if self.method.prior is not None and self.target == "all":
            raise InputError("a lexicon explains one class at a time; got target='all'; name a class", "target", "prior")
        if self.check is not None:
            whole_number("check", self.check, 0)
        whole_number("seed", self.seed, 0)
        _ = self._goal
        if self.tolerance is not None and self.queries not in (None, AUTO):
            raise InputError(f"tolerance is a goal of queries='auto'; got queries={self.queries!r}", "tolerance", "queries")
        if self.auto and self.tolerance is None and self.check is not None and self.check < _LEAST_CHECK:
            raise InputError(
                f"queries='auto' needs at least {_LEAST_CHECK} held-out queries; got check={self.check}; leave it out"
                f" for {CHECK}"
            )

    @property
    def auto(self) -> bool:
        """Whether the budget grows in rounds; a tolerance implies it."""
        return self.queries == AUTO or (self.tolerance is not None and self.queries is None)

    @property
    def goal(self) -> Goal | None:
        """When a growing budget is large enough; None for a fixed one, and for methods that take none."""
        return self._goal if self.auto and self.method.takes_budget else None

    @property
    def _goal(self) -> Goal:
        return Goal(self.tolerance, self.method.most if self.max_queries is None else self.max_queries)

    def budget(self, n: int) -> int:
        """Return the budget of n units, that of the first round where it grows."""
        if self.goal is not None:
            return self.goal.first(n)
        return self.queries if isinstance(self.queries, (int, np.integer)) else min(max(5 * n, 200), 1000)

    def most_queries(self, n: int) -> int:
        """Return the budget of n units, the largest one where it grows."""
        return self.budget(n) if self.goal is None else self.goal.most

    @property
    def limit(self) -> int | None:
        """Largest number of all queries about a text; None where the budget grows or there is none."""
        return None if self.auto else self.max_queries

    def held_out(self, budget: int) -> int:
        """Return the number of held-out queries."""
        if self.check is not None:
            return self.check
        if not budget:  # the lexicon's own quality is shown
            return 0
        if not self.method.signed:  # scores without a sign predict nothing that could be tested
            return 0
        return CHECK if self.goal is not None else min(max(budget // 10, 20), self.method.check)

    @property
    def unit_or_default(self) -> str | UnitFunction:
        """The kind of unit or the function that finds them, with the method's default filled in."""
        return self.method.unit if self.unit is None else self.unit

    @property
    def checks_pairs(self) -> bool:
        """Whether the model is asked about pairs of units that are predicted to act together."""
        return self.pairs and self.method.finds_pairs and self.queries != 0

    @property
    def unit_kind(self) -> str:
        """The kind of unit."""
        unit = self.unit_or_default
        return unit if isinstance(unit, str) else CHOSEN

    @property
    def unit_name(self) -> str:
        """The kind of unit, or the name of the function that finds them."""
        unit = self.unit_or_default
        return unit if isinstance(unit, str) else function_name(unit)

    def settings(self, model_id: str | None) -> dict[str, Any]:
        """Return what a result depends on besides the text, method, unit and seed."""
        options: dict[str, Any] = {"queries": self.queries, "check": self.check, "target": self.target, "long": self.long}
        if not self.pairs:
            options["pairs"] = False
        if self.removal != "drop":
            options["removal"] = self.removal
        if self.background is not None:
            options["background"] = self.background
        if self.method.prior is not None:
            options["prior"] = self.method.prior
        if self.unit_kind != self.unit_name:
            options["unit"] = self.unit_name
        if self.auto:
            options |= {"queries": AUTO, "tolerance": self.tolerance, "max_queries": self.max_queries}
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in options.items()}
        return {**plain, "identity": model_id}
