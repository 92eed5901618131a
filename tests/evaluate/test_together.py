"""All metrics on the classifier that ships with slalom, and what importing them costs."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.special import expit

import slalom
from slalom.core import Joint
from slalom.evaluate import (
    NaiveBayes,
    compare_paired,
    fidelity,
    human_attention,
    masks,
    naive_bayes_correlation,
    perturbation,
    summarize,
)
from slalom.methods import WhiteBoxMethod
from slalom.text import Scales

TEXTS = [
    "A wonderful film with a great cast , and the story is moving .",
    "The plot is dull and the acting is terrible , I was bored .",
]


class Even(WhiteBoxMethod):
    """Says the same of every token, without a sign."""

    name = "even"
    signed = False

    def attribute(self, model, reading, target, seed):
        return np.full(len(reading.names), 0.1)


@pytest.fixture(scope="module")
def explainer():
    pytest.importorskip("transformers", reason="transformers is not installed")
    return slalom.Explainer(progress=False, check=0)


@pytest.fixture(scope="module")
def found(explainer):
    even = Even()
    return {
        "joint": explainer(TEXTS),
        "local": explainer(TEXTS, method="local"),
        "words": explainer(TEXTS, unit="word"),
        "few": explainer(TEXTS, method=slalom.SurrogateMethod("few", Scales(), Joint()), queries=8),
        "even": explainer(TEXTS, method=even),
    }


def test_fidelity_is_what_the_model_itself_says(explainer, found):
    every = [e for method in found.values() for e in method]
    strict = fidelity(every, explainer, per=5, number=60, seed=3)
    assert [one is None for one in strict] == [False] * 8 + [True] * 2
    for e, one in zip(every[:8], strict[:8], strict=True):
        near, far = masks(e.text, len(e), per=5, number=60, seed=3)
        predicted, observed = e.predict(near) - e.predict(np.ones(len(e))), explainer.ask(e, near) - e.score
        assert one.near == pytest.approx(((predicted - observed) ** 2).mean(), rel=1e-4)
        answers = explainer.ask(e, far)
        assert one.far == pytest.approx(((e.predict(far) - answers) ** 2).mean() / answers.var(), rel=1e-4)
        assert len(one.profile) == 10
    by_method = {name: np.mean([one.far for one in strict[2 * i : 2 * i + 2]]) for i, name in enumerate(list(found)[:4])}
    assert by_method["joint"] < 0.3 * by_method["few"]


def test_the_units_that_matter_decide(explainer, found):
    joint, words, even = (perturbation(found[name], explainer) for name in ("joint", "words", "even"))
    for e, one in zip(found["joint"], joint, strict=True):
        assert one.probability == pytest.approx(expit(abs(e.score)), rel=1e-4)
        assert one.probability == pytest.approx(e.prediction[1], rel=1e-4)
    assert [e.prediction[0] for e in found["joint"]] == ["positive", "negative"]
    for best, bad in ((joint, even), (words, even)):
        better = compare_paired([one.deletion for one in best], [one.deletion for one in bad])
        assert better.higher == 2
    assert summarize([one.insertion for one in joint]).mean < summarize([one.insertion for one in even]).mean


def test_naive_bayes_and_people(found):
    bayes = NaiveBayes({"wonderful": 2.0, "great": 1.5, "moving": 1.0, "dull": -1.8, "terrible": -2.0, "bored": -1.5})
    for e in found["words"]:
        assert naive_bayes_correlation(e, bayes, score="shapley") > 0.4
    marked = [[int(word in bayes.ratios) for word in text.split()] for text in TEXTS]
    for method in ("joint", "words"):
        for e, marks in zip(found[method], marked, strict=True):
            assert human_attention(e, e.text.split(), [marks, marks]) > 0.7


def test_importing_metrics_loads_no_torch():
    code = (
        "import sys, slalom; assert 'slalom.evaluate' not in sys.modules; import slalom.evaluate; print('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "False"
