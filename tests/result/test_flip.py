"""Flips: the smallest set is found by predictions, and confirmed by the model."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

import slalom
from slalom.core import Additive
from slalom.errors import InputError
from slalom.models.callable import Function
from slalom.result import Flip
from slalom.result.flip import sentence
from tests.cases import cases
from tests.factories import adder, explanation, random_explanation


def words(texts):
    return [text.split() for text in texts]


def explainer(log_odds, **options):
    defaults = {"output": "log_odds", "labels": ["no", "yes"], "unit": "word", "progress": False}
    return slalom.Explainer(log_odds, **(defaults | options))


def smallest(decide, n, whole):
    """The size of the smallest set whose removal changes the decision of the whole text, by trying all."""
    for size in range(1, n + 1):
        removed = list(combinations(range(n), size))
        keep = np.ones((len(removed), n), dtype=bool)
        for row, units in enumerate(removed):
            keep[row, units] = False
        if (decide(keep) != whole).any():
            return size
    return None


# --- by predictions


KINDS = [
    {"link": False},
    {"link": True},
    {"additive": True},
    {"classes": 3},
]


@cases("kind", KINDS, ids=str)
def test_the_smallest_set_of_few_units_is_found(kind):
    found = set()
    for seed in range(12):
        e = random_explanation(9, seed=seed, **kind)

        def decide(keep, e=e):
            scores = e.predict(keep)
            return scores > 0 if scores.ndim == 1 else scores.argmax(axis=1)

        whole = e.score > 0 if e.values.ndim == 1 else e.score.argmax()
        flip, size = e.flip(), smallest(decide, 9, whole)
        assert (flip is None) == (size is None)
        found.add(flip is None)
        if flip is not None:
            keep = np.isin(np.arange(9), flip.units, invert=True)
            assert len(flip.units) == size
            assert decide(keep[None])[0] != whole
            assert flip.predicted == pytest.approx(np.atleast_1d(e.predict(keep))[e.leading])
            assert (flip.asked, flip.confirmed, flip.queries) == (None, False, 0)
            if e.values.ndim == 2:
                assert flip.label == e.labels[int(e.predict(keep).argmax())]
    assert False in found


def test_a_set_of_a_long_text_needs_all_its_units():
    e = random_explanation(60, classes=3, seed=1)
    flip = e.flip()
    keep = np.isin(np.arange(60), flip.units, invert=True)
    assert e.predict(keep).argmax() != e.score.argmax()
    for i in flip.units:
        keep[i] = True
        assert e.predict(keep).argmax() == e.score.argmax()
        keep[i] = False


def test_effects_are_removed_until_the_sum_changes_its_sign():
    e = explanation("a b c d e f g h i j k l m n", [1.0, 3.0, 2.0, -1.0, *[0.1] * 10])
    assert e.score == pytest.approx(6.0)
    # 3 + 2 + 1 leave 0, which decides for the first class.
    assert e.flip().units == (0, 1, 2)
    assert e.flip(threshold=3.5).units == (1,)
    assert e.flip(threshold=-2.0) is None
    against = explanation("a b c", [-1.0, -2.0, 1.5])
    assert against.flip().units == (1,)


def test_a_tie_is_the_first_class_whichever_is_explained():
    second = explanation("a b", [1.0, -1.0], target="yes", score=-0.0)
    assert second.flip().units == (1,)
    first = explanation("a b", [1.0, -1.0], target="no", score=0.0)
    assert first.flip().units == (0,)


def test_one_of_several_classes_flips_where_another_becomes_more_probable():
    p = np.array([0.6, 0.3, 0.1])
    score = np.log(0.6 / 0.4)
    e = explanation("a b", [0.5, 0.3], base=score - 0.8, labels=("r", "g", "b"), target="r", probabilities=p, label="r")
    # At log odds of -0.29 (0.75 to 1) class g has as much; removing a leaves -0.09, both -0.39.
    assert e.flip().units == (0, 1)
    assert e.flip().label is None  # which of the others, the score of r does not tell
    gains = replace(e, target="g", score=np.log(0.3 / 0.7), surrogate=Additive([-2.0, 0.0], np.log(0.3 / 0.7) + 2.0))
    assert (gains.flip().units, gains.flip().label) == ((0,), "g")
    assert e.flip(threshold=0.0).units == (0,)
    independent = replace(e, probabilities=np.array([0.6, 0.9, 0.9]))
    assert independent.flip().units == (0,)
    assert independent.flip().label is None
    two = explanation("a b", [0.5, 0.3], labels=("x", "y"), probabilities=np.array([0.9, 0.7]), base=-0.4)
    assert two.flip().label is None  # independent labels: no longer y does not mean x


def test_what_decides_nothing_is_refused():
    e = explanation("a b", [0.5, 0.3], scale="output", labels=("stars",))
    with pytest.raises(InputError, match=r"a number and no decision; .* flip\(threshold=...\)"):
        e.flip()
    assert e.flip(threshold=0.4).units == (0,)
    with pytest.raises(InputError, match="threshold must be finite"):
        e.flip(threshold=float("nan"))
    with pytest.raises(InputError, match="have no sign"):
        replace(e, signed=False).flip()
    with pytest.raises(InputError, match="a threshold is for one target"):
        random_explanation(classes=3).flip(threshold=0.0)
    svm = explanation("a b", [0.5, 0.3], score=-0.2, labels=("r", "g", "b"), target="r", label="r", scale="decision value")
    with pytest.raises(InputError, match="explain with target='all'"):
        svm.flip()


# --- by the model


def test_the_model_confirms_the_smallest_set():
    explain = adder({"good": 2.0, "great": 3.0, "dull": -1.0}, base=-1.5, unit="word")
    e = explain("a good and great but dull film")
    flip = explain.flip(e)
    assert [e.units[i] for i in flip.units] == ["great"]
    assert flip.asked == pytest.approx(-0.5)
    assert (flip.confirmed, flip.label, flip.queries) == (True, "no", 1)
    assert flip.predicted == pytest.approx(e.predict([u != "great" for u in e.units]))


def test_words_that_say_the_same_are_removed_together():
    praise = {"good", "great", "fine", "superb", "lovely"}
    text = "a good film with a great cast and fine music so superb and lovely that one sees it twice in the end"
    explain = explainer(lambda texts: [3.0 if praise & set(w) else -3.0 for w in words(texts)], queries=200)
    e = explain(text)
    flip = explain.flip(e)
    assert {e.units[i] for i in flip.units} == praise
    assert (flip.asked, flip.confirmed, flip.label) == (-3.0, True, "no")


def test_the_search_goes_on_where_the_surrogate_is_wrong():
    """An explanation of the effect of one word; the model decides by three others."""
    model = explainer(lambda texts: [1.0 if {"x", "y", "z"} & set(w) else -1.0 for w in words(texts)], queries=20)
    text = "one two three four x five six seven y eight nine ten z eleven twelve thirteen fourteen"
    e = model(text)
    effects = np.zeros(len(e))
    effects[0] = 2.0
    wrong = explanation(text, effects, base=-1.0, score=e.score)
    assert wrong.flip().units == (0,)
    flip = model.flip(wrong)
    assert [e.units[i] for i in flip.units] == ["x", "y", "z"]
    assert flip.confirmed
    assert flip.queries <= 50


@cases("seed", range(8))
def test_every_set_is_confirmed_and_needs_all_its_units(seed):
    """A model of random tables of pairs: far from any surrogate."""
    rng = np.random.default_rng(seed)
    single, pair = rng.normal(size=12), 2 * rng.normal(size=(12, 12))

    def log_odds(texts):
        present = [[int(word[1:]) for word in w if word.startswith("w")] for w in words(texts)]
        return [float(single[p].sum() + pair[np.ix_(p, p)].sum() / 4 + 0.3) for p in present]

    model = explainer(log_odds, queries=60)
    e = model(" ".join(f"w{i}" for i in range(12)))
    flip = model.flip(e, max_queries=200)
    assert flip == model.flip(e, max_queries=200)  # deterministic

    def decide(keep):
        return model.ask(e, keep) > 0

    if flip is None:
        # Not even the empty text, where every path ends.
        assert decide(np.zeros((1, 12), dtype=bool)) == (e.score > 0)
        return
    keep = np.isin(np.arange(12), flip.units, invert=True)
    assert model.ask(e, keep) == pytest.approx(flip.asked)
    assert flip.confirmed
    assert (flip.asked > 0) != (e.score > 0)
    assert len(flip.units) >= smallest(decide, 12, e.score > 0)
    for i in flip.units:
        keep[i] = True
        assert decide(keep[None])[0] == (e.score > 0)
        keep[i] = False


def test_nothing_flips_a_model_that_always_says_the_same():
    model = explainer(lambda texts: [4.0 + 0.1 * len(w) for w in words(texts)], queries=40)
    e = model("a good film of one or two hours")
    assert e.flip() is None
    assert model.flip(e) is None
    assert sentence(e, None) == "no set of words that was tried changes the decision"


def test_the_empty_text_is_asked_only_where_the_model_reads_it():
    asked = []

    def log_odds(texts):
        asked.extend(texts)
        if any(not text.strip() for text in texts):
            raise ValueError("empty")
        return [1.0 + 0.1 * len(w) for w in words(texts)]

    model = explainer(log_odds, queries=20)
    e = model("a good film")
    asked.clear()
    assert model.flip(e) is None
    assert asked
    assert all(text.strip() for text in asked)
    only = model("good")
    assert model.flip(only) is None


@cases("method", ["eff", "fidel"])
def test_all_units_may_be_needed(method):
    made = explainer(lambda texts: [1.0 if text.strip() else -1.0 for text in texts], method=method)
    for text in ("one", "one two three"):
        e = made(text)
        flip = made.flip(e)
        assert (len(flip.units), flip.asked, flip.confirmed, flip.predicted) == (len(e), -1.0, True, e.base)


def test_the_budget_is_kept():
    praise = [f"good{i}" for i in range(40)]
    calls = []

    def log_odds(texts):
        calls.append(len(texts))
        return [3.0 if any(word.startswith("good") for word in w) else -3.0 for w in words(texts)]

    model = explainer(log_odds, queries=40)
    e = model(" ".join(praise))
    for most in (1, 2, 5, 30):
        calls.clear()
        flip = model.flip(e, max_queries=most)
        assert sum(calls) <= most
        if flip is not None:
            assert flip.queries <= most
            assert len(flip.units) == 40
    with pytest.raises(InputError, match="max_queries must be a whole number of at least 1; got 0"):
        model.flip(e, max_queries=0)


LOGITS = {"red": (3.0, 0.0, 0.0), "green": (0.0, 2.5, 0.0), "blue": (0.0, 0.0, 0.7)}


def classes(texts):
    return [np.sum([(0.1, 0.0, -0.1), *(LOGITS[word] for word in w if word in LOGITS)], axis=0) for w in words(texts)]


@cases("target", ["all", "r", "g", None])
def test_the_label_of_several_classes_changes(target):
    model = explainer(classes, output="logits", labels=["r", "g", "b"], queries=60, target=target)
    e = model("a red and green and blue thing")
    flip = model.flip(e)
    assert e.label == "r"
    assert [e.units[i] for i in flip.units] == ["red"]  # r leads by 0.6; without green it is still r
    assert (flip.confirmed, flip.label) == (True, "g")
    keep = [unit != "red" for unit in e.units]
    expected = np.atleast_1d(model.ask(e, keep))[e.leading if target == "all" else 0]
    assert flip.asked == pytest.approx(expected)


def test_a_class_of_less_than_a_half_may_keep_the_label():
    model = explainer(classes, output="logits", labels=["r", "g", "b"], queries=60, target="b")
    e = model("blue sky and blue sea")
    assert e.label == "b"
    assert e.score > 0
    flip = model.flip(e)
    # With one blue the logits are 0.1, 0, 0.6: below one half, and yet the label.
    assert [e.units[i] for i in flip.units] == ["blue", "blue"]
    assert flip.label == "r"
    single = model("a blue sky")
    assert single.label == "b"
    assert single.score < 0
    assert [single.units[i] for i in model.flip(single).units] == ["blue"]


def test_the_bundled_model_changes_its_mind():
    model = slalom.Explainer(progress=False)
    e = model("This is not a good film at all.")
    flip = model.flip(e)
    assert [e.units[i] for i in flip.units] == ["not"]
    assert (e.label, flip.label, flip.queries) == ("negative", "positive", 1)
    assert flip.asked == pytest.approx(model.ask(e, [unit != "not" for unit in e.units]))
    assert flip.asked > 0 > e.score
    as_words = model.flip(e.merge("word"))
    assert as_words.asked == pytest.approx(flip.asked)
    assert sentence(e, flip) == (
        f'without "not" (1 of {len(e)} tokens) the model says positive: log odds of positive'
        f" {e.score:+.3f} to {flip.asked:+.3f}; 1 more query"
    )


def test_a_model_that_returns_a_number_has_no_class_to_name():
    model = slalom.Explainer(lambda texts: [[2.0 * text.count("good") - 1] for text in texts], output="scores", progress=False)
    e = model("a good film")
    assert sentence(e, model.flip(e, threshold=0.5)) == (
        'without "good" (1 of 3 tokens) the model decides otherwise: output +1.000 to -1.000; 1 more query'
    )


def test_a_flip_of_another_model_is_refused():
    e = adder({"good": 1.0}, unit="word")("a good film")
    with pytest.raises(InputError, match="is not a class of this model"):
        slalom.Explainer(progress=False).flip(e)


def test_a_flip_in_words_counts_what_it_names():
    names = " ".join(["no"] * 3 + [f"w{i}" for i in range(15)] + ["rest"])
    e = explanation(names, [1.0] * 19)
    flip = Flip(tuple(range(18)), predicted=1.0, label="no")
    assert sentence(e, flip) == (
        'without "no" (3 times), ' + ", ".join(f'"w{i}"' for i in range(11)) + " and 4 more (18 of 19 words)"
        " the surrogate predicts no: log odds of yes +19.000 to +1.000"
    )
    single = explanation("x" * 50, [1.0], base=-0.5)
    assert sentence(single, Flip((0,), -0.5, asked=-0.4, confirmed=True, queries=2)) == (
        f'without "{"x" * 39}…" (1 of 1 word) the model decides otherwise: log odds of yes +0.500 to -0.400; 2 more queries'
    )
    assert Flip((1, 2), 0.5).to_dict() == {
        "units": [1, 2], "predicted": 0.5, "asked": None, "confirmed": False, "queries": 0, "label": None
    }  # fmt: skip


# --- the first sentence


def test_the_first_sentence_says_what_the_model_says():
    text, options = "so x is here and there we go again my friend one two", {"unit": "word", "queries": 60}

    def has(t):
        return "x" in t.split()

    def headline(model, target=None, **more):
        return slalom.Explainer(model, **options, **more)(text, **({} if target is None else {"target": target})).headline

    def three(texts):
        return np.array([[3.0 * has(t), 1.0, 0.0] for t in texts])

    def shares(texts):  # without x the model still says A
        return np.array([[0.6, 0.3, 0.1] if has(t) else [0.40, 0.31, 0.29] for t in texts])

    named = {"labels": list("ABC")}
    assert headline(three, "all", output="logits", **named) == "A 84.4%. Without “x” it would be B (asked: 58%)."
    assert headline(shares, "A", output="probabilities", **named) == "A 60.0%. Without “x” A would be at 40% (asked)."
    assert headline(three, output="scores", **named) == "A."  # no probabilities: the score of A alone tells no decision
    labels = Function(
        lambda ts: np.array([[0.9, 0.2 if has(t) else 0.7] for t in ts]), "probabilities", ["toxic", "insult"], independent=True
    )
    assert headline(labels, "insult") == "toxic 90.0%. Without “x” insult would be at 70% (asked)."
    two = {"output": "log_odds", "labels": ["no", "yes"]}
    assert headline(lambda ts: [2.0 * has(t) - 0.5 for t in ts], **two) == "yes 81.8%. Without “x” it would be no (asked: 62%)."
    assert headline(lambda ts: [9.0 + has(t) for t in ts], **two).endswith("No removal that slalom predicts changes that.")
    assert headline(lambda ts: [9.0 + has(t) for t in ts], output="scores") == ""
