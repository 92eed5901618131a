"""The authors' package, slalom-explanations, as a method: its sampling and its fit, asked through our engine.

    reference-eff    sequences of three units (its seq_len is ignored), 60 epochs of Adam as its explainer has it
    reference-fidel  deletions of up to five units, its v step, s step, v step

Its routines are handed the rows and the answers, so that only the fitting is its own. It needs the benchmark extra.
"""

import contextlib
import io
from dataclasses import dataclass
from typing import final

import numpy as np

from slalom.core import Fitter, Slalom
from slalom.methods import SurrogateMethod
from slalom.text import Deletions, QueryPlan, Sampler
from slalom.text.samplers import distinct

LEAST = -46.0  # its s step ends at weights of 0; this is a weight of 1e-20


@final
@dataclass(frozen=True)
class Reference(Fitter):
    """Fit as the package does. epochs: of its Adam loop; None takes its alternation instead."""

    epochs: int | None = 60

    def solve(self, problem):
        values, importances = fitted(problem.counts, problem.scores, problem.weights, self.epochs)
        model = Slalom(values, np.maximum(importances, LEAST))
        return problem.fitted(model, converged=True, iterations=self.epochs or 1)


@final
@dataclass(frozen=True)
class Triples(Sampler):
    """Three units drawn at random, in the order of the text; a text of fewer is asked about as it is."""

    def draw(self, types, budget, rng, empty):
        place = np.unique(types, return_index=True)[1]
        keep = np.zeros((budget, len(types)), dtype=bool)
        for row in keep:
            row[rng.choice(place, min(3, len(place)), replace=False)] = True
        keep, times = distinct(keep)
        return QueryPlan(keep, times.astype(np.float64))


REFERENCE = {
    "reference-eff": SurrogateMethod("reference-eff", Triples(), Reference(), unit="type"),
    "reference-fidel": SurrogateMethod("reference-fidel", Deletions(most=5, repeats=True), Reference(None), unit="type"),
}


def fitted(counts, scores, weights, epochs):
    """Return the package's values and importances for rows of counts; a row that counts w times is given w times."""
    import torch  # noqa: PLC0415
    from slalom_explanations import slalom_helpers  # noqa: PLC0415

    times = np.rint(weights / weights[weights > 0].min()).astype(np.int64)
    counts, scores = np.repeat(counts, times, axis=0), np.repeat(scores, times)
    n = counts.shape[1]
    tokens = np.zeros((len(counts), int(counts.sum(axis=1).max())), dtype=np.int64)  # token 0 is padding, unit i is i + 1
    for row, present in enumerate(counts.astype(np.int64)):
        ids = np.repeat(np.arange(1, n + 1), present)
        tokens[row, : len(ids)] = ids
    rows, features = torch.tensor(tokens), torch.tensor(counts, dtype=torch.float32)
    labels, vocabulary = torch.tensor(scores, dtype=torch.float32), torch.arange(1, n + 1)
    model, start = slalom_helpers.MyLittleSLALOM(vocabulary), 0

    def sampled(batch_size, *_args, **_kwargs):
        """Hand out the rows in order, as sample_dataset would after asking a model."""
        nonlocal start
        piece = slice(start, start + batch_size)
        start += batch_size
        if epochs:
            return rows[piece], rows[piece] > 0, None, labels[piece]
        return rows[piece], features[piece], rows[piece] > 0, labels[piece]

    given = (model, torch.nn.Identity(), vocabulary, rows[0])
    kept, slalom_helpers.sample_dataset = slalom_helpers.sample_dataset, sampled
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), torch.enable_grad():
            if epochs:
                options = {"num_eps": epochs, "lr": 5e-3, "batch_size": 128, "mode": "short"}
                slalom_helpers.fit_sgd_rand(*given, offline_ds_size=len(rows), **options)
            else:
                slalom_helpers.fit_iter_rand(*given, offline_ds_size=len(rows), mode="deletion")
    finally:
        slalom_helpers.sample_dataset = kept
    return model.get_values().double().numpy(), model.get_importances().double().numpy()
