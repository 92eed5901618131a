"""Methods that look inside a model instead of asking it: gradients, attention, relevance.

    effects_i = what unit i adds to the score,    score = base + sum_i effects_i

An attribution gives one number an atom (token). The base takes up what they do not add up to, so that the additive surrogate
is right on the whole text.
"""

from abc import ABC, abstractmethod

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
