"""A text cut where its units begin and end, for showing it: the pieces, joined, are the text.

Units may overlap (the tokens of one emoji all have its span) and may be empty. Each unit gets what no unit before it has taken,
which can be nothing, and every unit appears exactly once.
"""

from typing import NamedTuple

from slalom.text.segment import Spans


class Piece(NamedTuple):
    """Some characters of a text, and the unit they belong to; None between units."""

    text: str
    unit: int | None


def pieces(text: str, spans: Spans) -> list[Piece]:
    """Return a text as pieces, those of its units (spans (n, 2)) and those between them.

    >>> import numpy as np
    >>> [tuple(p) for p in pieces("a good film", np.array([[2, 6], [4, 6], [6, 11]]))]
    [('a ', None), ('good', 0), ('', 1), (' film', 2)]
    """
    found, at = [], 0
    for unit, (a, b) in sorted(enumerate(spans.tolist()), key=lambda entry: entry[1]):
        if a > at:
            found.append(Piece(text[at:a], None))
            at = a
        found.append(Piece(text[at:b], unit))
        at = max(at, b)
    return [*found, Piece(text[at:], None)] if at < len(text) else found


def printable(text: str) -> str:
    """Return a text that can be encoded: halves of characters (lone surrogates) become U+FFFD.

    >>> printable("a \\ud83d b")
    'a \ufffd b'
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
