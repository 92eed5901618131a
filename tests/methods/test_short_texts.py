"""Texts of a few units: what the model was asked about single removals is what the explanation says."""

from itertools import pairwise

import numpy as np
import pytest

import slalom
from tests.cases import cases

TEXT = "this dull but warm film has one scene that I like and two which nobody will ever forget"
WORDS = TEXT.split()
EFFECTS = dict(zip(WORDS, np.random.default_rng(0).normal(size=len(WORDS)), strict=True))


def together(texts):
    """Log odds with a part for each word, what neighbouring words do together, and a curve."""
    scores = []
    for text in texts:
        words = text.split()
        alone = sum(EFFECTS.get(word, 0.0) for word in words)
        pairs = sum(EFFECTS[a] * EFFECTS[b] for a, b in pairwise(words))
        scores.append(4.0 * np.tanh((alone + 0.5 * pairs) / 4.0) - 0.5)
    return scores


def asked_alone(explainer, e):
    return e.score - np.array([explainer.ask(e, row) for row in ~np.eye(len(e), dtype=bool)])


@cases("n", [1, 2, 3])
def test_few_units_have_the_removals_of_the_model(n):
    explainer = slalom.Explainer(together, output="log_odds", unit="word")
    for first in range(3):
        e = explainer(" ".join(WORDS[first : first + n]))
        np.testing.assert_allclose(e.removal, asked_alone(explainer, e), atol=1e-9)
        assert not e.errors["removal"].any()
        assert float(e.predict(np.ones(n))) == pytest.approx(e.score, abs=0.05)
        assert float(e.predict(np.zeros(n))) == pytest.approx(-0.5, abs=0.05)
        np.testing.assert_allclose(e.shapley().sum(), e.score + 0.5, atol=0.1)
        assert e.fit_r2 > 0.99


def test_classes_of_two_units_have_the_removals_of_the_model():
    def three(texts):
        return np.stack([together(texts), np.square(together(texts)), np.zeros(len(texts))], axis=1)

    explainer = slalom.Explainer(three, output="logits", unit="word", labels=["a", "b", "c"])
    e = explainer(" ".join(WORDS[:2]), target="all")
    np.testing.assert_allclose(e.removal, [e.score - explainer.ask(e, row) for row in ~np.eye(2, dtype=bool)], atol=1e-9)


def test_removals_of_the_words_of_a_sentence_are_those_of_the_model():
    explainer = slalom.Explainer(together, output="log_odds", unit="word")
    for seed in range(2):
        e = explainer(TEXT, seed=seed)
        np.testing.assert_allclose(e.removal, asked_alone(explainer, e), atol=1e-9)
        own = e.surrogate.removal() - e.removal  # what the surrogate would say of the same
        assert np.mean(own**2) < 0.01 * np.mean(e.removal**2)


def test_units_without_an_effect_are_not_told_from_zero():
    explainer = slalom.Explainer(lambda texts: [5.0 if "fox" in text.split() else -5.0 for text in texts], output="log_odds")
    e = explainer("the quick brown fox jumps over some lazy dogs and runs away from all the others")
    assert e.certain().tolist() == [unit == "fox" for unit in e.units]


def test_lime_does_without_the_empty_text_where_there_is_none():
    pytest.importorskip("lime")
    effects = {"good": 2.0, "dull": -3.0, "film": 0.5}

    def model(texts):
        if not all(texts):
            raise ValueError("no empty text")
        return [sum(effects.get(word, 0.0) for word in text.split()) for text in texts]

    e = slalom.Explainer(model, output="log_odds", unit="word", method="lime", queries=300)("good dull film")
    np.testing.assert_allclose(e.removal, [2.0, -3.0, 0.5], atol=0.15)
