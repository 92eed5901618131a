"""Figure 3: taught F = sum_i w(t_i), fully connected networks answer [perfect] * k with a line, transformers do not."""

from typing import Any

import numpy as np

from experiments.harness import Claim, Lab, Result, Table, mean
from experiments.sequence_networks import NAMES
from experiments.synthetic_runs import LENGTHS, PERFECT, over_runs, runs_on_linear
from experiments.vocabulary import WEIGHTS

WEIGHT = WEIGHTS[PERFECT]
REMARKS = (
    "All networks have random weights at first. Transformers have hidden size 768, 12 heads and dropout 0.1 (in a quick run 16"
    " and 2). They see 5 x 5000 sequences as in the paper, in batches of 50 at a learning rate of 1e-4 (the paper: 20, 5e-5).",
    "Fully connected networks take the counts of the ten words.",
)
_SHOWN = (1, 2, 5, 10, 20, 30)
_ALMOST = 0.1  # of the slope 1.5: almost constant


def run(lab: Lab) -> Result:
    """Ask every network for [perfect] * k, k = 1..30, and take the slope over k."""
    answers = {key: np.array(over_runs(runs, "repeated")) for key, runs in runs_on_linear(lab).items()}
    slopes = {key: [np.polyfit(LENGTHS, one, 1)[0] / WEIGHT for one in found] for key, found in answers.items()}
    rows = tuple(
        (NAMES[kind], size, *(mean(found[:, k - 1]) for k in _SHOWN), mean(slopes[kind, size]))
        for (kind, size), found in answers.items()
    )
    truth = ("truth", None, *(WEIGHT * k for k in _SHOWN), 1.0)
    relu = {key: float(np.mean(slope)) for key, slope in slopes.items() if key[0] == "relu"}
    others = {key: float(np.mean(slope)) for key, slope in slopes.items() if key[0] != "relu"}
    lowest = min(float(answers[key].mean()) for key in others)
    steepest = max(others, key=lambda key: abs(others[key]))
    return Result(
        (
            Table(
                "Log odds of [perfect] * k",
                ("network", "layers or width", *(f"k = {k}" for k in _SHOWN), "slope / 1.5"),
                (*rows, truth),
            ),
        ),
        (
            Claim(
                "Fully connected networks capture the linear form, despite some estimation error.",
                all(0.5 < slope < 1.5 for slope in relu.values()),
                f"their slopes are {min(relu.values()):.2f} to {max(relu.values()):.2f} of the true one",
                "They are straight lines; narrow networks are still on their way after as few steps.",
            ),
            Claim(
                "Transformers output almost constant values, whatever their depth.",
                abs(others[steepest]) < _ALMOST and lowest > 1,
                f"the steepest, {NAMES[steepest[0]]} with L = {steepest[1]}, has {others[steepest]:.3f} of the true slope;"
                f" the lowest constant is {lowest:.1f} (a network that has learnt the word: above 1)",
            ),
        ),
        REMARKS,
        {"answers": [{"kind": kind, "size": size, "found": found.mean(axis=0)} for (kind, size), found in answers.items()]},
    )


def draw(result: Result, figure: Any) -> None:
    """Draw one panel a kind of network, one line a size."""
    figure.set_size_inches(10, 3)
    for axes, kind in zip(figure.subplots(1, len(NAMES), sharey=True), NAMES, strict=True):
        axes.plot(LENGTHS, [WEIGHT * k for k in LENGTHS], "--", color="black", label="truth")
        for one in result.series["answers"]:
            if one["kind"] == kind:
                axes.plot(LENGTHS, one["found"], label=f"{'width' if kind == 'relu' else 'L'} = {one['size']}")
        axes.set(title=NAMES[kind], xlabel="k")
        axes.legend(fontsize=7)
    figure.axes[0].set_ylabel("log odds of [perfect] * k")
