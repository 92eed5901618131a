"""Means, paired comparisons and corrections: by hand and against scipy and closed forms."""

import numpy as np
import pytest
from scipy.stats import norm, sem, wilcoxon

from slalom.errors import InputError
from slalom.evaluate import compare_paired, holm, summarize
from tests.cases import cases


def test_means_count_what_is_missing():
    values = np.random.default_rng(0).normal(size=20)
    found = summarize([*values, None, float("nan")])
    assert found.mean == pytest.approx(values.mean())
    assert found.se == pytest.approx(sem(values))
    assert (found.n, found.missing) == (20, 2)
    assert summarize([2.0]) == (2.0, None, 1, 0)
    assert summarize([None]) == (None, None, 0, 1)
    assert summarize([]) == (None, None, 0, 0)


def test_a_comparison_is_paired():
    rng = np.random.default_rng(1)
    texts = rng.normal(size=200) * 10.0  # texts differ far more than methods
    b = texts.tolist()
    a = (texts + 0.2 + 0.5 * rng.normal(size=200)).tolist()
    d = np.array(a) - np.array(b)
    found = compare_paired(a, b)
    assert found.difference == pytest.approx(d.mean())
    assert found.se == pytest.approx(sem(d))
    assert found.p == pytest.approx(wilcoxon(d).pvalue)
    half = norm.ppf(0.975) * found.se  # the bootstrap of a mean is nearly normal
    assert found.low == pytest.approx(d.mean() - half, abs=0.1 * half)
    assert found.high == pytest.approx(d.mean() + half, abs=0.1 * half)
    assert (found.higher, found.lower, found.equal) == (int((d > 0).sum()), int((d < 0).sum()), 0)
    assert compare_paired(a, b) == found
    other = compare_paired(b, a)
    assert other.difference == pytest.approx(-found.difference)
    assert other.p == pytest.approx(found.p)


def test_small_samples_by_hand():
    # five differences of one sign: both tails of 2^5 sign patterns
    found = compare_paired([2.0, 3.0, 4.0, 5.5, 7.0], [1.0, 1.0, 1.0, 1.0, 1.0])
    assert found.p == pytest.approx(2 / 32)
    assert found.low > 0
    same = compare_paired([1.0, 2.0], [1.0, 2.0])
    assert (same.p, same.difference, same.low, same.high, same.equal) == (1.0, 0.0, 0.0, 0.0, 2)
    one = compare_paired([3.0], [1.0])
    assert (one.difference, one.se, one.p) == (2.0, None, 1.0)


def test_texts_without_both_numbers_are_left_out():
    found = compare_paired([1.0, None, 3.0, 5.0], [0.0, 1.0, float("nan"), 5.0])
    assert (found.n, found.missing, found.higher, found.equal) == (2, 2, 1, 1)
    assert found.difference == 0.5


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(2)
    inside = 0
    for _ in range(50):
        found = compare_paired(rng.normal(0.3, 1.0, 20), np.zeros(20))
        inside += found.low <= 0.3 <= found.high
    assert 0.84 < inside / 50 < 1.0


def test_holm_by_hand():
    # the example of Holm's method: 4 x 0.005, 3 x 0.01, 2 x 0.03, 1 x 0.04 raised to the one before
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]).tolist() == [1.0, 1.0]
    assert holm([0.2]).tolist() == [0.2]
    assert holm([]).shape == (0,)


@cases(
    ("call", "says"),
    [
        (lambda: summarize([float("inf")]), "must be finite"),
        (lambda: summarize(["a"]), "must be numbers"),
        (lambda: compare_paired([1.0], [1.0, 2.0]), "of the same texts; got 1 and 2"),
        (lambda: compare_paired([None], [1.0]), "at least one text with both numbers"),
        (lambda: holm([1.5]), "from 0 to 1"),
        (lambda: holm([np.nan]), "p must be finite"),
    ],
)
def test_wrong_arguments(call, says):
    with pytest.raises(InputError, match=says):
        call()


def test_intervals_of_few_texts_are_those_of_student():
    assert summarize([1.0]).half_width is None
    assert summarize([1.0, 3.0]).half_width == pytest.approx(12.706, abs=1e-3)
    assert summarize([0.0, 2.0] * 5000).half_width == pytest.approx(1.96 / 100, rel=1e-3)
    rng = np.random.default_rng(0)
    found = [summarize(rng.normal(size=4)) for _ in range(1000)]
    assert np.mean([abs(one.mean) <= one.half_width for one in found]) == pytest.approx(0.95, abs=0.025)
