"""Naive Bayes: by hand and against scikit-learn; rank correlation against scipy."""

from dataclasses import replace
from math import log

import numpy as np
import pytest
from scipy.stats import spearmanr

from slalom.core import Slalom
from slalom.errors import InputError
from slalom.evaluate import NaiveBayes, naive_bayes_correlation, rank_correlation
from tests.cases import cases
from tests.factories import explanation

TEXTS = ["good good film", "great film good end", "bad film", "bad bad end of a film", "so so"]
LABELS = [1, 1, 0, 0, 0]


def test_ratios_by_hand():
    bayes = NaiveBayes.fit(["x x y", "y z"], [1, 0], str.split, alpha=2)
    # three different tokens: (2 + 2) / (3 + 6) for x in class 1, (0 + 2) / (2 + 6) in class 0
    assert bayes(["x"])[0] == pytest.approx(log(4 / 9) - log(2 / 8))
    assert bayes(["y", "z"]).tolist() == pytest.approx([log(3 / 9) - log(3 / 8), log(2 / 9) - log(3 / 8)])
    assert bayes(["never"]).tolist() == [0.0]
    assert bayes([]).shape == (0,)


@cases("alpha", [0.5, 1.0, 40.0])
def test_the_same_as_scikit_learn(alpha):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    from sklearn.feature_extraction.text import CountVectorizer  # noqa: PLC0415
    from sklearn.naive_bayes import MultinomialNB  # noqa: PLC0415

    counter = CountVectorizer(tokenizer=str.split, token_pattern=None)
    peer = MultinomialNB(alpha=alpha).fit(counter.fit_transform(TEXTS), LABELS)
    ours = NaiveBayes.fit(TEXTS, LABELS, str.split, alpha=alpha)
    names = counter.get_feature_names_out()
    assert set(ours.ratios) == set(names)
    assert np.allclose(ours(names), peer.feature_log_prob_[1] - peer.feature_log_prob_[0])


@cases("ties", [False, True])
def test_rank_correlation_is_scipys(ties):
    rng = np.random.default_rng(0)
    for n in (2, 3, 10, 200):
        a, b = (rng.integers(0, 4, (2, n)) if ties else rng.normal(size=(2, n))).astype(float)
        if a.std() and b.std():
            assert rank_correlation(a, b) == pytest.approx(spearmanr(a, b).statistic)
    assert rank_correlation([1.0, 1.0], [1.0, 2.0]) is None
    assert rank_correlation([1.0], [1.0]) is None


def test_an_explanation_is_turned_towards_class_one():
    bayes = NaiveBayes.fit(TEXTS, LABELS, str.split, alpha=1)
    text = "a good film with a bad end"
    e = explanation(text, bayes(text.split()) * 2.0)
    assert naive_bayes_correlation(e, bayes) == pytest.approx(1.0)
    assert naive_bayes_correlation(replace(e, target="no"), bayes) == pytest.approx(-1.0)
    assert naive_bayes_correlation(replace(e, signed=False), bayes) == pytest.approx(1.0)
    loud = np.abs(bayes(text.split()))
    s = replace(e, surrogate=Slalom(-bayes(text.split()), loud - loud.mean()))
    assert naive_bayes_correlation(s, bayes, score="importance") == pytest.approx(1.0)
    assert naive_bayes_correlation(s, bayes, score="value") == pytest.approx(-1.0)


def test_a_name_that_comes_twice_may_count_once():
    bayes = NaiveBayes({"x": 1.0, "y": 2.0, "z": 3.0})
    e = explanation("x y z x", [1.0, 2.0, 3.0, 9.0])
    assert naive_bayes_correlation(e, bayes, distinct=True) == pytest.approx(1.0)
    assert naive_bayes_correlation(e, bayes) == pytest.approx(spearmanr([1, 2, 3, 9], [1, 2, 3, 1]).statistic)


def test_units_may_be_called_by_other_names():
    bayes = NaiveBayes.fit(["Good film", "bad film"], [1, 0], lambda text: text.lower().split(), alpha=1)
    e = explanation("GOOD film bad", [3.0, 1.0, -3.0])
    assert naive_bayes_correlation(e, bayes, tokens=["good", "film", "bad"]) == pytest.approx(1.0)
    assert naive_bayes_correlation(e, bayes) < 1.0
    ids = NaiveBayes({7: 1.0, 3: 0.0, 5: -1.0})
    assert naive_bayes_correlation(e, ids, tokens=[7, 3, 5]) == pytest.approx(1.0)
    with pytest.raises(InputError, match="tokens must be one per unit; got 1 for 3 units"):
        naive_bayes_correlation(e, ids, tokens=[7])


@cases(
    ("call", "says"),
    [
        (lambda: NaiveBayes.fit(["a"], [1, 0], str.split), "one label per text; got 2 labels for 1 texts"),
        (lambda: NaiveBayes.fit(["a", "b"], [1, 2], str.split), "labels must be 0 or 1; got 2"),
        (lambda: NaiveBayes.fit(["a", "b"], [1, 1], str.split), "both classes need at least one text"),
        (lambda: NaiveBayes.fit(["a", "b"], [1, 0], str.split, alpha=0), "alpha must be a number above 0"),
        (lambda: NaiveBayes.fit(["a", "b"], [1, 0], str.split, alpha="much"), "alpha must be an array of real numbers"),
        (lambda: rank_correlation([1.0], [1.0, 2.0]), "scores and reference must have the same shape"),
        (lambda: rank_correlation([], []), "not be empty"),
        (
            lambda: naive_bayes_correlation(explanation("a", [[1.0, 0.0, 0.0]], labels=("a", "b", "c")), NaiveBayes({})),
            "two classes",
        ),
    ],
)
def test_wrong_arguments(call, says):
    with pytest.raises(InputError, match=says):
        call()
