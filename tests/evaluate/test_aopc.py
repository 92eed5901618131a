"""Deletion and insertion: curves of models that are known exactly."""

import numpy as np
import pytest
from scipy.special import expit, softmax

from slalom import Explainer
from slalom.errors import InputError
from slalom.evaluate import perturbation
from slalom.models import Head
from tests.cases import cases
from tests.factories import adder, explanation
from tests.oracle import Oracle

TEXT = "good bad great film with a very long end"
EFFECTS = {"good": 2.0, "bad": -3.0, "great": 4.0, "film": 0.5}


def exact(text=TEXT, **others):
    return explanation(text, [EFFECTS.get(word, 0.0) for word in text.split()], **others)


def test_numbers_are_fractions_rounded_up_or_steps():
    def numbers(n, **options):
        (curve,) = perturbation([exact(" ".join(["good"] * n))], adder(EFFECTS), **options)
        return curve.numbers.tolist()

    assert numbers(100) == [1, 5, 10, 20, 50]
    assert numbers(9) == [1, 1, 1, 2, 5]
    assert numbers(2) == [1, 1, 1, 1, 1]
    assert numbers(3, fractions=[0.99, 1.0]) == [2, 3]
    assert numbers(10, fractions=[0.1, 0.2, 0.3, 0.7]) == [1, 2, 3, 7]  # 0.1 + 0.2 is not 0.3
    assert [numbers(n, step=5) for n in (12, 11, 10, 4)] == [[5, 10], [5, 10], [5], [3]]


@cases("sign", [1, -1])
def test_curves_of_a_known_model(sign):
    """The same with the classes swapped: scores are turned towards the predicted class."""
    effects = {word: sign * effect for word, effect in EFFECTS.items()}
    e = explanation(TEXT, [effects.get(word, 0.0) for word in TEXT.split()])
    (found,) = perturbation([e], adder(effects))
    assert found.numbers.tolist() == [1, 1, 1, 2, 5]
    # in order: great 4, good 2, film 0.5, with 0, a 0, ... bad -3; in all 3.5
    assert found.probability == pytest.approx(expit(3.5))
    assert np.allclose(found.deleted, expit([-0.5, -0.5, -0.5, -2.5, -3.0]))
    assert np.allclose(found.inserted, expit([4.0, 4.0, 4.0, 6.0, 6.5]))
    assert found.deletion == pytest.approx(expit(3.5) - expit([-0.5, -0.5, -0.5, -2.5, -3.0]).mean())
    assert found.insertion == pytest.approx(expit(3.5) - expit([4.0, 4.0, 4.0, 6.0, 6.5]).mean())


def test_the_class_explained_does_not_matter_of_two():
    yes = exact()
    no = explanation(TEXT, -np.array(yes.values), target="no")
    first, second = perturbation([yes, no], adder(EFFECTS))
    assert first.deletion == pytest.approx(second.deletion)
    assert first.insertion == pytest.approx(second.insertion)


def test_the_right_order_beats_every_other():
    rng = np.random.default_rng(3)
    others = [explanation(TEXT, rng.permutation(exact().values)) for _ in range(30)]
    best, *rest = perturbation([exact(), *others], adder(EFFECTS), step=1)
    assert all(best.deletion >= one.deletion - 1e-12 for one in rest)
    assert all(best.insertion <= one.insertion + 1e-12 for one in rest)
    assert best.numbers.tolist() == list(range(1, 9))


def test_scores_without_a_sign_are_ranked_by_strength():
    (found,) = perturbation([exact(signed=False)], adder(EFFECTS), fractions=[0.1, 0.2])
    assert np.allclose(found.deleted, expit([-0.5, 2.5]))  # great, then bad
    oracle = Oracle({"good": 2.0, "bad": -1.0}, {"bad": 2.0, "a": -4.0})
    explainer = Explainer(oracle, output="log_odds", queries=200, progress=False)
    e = explainer("a good and a bad film")
    (found,) = perturbation([e], explainer, score="importance", fractions=[0.1])
    truth = oracle.surrogate(list(e.units))
    assert e.score < 0  # class 0 is predicted; "bad" goes first, the loudest, and not "a", the quietest
    assert found.deleted[0] == pytest.approx(expit(-truth(np.array([[1.0, 1, 1, 1, 0, 1]]))[0]))


def test_several_classes():
    def logits(texts):
        return [[t.count("o"), 2.0 * t.count("a"), 0.0] for t in texts]

    text = "one two four alas"
    explainer = Explainer(logits, output="logits", progress=False, queries=50)
    every, one = explainer(text, target="all"), explainer(text)
    assert one.target == "1"
    first, second = perturbation([every, one], explainer, fractions=[0.25])
    full, without, alone = (softmax(row)[1] for row in ([3.0, 4.0, 0.0], [3.0, 0.0, 0.0], [0.0, 4.0, 0.0]))
    for found in (first, second):
        assert found.deletion == pytest.approx(full - without)
        assert found.insertion == pytest.approx(full - alone)
    with pytest.raises(InputError, match="predicts '1', and this explanation is of '0'"):
        perturbation([explainer(text, target=0)], explainer)


def test_independent_labels_have_a_side_each():
    def logits(texts):
        return [[t.count("o") - 5.0, t.count("a") - 1.0, 0.5] for t in texts]

    explainer = Explainer(logits, output="logits", progress=False, queries=50)
    explainer.model.head = Head("labels", ("o", "a", "other"))
    yes, no = (explainer("one two four alas", target=label) for label in ("a", "o"))
    first, second = perturbation([yes, no], explainer, fractions=[0.25])
    assert first.deletion == pytest.approx(expit(1.0) - expit(-1.0))
    assert second.probability == pytest.approx(expit(2.0))  # of not having the label
    assert second.insertion == pytest.approx(expit(2.0) - expit(5.0))  # "alas" alone, which speaks most against it


def test_the_whole_curve_ends_at_nothing_and_at_everything():
    (found,) = perturbation([exact()], adder(EFFECTS, 0.0), fractions=[0.5, 1.0])
    assert found.numbers.tolist() == [5, 9]
    assert found.deleted[-1] == pytest.approx(0.5)
    assert found.inserted[-1] == pytest.approx(found.probability)


def test_a_single_unit_and_no_explanation():
    long, short = exact(), exact("good")
    found = perturbation([short, long, short], adder(EFFECTS))
    assert found[0] is None
    assert found[2] is None
    assert found[1].probability == pytest.approx(expit(3.5))
    assert perturbation([], adder(EFFECTS)) == []


@cases(
    ("call", "says"),
    [
        (lambda: perturbation([exact()], adder(EFFECTS), fractions=[0.0]), "fractions must be one or more numbers above 0"),
        (lambda: perturbation([exact()], adder(EFFECTS), fractions=[1.1]), "above 0, at most 1"),
        (lambda: perturbation([exact()], adder(EFFECTS), fractions=[]), "fractions must be one or more"),
        (lambda: perturbation([exact()], adder(EFFECTS), score="size"), "a score must be one of"),
        (lambda: perturbation([exact()], adder(EFFECTS), step=0), "step must be a whole number"),
    ],
)
def test_wrong_arguments(call, says):
    with pytest.raises(InputError, match=says):
        call()
