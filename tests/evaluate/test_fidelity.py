"""Strict fidelity: by hand, against scikit-learn, and of a model that is known exactly."""

from dataclasses import replace

import numpy as np
import pytest

from slalom import Explainer
from slalom.core import Additive
from slalom.errors import InputError
from slalom.evaluate import fidelity, fidelity_profile, masks, removals, strict_fidelity, subsets, unexplained
from slalom.theory.oracle import Oracle
from tests.cases import cases
from tests.factories import adder, explanation

TEXT = "a good film with one bad end and a great cast that made it work in spite of all its many flaws"
EFFECTS = {"good": 2.0, "bad": -3.0, "great": 1.5, "flaws": -1.0, "a": 0.25}


def exact(text=TEXT, base=0.5, **others):
    return explanation(text, [EFFECTS.get(word, 0.0) for word in text.split()], base=base, **others)


def test_removals_take_one_to_k_units_as_often_each():
    keep = removals(20, 10, 7, np.random.default_rng(0))
    assert keep.shape == (70, 20)
    assert keep.dtype == bool
    assert (~keep).sum(axis=1).tolist() == np.repeat(np.arange(1, 11), 7).tolist()
    assert np.array_equal(keep, removals(20, 10, 7, np.random.default_rng(0)))
    often = (~removals(5, 2, 20_000, np.random.default_rng(1))[20_000:]).mean(axis=0)
    assert np.allclose(often, 2 / 5, atol=0.02)  # every unit goes equally often


def test_at_least_one_unit_is_left():
    keep = removals(4, 10, 3, np.random.default_rng(0))
    assert set((~keep).sum(axis=1).tolist()) == {1, 2, 3}
    assert removals(1, 10, 3, np.random.default_rng(0)).shape == (0, 1)
    assert subsets(1, 5, np.random.default_rng(0)).shape == (0, 1)
    sizes = subsets(6, 5000, np.random.default_rng(0)).sum(axis=1)
    assert np.allclose(np.bincount(sizes, minlength=7)[1:6] / 5000, 0.2, atol=0.03)
    assert sizes.min() == 1
    assert sizes.max() == 5


def test_errors_by_hand():
    predicted, observed = [0.0, 1.0, 2.0, -1.0], [1.0, 1.0, 0.0, -1.5]
    assert strict_fidelity(predicted, observed) == pytest.approx((1 + 0 + 4 + 0.25) / 4)
    assert fidelity_profile(predicted, observed, [1, 2, 2, 3]) == {1: 1.0, 2: 2.0, 3: 0.25}
    # several classes: squares are added up
    assert strict_fidelity([[1.0, -1.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]) == 1.0


def test_unexplained_is_one_less_r2():
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    rng = np.random.default_rng(2)
    observed = rng.normal(size=50)
    predicted = observed + 0.3 * rng.normal(size=50)
    assert unexplained(predicted, observed) == pytest.approx(1.0 - metrics.r2_score(observed, predicted))
    assert unexplained(observed, observed) == 0.0
    assert unexplained(np.full(50, observed.mean()), observed) == pytest.approx(1.0)
    assert unexplained([1.0, 2.0], [3.0, 3.0]) is None
    both = np.column_stack([observed, -observed])
    assert unexplained(np.column_stack([predicted, -predicted]), both) == pytest.approx(unexplained(predicted, observed))


@cases(
    ("call", "says"),
    [
        (lambda: strict_fidelity([1.0], [1.0, 2.0]), "must have the same shape"),
        (lambda: strict_fidelity([], []), "must have the same shape and not be empty"),
        (lambda: strict_fidelity([np.nan], [1.0]), "predicted must be finite"),
        (lambda: fidelity_profile([1.0], [1.0], [0]), "n_removed must hold 1 integers of at least 1"),
        (lambda: removals(0, 1, 1, np.random.default_rng()), "n must be a whole number of at least 1"),
        (lambda: removals(3, 0, 1, np.random.default_rng()), "most must be a whole number of at least 1"),
        (lambda: removals(3, 1, True, np.random.default_rng()), "per must be a whole number"),
        (lambda: masks(3, 3), "a text must be a string"),
        (lambda: masks("a", 1, seed=-1), "seed must be a whole number of at least 0"),
        (lambda: fidelity(exact(), adder(EFFECTS)), "put a single one into brackets"),
        (lambda: fidelity(["text"], adder(EFFECTS)), "got str at index 0"),
        (lambda: fidelity([exact()], adder(EFFECTS), per=0), "per must be a whole number of at least 1"),
    ],
)
def test_wrong_arguments(call, says):
    with pytest.raises(InputError, match=says):
        call()


def test_masks_belong_to_the_text_and_the_seed():
    near, far = masks("one text", 12)
    assert near.shape == (100, 12)
    assert far.shape == (100, 12)
    again = masks("one text", 12, number=30)
    assert np.array_equal(near, again[0])
    assert not np.array_equal(near, masks("another text", 12)[0])
    assert not np.array_equal(near, masks("one text", 12, seed=1)[0])


def test_a_perfect_explanation_has_no_error():
    (found,) = fidelity([exact()], adder(EFFECTS, 0.5))
    assert found.near == pytest.approx(0.0, abs=1e-20)
    assert found.far == pytest.approx(0.0, abs=1e-20)
    assert list(found.profile) == list(range(1, 11))


def test_a_wrong_base_counts_far_from_the_text_only():
    right, wrong = fidelity([exact(), exact(base=1.5)], adder(EFFECTS, 0.5))
    assert wrong.near == pytest.approx(0.0, abs=1e-20)
    assert wrong.far > right.far + 0.01


def test_one_wrong_effect_has_the_error_of_its_absence():
    """The error of effect i is squared as often as i is gone: with k of n removed, in k / n of the masks on average."""
    n = len(TEXT.split())
    wrong = exact()
    effects = np.array(wrong.values)
    effects[1] += 2.0
    (found,) = fidelity([replace(wrong, surrogate=Additive(effects, 0.5))], adder(EFFECTS, 0.5), per=4000)
    for k, error in found.profile.items():
        assert error == pytest.approx(4.0 * k / n, rel=0.25)
    assert found.near == pytest.approx(np.mean(list(found.profile.values())))


def test_methods_share_their_queries_and_unsigned_ones_are_left_out():
    counted = []

    def log_odds(texts):
        counted.extend(texts)
        return [sum(EFFECTS.get(word, 0.0) for word in text.split()) for text in texts]

    explainer = Explainer(log_odds, output="log_odds", labels=["no", "yes"], progress=False)
    short = "a good film"
    counted.clear()  # a callable is tried out when it comes
    first = fidelity([exact(base=0.0), exact(short, base=0.0)], explainer)
    alone = len(counted)
    counted.clear()
    given = [
        exact(base=0.0, method="one"),
        exact(short, base=0.0),
        exact(base=0.0, method="two", seed=5),
        exact(base=0.0, signed=False),
    ]
    engine, calls = explainer.engine, []
    explainer.engine = lambda questions: calls.append(len(questions)) or engine(questions)
    found = fidelity(given, explainer)
    assert calls == [2]  # one call for two texts
    assert len(counted) == alone
    assert found[:2] == first
    assert found[2] == found[0]
    assert found[3] is None


def test_a_single_unit_and_no_explanation():
    (found,) = fidelity([exact("good")], adder(EFFECTS, 0.5))
    assert found == (None, {}, None)
    assert fidelity([], adder(EFFECTS)) == []


def test_an_exact_slalom_is_predicted_by_joint_and_not_by_a_line():
    oracle = Oracle({"good": 3.0, "bad": -5.0, "great": 4.0}, {"good": 1.0, "bad": 1.5, "great": 1.2}, (0.3, 1.0))
    explainer = Explainer(oracle, output="log_odds", progress=False)
    joint = explainer(TEXT, queries=600)
    truth = oracle.surrogate(list(joint.units))
    perfect = replace(joint, surrogate=truth, lengths=None)
    linear = replace(joint, surrogate=Additive(joint.removal, joint.score - joint.removal.sum()), lengths=None)
    best, found, line = fidelity([perfect, joint, linear], explainer)
    assert best.near < 1e-20
    assert best.far < 1e-20
    assert found.near < 1e-4
    assert found.far < 1e-3
    assert line.near > 100 * found.near
    assert line.far > 0.1
    # by hand, from the closed form of the oracle
    near, far = masks(TEXT, len(joint))
    full = truth(np.ones((1, len(joint))))[0]
    by_hand = ((linear.predict(near) - linear.score) - (truth(near.astype(float)) - full)) ** 2
    assert line.near == pytest.approx(by_hand.mean())
    scores = truth(far.astype(float))
    assert line.far == pytest.approx(((linear.predict(far) - scores) ** 2).mean() / scores.var())


def test_several_classes_at_once():
    def logits(texts):
        return [[t.count("o"), t.count("a"), 0.0] for t in texts]

    explainer = Explainer(logits, output="logits", progress=False, queries=100)
    e = explainer("one two four alas a lot of words", target="all")
    (found,) = fidelity([e], explainer)
    assert found.near < 1e-3
    assert found.far < 1e-2
