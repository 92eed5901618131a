"""Sensitivity to the seed: by hand, and of methods that are known to be stable or not."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr

from slalom.errors import InputError
from slalom.evaluate import instability, seed_instability
from tests.factories import adder, explanation

TEXT = "good bad great film with a very long end"


def test_by_hand():
    assert instability([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]) == (0.0, 0.0, 1)
    found = instability([[3.0, 4.0], [4.0, 3.0]])
    assert found.rank == pytest.approx(2.0)
    assert found.relative == pytest.approx(np.sqrt(2.0) / 5.0)
    # twice as large: ranks alike, |a - b| = |a| against a mean of 1.5 |a|
    twice = instability([[1.0, -2.0, 3.0], [2.0, -4.0, 6.0]])
    assert twice.rank == pytest.approx(0.0)
    assert twice.relative == pytest.approx(1 / 1.5)


def test_all_pairs_count():
    scores = np.random.default_rng(0).normal(size=(4, 30))
    found = instability(scores)
    assert found.pairs == 6
    pairs = [(a, b) for i, a in enumerate(scores) for b in scores[i + 1 :]]
    assert found.rank == pytest.approx(1.0 - np.mean([spearmanr(a, b).statistic for a, b in pairs]))
    assert found.rank == pytest.approx(1.0, abs=0.3)  # nothing in common


def test_what_is_not_defined_is_none():
    assert instability([[1.0], [2.0]]).rank is None
    assert instability([[0.0, 0.0], [0.0, 0.0]]) == (None, None, 1)
    assert instability([[1.0, 1.0], [1.0, 2.0]]).rank is None
    mixed = instability([[1.0, 2.0], [1.0, 2.0], [1.0, 1.0]])
    assert mixed.rank == 0.0
    assert mixed.pairs == 3


def test_an_exact_fit_does_not_depend_on_the_seed_and_noise_does():
    exact = adder({"good": 2.0, "bad": -3.0, "great": 4.0, "film": 0.5})
    found = seed_instability([exact(TEXT, queries=300, seed=seed) for seed in range(3)])
    assert found.relative < 0.01
    rng = np.random.default_rng(0)
    noisy = [explanation(TEXT, rng.normal(size=9), seed=seed) for seed in range(10)]
    assert seed_instability(noisy).rank == pytest.approx(1.0, abs=0.2)


def test_several_classes_take_the_leading_one():
    effects = np.array([[1.0, -1.0, 0.0], [2.0, 0.0, -2.0]])
    a = explanation("a b", effects, labels=("x", "y", "z"))
    b = replace(a, seed=1)
    assert seed_instability([a, b]) == (0.0, 0.0, 1)


def test_wrong_arguments():
    a = explanation("a b", [1.0, 2.0])
    with pytest.raises(InputError, match="different seeds; got \\[0, 0\\]"):
        seed_instability([a, a])
    with pytest.raises(InputError, match="of one text, by one method"):
        seed_instability([a, replace(a, seed=1, method="other")])
    with pytest.raises(InputError, match="at least two rows"):
        seed_instability([a])
    with pytest.raises(InputError, match="at least two rows"):
        instability(np.ones((1, 3)))
    with pytest.raises(InputError, match="into brackets"):
        seed_instability(a)
