"""What every sampler promises, and what each one does."""

from math import comb

import numpy as np
import pytest

from slalom.errors import InputError
from slalom.text import Deletions, Mixed, Pairs, Scales, extended
from tests.cases import cases

SAMPLERS = [Pairs(), Deletions(), Deletions(most=5, repeats=True), Scales(), Mixed()]
SIZES = [1, 2, 3, 7, 40, 150]


def draw(sampler, n, budget, seed=0, empty=True):
    return sampler.draw(np.arange(n), budget, np.random.default_rng(seed), empty)


@cases("n", SIZES)
@cases("budget", [2, 10, 200])
@cases("sampler", SAMPLERS, ids=repr)
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


@cases("sampler", SAMPLERS, ids=repr)
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
    assert len(np.unique(draw(Scales(), 400, 1000).keep.sum(axis=1))) <= 50, "few lengths"
    assert len(draw(Scales(), 5, 1000).keep) == 2**5, "a short text completely"
    each = asked.keep[1:-1].mean(axis=0)
    assert each.min() > 0.45
    assert each.max() < 0.55, "every unit is kept about as often as any other"


def test_bad_numbers_are_refused():
    with pytest.raises(InputError, match="Deletions needs most >= 1; got 0"):
        Deletions(most=0)


# --- plans that grow


def extend(sampler, plan, budget, taken=(), seed=1, empty=True):
    """Extend a plan; `taken` rows are held out."""
    known = {row.tobytes() for row in [*plan.keep, *taken]}
    rng = np.random.default_rng(seed)
    types = np.arange(plan.keep.shape[1])
    return extended(
        plan,
        lambda number: sampler.draw(types, number, rng, empty),
        budget,
        lambda keep: np.array([r.tobytes() not in known for r in keep]),
    )


@cases("n", SIZES)
@cases("sampler", SAMPLERS, ids=repr)
def test_a_plan_keeps_its_rows_when_it_grows(sampler, n):
    plan = draw(sampler, n, 60)
    rng = np.random.default_rng(7)
    taken = rng.random((30, n)) < 0.9
    for budget in (100, 160):
        larger = extend(sampler, plan, budget, taken)
        m = len(larger.keep)
        assert len(plan.keep) <= m <= max(budget, 2)
        assert (larger.keep[: len(plan.keep)] == plan.keep).all()
        assert len(np.unique(larger.keep, axis=0)) == m, "no query twice"
        assert larger.weights.shape == (m,)
        assert (larger.weights > 0).all()
        held = {row.tobytes() for row in taken}
        assert not any(row.tobytes() in held for row in larger.keep[len(plan.keep) :]), "held-out rows are left out"
        again = extend(sampler, plan, budget, taken)
        assert (again.keep == larger.keep).all()
        assert (again.weights == larger.weights).all()
    assert extend(sampler, plan, min(40, len(plan.keep))).keep.shape == plan.keep.shape, "nothing to add"


@cases("sampler", [Pairs(), Deletions(), Scales()], ids=repr)
def test_a_plan_grows_to_the_budget_where_there_are_enough_rows(sampler):
    plan = draw(sampler, 60, 100)
    assert len(extend(sampler, plan, 777).keep) == 777


def test_a_plan_grows_until_all_rows_are_used():
    assert len(extend(Scales(), draw(Scales(), 6, 30), 1000).keep) == 2**6
    assert len(extend(Pairs(), draw(Pairs(), 9, 10), 1000).keep) == comb(9, 2)


@cases("sampler", [Deletions(), Deletions(most=3), Scales()], ids=repr)
def test_a_larger_plan_has_the_proportions_of_one_that_is_drawn_at_once(sampler):
    larger, at_once = extend(sampler, draw(sampler, 80, 300), 1200), draw(sampler, 80, 1200)
    sizes = [np.bincount(plan.keep.sum(axis=1), minlength=81) / len(plan.keep) for plan in (larger, at_once)]
    assert np.abs(sizes[0].cumsum() - sizes[1].cumsum()).max() < 0.03
    shares = [plan.weights[0] / plan.weights[1:].sum() for plan in (larger, at_once)]
    assert larger.keep[0].all()
    assert shares[0] == pytest.approx(shares[1], rel=0.01)


@cases(("n", "budget", "alone"), [(17, 180, True), (22, 200, True), (60, 200, False), (60, 600, True), (260, 1000, False)])
def test_every_unit_is_removed_alone_where_that_leaves_room_for_other_deletions(n, budget, alone):
    plan = draw(Mixed(), n, budget)
    removed = (~plan.keep).sum(axis=1)
    assert ((~plan.keep[removed == 1]).any(axis=0).all()) == alone
    assert ((removed >= 2) & (removed <= 10)).sum() >= 0.1 * budget
    assert len(plan.keep) == budget
    assert (plan.weights == 1.0).all()


def test_distinct_units_are_alone_in_a_row_for_a_quarter_of_the_budget():
    types = np.array([0, 1, 0, 2, 1, *range(3, 40)])
    keep = Mixed().draw(types, 300, np.random.default_rng(0), True).keep
    alone = keep[keep.sum(axis=1) == 1].argmax(axis=1)
    assert len(set(types[alone].tolist())) == 40  # one occurrence, at least, of each
    few = draw(Mixed(), 200, 100).keep
    assert (few.sum(axis=1) == 1).sum() >= 25
    assert few[0].all()
    assert (~few.any(axis=1)).sum() == 1


@cases("n", [5, 8, 12])
def test_few_units_use_the_whole_budget(n):
    budgets = list(range(20, min(2**n, 250), 11))
    assert [len(draw(Mixed(), n, budget).keep) for budget in budgets] == budgets


def test_a_short_text_is_asked_completely():
    assert len(draw(Mixed(), 7, 200).keep) == 2**7
    assert len(draw(Mixed(), 7, 200, empty=False).keep) == 2**7 - 1
