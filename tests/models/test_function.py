import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline

from slalom import Explainer
from slalom.errors import InputError, ModelError
from slalom.models import Engine, Function, Queries, model_of
from slalom.models.callable import StringReading
from slalom.text import simple_words as words
from tests.cases import cases


def outputs(model, texts):
    reading = [Queries(StringReading(t, words(t), True), np.ones((1, len(words(t))), dtype=bool)) for t in texts]
    return np.concatenate([a.outputs for a in Engine(model)(reading)])


def test_removing_a_piece_takes_its_white_space_along():
    text = "  Not  good,\r\nbad 👍🏽!"
    reading = StringReading(text, words(text), True)
    strings = reading.groups(
        np.array([[1] * 6, [1, 1, 0, 1, 0, 0], [0, 1, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1], [0] * 6], dtype=bool)
    )
    assert strings[0].build()[0] == [text, "Not  good bad", "good,\r\nbad", "👍🏽!", ""]


@cases("n", [2, 3])
def test_logits_and_probabilities_give_the_same_log_odds(n):
    rng = np.random.default_rng(0)
    table = {}

    def logits(texts):
        return np.array([table.setdefault(t, rng.normal(size=n)) for t in texts])

    def probabilities(texts):
        z = np.exp(logits(texts))
        return z / z.sum(axis=1, keepdims=True)

    one, two = Function(logits, "logits"), Function(probabilities, "probabilities")
    for target in range(n):
        a, b = (m.head.scores(outputs(m, ["x", "y z"]), target) for m in (one, two))
        assert np.allclose(a, b, atol=1e-12)


def test_one_probability_is_that_of_class_1():
    model = Function(lambda texts: [0.8] * len(texts), "probabilities")
    assert model.head.kind == "score"
    assert outputs(model, ["x"]) == pytest.approx(np.log(4.0))


def test_saturated_probabilities_are_clipped_with_a_warning():
    model = Function(lambda texts: [[0.0, 1.0] if "x" in t else [0.5, 0.5] for t in texts], "probabilities")
    with pytest.warns(UserWarning, match="clipped"):
        assert outputs(model, ["x"])[0, 1] - outputs(model, ["x"])[0, 0] == pytest.approx(9 * np.log(10))


BAD = [
    (lambda t: np.zeros((len(t) + 1, 2)), "logits", "one row for each of 1 strings"),
    (lambda t: np.zeros((len(t), 1)), "logits", 'output="log_odds"'),
    (lambda t: np.zeros((len(t), 2)), "log_odds", "one log odds"),
    (lambda t: np.full((len(t), 2), 0.9), "probabilities", "must sum to 1"),
    (lambda t: np.full((len(t), 2), 3.0), "probabilities", r"in \[0, 1\]"),
    (lambda t: np.full((len(t), 2), np.nan), "probabilities", r"in \[0, 1\]"),
    (lambda t: ["yes"] * len(t), "logits", "array of numbers"),
    (lambda t: t.upper(), "logits", "must take a list of strings"),
]


@cases(("function", "output", "message"), BAD)
def test_wrong_answers_are_refused_in_one_line(function, output, message):
    with pytest.raises(ModelError, match=message) as caught:
        Function(function, output)
    assert "\n" not in str(caught.value)


def test_labels_must_fit_the_classes():
    with pytest.raises(InputError, match="labels must name the 3 classes"):
        Function(lambda t: np.zeros((len(t), 3)), "logits", labels=["a", "b"])
    with pytest.raises(InputError, match="labels must differ"):
        Function(lambda t: np.zeros((len(t), 3)), "logits", labels=["a", "b", "a"])


def test_what_scikit_learn_cannot_answer_is_refused():
    with pytest.raises(InputError, match="is not a classifier"):
        model_of(LinearRegression())
    with pytest.raises(InputError, match="is not fitted"):
        model_of(make_pipeline(TfidfVectorizer(), LogisticRegression()))
    numbers = LogisticRegression().fit(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(ModelError, match="after a vectorizer"):
        model_of(numbers)


def test_removing_a_separator_does_not_make_new_words():
    def model(texts):
        return [2.0 * ("good" in text.replace("<br />", " ").replace("/", " ").split()) for text in texts]

    for text in ("It was good/great", "It was good<br />badly lit"):
        e = Explainer(model, output="log_odds")(text)
        assert e.units[e.strongest(1)[0]] == "good"
        assert np.allclose(np.delete(e.removal, e.strongest(1)), 0.0, atol=0.05)
    chinese = StringReading("我，爱你", words("我，爱你"), True)
    assert chinese.groups(np.array([[True, False, True, True]]))[0].build()[0] == ["我爱你"]


def test_a_callable_that_cannot_take_an_empty_string_is_not_asked_about_one():
    e = Explainer(lambda texts: [1.0 / len(text) for text in texts], output="log_odds")("a b c d")
    assert np.isfinite(e.values).all()


def test_what_no_adapter_takes_is_refused_with_the_choices():
    with pytest.raises(InputError, match="a callable needs output,"):
        model_of(len)
    with pytest.raises(InputError, match="got int"):
        model_of(3)
