"""Equal words share value and importance in `joint`; what their places do is left to the parts of the surrogate."""

import itertools

import numpy as np
import pytest

import slalom
from slalom.core import Slalom
from slalom.evaluate import fidelity
from tests.oracle import Oracle

LINE = "a film with a plot that is not good and a cast that is good in a film that is long"


def occurrences(e, word):
    return np.flatnonzero(np.array(e.units) == word)


def negated(texts):
    """Log odds: "good" is worth 2, but -2 after "not"."""
    answers = []
    for text in texts:
        words = ["", *text.split()]
        signs = [-1.0 if before == "not" else 1.0 for before, word in itertools.pairwise(words) if word == "good"]
        answers.append(2.0 * sum(signs) + 0.1 * np.sin(1e3 * sum(map(ord, text))))
    return answers


@pytest.fixture(scope="module")
def many():
    """A model of words, one more of which is always there, and a text of 120 words, 60 of them distinct."""
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(60)]
    values, importances = (dict(zip(words, rng.normal(size=60), strict=True)) for _ in range(2))
    return Oracle(values, importances, (0.0, 1.0)), " ".join(rng.choice(words, 120))


def test_equal_words_share_their_parameters_which_serves_a_model_of_words(many):
    oracle, text = many
    explainer = slalom.Explainer(oracle, output="log_odds", unit="word", queries=200)
    shared = explainer(text)
    for word in set(shared.units):
        places = occurrences(shared, word)
        assert np.ptp(shared.surrogate.values[places]) == np.ptp(shared.importances[places]) == 0.0
    ridge = explainer(text, method="ridge-scales")
    far = [part.far for part in fidelity([shared, ridge], explainer, number=300)]
    assert far[0] < 0.5 * far[1]


def test_words_that_differ_by_their_neighbours_are_told_apart():
    explainer = slalom.Explainer(negated, output="log_odds", unit="word", queries=400, pairs=False)
    e = explainer(LINE)
    after_not, alone = occurrences(e, "good")
    assert e.removal[after_not] < -1.0 < 1.0 < e.removal[alone]
    surrogate = e.surrogate.removal()
    assert surrogate[after_not] < -1.0 < 1.0 < surrogate[alone]
    assert e.values[after_not] == e.values[alone]  # alone they are one text


def test_types_that_were_asked_for_stay_together():
    e = slalom.Explainer(negated, output="log_odds", unit="type", queries=200, pairs=False)(LINE)
    assert np.ptp(e.values[occurrences(e, "good")]) == 0.0


def test_errors_are_those_of_single_units(many):
    """Intervals of the Shapley values of repeated words contain those of the oracle itself."""
    oracle, text = many

    def noisy(texts):
        return np.array(oracle(texts)) + [0.05 * np.sin(1e3 * sum(map(ord, text))) for text in texts]

    e = slalom.Explainer(noisy, output="log_odds", unit="word", queries=300)(text)
    everything = oracle.surrogate(text.split())
    assert isinstance(everything, Slalom)
    # What is always there, as a player that has joined already: the mean over orders in which it is the first.
    rng, n, truth = np.random.default_rng(0), 120, np.zeros(120)
    for _ in range(40):
        order = rng.permutation(n)
        for way in (order, order[::-1]):
            rows = np.column_stack([np.arange(n + 1)[:, None] > np.argsort(way), np.ones(n + 1)])
            truth[way] += np.diff(everything(rows)) / 80
    assert np.mean(np.abs(e.shapley() - truth) <= 1.96 * e.errors["shapley"]) >= 0.88
    assert np.median(e.errors["shapley"]) < 5.0 * np.median(np.abs(e.shapley() - truth))


def test_a_model_of_places_is_explained_too():
    effects = {"good": 1.5, "bad": -2.0, "film": 0.3, "not": -0.7}
    for seed, place in ((0, 0), (1, -1)):

        def model(texts, place=place):
            return [3.0 * effects.get((text.split() or [""])[place], 0.0) for text in texts]

        text = " ".join(np.random.default_rng(seed).choice(["good", "bad", "film", "the", "not", "was"], 12))
        explainer = slalom.Explainer(model, output="log_odds", unit="word", seed=seed, queries=200)
        joint, ridge = (fidelity([explainer(text, method=m)], explainer, number=300)[0].far for m in ("joint", "ridge-scales"))
        assert joint < 0.8 * ridge


def test_a_text_of_one_word_has_errors():
    def model(texts):
        return [0.7 * text.count("good") + 0.1 * np.sin(len(text)) for text in texts]

    e = slalom.Explainer(model, output="log_odds", unit="word")("good good good good")
    assert np.ptp(e.errors["removal"]) <= 1e-12
    assert (e.errors["shapley"] > 0.0).all()
