"""Strict fidelity of models that are known exactly."""

from dataclasses import replace

import numpy as np
import pytest

from slalom import Explainer
from slalom.core import Additive
from slalom.errors import InputError
from slalom.evaluate import fidelity, masks
from tests.cases import cases
from tests.factories import adder, explanation
from tests.oracle import Oracle

TEXT = "a good film with one bad end and a great cast that made it work in spite of all its many flaws"
EFFECTS = {"good": 2.0, "bad": -3.0, "great": 1.5, "flaws": -1.0, "a": 0.25}


def exact(text=TEXT, base=0.5, **others):
    return explanation(text, [EFFECTS.get(word, 0.0) for word in text.split()], base=base, **others)


def test_near_rows_lack_one_to_k_units_and_far_ones_have_every_size():
    near, far = masks(TEXT, 20, per=2000, number=4000)
    assert np.array_equal((~near).sum(axis=1), np.repeat(np.arange(1, 11), 2000))
    assert np.allclose((~near[:2000]).mean(axis=0), 1 / 20, atol=0.02)  # every unit goes equally often
    assert np.allclose(np.bincount(far.sum(axis=1), minlength=21)[1:20] / 4000, 1 / 19, atol=0.02)
    near, far = masks(TEXT, 4)
    assert set((~near).sum(axis=1).tolist()) == {1, 2, 3}  # at least one unit is left
    assert [part.shape for part in masks("one", 1)] == [(0, 1), (0, 1)]


@cases(
    ("call", "says"),
    [
        (lambda: masks("a", 0), "n must be a whole number of at least 1"),
        (lambda: masks("a", 3, most=0), "most must be a whole number of at least 1"),
        (lambda: masks("a", 3, per=True), "per must be a whole number"),
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


def test_a_wrong_base_counts_far_from_the_text_only():
    right, wrong = fidelity([exact(), exact(base=1.5)], adder(EFFECTS, 0.5))
    assert right.near == pytest.approx(0.0, abs=1e-20)
    assert right.far == pytest.approx(0.0, abs=1e-20)
    assert list(right.profile) == list(range(1, 11))
    assert wrong.near == pytest.approx(0.0, abs=1e-20)
    assert wrong.far > 0.01


def test_scores_that_do_not_vary_have_no_far_error():
    constant = explanation(TEXT, np.zeros(len(TEXT.split())), base=2.0)
    assert fidelity([constant], adder({}, 2.0))[0].far is None


def test_one_wrong_effect_has_the_error_of_its_absence():
    """The error of effect i is squared as often as i is gone: with k of n removed, in k / n of the masks on average."""
    n = len(TEXT.split())
    wrong = exact()
    effects = np.array(wrong.values)
    effects[1] += 2.0
    (found,) = fidelity([replace(wrong, surrogate=Additive(effects, 0.5))], adder(EFFECTS, 0.5), per=1000)
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
    fidelity([exact(base=0.0), exact(short, base=0.0)], explainer)
    alone = len(counted)
    counted.clear()
    methods = [exact(base=0.0), exact(short, base=0.0), exact(base=0.0, seed=5), exact(base=0.0, signed=False)]
    first, _, again, unsigned = fidelity(methods, explainer)
    assert len(counted) <= alone
    assert again == first
    assert unsigned is None


def test_a_single_unit_and_no_explanation():
    (found,) = fidelity([exact("good")], adder(EFFECTS, 0.5))
    assert found == (None, {}, None)
    assert fidelity([], adder(EFFECTS)) == []


def test_an_exact_slalom_is_predicted_by_joint_and_not_by_a_line():
    oracle = Oracle({"good": 3.0, "bad": -5.0, "great": 4.0}, {"good": 1.0, "bad": 1.5, "great": 1.2}, bias=0.3)
    explainer = Explainer(oracle, output="log_odds", progress=False)
    joint = explainer(TEXT, queries=300)
    truth = oracle.surrogate(list(joint.units))
    perfect = replace(joint, surrogate=truth)
    linear = replace(joint, surrogate=Additive(joint.removal, joint.score - joint.removal.sum()))
    best, found, line = fidelity([perfect, joint, linear], explainer)
    assert best.near < 1e-20
    assert best.far < 1e-20
    assert found.near < 1e-3
    assert found.far < 1e-2
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
