"""Standard errors of scores in explanations: shapes, tied units, several classes, and methods that have none."""

import numpy as np

import slalom
from slalom.core import Slalom
from tests.cases import cases

TEXT = "good and bad and good or so it goes on and on for a while until it ends"
WEIGHTS = {"good": 1.5, "bad": -2.0, "so": 0.7, "while": 0.4}
SCORES = ("removal", "value", "importance", "shapley")


def model(texts):
    """A softmax-weighted average of word values with a little noise that depends on the words alone."""
    scores = []
    for text in texts:
        words = text.split()
        values = [WEIGHTS.get(word, 0.0) for word in words]
        weights = [1.0 + abs(value) for value in values]
        noise = 0.05 * np.sin(sum(ord(letter) * place for place, letter in enumerate(text)))
        scores.append(noise + np.dot(weights, values) / (3.0 + sum(weights)))
    return scores


def explained(**options):
    explainer = slalom.Explainer(model, output="log_odds", unit=options.pop("unit", "word"), progress=False)
    return explainer(TEXT, queries=200, check=0, **options)


@cases("method", ["local", "joint"])
def test_every_score_has_errors_of_its_shape_but_answers_of_the_model_have_none(method):
    e = explained(method=method)
    for name in SCORES:
        errors = e.standard_errors(name)
        assert errors.shape == (len(e),), name
        own = ~np.isnan(e.measured[name]) if name in e.measured else np.zeros(len(e), dtype=bool)
        assert (errors[~own] > 0).all(), name
        assert not errors[own].any(), name
        np.testing.assert_allclose(e.interval(name).mean(axis=1), e.scores(name), rtol=1e-9, atol=1e-12)
    for name in ("gradient", "linear"):
        assert e.standard_errors(name) is None
    assert e.certain()[e.units.index("good")]


def test_tied_units_have_equal_importances_and_errors_of_them():
    e = explained(method="local", unit="type")
    first, second = (i for i, name in enumerate(e.units) if name == "good")
    assert e.surrogate.values[first] == e.surrogate.values[second]
    for name in ("scores", "standard_errors"):
        importances = getattr(e, name)("importance")
        assert importances[first] == importances[second]


def test_errors_of_all_classes_have_a_column_each():
    def three(texts):
        first = np.array(model(texts))
        return np.stack([first, -first, 0.3 * first**2], axis=1)

    explainer = slalom.Explainer(three, output="logits", unit="word", progress=False)
    e = explainer(TEXT, queries=200, check=0, target="all", method="local")
    for name in ("removal", "value", "shapley"):
        assert e.errors[name].shape == (len(e), 3), name
        assert np.isfinite(e.errors[name]).all(), name
    assert e.errors["importance"].shape == (len(e),)


def test_a_fitter_without_errors_gives_none():
    e = explained(method="ridge")
    assert not isinstance(e.surrogate, Slalom) or "value" not in e.errors
    assert all(e.standard_errors(name) is None for name in SCORES)
