"""Scores of numpy outputs and of torch outputs are the log odds of their probabilities."""

import numpy as np
import torch

from slalom.models import Head
from tests.cases import cases

THREE = ("a", "b", "c")
HEADS = [("classes", THREE), ("classes", THREE[:2]), ("labels", THREE), ("score", THREE[:1]), ("score", THREE[:2])]


@cases("probabilistic", [True, False])
@cases(("kind", "labels"), HEADS)
def test_torch_and_numpy_agree(kind, labels, probabilistic):
    head = Head(kind, labels, probabilistic)
    outputs = np.random.default_rng(0).standard_normal((5, head.n_outputs))
    for target in range(len(labels)):
        found = head.scores(torch.from_numpy(outputs), target, torch.logsumexp).numpy()
        np.testing.assert_allclose(found, head.scores(outputs, target), rtol=1e-12)


@cases(("kind", "labels"), HEADS)
def test_scores_are_the_log_odds_of_the_probabilities(kind, labels):
    head = Head(kind, labels)
    outputs = np.random.default_rng(1).standard_normal((5, head.n_outputs))
    p = head.probabilities(outputs)
    for target in range(len(labels)):
        np.testing.assert_allclose(head.scores(outputs, target), np.log(p[:, target] / (1 - p[:, target])), rtol=1e-9)
