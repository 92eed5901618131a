"""Figure 7: Shapley values of [perfect] * n, whose n tokens have weight 1.5 each in the linear data.

phi = (F(n) - F(0)) / n,   exactly: the tokens are alike, so they share F(n) - F(0) equally
"""

from typing import Any

import numpy as np

from experiments.figure3 import REMARKS, WEIGHT
from experiments.harness import Claim, Lab, Result, Table, mean
from experiments.sequence_networks import NAMES
from experiments.synthetic_runs import LENGTHS, over_runs, runs_on_linear

_SHOWN = (1, 2, 3, 5, 10, 20, 30)


def run(lab: Lab) -> Result:
    """Take the Shapley values of a ReLU network, BERT and GPT-2 for n = 1..30."""
    found = runs_on_linear(lab)
    chosen = {kind: found[kind, size] for kind, size in (("relu", 400), ("bert", lab.of(2, 1)), ("gpt2", lab.of(2, 1)))}
    phi = {
        kind: (np.array(over_runs(runs, "repeated")) - np.array(over_runs(runs, "empty"))[:, None]) / np.array(LENGTHS)
        for kind, runs in chosen.items()
    }
    rows = tuple((NAMES[kind], *(mean(values[:, n - 1]) for n in _SHOWN)) for kind, values in phi.items())
    level = {kind: values.mean(axis=0) for kind, values in phi.items()}
    off = float(np.abs(level["relu"] - WEIGHT).max())
    ends = {kind: (float(level[kind][0]), float(level[kind][-1])) for kind in ("bert", "gpt2")}
    shown = "; ".join(
        f"{NAMES[kind]} {one:.2f} for n = 1, {last:.2f} for n = {len(LENGTHS)}" for kind, (one, last) in ends.items()
    )
    return Result(
        (Table("Shapley value of a token of [perfect] * n (truth: 1.5)", ("network", *(f"n = {n}" for n in _SHOWN)), rows),),
        (
            Claim("A fully connected network recovers 1.5 approximately.", off < 0.5, f"off by {off:.2f} at most, of 1.5"),
            Claim(
                "BERT and GPT-2 overestimate a token in short sequences and underestimate it in long ones.",
                all(one > WEIGHT > 2 * last for one, last in ends.values()),
                shown,
            ),
        ),
        (
            *REMARKS,
            "The paper takes Kernel SHAP; for repeated tokens the exact value needs no sampling, so shap would add nothing."
            " F(0) is what a network says of no words (BERT: of CLS alone). GPT-2 cannot be asked; it gets 0, as the classes"
            " are equally frequent.",
        ),
        {"lengths": list(LENGTHS), "phi": {NAMES[kind]: values for kind, values in level.items()}},
    )


def draw(result: Result, figure: Any) -> None:
    """Draw the Shapley values against the length."""
    figure.set_size_inches(5, 3.5)
    axes = figure.subplots()
    axes.axhline(WEIGHT, linestyle="--", color="black", label="truth")
    for (name, values), style in zip(result.series["phi"].items(), (".-", "o-", ".--"), strict=True):
        axes.plot(result.series["lengths"], values, style, label=name)
    axes.set(xlabel="n", ylabel="Shapley value of a token of [perfect] * n", ylim=(0, None))
    axes.legend()
