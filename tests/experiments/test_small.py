"""The reference in one file, held to the default method and to what its formulas must equal."""

import sys
from importlib.metadata import packages_distributions
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

import slalom
from experiments import small

TEXTS = (
    "A slow, beautiful and utterly convincing film; only the ending is a disappointment.",
    "Not bad at all! The cast is great, and I never looked at my watch.",
)


@pytest.fixture(scope="module")
def score():
    classifier = slalom.Explainer()
    return lambda texts: classifier.decide(list(texts), "positive")[0]


def spans(text):
    starts, place = [], 0
    for word in text.split():
        starts.append(text.index(word, place))
        place = starts[-1] + len(word)
    return [(start, start + len(word)) for start, word in zip(starts, text.split(), strict=True)]


def test_far_errors_are_within_those_of_the_default_method(score):
    explainer = slalom.Explainer(score, output="log_odds", unit=spans)
    errors = []
    for text in TEXTS:
        words = text.split()
        rng, masks = np.random.default_rng(1), np.ones((150, len(words)), bool)
        for row in masks:
            row[rng.permutation(len(words))[: rng.integers(1, len(words) + 1)]] = False
        answers = small.ask(score, words, masks)
        predictions = [e.predict(masks) for e in (small.explain(score, text, 150), explainer(text, queries=150))]
        errors.append([np.mean((p - answers) ** 2) / answers.var() for p in predictions])
    ours, default = np.mean(errors, axis=0)
    assert ours <= 1.5 * default, f"1 - R2 is {ours:.3f}, that of the default {default:.3f}"
    assert ours < 0.2


def test_the_formula_is_what_it_says():
    rng = np.random.default_rng(0)
    values, importances = rng.normal(size=4), rng.normal(size=4)
    for kappa in (0.0, 0.3, 1.0):
        f = small.Competition(values, importances, kappa, bias=0.2, limit=5.0, centre=0.1)
        for mask in np.array(np.meshgrid(*[[False, True]] * 4)).reshape(4, -1).T:
            weights = mask * np.exp(importances)
            shares = weights / weights.sum() if mask.any() else weights
            z = 0.2 + sum(u * share**kappa for u, share, kept in zip(values, shares, mask, strict=True) if kept)
            assert f.predict(mask[None])[0] == pytest.approx(0.1 + 5 * np.tanh((z - 0.1) / 5))


def test_slopes_are_those_of_the_predictions():
    rng = np.random.default_rng(0)
    kept, theta = rng.integers(0, 3, (6, 3)).astype(float), rng.normal(size=10)

    def formula(x):
        return small.Competition(x[:3], x[3:6], 1 / (1 + np.exp(-x[7])), x[6], np.exp(x[9]), x[8])

    steps = 1e-6 * np.eye(10)
    slopes = [(formula(theta + h).predict(kept) - formula(theta - h).predict(kept)) / 2e-6 for h in steps]
    np.testing.assert_allclose(small.slopes(formula(theta), kept), np.transpose(slopes), atol=1e-7)


def test_planted_parameters_are_found_again():
    rng = np.random.default_rng(0)
    truth = small.Competition(rng.normal(size=10), rng.normal(size=10), 0.6, bias=0.2, limit=50.0, centre=0.0)
    masks = small.sample(10, 400, rng)
    e = small.fit(list("abcdefghij"), masks, truth.predict(masks))
    assert e.formula.kappa == pytest.approx(0.6, abs=0.1)
    assert np.corrcoef(e.formula.values, truth.values)[0, 1] > 0.99
    assert np.corrcoef(e.formula.importances, truth.importances)[0, 1] > 0.95
    others = rng.random((200, 10)) < 0.5
    np.testing.assert_allclose(e.predict(others), truth.predict(others), atol=0.05 * truth.predict(others).std())


def test_shapley_values_are_those_of_all_orders():
    words = ["a", "b", "c"]
    formula = small.Competition(np.array([1.0, -2.0, 0.5]), np.array([0.3, 0.0, -0.5]), 0.5, 0.1, 4.0, 0.0)
    masks = small.sample(3, 8, np.random.default_rng(0))
    e = small.Explanation(words, formula, masks, np.ones(3), np.array([0.5, 0.2]), np.sin(np.arange(8.0)))
    exact = np.zeros(3)
    for order in permutations(range(3)):
        rows = np.array([[i in order[:k] for i in range(3)] for k in range(4)])
        exact[list(order)] += np.diff(e.predict(rows)) / 6
    sampled = e.shapley(orders=200)
    np.testing.assert_allclose(sampled, exact, atol=0.1)
    whole, empty = e.predict(np.array([[True] * 3, [False] * 3]))
    assert sampled.sum() == pytest.approx(whole - empty)
    np.testing.assert_allclose(e.removal(), whole - e.predict(~np.eye(3, dtype=bool)))


def test_rows_are_distinct_and_no_more_than_asked():
    for n in (1, 2, 5, 40):
        for queries in (2, 10, 200):
            rows = small.sample(n, queries, np.random.default_rng(0))
            assert len(rows) == len(np.unique(rows, axis=0)) <= queries, (n, queries)
            assert rows.all(axis=1).any(), (n, queries)
            assert (~rows).all(axis=1).any(), (n, queries)


def test_a_script_of_this_folder_finds_the_packages_that_it_imports():
    """`python experiments/small.py` puts the folder before them: no file may have the name of one."""
    names = {path.stem for path in Path(small.__file__).parent.glob("*.py")}
    assert not names & (packages_distributions().keys() | sys.stdlib_module_names)
