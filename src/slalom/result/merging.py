"""An explanation in larger units: tokens merged to words or sentences."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from slalom.errors import InputError
from slalom.result.fidelity import Fidelity
from slalom.text import KINDS, units

if TYPE_CHECKING:
    from slalom.result.explanation import Explanation


def merged(e: "Explanation", unit: str) -> "Explanation":
    """Return an Explanation in words or sentences; what is known of the small units only is left out."""
    if unit not in KINDS[2:]:
        raise InputError(f"merge takes 'word' or 'sentence'; got {unit!r}")
    if e.unit not in KINDS or KINDS.index(unit) < KINDS.index(e.unit) or e.answer is not None:
        raise InputError(f"merge makes larger units: {e.unit}s cannot become {unit}s; explain with unit={unit!r}")
    larger = units(e.text, unit, e.units, e.spans, np.arange(len(e)))
    return replace(
        e, units=larger.names, spans=larger.spans, surrogate=e.surrogate.merged(larger.unit_of_atom), unit=unit,
        sizes=np.bincount(larger.unit_of_atom, e.sizes).astype(np.int64), merged_from=e.merged_from or e.unit,
        fidelity=Fidelity(None, None), errors={}, measured={}, pairs=(), spread=None, held_out=None,
    )  # fmt: skip
