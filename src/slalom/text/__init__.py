"""Units of a text, and which parts of a text to query."""

from slalom.text.held_out import held_out
from slalom.text.inputs import as_texts
from slalom.text.pieces import Piece, pieces, printable
from slalom.text.samplers import Deletions, Pairs, QueryPlan, Sampler, Scales, TwoScales, Whole
from slalom.text.segment import sentences, words
from slalom.text.units import KINDS, Unit, Units, units

__all__ = [
    "KINDS",
    "Deletions",
    "Pairs",
    "Piece",
    "QueryPlan",
    "Sampler",
    "Scales",
    "TwoScales",
    "Unit",
    "Units",
    "Whole",
    "as_texts",
    "held_out",
    "pieces",
    "printable",
    "sentences",
    "units",
    "words",
]
