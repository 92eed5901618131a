"""The additive surrogate of LIME, SHAP and their kin: one effect a unit, added up.

    F(c) = b + sum_i c_i e_i

Transformers do not work like that, which is why slalom exists; it is here so that methods that say so can be held to it.
Removal, gradient and Shapley value of a unit are all its effect.
"""

from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom.core.checks import Counts, Floats, count_matrix, real_array
from slalom.core.surrogate import Slalom, centred
from slalom.errors import InputError


@final
@dataclass(frozen=True, eq=False)
class Additive:
    """Effects (n_units,) or (n_units, n_classes) and a base, the score of the empty input.

    With several classes effects and base sum to zero over them, as those of a Slalom do.

    >>> model = Additive(effects=[2.0, -1.0], base=0.5)
    >>> model(np.array([[0, 0], [1, 1], [0, 3]])).tolist()
    [0.5, 1.5, -2.5]
    """

    effects: Floats
    base: float | Floats

    def __init__(self, effects: ArrayLike, base: ArrayLike = 0.0) -> None:
        """Check both parts and centre them over the classes."""
        e = real_array("effects", effects, (1, 2)).copy()
        if len(e) == 0 or (e.ndim == 2 and e.shape[1] < 2):
            raise InputError(f"effects must have n >= 1 rows, and >= 2 columns where there are several; got shape {e.shape}")
        b = real_array("base", base, (0, 1))
        if b.shape != e.shape[1:]:
            raise InputError(f"base must have the shape {e.shape[1:]}, as the effects have; got {b.shape}")
        e, b = (centred(e), centred(b)) if e.ndim == 2 else (e, b)
        e.setflags(write=False)
        object.__setattr__(self, "effects", e)
        object.__setattr__(self, "base", b if b.ndim else float(b))

    @property
    def n_units(self) -> int:
        """How many units there are."""
        return len(self.effects)

    def __call__(self, counts: Counts) -> Floats:
        """Return the scores (m,) or (m, n_classes) of counts (m, n_units)."""
        return np.asarray(self.base + count_matrix(counts, self.n_units) @ self.effects)

    def repeated(self, own: NDArray[np.int64]) -> "Additive":
        """Return the model of units that take the parameters of these units (m,)."""
        return Additive(self.effects[own], self.base)

    def merged(self, groups: NDArray[np.int64]) -> "Additive":
        """Return the model of groups of units (n_units,), numbers 0..g-1: their effects add up."""
        effects = np.zeros((int(groups.max()) + 1, *self.effects.shape[1:]))
        np.add.at(effects, groups, self.effects)
        return Additive(effects, self.base)


Surrogate: TypeAlias = Slalom | Additive
