"""The additive surrogate of LIME, SHAP and similar methods: one effect per unit, added up.

    F(c) = b + sum_i c_i e_i

Transformers do not work like that, which is why slalom exists; this class tests methods that assume it.
Gradient, removal and every semivalue of a unit are its effect, times its count where it is taken away as a whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom.core.base import Surrogate
from slalom.core.checks import Counts, Floats, centred, checked_groups, count_matrix, count_vector, plain, read_only, real_array
from slalom.core.measures import Measure
from slalom.errors import InputError


@final
@dataclass(frozen=True, eq=False)
class Additive(Surrogate):
    """One effect per unit, added up.

    With several classes effects and base sum to zero over them, as those of a Slalom do.

    Args:
        effects: (n_units,) or (n_units, n_classes); also available as `values`. The importances are zeros.
        base: The score of the empty input, a number or (n_classes,).

    Raises:
        InputError: A part is not finite, or the shapes do not fit.

    Example:
        >>> model = Additive(effects=[2.0, -1.0], base=0.5)
        >>> model(np.array([[0, 0], [1, 1], [0, 3]])).tolist()
        [0.5, 1.5, -2.5]
    """

    kind: ClassVar[str] = "additive"
    additive: ClassVar[bool] = True

    effects: Floats
    base: float | Floats

    def __init__(self, effects: ArrayLike, base: ArrayLike = 0.0) -> None:
        e = real_array("effects", effects, (1, 2)).copy()
        if len(e) == 0 or (e.ndim == 2 and e.shape[1] < 2):
            raise InputError(f"effects must have n >= 1 rows, and >= 2 columns where there are several; got shape {e.shape}")
        b = real_array("base", base, (0, 1))
        if b.shape != e.shape[1:]:
            raise InputError(f"base must have the shape {e.shape[1:]}, as the effects have; got {b.shape}")
        e, b = (centred(e), centred(b)) if e.ndim == 2 else (e, b)
        e = read_only(e)
        zeros = read_only(np.zeros(len(e)))
        parts = {"effects": e, "base": b if b.ndim else float(b), "values": e, "importances": zeros}
        for name, part in parts.items():
            object.__setattr__(self, name, part)

    def predict(self, counts: Counts) -> Floats:
        return np.asarray(self.base + count_matrix(counts, self.n_units) @ self.effects)

    def weights(self, counts: Counts) -> Floats:
        return np.zeros_like(count_matrix(counts, self.n_units))

    def linear(self) -> Floats:
        return self.effects

    def gradient(self, counts: ArrayLike | None = None) -> Floats:
        count_vector(counts, self.n_units)
        return self.effects

    def removal(self, counts: ArrayLike | None = None) -> Floats:
        return (count_vector(counts, self.n_units) * self.effects.T).T

    def alone(self) -> Floats:
        return self.effects

    def _semivalue(self, measure: Measure, counts: ArrayLike | None) -> Floats:
        return self.removal(counts)

    def merged(self, groups: ArrayLike) -> "Additive":
        g = checked_groups(groups, self.n_units)
        effects = np.zeros((int(g.max()) + 1, *self.effects.shape[1:]))
        np.add.at(effects, g, self.effects)
        return Additive(effects, self.base)

    def repeated(self, units: NDArray[np.int64]) -> "Additive":
        return Additive(self.effects[units], self.base)

    @classmethod
    def constant(cls, n_units: int, level: float | Floats) -> "Additive":
        return Additive(np.zeros((n_units, *np.shape(level))), level)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "effects": self.effects.tolist(), "base": plain(self.base)}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Additive":
        return Additive(saved["effects"], saved["base"])
