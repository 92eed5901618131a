"""The surrogate beside the model, from what was asked before and asked now."""

from dataclasses import replace

import numpy as np
import pytest

from slalom import Explainer
from slalom.errors import InputError
from tests.factories import adder, explanation, fitted_classes
from tests.oracle import Oracle
from tests.render.figures.artists import artist, artists


@pytest.fixture(scope="module")
def one():
    oracle = Oracle({"good": 3.0, "bad": -5.0, "fine": 2.0}, {"bad": 1.0}, (0.1, 0.5))
    explainer = Explainer(oracle, output="log_odds", queries=80)
    return explainer, explainer("a good film with a bad end but what a good cast and a fine score")


def line(figure, gid):
    return artist(figure.axes[0], gid).get_xydata().T


def test_queries_that_tested_the_fit_are_shown_as_they_are(one):
    for e, target in ((one[1], None), (fitted_classes(), None), (fitted_classes(), "a")):
        figure = e.plot.removal_curve(target=target)
        column = ... if e.column(target) is None else (..., e.column(target))
        tested, removed = e.held_out, (~e.held_out.keep).sum(axis=1)
        for name, scores in (("model", tested.scores[column]), ("surrogate", e.predict(tested.keep)[column])):
            x, y = line(figure, f"{name} queries")
            assert np.array_equal(x, removed)
            assert np.array_equal(y, scores)
            x, y = line(figure, name)
            assert (np.diff(x) > 0).all()
            # The groups are a partition of the queries: weighted by their sizes, their means give the mean of all.
            sizes = group_sizes(removed)
            assert np.isclose(y @ sizes, scores.sum())
            assert np.isclose(x @ sizes, removed.sum())


def group_sizes(removed):
    sizes = [0]
    for count in np.unique(removed, return_counts=True)[1]:
        sizes = [*sizes, count] if sizes[-1] >= 4 else [*sizes[:-1], sizes[-1] + count]
    return np.array(sizes if sizes[-1] >= 4 or len(sizes) == 1 else [*sizes[:-2], sizes[-2] + sizes[-1]])


def test_the_model_is_asked_with_the_strongest_for_the_decision_removed_first(one):
    explainer, e = one
    figure = e.plot.removal_curve(explainer)
    x, y = line(figure, "model")
    assert (x[0], x[-1]) == (0, len(e) - 1)
    order = np.argsort(-np.sign(e.score) * e.removal, kind="stable")
    keep = np.ones((len(x), len(e)), dtype=bool)
    for row, k in zip(keep, x.astype(int), strict=True):
        row[order[:k]] = False
    assert np.array_equal(y, explainer.ask(e, keep))
    assert np.array_equal(line(figure, "surrogate")[1], e.predict(keep))
    assert np.isclose(y[0], e.score)
    (right,) = figure.axes[0].child_axes
    for tick, text in zip(right.get_yticks(), right.get_yticklabels(), strict=True):
        assert np.isclose(1 / (1 + np.exp(-tick)), float(text.get_text().rstrip("%")) / 100)
    negative = adder({"bad": -5.0, "good": 2.0}, queries=60)
    _, y = line(negative("a bad film with some good parts").plot.removal_curve(negative), "model")
    assert y[0] < 0 < y[1]  # what speaks against the target goes first


def test_random_orders_are_the_mean_of_what_the_model_says(one):
    explainer, e = one
    first = line(e.plot.removal_curve(explainer), "random")
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(e)) for _ in range(5)]
    keep = np.array([~np.isin(np.arange(len(e)), order[: int(first[0][3])]) for order in orders])
    assert np.isclose(first[1][3], explainer.ask(e, keep).mean())


def test_several_classes_have_no_probabilities_and_a_single_unit_has_a_curve():
    e = fitted_classes()
    figure = e.plot.removal_curve(target="long")
    assert figure.axes[0].get_ylabel() == "centred logit"
    assert not figure.axes[0].child_axes
    constant = Explainer(lambda texts: [1.0 for _ in texts], output="log_odds")
    x, y = line(constant("word").plot.removal_curve(constant), "model")
    assert (x.tolist(), y.tolist()) == ([0.0], [1.0])


def test_scores_without_a_sign_are_removed_by_size_and_predict_nothing():
    explainer = adder({"a": 1.0, "b": -3.0, "c": 0.5}, base=-1.0)
    e = replace(explanation("a b c", [0.2, 0.9, 0.1]), method="attention", signed=False, score=-2.5)
    figure = e.plot.removal_curve(explainer)
    assert np.allclose(artist(figure.axes[0], "model").get_ydata(), [-2.5, 0.5, -0.5])  # first b, then a
    assert not artists(figure.axes[0], "surrogate")
    with pytest.raises(InputError, match="scores of attention have no sign; pass explainer="):
        e.plot.removal_curve()


def test_what_is_missing_or_wrong_is_said(one):
    _, e = one
    with pytest.raises(InputError, match="pass explainer= to ask the model now"):
        replace(e, held_out=None).plot.removal_curve()
    with pytest.raises(InputError, match="explainer must be the Explainer that made"):
        e.plot.removal_curve(print)
