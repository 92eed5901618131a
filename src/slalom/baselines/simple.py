"""Baselines that need no package: leave-one-out, Naive Bayes of a corpus, random numbers.

leave-one-out   F(text) - F(text without i)
naive bayes     log p(token | target) - log p(token | other classes), with alpha added to every count
random          standard normal
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

import numpy as np

from slalom.core import Additive
from slalom.core.checks import Floats
from slalom.errors import InputError
from slalom.models import Attribution, Model, Querying, Questions, Reading


@final
@dataclass(frozen=True)
class LeaveOneOut(Querying):
    """What the score loses without each unit; the budget plays no part. A text of one unit loses against the empty one."""

    def __call__(self, questions: Questions) -> Additive:
        """Ask n + 1 rows."""
        n = len(questions.units)
        if n == 1 and not questions.empty:
            whole = float(questions.ask(np.ones((1, 1)))[0])
            return Additive([whole], 0.0)
        scores = questions.ask(np.concatenate([np.ones((1, n)), 1.0 - np.eye(n)]))
        effects = scores[0] - scores[1:]
        return Additive(effects, scores[0] - effects.sum())


@final
@dataclass(frozen=True)
class Random(Attribution):
    """Random numbers, the floor for every metric."""

    def __call__(self, model: Model, reading: Reading, target: int, seed: int) -> Floats:
        """Draw one number an atom."""
        return np.random.default_rng([seed, len(reading.text)]).normal(size=len(reading.names))


@final
@dataclass(frozen=True)
class NaiveBayes(Attribution):
    """Token weights of a corpus: how much more often a token occurs with the target. Knows nothing of the model.

    weights: by token id (by name, for a model that reads strings), one number a class; a token that is not there has none.
    """

    weights: Mapping[int | str, tuple[float, ...]] = field(repr=False)

    def __call__(self, model: Model, reading: Reading, target: int, seed: int) -> Floats:
        """Look the tokens up."""
        some = next(iter(self.weights.values()), ())
        if target >= len(some):
            raise InputError(f"Naive Bayes was given {len(some)} classes; the model's class {target} is not among them")
        nothing = (0.0,) * len(some)
        tokens = reading.types.tolist() if model.tokenized else reading.names
        return np.array([self.weights.get(token, nothing)[target] for token in tokens])
