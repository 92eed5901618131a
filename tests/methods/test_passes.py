"""The differentiable scores are those of the head."""

import numpy as np
import pytest
import torch

from slalom.methods.white_box.passes import scores
from slalom.models import Head

THREE = ("a", "b", "c")


@pytest.mark.parametrize("probabilistic", [True, False])
@pytest.mark.parametrize(
    ("kind", "labels"),
    [("classes", THREE), ("classes", THREE[:2]), ("labels", THREE), ("score", THREE[:1]), ("score", THREE[:2])],
)
def test_scores_are_those_of_the_head(kind, labels, probabilistic):
    head = Head(kind, labels, probabilistic)
    outputs = np.random.default_rng(0).standard_normal((5, head.n_outputs))
    for target in range(len(labels)):
        found = scores(head, torch.from_numpy(outputs), target).numpy()
        np.testing.assert_allclose(found, head.scores(outputs, target), rtol=1e-12)
