"""Doors for the methods of others: those that look inside a model (gradients, attention, relevance), and those that ask it in
their own way (the packages lime, shap, captum).

    effects_i = what unit i adds to the score,    score = base + sum_i effects_i

An attribution gives one number an atom (token), a querying method one a unit. The base of an attribution takes up what its
numbers do not add up to, so that the additive surrogate is right on the whole text.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom.core import Additive
from slalom.core.checks import Floats
from slalom.models.model import Model, Reading


class Attribution(ABC):
    """A strategy: hyper-parameters in the constructor, model and text in the call. Concrete ones are final frozen dataclasses.

    signed: whether the sign of an effect means for or against the target; attention, for one, has none.
    """

    signed: bool = True

    @abstractmethod
    def __call__(self, model: Model, reading: Reading, target: int, seed: int) -> Floats:
        """Return the effects (n_atoms,) on the score of a target (an index into the labels), the log odds of `Head.scores`.

        InputError where the model is not of a kind that the method knows. The model is left as it was found.
        """


class Questions(NamedTuple):
    """A text as a querying method meets it.

    ask: presence of units (m, n) -> scores (m,) of the target, in as many calls as it likes. budget: how many different rows it
    may ask. empty: whether it may ask about no unit at all. seed: of its random choices.
    """

    text: str
    units: tuple[str, ...]
    spans: NDArray[np.int64]
    ask: Callable[[ArrayLike], Floats]
    budget: int
    empty: bool
    seed: int


class Querying(ABC):
    """A strategy that asks in its own way. Concrete ones are final frozen dataclasses."""

    @abstractmethod
    def __call__(self, questions: Questions) -> Additive:
        """Return effects (n_units,) and a base."""
