"""`joint` and `local`: what they ask, that answers are passed on, and that intervals hold the truth."""

import zlib

import numpy as np
import pytest

import slalom
from slalom.core import Slalom
from slalom.result import NORMAL_95
from tests.cases import cases

WORDS = [f"w{i}" for i in range(40)]
TEXT = " ".join(WORDS)


class Planted:
    """A SLALOM of words with a little noise that depends on the text alone; it records what it is asked."""

    def __init__(self, seed=0, noise=0.05, competition=0.3, classes=None):
        rng = np.random.default_rng(seed)
        shape = (40,) if classes is None else (40, classes)
        self.truth = Slalom(rng.normal(size=shape) * rng.random((40, *shape[1:])) ** 2, rng.normal(size=40), competition)
        self.noise, self.asked = noise, []

    def __call__(self, texts):
        self.asked += texts
        kept = np.array([[word in text.split() for word in WORDS] for text in texts], dtype=float)
        noise = [np.random.default_rng(zlib.crc32(text.encode())).normal() for text in texts]
        return (self.truth(kept).T + self.noise * np.array(noise)).T


def explainer(model, **options):
    made = slalom.Explainer(model, output="log_odds", unit="word", progress=False, pairs=False, **options)
    model.asked.clear()  # what finds out the number of outputs
    return made


@cases("method", ["joint", "local"])
def test_the_ten_strongest_units_have_the_removals_of_the_model(method):
    model = Planted()
    e = explainer(model, method=method, queries=150, check=0)(TEXT)
    assert e.queries == len(model.asked) == len(set(model.asked)) <= 150
    own = model([TEXT])[0] - model([" ".join(WORDS[:i] + WORDS[i + 1 :]) for i in range(40)])
    strongest = np.argsort(-np.abs(own))[:3]
    known = ~np.isnan(e.measured["removal"])
    assert known[strongest].all()
    assert known.sum() >= 10
    np.testing.assert_allclose(e.removal[known], own[known], atol=1e-9)
    assert not e.errors["removal"][known].any()
    predicted = e.surrogate.removal()
    np.testing.assert_allclose(predicted[strongest], own[strongest], atol=0.1 * np.abs(own).max())


def test_words_alone_have_the_values_of_the_model():
    model = Planted()
    e = explainer(model, queries=200, check=0)(TEXT)
    known = ~np.isnan(e.measured["value"])
    assert known.all()  # forty words take less than a quarter of the queries
    np.testing.assert_allclose(e.scores("value"), model(WORDS) - model([""])[0], atol=1e-9)


@cases("budget", [10, 30, 59, 60, 75, 200])
def test_the_budget_is_kept_and_used(budget):
    model = Planted()
    e = explainer(model, queries=budget, check=0)(TEXT)
    assert e.queries == len(set(model.asked)) == len(model.asked)
    assert budget - 2 <= e.queries <= budget + 1  # the whole text may come beside
    assert np.isfinite(e.removal).all()


def test_a_seed_decides_everything():
    one, again, other = (explainer(Planted(), queries=100, check=10)(TEXT, seed=seed) for seed in (1, 1, 2))
    assert one.to_dict() | {"seconds": 0} == again.to_dict() | {"seconds": 0}
    assert not np.array_equal(one.surrogate.values, other.surrogate.values)
    assert np.corrcoef(one.removal, other.removal)[0, 1] > 0.9


@cases(("competition", "noise"), [(0.3, 0.03), (0.3, 0.1), (0.05, 0.1)])
def test_intervals_hold_the_truth(competition, noise):
    """Of the units that were not asked alone; the truth is the planted one, without the noise."""
    inside = {"removal": [], "value": [], "shapley": []}
    for seed in range(5):
        model = Planted(seed, noise, competition)
        e = explainer(model, queries=100, check=0, seed=seed)(TEXT)
        for name, predicted, truth in (
            ("removal", e.surrogate.removal(), model.truth.removal()),
            ("value", e.surrogate.alone(), model.truth.alone()),
            ("shapley", e.surrogate.shapley(), model.truth.shapley()),
        ):
            open_ = np.isnan(e.measured[name]) if name in e.measured else np.ones(40, dtype=bool)
            inside[name].append((np.abs(predicted - truth) <= NORMAL_95 * e.errors[name])[open_])
    for name, held in inside.items():
        assert np.concatenate(held).mean() >= 0.88, name


def test_all_classes_are_explained_at_once():
    model = Planted(classes=3, noise=0.01)
    made = slalom.Explainer(model, output="logits", unit="word", progress=False, check=0)
    e = made(TEXT, queries=200, target="all")
    scores = model.truth.removal()
    assert e.removal.shape == e.errors["removal"].shape == (40, 3)
    assert np.corrcoef(e.removal.ravel(), scores.ravel())[0, 1] > 0.95
    np.testing.assert_allclose(e.removal.sum(axis=1), 0.0, atol=1e-9)


def test_a_model_of_competition_is_explained_as_one():
    found = [explainer(Planted(0, 0.0, kappa), queries=400, check=0)(TEXT).surrogate.competition for kappa in (0.0, 0.3, 1.0)]
    assert found[0] < 0.05
    assert found[1] == pytest.approx(0.3, abs=0.1)
    assert found[2] > 0.85
