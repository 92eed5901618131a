from itertools import permutations

import numpy as np

from slalom.core import Lengths, fit_lengths
from tests.cases import cases


def data(effect, m=600, n=60, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(20, n, m)
    return lengths, effect(lengths) + noise * rng.normal(size=m)


@cases("effect", [lambda x: np.sin(x / 3.0), lambda x: 0.02 * x - 0.8, lambda x: (x % 2) * 0.5 - 0.25])
def test_a_planted_effect_of_the_length_is_found(effect):
    lengths, residual = data(effect)
    found = fit_lengths(lengths, residual, 60)
    seen = np.unique(lengths)
    assert found.offsets.shape == (61,)
    assert np.sqrt(np.mean((found(seen) - effect(seen)) ** 2)) < 0.05


def test_noise_has_none():
    none = sum(fit_lengths(*data(lambda x: 0.0 * x, seed=seed), 60) is None for seed in range(40))
    assert none >= 36


def test_several_classes_each_have_their_own():
    lengths, first = data(lambda x: np.sin(x / 3.0))
    both = np.stack([first, -2.0 * first], axis=1)
    found = fit_lengths(lengths, both, 60)
    assert found.offsets.shape == (61, 2)
    assert np.allclose(found.offsets[:, 1], -2.0 * found.offsets[:, 0])


def test_far_from_all_lengths_there_is_no_effect():
    found = fit_lengths(*data(lambda x: np.sin(x / 2.0)), 400)
    assert abs(found(np.array([400]))[0]) < 1e-3


@cases("lengths", [np.full(50, 7), np.arange(50), np.array([3, 4])])
def test_too_little_data_give_none(lengths):
    assert fit_lengths(lengths, np.ones(len(lengths)), 60) is None
    assert fit_lengths(np.arange(60) % 6, np.zeros(60), 60) is None


@cases("sizes", [[3], [1, 1, 1], [1, 2, 1, 3], [4, 1, 2, 2, 1], [2, 2, 5, 1, 1, 1]])
@cases("classes", [None, 3])
def test_the_length_is_shared_out_as_over_all_orders_of_the_units(sizes, classes):
    sizes = np.array(sizes)
    shape = (sizes.sum() + 1,) if classes is None else (sizes.sum() + 1, classes)
    lengths = Lengths(np.random.default_rng(1).normal(size=shape))
    orders = list(permutations(range(len(sizes))))
    expected = np.zeros((len(sizes), *shape[1:]))
    for order in orders:
        ends = np.cumsum(sizes[list(order)])
        for unit, end in zip(order, ends, strict=True):
            expected[unit] += (lengths.offsets[end] - lengths.offsets[end - sizes[unit]]) / len(orders)
    assert np.allclose(lengths.shapley(sizes), expected, rtol=0, atol=1e-12)


def test_a_long_text_shares_out_all_of_it():
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 6, 1500)
    lengths = Lengths(rng.normal(size=sizes.sum() + 1).cumsum())
    assert np.isclose(lengths.shapley(sizes).sum(), lengths.offsets[-1] - lengths.offsets[0], rtol=0, atol=1e-8)


def test_removal_and_slope_are_differences_at_the_whole_text():
    lengths = Lengths(np.array([0.0, 1.0, 4.0, 9.0, 16.0]))
    assert lengths.removal(np.array([1, 2, 4])).tolist() == [7.0, 12.0, 16.0]
    assert float(lengths.slope) == 7.0


def test_the_error_of_the_slope_is_that_of_repeated_fits():
    """With the whole text the same and new noise on all other rows, the slope varies by about its standard error."""
    rng = np.random.default_rng(0)
    lengths = np.repeat(np.arange(40, 50), 30)
    slopes, errors = [], []
    for _ in range(100):
        scores = np.sin(lengths) + 0.5 * rng.normal(size=len(lengths))
        found = fit_lengths(np.append(lengths, 50), np.append(scores, np.sin(50)), 50)
        slopes.append(float(found.slope))
        errors.append(found.slope_se)
    assert 0.6 < np.std(slopes) / np.mean(errors) < 1.25
