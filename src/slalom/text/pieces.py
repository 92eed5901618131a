"""A text cut at its units, for display: the pieces, joined, are the text.

Units may overlap (tokens of one emoji in old files) and may be empty. Every unit appears exactly once, with the characters
that no earlier unit has, which may be none.
"""

from typing import NamedTuple

from slalom.text.segment import Spans


class Piece(NamedTuple):
    """A piece of a text, and the index of its unit; None between units."""

    text: str
    unit: int | None


def pieces(text: str, spans: Spans) -> list[Piece]:
    """Cut a text at the spans (n, 2) of its units: the pieces of units and those between them, in the order of the text.

    Example:
        >>> import numpy as np
        >>> [tuple(p) for p in pieces("a good film", np.array([[2, 6], [4, 6], [6, 11]]))]
        [('a ', None), ('good', 0), ('', 1), (' film', 2)]
    """
    cut, at = [], 0
    for unit, (a, b) in sorted(enumerate(spans.tolist()), key=lambda entry: entry[1]):
        if a > at:
            cut.append(Piece(text[at:a], None))
            at = a
        cut.append(Piece(text[at:b], unit))
        at = max(at, b)
    return [*cut, Piece(text[at:], None)] if at < len(text) else cut


def printable(text: str) -> str:
    """Return a text that can be encoded: lone surrogates become U+FFFD.

    Example:
        >>> printable("a \\ud83d b")
        'a \ufffd b'
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
