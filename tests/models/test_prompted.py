"""Language models with a template as classifiers: every answer equals that of a plain pass over the whole prompt."""

import numpy as np
import pytest
import torch

from slalom import Explainer
from slalom.errors import InputError, ModelError
from slalom.models import Engine, Queries
from slalom.models.prompted import Prompted
from tests import smollm2
from tests.models.tiny_lm import LANGUAGE_MODELS, language_model, tokenizer

TEMPLATE = "Review: the plot was thin.\nSentiment: negative\n\nReview: {text}\nSentiment:"
TEXT = "A good film with a bad end, and a very good cast!"
LABELS = ["negative", "positive"]


def plain(network, ids, path):
    """Return log p(path | ids) by one forward pass over both."""
    with torch.no_grad():
        logits = network(torch.tensor([[*ids, *path]])).logits[0].double()
    steps = torch.log_softmax(logits, dim=-1)
    return sum(float(steps[len(ids) - 1 + j, token]) for j, token in enumerate(path))


def direct(network, words, prompt, labels):
    """Return log p(label | prompt) for strings, tokenised as they are."""
    ids = words(prompt)["input_ids"]
    return [plain(network, ids, words(prompt + label)["input_ids"][len(ids) :]) for label in labels]


def made(name, labels=LABELS, template=TEMPLATE, kind="gpt2", settings=None, **options):
    words = tokenizer(kind)
    return Prompted(language_model(name, len(words), **settings or {}), words, template, labels, **options)


def subsets(n, m, seed=0):
    rng = np.random.default_rng(seed)
    keep = rng.random((m, n)) < rng.random((m, 1))
    keep[0] = True
    return keep


def expected(prompted, reading, keep):
    """Return the outputs by one plain pass per row and label, with the formula of exclusive labels."""
    rows = []
    for row in keep:
        ids = [*reading.before[0], *reading.planes[0][row], *reading.after[0]]
        paths = prompted.continuations.paths
        logs = {path: plain(prompted.model, ids, path) for path in paths}
        alone = {}
        for path in paths:
            longer = [p for p in paths if len(p) > len(path) and p[: len(path)] == path]
            nearest = [p for p in longer if not any(q != p and p[: len(q)] == q for q in longer)]
            alone[path] = np.exp(logs[path]) - sum(np.exp(logs[p]) for p in nearest)
        owners = prompted.continuations.owners
        rows.append(
            [np.log(sum(alone[p] for p, o in zip(paths, owners, strict=True) if o == k)) for k in range(max(owners) + 1)]
        )
    return np.array(rows)


@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_answers_equal_plain_passes_for_every_architecture(name, reuse):
    labels = {"a": [" negative", "a"], "b": [" positive film", " positive"], "c": " positive film with"}
    prompted = made(name, labels, reuse=reuse)
    assert len(prompted.continuations.stems) >= 1
    reading = prompted.read(TEXT, "cut", None)
    keep = subsets(len(reading.names), 40)
    (answers,) = Engine(prompted)([Queries(reading, keep)])
    np.testing.assert_allclose(answers.outputs[::3], expected(prompted, reading, keep[::3]), atol=1e-4)
    assert prompted._keeps_past
    assert (prompted.reuse.share < 0.8) is reuse
