"""What methods are held against: Naive Bayes of a corpus, and random numbers.

naive bayes     log p(token | target) - log p(token | other classes), with alpha added to every count
random          standard normal
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from slalom.core.checks import Floats
from slalom.errors import InputError
from slalom.methods.base import WhiteBoxMethod
from slalom.models import Model, Reading


@final
@dataclass(frozen=True)
class Random(WhiteBoxMethod):
    """Random numbers, the floor for every metric."""

    name: str = "random"
    summary: str = "random numbers, the floor for every measure"
    needs: ClassVar[tuple[str, ...]] = ()
    check: int = 100

    def attribute(self, model: Model, reading: Reading, target: int, seed: int) -> Floats:
        """Draw one number an atom."""
        return np.random.default_rng([seed, len(reading.text)]).normal(size=len(reading.names))


@final
@dataclass(frozen=True)
class NaiveBayes(WhiteBoxMethod):
    """Token weights of a corpus: how much more often a token occurs with the target. Knows nothing of the model.

    weights: by token id (by name, for a model that reads strings), one number a class; a token that is not there has none.
    """

    weights: Mapping[int | str, tuple[float, ...]] = field(repr=False)
    name: str = "naive-bayes"
    summary: str = "token weights of a labelled corpus, whatever the model does"
    needs: ClassVar[tuple[str, ...]] = ()
    check: int = 100

    def attribute(self, model: Model, reading: Reading, target: int, seed: int) -> Floats:
        """Look the tokens up."""
        some = next(iter(self.weights.values()), ())
        if target >= len(some):
            raise InputError(f"Naive Bayes was given {len(some)} classes; the model's class {target} is not among them")
        nothing = (0.0,) * len(some)
        tokens = reading.types.tolist() if model.tokenized else reading.names
        return np.array([self.weights.get(token, nothing)[target] for token in tokens])
