"""Equal words share value and importance in `joint`, unless the scores tell them apart."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import slalom
from slalom.evaluate import fidelity
from slalom.methods import method
from tests.oracle import Oracle

LINE = "a film with a plot that is not good and a cast that is good in a film that is long"
JOINT = method("joint")


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
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(60)]
    oracle = Oracle(
        dict(zip(words, rng.normal(size=60), strict=True)), dict(zip(words, rng.normal(size=60), strict=True)), (0, 1)
    )
    return oracle, " ".join(rng.choice(words, 120))


def test_equal_words_share_their_parameters_which_is_closer_to_a_model_of_words(many):
    oracle, text = many
    explainer = slalom.Explainer(oracle, output="log_odds", unit="word", queries=200)
    shared, own = (explainer(text, method=m) for m in (JOINT, replace(JOINT, name="own", shared=False)))
    assert len(set(own.values.tolist())) == len(own)
    for word in set(shared.units):
        places = occurrences(shared, word)
        assert np.ptp(shared.values[places]) == np.ptp(shared.importances[places]) == 0.0
    far = [part.far for part in fidelity([shared, own], explainer, number=500)]
    assert far[0] < 0.5 * far[1]


def test_words_that_differ_by_their_neighbours_are_told_apart():
    explainer = slalom.Explainer(negated, output="log_odds", unit="word", queries=1000, pairs=False)
    e = explainer(LINE)
    after_not, alone = occurrences(e, "good")
    assert e.removal[after_not] < -1.0 < 1.0 < e.removal[alone]
    assert e.values[after_not] != e.values[alone]
    article = occurrences(e, "a")
    assert np.ptp(e.values[article]) == 0.0


def test_types_that_were_asked_for_stay_together():
    e = slalom.Explainer(negated, output="log_odds", unit="type", queries=200, pairs=False)(LINE)
    assert np.ptp(e.values[occurrences(e, "good")]) == 0.0


def test_errors_are_those_of_single_units(many):
    """Intervals of the Shapley values of repeated words contain those of the oracle itself."""
    oracle, text = many

    def noisy(texts):
        return np.array(oracle(texts)) + [0.05 * np.sin(1e3 * sum(map(ord, text))) for text in texts]

    e = slalom.Explainer(noisy, output="log_odds", unit="word", queries=400)(text)
    truth = oracle.surrogate(text.split()).shapley()
    assert np.mean(np.abs(e.shapley() - truth) <= 1.96 * e.errors["shapley"]) >= 0.9
    assert np.median(e.errors["shapley"]) < 5.0 * np.median(np.abs(e.shapley() - truth))


def test_a_model_of_places_is_explained_as_well_as_without_sharing():
    effects = {"good": 1.5, "bad": -2.0, "film": 0.3, "not": -0.7}
    shared, own = [], []
    for seed, place in ((0, 0), (1, -1)):

        def model(texts, place=place):
            return [3.0 * effects.get((text.split() or [""])[place], 0.0) for text in texts]

        text = " ".join(np.random.default_rng(seed).choice(["good", "bad", "film", "the", "not", "was"], 12))
        explainer = slalom.Explainer(model, output="log_odds", unit="word", seed=seed, queries=200)
        for part, m in ((shared, JOINT), (own, replace(JOINT, name="own", shared=False))):
            e = explainer(text, method=m)
            part.append(fidelity([e], explainer, number=300)[0].far)
    assert np.mean(shared) < 1.1 * np.mean(own)


def test_a_text_of_one_word_has_errors():
    def model(texts):
        return [0.7 * text.count("good") + 0.1 * np.sin(len(text)) for text in texts]

    e = slalom.Explainer(model, output="log_odds", unit="word")("good good good good")
    assert np.ptp(e.errors["removal"]) <= 1e-12
    for errors in (e.errors["removal"], e.errors["shapley"], e.errors["gradient"]):
        assert (errors > 0.0).all()
