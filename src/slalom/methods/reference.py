"""References for other methods: Naive Bayes of a corpus, and random numbers.

NaiveBayes      log p(token | target) - log p(token | other classes)
Random          standard normal
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
    """Random effects, a lower bound for every metric."""

    name: str = "random"
    summary: str = "random numbers, a lower bound for every measure"
    needs: ClassVar[tuple[str, ...]] = ()
    check: int = 100

    def attribute(self, model: Model, reading: Reading, target: int, seed: int) -> Floats:
        return np.random.default_rng([seed, len(reading.text)]).normal(size=len(reading.names))


@final
@dataclass(frozen=True)
class NaiveBayes(WhiteBoxMethod):
    """Token weights of a labelled corpus, independent of the model.

    Args:
        weights: Weights of each token, one per class, by token id (by name, for a model that reads strings). Other tokens
            have the weight 0.
    """

    weights: Mapping[int | str, tuple[float, ...]] = field(repr=False)
    name: str = "naive-bayes"
    summary: str = "token weights of a labelled corpus, independent of the model"
    needs: ClassVar[tuple[str, ...]] = ()
    check: int = 100

    def attribute(self, model: Model, reading: Reading, target: int, seed: int) -> Floats:
        n_classes = len(next(iter(self.weights.values()), ()))
        if target >= n_classes:
            raise InputError(f"Naive Bayes has weights for {n_classes} classes, not for class {target} of the model")
        unknown = (0.0,) * n_classes
        tokens = reading.types.tolist() if model.tokenized else reading.names
        return np.array([self.weights.get(token, unknown)[target] for token in tokens])
