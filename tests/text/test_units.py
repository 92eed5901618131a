import numpy as np
import pytest
from scipy.sparse import issparse

from slalom.errors import InputError
from slalom.text import Units, chosen_spans, units

TEXT = "the film, the unwatchable film"
NAMES = ("the", "film", ",", "the", "un", "watch", "able", "film")
SPANS = np.array([[0, 3], [4, 8], [8, 9], [10, 13], [14, 16], [16, 21], [21, 25], [26, 30]])
IDS = np.array([5, 9, 2, 5, 7, 11, 3, 9])


def made(kind):
    return units(TEXT, kind, NAMES, SPANS, IDS)


def test_every_occurrence_is_a_token_of_its_own():
    u = made("token")
    assert u.names == NAMES
    assert u.n_types == len(u) == 8
    keep = np.eye(8, dtype=bool)
    assert (u.atoms(keep) == keep).all()
    assert (u.counts(keep).toarray() == np.eye(8)).all()


def test_equal_tokens_share_parameters_but_none_vanishes():
    u = made("type")
    assert len(u) == 8
    assert u.n_types == 6
    assert u.type_of_unit[0] == u.type_of_unit[3]
    assert u.type_of_unit[1] == u.type_of_unit[7]
    counts = u.counts(np.ones((1, 8), dtype=bool))
    assert sorted(counts[0].tolist()) == [1, 1, 1, 1, 2, 2]
    without = np.ones((1, 8), dtype=bool)
    without[0, 3] = False
    assert u.counts(without)[0, u.type_of_unit[0]] == 1
    assert u.counts(np.zeros((0, 8), dtype=bool)).shape == (0, 6)
    member = np.eye(6)[u.type_of_unit]
    keep = np.random.default_rng(0).random((20, 8)) < 0.5
    assert (u.counts(keep) == keep @ member).all()


def test_units_that_are_the_same_to_the_model_can_share_parameters():
    u = made("token")
    assert [u.names[i] for i in np.flatnonzero(u.equal == u.equal[0])] == ["the", "the"]
    assert u.shared.n_types == 6
    assert len(u.shared) == 8
    assert u.shared.counts(np.ones((1, 8), dtype=bool)).sum() == 8
    words = made("word")
    assert words.n_types == 6
    assert words.equal.tolist() == [0, 1, 2, 0, 3, 1]
    assert made("type").shared.n_types == made("type").n_types == 6


def test_rows_of_few_units_are_counted_as_all_others_are():
    """Few units of many: a sparse array, also where a parameter is there many times."""
    types = np.concatenate([np.arange(50), np.full(400, 7), np.arange(50, 4500)])
    n = len(types)
    u = Units(tuple(map(str, types)), np.zeros((n, 2), dtype=np.int64), np.arange(n), types)
    keep = np.zeros((3, n), dtype=bool)
    keep[0, [3, 60, 61]], keep[1, 50:450], keep[2, [0, n - 1]] = True, True, True
    expected = np.stack([np.bincount(types[row], minlength=4500) for row in keep])
    assert expected.max() == 400
    assert issparse(u.counts(keep))
    assert (u.counts(keep).toarray() == expected).all()
    assert (u.counts(~keep) == np.stack([np.bincount(types[~row], minlength=4500) for row in keep])).all()


def test_words_join_their_pieces():
    u = made("word")
    assert u.names == ("the", "film", ",", "the", "unwatchable", "film")
    assert u.unit_of_atom.tolist() == [0, 1, 2, 3, 4, 4, 4, 5]
    keep = np.array([[True, True, True, True, False, True]])
    assert u.atoms(keep)[0].tolist() == [True, True, True, True, False, False, False, True]


def test_sentences_join_their_words():
    text = "Good film. Bad end"
    spans = np.array([[0, 4], [5, 9], [9, 10], [11, 14], [15, 18]])
    u = units(text, "sentence", ("good", "film", ".", "bad", "end"), spans, np.arange(5))
    assert u.names == ("Good film.", "Bad end")
    assert u.unit_of_atom.tolist() == [0, 0, 0, 1, 1]


def test_spans_lose_the_white_space_of_byte_level_tokenizers():
    u = units("a  cat", "token", ("a", "cat"), np.array([[0, 1], [1, 6]]), np.arange(2))
    assert u.spans.tolist() == [[0, 1], [3, 6]]


def test_a_token_that_spans_two_words_joins_them():
    u = units("New York is big", "word", ("New York", "is", "big"), np.array([[0, 8], [9, 11], [12, 15]]), np.arange(3))
    assert u.names == ("New York", "is", "big")


def test_tokens_without_a_place_stay_with_the_word_before():
    spans = np.array([[0, 2], [2, 2], [3, 5]])
    u = units("ab cd", "word", ("ab", "x", "cd"), spans, np.arange(3))
    assert u.unit_of_atom.tolist() == [0, 0, 1]


def test_tokens_of_one_character_are_one_unit():
    """An emoji in two bytes, a family in three tokens, a letter and its combining mark, a token without a place."""
    text = "a 💚👩‍👩‍👧 e\u0301x"
    spans = np.array([[0, 1], [1, 3], [2, 3], [3, 4], [4, 6], [6, 8], [9, 10], [10, 11], [11, 11], [11, 12]])
    ids = np.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 1])
    u = units(text, "token", tuple("abcdefghij"), spans, ids)
    assert u.names == ("a", "💚", "👩‍👩‍👧", "e\u0301", "i", "x")
    assert u.unit_of_atom.tolist() == [0, 1, 1, 2, 2, 2, 3, 3, 4, 5]
    assert u.spans.tolist() == [[0, 1], [2, 3], [3, 8], [9, 11], [11, 11], [11, 12]]
    twice = units("💚 💚", "type", ("", "", "", ""), np.array([[0, 1], [0, 1], [2, 3], [2, 3]]), np.array([5, 7, 5, 7]))
    assert twice.names == ("💚", "💚")
    assert twice.type_of_unit.tolist() == [0, 0], "equal characters share all parameters"


def test_units_of_a_function_cover_the_text():
    text = " One, two three."
    cells = chosen_spans(text, lambda text: [(1, 4), (6, 9), (10, 15)])
    assert [text[a:b] for a, b in cells] == ["One,", "two", "three."]
    tokens = np.array([[1, 4], [4, 5], [6, 9], [10, 13], [13, 15], [15, 16]])
    u = units(text, "unit", tuple("abcdef"), tokens, np.arange(6), cells)
    assert u.names == ("One,", "two", "three.")
    assert u.unit_of_atom.tolist() == [0, 0, 1, 2, 2, 2]


def fails(text):
    raise KeyError(text)


def test_what_a_unit_function_returns_is_checked():
    for function, message in [
        (lambda text: [], r"test_units\..*<lambda> must return at least one \(start, end\) pair; got none for 'one two'"),
        (lambda text: [(0, 3), (2, 7)], r"without overlaps, inside the 7 characters of the text; got \(2, 7\) after 3"),
        (lambda text: [(4, 7), (0, 3)], r"in order.* got \(0, 3\) after 7"),
        (lambda text: [(0, 9)], r"inside the 7 characters of the text; got \(0, 9\)"),
        (lambda text: [(3, 3)], r"got \(3, 3\)"),
        (lambda text: ["one", "two"], "must return \\(start, end\\) pairs of whole numbers; too many values"),
        (lambda text: [(0.5, 3)], "pairs of whole numbers; 'float' object"),
        (lambda text: None, "pairs of whole numbers; 'NoneType' object"),
        (fails, "unit=.*test_units.fails failed: KeyError: 'one two'"),
    ]:
        with pytest.raises(InputError, match=message) as error:
            chosen_spans("one two", function)
        assert "\n" not in str(error.value)


def test_no_atoms_make_no_units():
    for kind in ("token", "type", "word", "sentence"):
        assert len(units("", kind, (), np.zeros((0, 2), dtype=np.int64), np.zeros(0, dtype=np.int64))) == 0


def test_an_unknown_kind_is_refused_with_the_choices():
    with pytest.raises(InputError, match="'token', 'type', 'word', 'sentence'; got 'line'"):
        made("line")
