"""What every sampler promises, and what each one does."""

from math import comb

import numpy as np
import pytest

from slalom.errors import InputError
from slalom.text import Deletions, Pairs, Scales

SAMPLERS = [Pairs(), Deletions(), Deletions(most=3), Deletions(most=5, repeats=True), Scales(), Scales(levels=5)]
SIZES = [1, 2, 3, 7, 40, 300]


def draw(sampler, n, budget, seed=0, empty=True):
    return sampler.draw(np.arange(n), budget, np.random.default_rng(seed), empty)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("budget", [2, 10, 200])
@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_contract(sampler, n, budget):
    asked = draw(sampler, n, budget)
    m = len(asked.keep)
    assert 1 <= m <= max(budget, 2)
    assert asked.keep.shape == (m, n)
    assert asked.keep.dtype == bool
    assert len(np.unique(asked.keep, axis=0)) == m, "no query twice"
    assert asked.weights.shape == (m,)
    assert (asked.weights > 0).all()
    again = draw(sampler, n, budget)
    assert (again.keep == asked.keep).all()
    assert (again.weights == asked.weights).all()
    assert draw(sampler, n, budget, empty=False).keep.any(axis=1).all(), "the empty text only where it can be asked"


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_another_seed_gives_other_queries(sampler):
    assert not np.array_equal(draw(sampler, 60, 100, seed=1).keep, draw(sampler, 60, 100, seed=2).keep)


def test_pairs_are_all_asked_where_the_budget_allows_and_never_more():
    keep = draw(Pairs(), 20, 5000).keep
    assert len(keep) == comb(20, 2)
    assert (keep.sum(axis=1) == 2).all()
    assert len(draw(Pairs(), 20, 100).keep) == 100


def test_pairs_are_of_different_types():
    keep = Pairs().draw(np.array([0, 1, 0, 2, 1]), 100, np.random.default_rng(0), True).keep
    assert len(keep) == comb(3, 2)
    assert not keep[:, [2, 4]].any(), "one occurrence stands for all"


def test_deletions_remove_one_to_ten_each_equally_often():
    asked = draw(Deletions(), 100, 1001)
    removed = (~asked.keep).sum(axis=1)
    assert np.bincount(removed).tolist() == [1, *[100] * 10]
    assert asked.weights[removed == 0].tolist() == [1000.0]
    assert (asked.weights[removed > 0] == 1).all()


def test_repeated_deletions_count_as_often_as_they_were_drawn():
    asked = draw(Deletions(most=5, repeats=True), 50, 5000)
    removed = (~asked.keep).sum(axis=1)
    assert asked.weights.sum() == 5000
    shares = np.bincount(removed, asked.weights) / 5000
    assert np.allclose(shares, 1 / 6, atol=0.02)
    assert (removed == 0).sum() == 1, "the whole text is asked once"


def test_scales_cover_every_size_evenly_with_both_ends():
    asked = draw(Scales(), 40, 802)
    kept = asked.keep.sum(axis=1)
    assert kept[0] == 40
    assert kept[-1] == 0
    assert set(np.unique(kept)) == set(range(41))
    assert np.bincount(kept)[3:38].min() >= 20
    each = asked.keep[1:-1].mean(axis=0)
    assert each.min() > 0.45
    assert each.max() < 0.55, "every unit is kept about as often as any other"


def test_scales_take_few_lengths_of_a_long_text():
    assert len(np.unique(draw(Scales(), 400, 1000).keep.sum(axis=1))) <= 50


def test_a_short_text_is_asked_about_completely():
    assert len(draw(Scales(), 5, 1000).keep) == 2**5


@pytest.mark.parametrize("make", [lambda: Deletions(most=0), lambda: Deletions(anchor=0), lambda: Scales(levels=1)])
def test_bad_numbers_are_refused(make):
    with pytest.raises(InputError, match="needs"):
        make()
