"""Baselines that ask: exact where the answer is known, equal to the packages they come from, through the one engine."""

import numpy as np
import pytest

from slalom import Explainer
from slalom.core import Additive
from slalom.errors import InputError
from slalom.methods import KernelShap, NaiveBayes, method
from tests.cases import cases

WORDS = ["the", "film", "was", "not", "very", "good", "at", "all"]
TEXT = " ".join(WORDS)
EFFECTS = dict(zip(WORDS, [0.1, 0.5, -0.2, -3.0, 0.3, 2.0, 0.0, -0.4], strict=True))


def adds(texts):
    return [0.7 + sum(EFFECTS.get(w, 0.0) for w in t.split()) for t in texts]


def bends(texts):
    """A model in which 'not' turns 'good' round."""
    answers = []
    for t in texts:
        words = t.split()
        answers.append(sum(EFFECTS.get(w, 0.0) for w in words) + (-4.0 if "not" in words and "good" in words else 0.0))
    return answers


def of(model, name, **options):
    return Explainer(model, output="log_odds")(TEXT, method=method(name) if isinstance(name, str) else name, **options)


EXACT = ["ridge", "ridge-scales", "leave-one-out", "kernel-shap", "partition-shap"]


@cases("name", EXACT)
def test_effects_that_add_up_are_found(name):
    if "shap" in name:
        pytest.importorskip("shap")
    e = of(adds, KernelShap(l1_reg=False) if name == "kernel-shap" else name, queries=300)
    assert isinstance(e.surrogate, Additive)
    assert e.method == name
    assert np.allclose(e.removal, list(EFFECTS.values()), atol=2e-3)
    assert np.isclose(e.surrogate.base, 0.7, atol=1e-2)
    assert np.isclose(e.predict(np.ones(8)), e.score, atol=1e-3)


def test_leave_one_out_is_what_it_says():
    e = of(bends, "leave-one-out")
    whole = bends([TEXT])[0]
    assert np.allclose(e.removal, [whole - bends([" ".join(WORDS[:i] + WORDS[i + 1 :])])[0] for i in range(8)])
    assert of(bends, "leave-one-out", check=0).queries == 9


def test_naive_bayes_looks_up_and_random_is_random():
    table = NaiveBayes({"good": (-1.0, 1.0), "not": (0.5, -0.5)})
    e = of(adds, table)
    assert e.removal[WORDS.index("good")] == 1.0
    assert e.removal[WORDS.index("film")] == 0.0
    with pytest.raises(InputError, match="has weights for 2 classes"):
        Explainer(lambda ts: [[0.0, 0.0, 1.0]] * len(ts), output="logits")(TEXT, method=table)
    assert (of(adds, "random").removal == of(adds, "random").removal).all()
    assert not (of(adds, "random", seed=1).removal == of(adds, "random").removal).all()


def test_a_model_that_cannot_be_asked_about_nothing():
    pytest.importorskip("shap")

    def picky(texts):
        if any(not t for t in texts):
            raise ValueError("nothing to read")
        return bends(texts)

    assert np.isfinite(of(picky, "leave-one-out").removal).all()
    with pytest.raises(InputError, match="compares with the empty text"):
        of(picky, "kernel-shap")
