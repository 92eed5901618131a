import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slalom.text import pieces, printable


@st.composite
def marked(draw):
    """A text and spans anywhere in it: in any order, empty, overlapping."""
    text = draw(st.text(max_size=20))
    ends = st.lists(st.integers(0, len(text)), min_size=2, max_size=2)
    spans = [sorted(pair) for pair in draw(st.lists(ends, max_size=8))]
    return text, np.array(spans, dtype=np.int64).reshape(-1, 2)


@given(marked())
def test_pieces_joined_are_the_text_and_every_unit_is_there_once(given):
    text, spans = given
    found = pieces(text, spans)
    assert "".join(piece.text for piece in found) == text
    assert sorted(piece.unit for piece in found if piece.unit is not None) == list(range(len(spans)))


def test_units_apart_get_exactly_their_characters():
    text = "ein  gutes\r\nEnde"
    spans = np.array([[0, 3], [5, 10], [12, 16]])
    assert [piece.text for piece in pieces(text, spans) if piece.unit is not None] == ["ein", "gutes", "Ende"]


def test_what_is_printable_stays():
    assert printable("a 👍🏽 שלום") == "a 👍🏽 שלום"
    assert printable("\udc00 \ud83d").encode()
