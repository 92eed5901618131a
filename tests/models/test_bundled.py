"""The bundled classifier in numpy: the answers of transformers, without importing it."""

import pickle

import numpy as np
import pytest

from slalom import Explainer
from slalom.models import EMBEDDED, EMBEDDED_NAME, Engine, Queries, model_of
from slalom.models.bundled import Bundled
from tests.cases import cases
from tests.factories import python
from tests.models.tiny import QUICK

TEXTS = [
    "The first half is dull. The second half is one of the best things I have seen in years.",
    "Ein schöner Film, 素晴らしい 👍🏽<br />and so on " * 3,
    "a " * 600,
    "x",
]


@pytest.fixture(scope="module")
def bundled():
    return Bundled(EMBEDDED, EMBEDDED_NAME)


@pytest.fixture(scope="module")
def in_torch():
    pytest.importorskip("transformers")
    return model_of(None, device="cpu")


@cases("long", ["cut", "window"])
@cases("text", TEXTS)
def test_reading_and_answers_are_those_of_transformers(text, long, bundled, in_torch):
    mine, other = (model.read(text, long, None) for model in (bundled, in_torch))
    assert mine.names == other.names
    assert (mine.spans == other.spans).all()
    assert (mine.types == other.types).all()
    assert (mine.cut, mine.windows, mine.empty) == (other.cut, other.windows, other.empty)
    rng = np.random.default_rng(0)
    keep = rng.random((4, len(mine.names))) < rng.random((4, 1))
    keep[0], keep[1] = True, False
    answers = [Engine(model)([Queries(reading, keep)])[0].outputs for model, reading in ((bundled, mine), (in_torch, other))]
    np.testing.assert_allclose(*answers, atol=1e-5)


def test_methods_that_look_inside_get_the_torch_classifier(in_torch):
    bundled = Bundled(EMBEDDED, EMBEDDED_NAME, lambda: in_torch)
    e, other = (explain(TEXTS[3], method="input-x-gradient", check=0) for explain in (Explainer(bundled), Explainer(in_torch)))
    np.testing.assert_array_equal(e.removal, other.removal)


def test_it_can_be_pickled_after_a_session(bundled):
    explainer = Explainer(bundled)
    score = explainer(TEXTS[0], **QUICK).score
    assert pickle.loads(pickle.dumps(explainer))(TEXTS[0], **QUICK).score == score


def test_a_batch_outside_a_session_is_an_error(bundled):
    with pytest.raises(RuntimeError, match="session"):
        bundled.submit(np.array([[[2, 3]]], dtype=np.int32))


def test_the_default_explains_without_torch_and_transformers(tmp_path):
    code = (
        "import sys\nsys.modules['torch'] = sys.modules['transformers'] = None\ndel sys.modules['torch']\nimport slalom\n"
        f"e = slalom.Explainer()({TEXTS[0]!r}, queries=20, check=0)\n"
        "print(e.model, e.prediction[0], [m for m in ('torch', 'sklearn', 'pandas', 'scipy.stats') if m in sys.modules])"
    )
    done = python(tmp_path, code)
    assert (done.stdout, done.stderr) == (f"{EMBEDDED_NAME} negative []\n", "")
