"""One fit of words across texts: its slopes, that it finds a planted truth, and that its intervals hold it."""

import numpy as np
import pytest
from scipy.optimize import check_grad

from slalom.core import Slalom
from slalom.core.fitting import across
from slalom.core.fitting.across import fitted_across, word_counts
from slalom.result import NORMAL_95

KAPPA, BIAS = 0.35, 0.2


def data(seed, texts=80, words=40, rows=30, noise=0.05, between=0.0):
    """Rows of texts whose words have values of their own, which differ by `between` from text to text."""
    rng = np.random.default_rng(seed)
    values, importances = rng.normal(size=words), 0.5 * rng.normal(size=words)
    importances -= importances.mean()
    parts, scores, numbers = [], [], []
    for number in range(texts):
        chosen = rng.permutation(words)[:15]
        keep = rng.random((rows, 15)) < rng.random((rows, 1))
        own = values[chosen] + between * rng.normal(size=15)
        model = Slalom(own, importances[chosen], KAPPA, BIAS)
        parts.append((keep, chosen))
        scores.append(model(keep.astype(float)) + noise * rng.normal(size=rows))
        numbers.append(np.full(rows, number))
    return (
        word_counts(parts, words),
        np.concatenate(scores)[:, None],
        (BIAS + values)[:, None],
        np.concatenate(numbers),
        values,
        importances,
    )


def test_counts_are_those_of_words_in_rows():
    keep = np.array([[1, 1, 0], [0, 1, 1]], dtype=bool)
    counts = word_counts([(keep, np.array([2, 0, 2])), (keep[:1, :1], np.array([1]))], 4)
    assert counts.toarray().tolist() == [[1, 0, 1, 0], [1, 0, 1, 0], [0, 1, 0, 0]]
    both = word_counts([(np.ones((1, 3), dtype=bool), np.array([2, 0, 2]))], 3)
    assert both.toarray().tolist() == [[1, 0, 2]]


@pytest.mark.parametrize("columns", [1, 3])
def test_slopes_are_those_of_the_cost(columns):
    counts, scores, alone, *_ = data(0, texts=6, words=20)
    scores, alone = (np.hstack([part * (k + 1) + k for k in range(columns)]) for part in (scores, alone))
    centre = scores.mean(axis=0)
    problem = across._Problem(counts, counts.T.tocsr(), scores, alone, centre, 2.0 * np.abs(scores - centre).max(axis=0))
    x = 0.3 * np.random.default_rng(1).normal(size=20 * columns + 20 + 1 + 3 * columns)
    error = check_grad(lambda x: problem.cost(x)[0], lambda x: problem.cost(x)[1], x, epsilon=1e-6)
    assert error < 1e-3 * np.linalg.norm(problem.cost(x)[1])


def test_it_finds_planted_words():
    counts, scores, alone, texts, values, importances = data(1)
    found = fitted_across(counts, scores, alone, texts)
    np.testing.assert_allclose(found.in_texts[:, 0], values, atol=0.25)
    assert np.corrcoef(found.importances, importances)[0, 1] > 0.95
    assert 1.0 / (1.0 + np.exp(-found.logit)) == pytest.approx(KAPPA, abs=0.06)
    assert found.bias[0] == pytest.approx(BIAS, abs=0.1)
    np.testing.assert_allclose(found.before_link(found.after_link(found.values)), found.values, atol=1e-6)


def test_intervals_of_words_in_texts_hold_the_truth():
    inside = []
    for seed in range(4):
        counts, scores, alone, texts, values, _ = data(seed, between=0.3)
        found = fitted_across(counts, scores, alone, texts)
        inside.append(np.abs(found.in_texts[:, 0] - values) < NORMAL_95 * found.in_texts_se[:, 0])
    assert 0.8 < np.mean(inside) <= 1.0  # each word for itself: what all have in common is not in them


def test_intervals_of_importances_hold_the_truth():
    inside = []
    for seed in range(4):
        counts, scores, alone, texts, _, importances = data(seed, noise=0.3)
        found = fitted_across(counts, scores, alone, texts)
        inside.append(np.abs(found.importances - importances) < NORMAL_95 * found.importances_se)
    assert 0.75 < np.mean(inside) <= 1.0
