"""Units of a text, and which parts of a text to query."""

from slalom.text.held_out import held_out, query_keys, reserved
from slalom.text.inputs import as_examples, as_texts, table_rows
from slalom.text.pieces import Piece, pieces, printable
from slalom.text.record import Field, Record, as_record, plain_value
from slalom.text.samplers import Deletions, Halves, Mixed, Pairs, QueryPlan, Sampler, Scales, extended
from slalom.text.segment import paragraphs, sentences, simple_words, words
from slalom.text.units import CHOSEN, GIVEN, KINDS, Unit, UnitFunction, Units, chosen_spans, function_name, units

__all__ = [
    "CHOSEN",
    "GIVEN",
    "KINDS",
    "Deletions",
    "Field",
    "Halves",
    "Mixed",
    "Pairs",
    "Piece",
    "QueryPlan",
    "Record",
    "Sampler",
    "Scales",
    "Unit",
    "UnitFunction",
    "Units",
    "as_examples",
    "as_record",
    "as_texts",
    "chosen_spans",
    "extended",
    "function_name",
    "held_out",
    "paragraphs",
    "pieces",
    "plain_value",
    "printable",
    "query_keys",
    "reserved",
    "sentences",
    "simple_words",
    "table_rows",
    "units",
    "words",
]
