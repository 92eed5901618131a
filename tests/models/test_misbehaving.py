"""Callables that do what they must not: an error of one line, or numbers that are finite and honest."""

import time
import warnings
from itertools import count

import numpy as np
import pandas as pd
import torch

from slalom import Explainer
from slalom.errors import SlalomError

TEXT = "A good film, but the end was bad and far too long!"
RANDOM = np.random.default_rng(0)


def _shouts(texts):
    return np.array([[0.1 * len(text), float(text.count("!"))] for text in texts])


def _raising(error):
    def function(texts):
        if any("good" not in text for text in texts) and len(texts) > 1:  # the first answers are fine
            raise error
        return _shouts(texts)

    return function


def _changing(*answers):
    """Return a callable whose further answers differ in kind from its first three."""
    calls = count()

    def function(texts):
        return answers[min(next(calls) // 3, len(answers) - 1)](texts)

    return function


def _mutating(texts):
    answer = _shouts(texts)
    texts.clear()
    return answer


def _slow(texts):
    time.sleep(0.01)
    return _shouts(texts)


def _noise(texts):
    return RANDOM.normal(size=(len(texts), 2))


REFUSED = {
    "no array": lambda texts: None,
    "a string": lambda texts: "positive",
    "strings": lambda texts: ["positive"] * len(texts),
    "nothing": lambda texts: [],
    "a number": lambda texts: 1.0,
    "fewer rows": lambda texts: _shouts(texts)[1:],
    "more rows": lambda texts: np.vstack([_shouts(texts)] * 2),
    "no columns": lambda texts: np.zeros((len(texts), 0)),
    "three axes": lambda texts: np.zeros((len(texts), 2, 2)),
    "ragged rows": lambda texts: [[1.0] * (2 + i % 2) for i, _ in enumerate([*texts, ""])],
    "NaN": lambda texts: np.full((len(texts), 2), np.nan),
    "NaN at times": lambda texts: [[np.nan if "good" in text else 0.0, 1.0] for text in texts],
    "infinity": lambda texts: np.full((len(texts), 2), np.inf),
    "minus infinity": lambda texts: [[0.0, -np.inf if "good" in text else 1.0] for text in texts],
    "complex": lambda texts: _shouts(texts) * 1j,
    "huge": lambda texts: _shouts(texts) * 1e200,
    "huge integers": lambda texts: [[10**400, 0] for _ in texts],
    "dictionaries": lambda texts: [{"label": "A", "score": 1.0} for _ in texts],
    "an object": lambda texts: object(),
    "a generator": lambda texts: (row for row in _shouts(texts)),
    "an error": _raising(ValueError("no")),
    "an error of many lines": _raising(RuntimeError("first\n  second\r\n\tthird\n" + "x" * 5000)),
    "an error without a message": _raising(KeyError()),
    "an assertion": _raising(AssertionError()),
    "the end of an iteration": _raising(StopIteration()),
    "two arguments": lambda texts, more: _shouts(texts),
    "one string": lambda texts: _shouts(texts.split()),
    "more classes later": _changing(_shouts, lambda texts: np.zeros((len(texts), 3))),
    "one class later": _changing(_shouts, lambda texts: np.zeros((len(texts), 1))),
    "text later": _changing(_shouts, lambda texts: ["positive"] * len(texts)),
    "on a device with gradients": lambda texts: torch.zeros(len(texts), 2, requires_grad=True),
}
EXPLAINED = {
    "constant": lambda texts: np.ones((len(texts), 2)),
    "tiny": lambda texts: _shouts(texts) * 1e-200,
    "large": lambda texts: _shouts(texts) * 1e90,
    "random": _noise,
    "a list": lambda texts: _shouts(texts).tolist(),
    "booleans": lambda texts: [["good" in text, "bad" in text] for text in texts],
    "half precision": lambda texts: _shouts(texts).astype(np.float16),
    "strings of numbers": lambda texts: _shouts(texts).astype(str),
    "a table": lambda texts: pd.DataFrame(_shouts(texts), columns=["a", "b"]),
    "a tensor": lambda texts: torch.tensor(_shouts(texts)),
    "its input changed": _mutating,
    "slow": _slow,
    "no memory for a batch": _raising(MemoryError("all of it")),
    "no empty text": lambda texts: _shouts([text or 1 / 0 for text in texts]),
}


def _outcome(function):
    """Return the explanation of a callable, or the message of its error."""
    try:
        return Explainer(function, output="logits", queries=40, batch_size=8, progress=False)(TEXT)
    except SlalomError as error:
        return str(error)


def test_a_callable_that_misbehaves_is_an_error_of_one_line():
    for name, function in REFUSED.items():
        message = _outcome(function)
        assert isinstance(message, str), name
        assert message, name
        assert message.isprintable(), name
        assert len(message) < 600, name


def test_what_can_be_explained_has_finite_numbers_and_says_what_they_are_worth():
    for name, function in EXPLAINED.items():
        e = _outcome(function)
        assert not isinstance(e, str), f"{name}: {e}"
        for part in (e.removal, e.gradient, e.values, e.importances, e.weights, e.errors.get("removal")):
            assert part is None or np.isfinite(part).all(), name
        assert np.isfinite(e.score), name
        assert str(e), name
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        constant, random = (_outcome(EXPLAINED[name]) for name in ("constant", "random"))
    np.testing.assert_allclose(constant.removal, 0.0, atol=1e-9)
    assert random.fidelity.far.r2 < 0.5  # noise is not predicted, and the explanation says so
