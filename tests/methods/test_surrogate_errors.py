"""Standard errors of scores in explanations: shapes, tied units, several classes, and methods that have none."""

import numpy as np

import slalom
from slalom.core import Lengths, Slalom
from slalom.methods import far, surrogate
from tests.cases import cases

TEXT = "good and bad and good or so it goes on and on for a while until it ends"
WEIGHTS = {"good": 1.5, "bad": -2.0, "so": 0.7, "while": 0.4}
SCORES = ("removal", "gradient", "shapley", "linear")


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
def test_every_score_has_errors_of_its_shape(method):
    e = explained(method=method)
    for name in SCORES:
        errors = e.standard_errors(name)
        assert errors.shape == (len(e),), name
        assert (errors > 0).all(), name
        np.testing.assert_allclose(e.interval(name).mean(axis=1), e.scores(name), rtol=1e-9, atol=1e-12)
    assert e.certain()[e.units.index("good")]


@cases("method", ["joint", "local"])
def test_the_error_of_the_effect_of_the_length_counts_as_far_as_rows_next_to_the_text_do_not_tell_it(method, monkeypatch):
    told, found, fit_near = np.zeros(len(TEXT.split())), [], surrogate.fit_near

    def watched(*rows):
        near = fit_near(*rows)._replace(lengths=None)  # an effect of its own would have its errors among the others
        told[:] = near.told
        return near

    monkeypatch.setattr(surrogate, "fit_near", watched)
    for error in (None, 5.0):
        length = lambda sizes, left, longest, certainty, error=error: Lengths(np.zeros(longest + 1), error)  # noqa: E731
        monkeypatch.setattr(far, "fit_lengths", length)
        found.append(explained(method=method))
    assert (told > 0.1).any() == (method == "joint")
    for name in ("removal", "gradient"):
        expected = np.hypot(found[0].standard_errors(name), 5.0 * np.sqrt(1.0 - told))
        np.testing.assert_allclose(found[1].standard_errors(name), expected, rtol=1e-9)


def test_tied_units_have_equal_errors():
    e = explained(method="local", unit="type")
    first, second = (i for i, name in enumerate(e.units) if name == "good")
    for name in SCORES:
        errors = e.standard_errors(name)
        assert errors.shape == (len(e),)
        assert errors[first] == errors[second]


def test_errors_of_all_classes_have_a_column_each():
    def three(texts):
        first = np.array(model(texts))
        return np.stack([first, -first, 0.3 * first**2], axis=1)

    e = slalom.Explainer(three, output="logits", unit="word", progress=False)(
        TEXT, queries=200, check=0, target="all", method="local"
    )
    for name in SCORES:
        assert e.errors[name].shape == (len(e), 3), name
        assert np.isfinite(e.errors[name]).all(), name


def test_errors_survive_a_file(tmp_path):
    e = explained(method="local")
    e.save(tmp_path / "e.json")
    back = slalom.load(tmp_path / "e.json")
    for name in SCORES:
        np.testing.assert_array_equal(back.errors[name], e.errors[name])


def test_a_fitter_without_errors_gives_none():
    e = explained(method="ridge")
    assert not isinstance(e.surrogate, Slalom) or "value" not in e.errors
    assert all(e.standard_errors(name) is None for name in SCORES)
