"""The fields of a record: their units, and what the model says without them."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from slalom.core.checks import Floats

if TYPE_CHECKING:
    from slalom.result.explanation import Explanation


class FieldEffect(NamedTuple):
    """A field of a record. A number marked * is an array (n_classes,) where all classes are explained.

    Attributes:
        name: Its name.
        units: The indices of its units.
        removal: How much lower the model's own score* is without the field; None where that was not asked.
        shapley: The sum of the Shapley values of its units*. Those of all fields sum to predict(all) - base.
    """

    name: str
    units: tuple[int, ...]
    removal: float | Floats | None
    shapley: float | Floats


def field_effects(e: "Explanation") -> tuple[FieldEffect, ...]:
    """Return the fields of an explanation that have units."""
    if e.record is None:
        return ()
    fields, shapley, found = e.record.field_of(e.spans), e.shapley(), list[FieldEffect]()
    for row, number in enumerate(np.unique(fields).tolist()):
        units, name = np.flatnonzero(fields == number), e.record.fields[number].name
        removal = None if e.without_fields is None else e.score - e.without_fields[row]
        found.append(FieldEffect(name, tuple(units.tolist()), removal, shapley[units].sum(axis=0)))
    return tuple(found)
