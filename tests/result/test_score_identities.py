"""Every score that claims to be a change of the prediction is that change: all surrogates, links, lengths, classes, merges."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from slalom.core import TwoScale
from tests.factories import explained, random_additive, random_slalom, with_lengths, with_shifts

TEXT = "ab cd ef. Gh ij kl"
SPANS = np.array([[0, 1], [1, 2], [3, 5], [6, 8], [8, 9], [10, 12], [13, 15], [16, 18]])  # the first word has two
N = len(SPANS)
SURROGATES = ("plain", "background", "link", "bare link", "additive")


def made(kind, lengths, classes):
    seed = [len(kind), lengths, classes or 0]
    if kind == "additive":
        surrogate = random_additive(seed, N, classes=classes)
    else:
        background, link = kind in ("background", "link"), "link" in kind
        surrogate = random_slalom(seed, N, classes=classes, background=background, link=link)
    score = 0.0 if classes is None else np.zeros(classes)
    e = explained(surrogate, TEXT, SPANS, unit="token", score=score)
    return with_lengths(e) if lengths else e


def merges(e):
    return (e, e.merge("word"), e.merge("sentence"))


CASES = [
    pytest.param(kind, lengths, classes, id=f"{kind}-{'lengths' if lengths else 'none'}-{classes or 'one'}")
    for kind, lengths, classes in product(SURROGATES, (False, True), (None, 3))
]


@pytest.mark.parametrize(("kind", "lengths", "classes"), CASES)
def test_removal_is_the_change_of_the_prediction(kind, lengths, classes):
    for e in merges(made(kind, lengths, classes)):
        everything = e.predict(np.ones(len(e)))
        change = everything - e.predict(1 - np.eye(len(e)))
        assert np.allclose(e.removal, change, rtol=0, atol=1e-12)
        assert np.allclose(e.scores("removal"), e.removal if classes is None else e.removal[:, 0], rtol=0, atol=0)


@pytest.mark.parametrize(("kind", "lengths", "classes"), CASES)
def test_gradient_is_the_slope_of_the_prediction(kind, lengths, classes):
    """Presence may be a fraction: the surrogate takes counts, and the length lies on the line between two whole numbers."""

    def score(e, counts):
        total = e.surrogate(counts[None])[0]
        if e.lengths is not None:
            length = float(counts @ e.sizes)
            low = min(int(length), len(e.lengths.offsets) - 2)
            total = total + e.lengths.offsets[low] + (length - low) * (e.lengths.offsets[low + 1] - e.lengths.offsets[low])
        return total

    h = 1e-6
    for e in merges(made(kind, lengths, classes)):
        ones = np.ones(len(e))
        slopes = np.array([(score(e, ones) - score(e, ones - h * unit)) / h for unit in np.eye(len(e))])
        assert np.allclose(e.gradient, slopes, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("kind", "lengths", "classes"), CASES)
def test_shapley_values_are_those_of_the_prediction(kind, lengths, classes):
    for e in merges(made(kind, lengths, classes)):
        n = len(e)
        masks = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
        scores = np.concatenate([np.asarray(e.base)[None], e.predict(masks[1:])])
        weights = np.array([1.0 / (n * np.prod([(n - 1 - k) / (k + 1) for k in range(size)])) for size in range(n)])
        for i in range(n):
            without = np.flatnonzero(masks[:, i] == 0)
            expected = weights[masks[without].sum(axis=1)] @ (scores[without + 2**i] - scores[without])
            assert np.allclose(e.shapley()[i], expected, rtol=0, atol=1e-9)
        assert np.allclose(e.shapley().sum(axis=0), e.predict(np.ones(n)) - e.base, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("kind", "lengths", "classes"), CASES)
def test_merged_units_predict_the_same_and_the_base_is_the_empty_text(kind, lengths, classes):
    e = made(kind, lengths, classes)
    words = e.merge("word")
    keep = np.array([[1, 0, 1, 1, 0, 1, 0], [0, 1, 1, 0, 0, 0, 1]])
    tokens = keep[:, [0, 0, 1, 2, 3, 4, 5, 6]]
    assert (len(words), len(e.merge("sentence"))) == (7, 2)
    assert np.allclose(words.predict(keep), e.predict(tokens), rtol=0, atol=1e-12)
    if kind in ("background", "link", "additive"):
        assert np.allclose(e.base, e.predict(np.zeros(N)), rtol=0, atol=1e-12)


def test_what_the_length_alone_does_is_told():
    e = made("background", True, None)
    plain = replace(e, lengths=None)
    assert np.allclose(e.removal - plain.removal, e.length_effect, rtol=0, atol=1e-12)
    assert plain.length_effect is None
    assert made("background", True, 3).length_effect.shape == (3,)


@pytest.mark.parametrize("classes", [None, 3])
def test_scores_with_shifts_are_changes_of_the_prediction(classes):
    e = with_shifts(made("background", True, classes))
    everything = np.ones(len(e), dtype=bool)
    without = np.array([e.predict(everything & (np.arange(len(e)) != i)) for i in range(len(e))])
    np.testing.assert_allclose(e.removal, e.predict(everything) - without, atol=1e-12)
    np.testing.assert_allclose(e.shapley().sum(axis=0), e.predict(everything) - e.base, atol=1e-12)
    parts = {name: getattr(e.surrogate.near, name) for name in ("level", "changes", "shares", "power")}
    plain = replace(e, surrogate=TwoScale(e.surrogate.far, **parts, pairs=e.surrogate.pairs, effects=e.surrogate.effects))
    np.testing.assert_allclose(e.place_effects, e.removal - plain.removal, atol=1e-12)
    assert plain.place_effects is None
    merged = e.merge("word")
    for k in range(len(merged)):
        inside = (e.spans[:, 0] >= merged.spans[k, 0]) & (e.spans[:, 1] <= merged.spans[k, 1])
        np.testing.assert_allclose(merged.removal[k], e.predict(everything) - e.predict(~inside), atol=1e-12)
