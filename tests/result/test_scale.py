"""The scale of all colours, texts in which no single unit decides, and numbers that the queries do not determine."""

from dataclasses import replace

import numpy as np
import pytest

import slalom
from slalom.result import Fidelity
from slalom.result.fidelity import Quality
from tests.cases import cases
from tests.factories import explanation, random_explanation, three_classes, with_se


def test_the_full_colour_is_that_of_the_strongest_effect_in_a_usual_text():
    e = explanation("good bad so", [2.0, -1.0, 0.01])
    assert e.full_effect() == pytest.approx(2.0)
    assert not e.saturated
    assert e.remarks == ()


def test_the_full_colour_is_a_fifth_of_the_score_where_effects_are_weaker():
    e = explanation("good bad so", [0.003, -0.001, 0.0], score=-5.4)
    assert e.full_effect() == pytest.approx(5.4 / 5)
    assert e.full_effect("gradient") == pytest.approx(5.4 / 5)
    assert e.full_effect("shapley") == pytest.approx(0.1)  # they share out the score: only the floor
    assert e.full_effect("value") == pytest.approx(0.003)  # no change of the score
    assert e.saturated
    assert e.remarks == (
        "No single word decides: removing any one is predicted to change the log odds of yes by at most 0.003 of -5.40.",
    )


def test_tiny_effects_on_an_undecided_text_are_pale():
    e = explanation("good bad", [0.02, -0.01])
    assert e.full_effect() == pytest.approx(0.1)
    assert replace(e, scale="decision value").full_effect() == pytest.approx(0.02)  # no natural size
    assert explanation("good bad", [0.0, 0.0], scale="decision value").full_effect() == 0.0


@cases(("strongest", "saturated"), [(0.0499, True), (0.0501, False)])
def test_saturated_is_below_a_twentieth_of_the_score(strongest, saturated):
    e = explanation("a b", [strongest, 0.01], score=1.0)
    assert e.saturated is saturated
    assert bool(e.remarks) is saturated


def test_an_output_without_a_decision_is_measured_by_the_empty_text():
    e = explanation("a b c", [0.3, -0.1, 0.1], base=7.0, scale="output", labels=("stars",))
    assert (e.score, e.base) == (pytest.approx(7.3), 7.0)
    assert e.full_effect() == pytest.approx(0.3)
    assert not e.saturated
    many = explanation(" ".join("w" * (i + 1) for i in range(40)), [0.1] * 40, base=-2.0, scale="output", labels=("stars",))
    assert many.full_effect() == pytest.approx(0.2 * 4.0)
    assert many.saturated


def test_one_of_three_classes_is_measured_by_where_another_becomes_more_probable():
    p = np.array([0.6, 0.3, 0.1])
    e = explanation("a b", [0.01, 0.0], score=np.log(0.6 / 0.4), labels=("r", "g", "b"), target="r", probabilities=p)
    # The others keep their proportions: r is overtaken where p_r = (1 - p_r) 3 / 4.
    assert e.full_effect() == pytest.approx(0.2 * (np.log(1.5) - np.log(0.75)))
    independent = replace(e, probabilities=np.array([0.6, 0.9, 0.9]))
    assert independent.full_effect() == pytest.approx(max(0.1, 0.2 * np.log(1.5)))


def test_all_classes_are_measured_by_their_distance_to_the_best_other():
    e = three_classes()
    for c, label in enumerate(e.labels):
        others = np.delete(e.score, c)
        expected = max(np.abs(e.removal[:, c]).max(), 0.2 * abs(e.score[c] - others.max()), 0.1)
        assert e.full_effect(target=label) == pytest.approx(expected)
    assert e.full_effect() == e.full_effect(target="b")


def test_all_classes_are_saturated_by_the_lead_of_the_first():
    # The unit does not move class 0, but makes class 1 win over class 0: it decides.
    effects = np.array([[0.0, -3.0, 3.0], [0.0, 0.0, 0.0]])
    e = explanation("a b", effects, score=np.array([2.0, -1.0, -1.0]), labels=("x", "y", "z"))
    assert not e.saturated
    small = explanation("a b", effects / 1000, score=np.array([2.0, -1.0, -1.0]), labels=("x", "y", "z"))
    assert small.saturated
    assert small.remarks[0] == (
        "No single word decides: removing any one is predicted to change the lead of x over the next class by at most"
        " 0.003 of 3.00."
    )


@cases("classes", [None, 3])
def test_saturation_is_what_removals_predict(classes):
    found = set()
    for seed in range(40):
        e = random_explanation(30, classes=classes, seed=seed)
        whole, without = e.predict(np.ones(30)), e.predict(1 - np.eye(30))
        if classes is None:
            margins, margin, needed = without, whole, abs(e.score)
        else:
            lead = e.leading
            margins = without[:, lead] - np.delete(without, lead, axis=1).max(axis=1)
            margin = whole[lead] - np.delete(whole, lead).max()
            needed = abs(e.score[lead] - np.delete(e.score, lead).max())
        expected = bool(np.abs(margins - margin).max() < 0.05 * needed)
        assert e.saturated is expected
        found.add(expected)
    assert False in found


def test_scores_without_a_sign_are_measured_by_the_strongest():
    e = replace(explanation("a b", [0.003, 0.001], score=5.0), signed=False, method="attention")
    assert e.full_effect() == pytest.approx(0.003)
    assert not e.saturated


def test_labels_that_are_numbers_are_no_columns():
    e = three_classes()
    shuffled = replace(e, labels=("2", "0", "1"))
    assert shuffled.full_effect(target="0") == e.full_effect(target="g")
    assert shuffled.full_effect() == e.full_effect()


def test_a_long_review_is_saturated_and_a_sentence_is_not():
    explainer = slalom.Explainer(queries=200, progress=False)
    sentence = explainer("A wonderful, moving film.")
    assert not sentence.saturated
    assert sentence.full_effect() == pytest.approx(np.abs(sentence.removal).max())
    praise = explainer("A wonderful, moving film. A great cast, superb music, and a brilliant, touching end. " * 3)
    assert praise.saturated
    assert np.abs(praise.removal).max() < 0.05 * abs(praise.score)
    assert praise.full_effect() == pytest.approx(0.2 * abs(praise.score))
    # The model agrees: no single token comes near to changing its decision.
    asked = explainer.ask(praise, 1 - np.eye(len(praise)))
    assert np.abs(asked - praise.score).max() < 0.1 * abs(praise.score)


def test_effects_that_may_be_as_wrong_as_zeros_are_called_rough():
    rough = "The effects of single words are rough here and may be wrong: use more queries, or sentences as units."
    e = explanation("good bad so", [2.0, -1.0, 0.01])
    mean_square = float((e.removal**2).mean())
    for share, said in ((0.9, False), (1.1, True)):
        assert (rough in with_se(e, removal=np.full(3, np.sqrt(share * mean_square))).remarks) is said
    for r2, mse, said in ((0.49, 0.1, True), (0.51, 0.1, False), (0.49, 0.002, False), (None, 0.1, False)):
        near = Quality(r2, mse, 10)
        assert (rough in replace(e, fidelity=Fidelity(near, None)).remarks) is said
    useless = replace(e, fidelity=Fidelity(Quality(-1.0, 0.1, 10), None))
    assert len(useless.remarks) == 1  # that is worse, and said once
    tiny = explanation("good bad so", [0.002, -0.001, 0.0])
    assert not any("rough" in remark for remark in with_se(tiny, removal=np.full(3, 0.01)).remarks)
