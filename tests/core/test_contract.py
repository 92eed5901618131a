"""What every kind of surrogate promises, checked by brute force: a new kind adds its samples to SAMPLES and passes as it is."""

import json
from itertools import combinations
from math import comb

import numpy as np
import pytest
from scipy.sparse import csr_array

from slalom.core import Additive, Slalom, Surrogate, TwoScale, banzhaf, leave_one_out, semivalue, shapley
from slalom.core.kinds import KINDS, from_dict
from slalom.core.measures import Beta, Point
from slalom.errors import InputError
from tests.cases import cases

N = 6
COUNTS = [np.ones(N), np.array([2.0, 0.0, 1.0, 0.5, 1.0, 3.0])]


def slaloms(rng, shape):
    """Slaloms with and without background and link, each with its formula."""
    for background in (None, (rng.normal(size=shape), 0.4)):
        for link in (None, (rng.normal(size=shape), rng.uniform(0.5, 2.0, size=shape))):
            values, importances = rng.normal(size=(N, *shape)), rng.normal(size=N)
            yield Slalom(values, importances, background, link), slalom_formula(values, importances, background, link)


def slalom_formula(values, importances, background, link):
    def formula(counts):
        v0, w0 = (0.0, 0.0) if background is None else (background[0], np.exp(background[1]))
        total = w0 + sum(c * np.exp(s) for c, s in zip(counts, importances, strict=True))
        if total == 0:
            evidence = np.zeros(values.shape[1:])  # by convention
        else:
            evidence = (w0 * v0 + sum(c * np.exp(s) * v for c, s, v in zip(counts, importances, values, strict=True))) / total
        evidence = centred(evidence)
        return evidence if link is None else centred(link[0] + link[1] * np.tanh((evidence - link[0]) / link[1]))

    return formula


def additives(rng, shape):
    effects, base = rng.normal(size=(N, *shape)), rng.normal(size=shape)
    yield (
        Additive(effects, base),
        lambda counts: centred(base + sum(c * e for c, e in zip(counts, effects, strict=True))),
    )


def two_scales(rng, shape):
    """Two-scale surrogates with and without pairs, one of them a pair of a unit with itself."""
    shares = rng.dirichlet(np.ones(N))
    for (far, formula), power, pairs in zip(
        slaloms(rng, shape), (1, 2, 5, 12), ((), ((0, 2), (4, 5)), ((1, 1), (0, 5), (0, 3)), ()), strict=True
    ):
        level, changes = rng.normal(size=shape), rng.normal(size=(N, *shape))
        effects = rng.normal(size=(len(pairs), *shape))
        yield (
            TwoScale(far, level, changes, shares, power, pairs, effects),
            two_scale_formula(formula, level, changes, shares, power, pairs, effects),
        )


def two_scale_formula(far, level, changes, shares, power, pairs, effects):
    def formula(counts):
        left = level - sum(c * d for c, d in zip(counts, changes, strict=True))
        together = sum(counts[i] * counts[j] * g for (i, j), g in zip(pairs, effects, strict=True))
        return far(counts) + centred((counts @ shares) ** power * left + together)

    return formula


def centred(scores):
    return scores - np.mean(scores) if np.ndim(scores) else scores


SAMPLES = {"slalom": slaloms, "additive": additives, "two-scale": two_scales}
MODELS = [
    (model, formula)
    for kind, samples in SAMPLES.items()
    for classes in (None, 3)
    for number, (model, formula) in enumerate(samples(np.random.default_rng(7), () if classes is None else (classes,)))
]
every_model = cases(("model", "formula"), MODELS)
every_input = cases("counts", COUNTS)


def subsets(units):
    return [set(chosen) for size in range(len(units) + 1) for chosen in combinations(units, size)]


def part(counts, units):
    return np.where(np.isin(np.arange(N), list(units)), counts, 0.0)


def test_every_kind_is_tested():
    assert set(SAMPLES) == set(KINDS)
    assert all(issubclass(cls, Surrogate) and cls.kind == kind for kind, cls in KINDS.items())


@every_model
def test_predictions_are_those_of_the_formula(model, formula):
    rows = np.random.default_rng(0).integers(0, 4, (30, N)).astype(float)
    rows = rows[rows.any(axis=1)]
    expected = np.array([formula(row) for row in rows])
    np.testing.assert_allclose(model.predict(rows), expected, atol=1e-12)
    np.testing.assert_array_equal(model(rows), model.predict(rows))
    np.testing.assert_array_equal(model.predict(csr_array(rows)), model.predict(rows))
    np.testing.assert_allclose(model.empty_score, formula(np.zeros(N)), atol=1e-12)
    chances = model.probabilities(rows)
    assert chances.shape == (len(rows), model.n_classes or 2)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    moderate = np.abs(expected).reshape(len(rows), -1).max(axis=1) < 15  # probabilities of others are 0 or 1 to rounding
    assert moderate.sum() > 3
    logits = np.log(chances[moderate])
    scores = logits[:, 1] - logits[:, 0] if model.n_classes is None else logits - logits.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(scores, expected[moderate], atol=1e-8)


@every_model
def test_shapes_are_those_of_the_values(model, formula):
    assert model.n_units == N
    assert model.values.shape == ((N,) if model.n_classes is None else (N, model.n_classes))
    assert model.importances.shape == (N,)
    assert np.shape(model.empty_score) == model.values.shape[1:]
    for scores in (model.linear(), model.gradient(), model.removal(), model.shapley()):
        assert scores.shape == model.values.shape
    shares = model.weights(np.ones((2, N)))
    assert shares.shape == (2, N)
    assert (shares >= 0).all()
    assert (shares.sum(axis=1) <= 1 + 1e-12).all()
    for array in (model.values, model.importances):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0


@every_model
@every_input
def test_removal_is_the_change_of_the_prediction(model, formula, counts):
    expected = [formula(counts) - formula(np.where(np.arange(N) == i, 0.0, counts)) for i in range(N)]
    np.testing.assert_allclose(model.removal(counts), expected, atol=1e-12)
    np.testing.assert_array_equal(leave_one_out(model, counts), model.removal(counts))
    np.testing.assert_array_equal(model.semivalue(Point(1), counts), model.removal(counts))


@every_model
@every_input
def test_gradient_is_the_slope_of_the_prediction(model, formula, counts):
    h = 1e-4
    for i, step in enumerate(h * np.eye(N)):  # one-sided, as a count cannot be negative
        f = [formula(counts + k * step) for k in range(4)]
        slope = (-11 * f[0] + 18 * f[1] - 9 * f[2] + 2 * f[3]) / (6 * h)
        np.testing.assert_allclose(model.gradient(counts)[i], slope, atol=1e-8)


@every_model
@every_input
def test_semivalues_are_those_of_all_coalitions(model, formula, counts):
    players = [i for i in range(N) if counts[i]]
    others = len(players) - 1
    shares, halves = np.zeros((2, *model.values.shape))
    for i in players:
        for there in subsets([j for j in players if j != i]):
            change = formula(part(counts, there | {i})) - formula(part(counts, there))
            shares[i] += change / (len(players) * comb(others, len(there)))
            halves[i] += change / 2**others
    np.testing.assert_allclose(model.shapley(counts), shares, atol=1e-9)
    np.testing.assert_allclose(shapley(model, counts), shares, atol=1e-9)
    np.testing.assert_allclose(semivalue(model, Beta(1, 1), counts), shares, atol=1e-9)
    np.testing.assert_allclose(banzhaf(model, counts), halves, atol=1e-9)
    np.testing.assert_allclose(model.shapley(counts).sum(axis=0), formula(counts) - model.empty_score, atol=1e-9)


@every_model
def test_merged_units_go_together(model, formula):
    groups = np.array([0, 1, 0, 2, 2, 0])
    merged = model.merged(groups)
    rows = np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 2.0], [0.0, 0.5, 1.0]])
    assert (type(merged), merged.n_units) == (type(model), 3)
    np.testing.assert_allclose(merged.predict(rows), [formula(row[groups]) for row in rows], atol=1e-12)
    np.testing.assert_allclose(merged.empty_score, model.empty_score, atol=1e-12)
    same = model.merged(np.arange(N))
    np.testing.assert_allclose(same.values, model.values, atol=1e-15)
    np.testing.assert_allclose(same.importances, model.importances, atol=1e-15)
    for wrong in ([0, 1], np.zeros(N), [0, 0, 0, 0, 0, -1], [0, 0, 0, 0, 0, 2]):
        with pytest.raises(InputError, match="group"):
            model.merged(wrong)


@every_model
def test_repeated_units_share_their_parameters(model, formula):
    units = np.array([3, 0, 3, 5, 1])
    rows = np.array([[1.0, 1.0, 1.0, 1.0, 1.0], [0.0, 2.0, 1.0, 0.0, 1.0]])
    expected = [formula(np.bincount(units, row, minlength=N)) for row in rows]
    np.testing.assert_allclose(model.repeated(units).predict(rows), expected, atol=1e-12)


@every_model
def test_a_constant_has_one_score(model, formula):
    level = 0.7 if model.n_classes is None else np.array([1.0, -2.0, 1.0])
    constant = type(model).constant(N, level, empty=True)
    np.testing.assert_allclose(constant.predict(np.tri(N, k=-1)), np.broadcast_to(level, (N, *np.shape(level))), atol=1e-12)
    np.testing.assert_allclose(constant.removal(), 0.0, atol=1e-15)
    without = type(model).constant(N, level, empty=False)
    np.testing.assert_allclose(without.predict(np.eye(N)), np.broadcast_to(level, (N, *np.shape(level))), atol=1e-12)


@every_model
def test_saved_models_come_back_bit_by_bit(model, formula):
    saved = json.loads(json.dumps(model.to_dict()))
    assert saved["kind"] == model.kind
    back = from_dict({**saved, "text": "further keys are ignored"})
    assert type(back) is type(model)
    assert back.to_dict() == model.to_dict()
    rows = np.random.default_rng(1).integers(1, 3, (10, N))
    np.testing.assert_array_equal(back.predict(rows), model.predict(rows))
    np.testing.assert_array_equal(back.shapley(), model.shapley())


def test_an_unknown_kind_is_refused():
    with pytest.raises(InputError, match=r"must be one of 'slalom', .*; got 'cubic'; update slalom"):
        from_dict({"kind": "cubic", "values": [1.0]})


@every_model
def test_wrong_arguments_are_refused(model, formula):
    for wrong in (np.ones((1, N + 1)), np.ones(N), -np.ones((1, N)), np.full((1, N), np.nan)):
        with pytest.raises(InputError, match="counts"):
            model.predict(wrong)
    for score in (model.gradient, model.removal, model.shapley):
        with pytest.raises(InputError, match="counts"):
            score(np.ones(N + 1))
    with pytest.raises(InputError, match="measure must be"):
        model.semivalue(0.5)


@cases(("importance", "expected"), [(0.0, False), (5.0, True)])
def test_a_background_with_all_the_attention_makes_units_additive(importance, expected):
    assert Slalom([1.0, 2.0], [0.0, 0.0], (0.0, importance)).additive is expected
    assert Slalom([1.0, 2.0], [0.0, 0.0]).additive is False
    assert Additive([1.0]).additive is True
