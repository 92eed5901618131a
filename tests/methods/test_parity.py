"""The packages called directly, as their documentation shows, on the shipped classifier: same input, same answer."""

import numpy as np
import pytest

from slalom import Explainer
from slalom.methods import KernelShap, method

TEXT = "The plot is thin but its cast saves this film with warm and very funny scenes"  # no word comes twice
SEED, BUDGET = 3, 200


@pytest.fixture(scope="module")
def explainer():
    return Explainer(unit="word", seed=SEED)


@pytest.fixture(scope="module")
def whole(explainer):
    """An explanation of the text: what the explainer is asked about parts of."""
    return explainer(TEXT, method=method("leave-one-out"))


@pytest.fixture(scope="module")
def names():
    return TEXT.split()


@pytest.fixture(scope="module")
def log_odds(explainer, whole):
    """Ask about texts of which some words are kept."""
    return lambda keep: explainer.ask(whole, np.asarray(keep, dtype=bool))


def ours(explainer, name, queries=BUDGET):
    return explainer(TEXT, method=name, queries=queries, check=0).removal


def test_lime(explainer, names, log_odds):
    text = pytest.importorskip("lime.lime_text")

    def classify(texts):
        kept = [[name in text.split() for name in names] for text in texts]
        scores = log_odds(kept)
        return np.column_stack([-scores, scores])

    found = text.LimeTextExplainer(random_state=SEED).explain_instance(
        TEXT, classify, labels=(1,), num_features=len(names), num_samples=BUDGET
    )
    theirs = dict(found.as_list(label=1))
    assert np.allclose(ours(explainer, "lime"), [theirs[name] for name in names], atol=1e-9)


def test_kernel_shap(explainer, names, log_odds):
    shap = pytest.importorskip("shap")
    np.random.seed(SEED)  # noqa: NPY002
    peer = shap.KernelExplainer(lambda keep: log_odds(keep > 0.5), np.zeros((1, len(names))))
    theirs = peer.shap_values(np.ones((1, len(names))), nsamples=BUDGET - 2, silent=True, l1_reg=False)
    assert np.allclose(ours(explainer, KernelShap(l1_reg=False)), theirs[0], atol=1e-9)


def test_partition_shap_as_it_explains_texts(explainer, names, log_odds):
    shap = pytest.importorskip("shap")

    def score(texts):
        return log_odds([[name in text.replace("...", " ").split() for name in names] for text in texts])

    masker = shap.maskers.Text(r"\W", mask_token="...", collapse_mask_token=False)
    theirs = shap.PartitionExplainer(score, masker)([TEXT], max_evals=500, silent=True)
    assert [token.strip() for token in theirs.data[0]] == list(names)
    assert np.corrcoef(ours(explainer, "partition-shap", 500), theirs.values[0])[0, 1] > 0.95


def test_ridge(explainer, names, log_odds):
    """Strength by cross-validation and by the evidence are two roads to the same effects."""
    sklearn = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(SEED)
    keep = method("ridge").sampler.draw(np.arange(len(names)), 500, rng, True).keep
    theirs = sklearn.RidgeCV(alphas=np.geomspace(1e-6, 1e3, 40)).fit(keep.astype(float), log_odds(keep)).coef_
    assert np.corrcoef(ours(explainer, "ridge", 500), theirs)[0, 1] > 0.99
