"""Units of a text, and which parts of a text to query."""

from slalom.text.held_out import held_out, query_keys, reserved
from slalom.text.inputs import as_texts
from slalom.text.pieces import Piece, pieces, printable
from slalom.text.samplers import Deletions, IsNew, Pairs, QueryPlan, Sampler, Scales, TwoScales, Whole, extended
from slalom.text.segment import paragraphs, sentences, words
from slalom.text.units import GIVEN, KINDS, Unit, Units, units

__all__ = [
    "GIVEN",
    "KINDS",
    "Deletions",
    "IsNew",
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
    "extended",
    "held_out",
    "paragraphs",
    "pieces",
    "printable",
    "query_keys",
    "reserved",
    "sentences",
    "units",
    "words",
]
