"""The words of a lexicon as people read them: every number is that of another formula, or of the model."""

import csv
import io
import json

import numpy as np
import pytest

from slalom import Lexicon
from slalom.errors import InputError
from slalom.lexicon.words import changes_of, words_of
from slalom.result import NORMAL_95
from tests.lexicon.planted import WORDS, Planted, explainer, lexicon, texts


@pytest.fixture(scope="module")
def changed():
    """A model for which one word says something else, in texts only; and its lexicon."""
    model = Planted(others={"w7": 2.0})
    return Lexicon.learn(explainer(model, identity="changed"), texts(40), queries=40)


def test_alone_is_the_models_own_answer():
    words, model = words_of(lexicon()), Planted()
    own = np.array(model(list(words.words))) - model([""])[0]
    np.testing.assert_allclose(words.columns["alone"], own, atol=1e-9)
    assert words.target == "yes"


def test_in_texts_is_what_the_formula_says_of_the_word_alone():
    found = lexicon()
    words, a = words_of(found), found.across
    expected = a.middle + a.reach * np.tanh((a.bias + a.in_texts - a.middle) / a.reach)
    start = a.middle + a.reach * np.tanh((a.bias - a.middle) / a.reach)
    np.testing.assert_allclose(words.columns["in_texts"], (expected - start)[:, 0])
    np.testing.assert_allclose(words.columns["context"], words.columns["in_texts"] - words.columns["alone"])
    np.testing.assert_allclose(words.columns["in_texts"], words.columns["alone"], atol=0.3)  # there is no context here


def test_the_other_class_has_the_opposite_signs():
    yes, no = (words_of(lexicon(), target) for target in ("yes", "no"))
    for name in ("alone", "in_texts", "context"):
        np.testing.assert_allclose(yes.columns[name], -no.columns[name])
        assert (no.columns.get("in_texts_se") > 0).all()
    np.testing.assert_array_equal(yes.columns["importance"], no.columns["importance"])
    with pytest.raises(InputError, match="one of 'no', 'yes'; got 'yess'; did you mean 'yes'"):
        words_of(lexicon(), "yess")


def test_words_are_ordered_by_how_far_intervals_are_from_zero():
    words = words_of(lexicon()).by("context", least_texts=3)
    sure = np.abs(words.columns["context"]) - NORMAL_95 * words.columns["context_se"]
    assert (np.diff(sure) <= 1e-12).all()
    assert (words.columns["texts"] >= 3).all()


def test_a_word_that_means_something_else_in_texts_comes_first(changed):
    assert words_of(changed).by("context").words[0] == "w7"
    changes = changes_of(lexicon(), changed).by("change")
    assert changes.words[0] == "w7"
    assert changes.columns["change"][0] > 0.4  # its importance has grown, too
    i = changes.words.index("w7")
    assert changes.columns["alone_before"][i] == pytest.approx(changes.columns["alone_after"][i])
    assert (np.abs(changes.columns["change"][3:]) < 1.0).all()


def test_files_have_all_words():
    words = words_of(lexicon()).by("in_texts")
    rows = list(csv.DictReader(io.StringIO(words.to_csv())))
    assert [row["word"] for row in rows] == list(words.words)
    np.testing.assert_allclose([float(row["in_texts"]) for row in rows], words.columns["in_texts"])
    kept = json.loads(words.to_json())
    assert [row["word"] for row in kept["words"]] == list(words.words)
    assert kept["target"] == "yes"


def test_words_that_two_lexica_share_are_compared(changed):
    assert sorted(changes_of(lexicon(), changed).words) == sorted(WORDS)
    other = Lexicon.learn(explainer(Planted(), identity="x"), [f"a{i} b{i} c" for i in range(12)], queries=20)
    with pytest.raises(InputError, match="words in common; got none"):
        changes_of(lexicon(), other)
