"""Proposition 4.1 and Corollary 4.3: F([t]) = F([t, t]) = ... for every transformer without positions, so it is no sum.

Every word of the linear data set (Table 3) is repeated 1 to 30 times, without a [CLS] before it, as in the proof. A linear
model must answer with as many times its weight.
"""

from typing import Any

import numpy as np
import torch

from experiments.harness import Claim, Lab, Result, Table
from experiments.small_networks import OfCounts, Training, Transformer, answers, made
from experiments.synthetic import LONGEST
from experiments.vocabulary import WEIGHTS, WORDS

NAMES = {"bert": "BERT", "distilbert": "DistilBERT", "gpt2": "GPT-2"}
PERFECT = WORDS.index("perfect")
ROUNDING = {"float64": 1e-10, "float32": 1e-5}  # what it may leave


def run(lab: Lab) -> Result:
    """Ask untrained and trained networks about repeated words."""
    sizes = lab.of(((1, 1), (1, 4), (4, 1), (4, 4), (6, 4)), ((1, 1), (2, 4)))
    wanted = {
        f"{arch}-{layers}-{heads}-{'positions' if positions else 'none'}-{'trained' if trained else 'random'}": {
            "kind": arch, "layers": layers, "heads": heads, "positions": positions, "trained": trained,
        }
        for arch in NAMES
        for layers, heads in sizes
        for positions, trained in ((False, False), (False, True), (True, True))
        if not lab.quick or layers == 1 or not trained
    }  # fmt: skip
    wanted |= {kind: {"kind": kind} for kind in ("linear", "relu")}
    found = lab.parts(repeated, wanted, what="network")
    plain, placed, sums = [], [], []
    for key, given in wanted.items():
        one = found[key]
        measured = (one["between"], one["growth"], *(one[precision] for precision in ROUNDING))
        if given["kind"] in NAMES:
            state = "trained" if given["trained"] else "random"
            (placed if given["positions"] else plain).append(
                (NAMES[given["kind"]], given["layers"], given["heads"], state, *measured)
            )
        else:
            sums.append(({"linear": "linear model", "relu": "ReLU network, width 400"}[key], None, None, "trained", *measured))
    highest, least = max(row[6] for row in placed), min(row[5] for row in sums)
    true = WEIGHTS[PERFECT] * (LONGEST - 1)
    claims = [
        Claim(
            "Without positions the output on t, tt, ... is constant, for encoders and decoders, one layer and several,"
            f" one head and several, trained or not (Proposition 4.1, Corollary 4.3); in {precision}, to {bound:.0e}.",
            max(row[column] for row in plain) < bound,
            f"largest change over {LONGEST} lengths and {len(WORDS)} words {max(row[column] for row in plain):.0e},"
            f" {len(plain)} networks",
        )
        for column, (precision, bound) in enumerate(ROUNDING.items(), start=6)
    ]
    claims += [
        Claim(
            "These networks are not constant functions: words differ.",
            min(row[4] for row in plain) > 0.1,
            f"log odds of single words span at least {min(row[4] for row in plain):.2f}",
        ),
        Claim(
            "With positions they still do not add up, while a linear model and a ReLU network do.",
            highest < 0.25 * true < 0.5 * true < least,
            f"from 1 to {LONGEST} times 'perfect' the log odds should grow by {true:.1f}; those of transformers differ by at"
            f" most {highest:.1f} over the lengths of any word, the other two grow by at least {least:.1f}",
        ),
    ]
    columns = (
        "network",
        "layers",
        "heads",
        "weights",
        "words differ by",
        "growth on 'perfect'",
        "lengths differ by",
        "in float32",
    )
    tables = (
        Table("Transformers without positions", columns, tuple(plain)),
        Table("Transformers with positions", columns, tuple(placed)),
        Table(f"Models of counts (true growth {true:.1f})", columns, tuple(sums)),
    )
    remark = (
        "No [CLS] comes first, as in the proof. Words differ by: range of the log odds of single words. Lengths differ by:"
        f" largest range of the log odds of one word repeated 1 to {LONGEST} times, in float64. Random weights have a"
        " variance of 1 / (hidden size)."
    )
    drawn = {key: found[key]["curve"] for key in wanted if "-none-random" not in key}
    return Result(
        tables, tuple(claims), (remark,), {"curves": drawn, "true": [WEIGHTS[PERFECT] * n for n in range(1, LONGEST + 1)]}
    )


def repeated(
    lab: Lab, kind: str, layers: int = 1, heads: int = 1, positions: bool = False, trained: bool = True
) -> dict[str, Any]:
    """Return how much one network's log odds differ between words, between lengths, and the curve of 'perfect'."""
    hidden = lab.of(64, 32)
    if kind in NAMES:

        def make() -> Transformer:
            new = Transformer(kind, layers, heads, hidden, positions)
            return new if trained else new.scaled(hidden**-0.5)

        training = Training(*lab.of((500, 1e-3, 100), (60, 5e-3, 32))) if trained else None
    else:

        def make() -> OfCounts:
            return OfCounts(None if kind == "linear" else 400)

        training = Training(*lab.of((3000, 3e-3), (150, 3e-2)))
    asked = [[word] * n for word in range(len(WORDS)) for n in range(1, LONGEST + 1)]
    network = made(make, training, lab.device, lab.seed)
    scores, differ = np.empty(0), {}
    for precision in reversed(ROUNDING):  # the network is trained in single precision
        scores = answers(network.to(getattr(torch, precision)), asked, lab.device).reshape(len(WORDS), LONGEST)
        differ[precision] = np.ptp(scores, axis=1).max()
    curve = scores[PERFECT]
    return {"between": np.ptp(scores[:, 0]), "growth": curve[-1] - curve[0], "curve": curve, **differ}


def draw(result: Result, figure: Any) -> None:
    """Log odds of 'perfect' against how often it comes: transformers without positions, with them, models of counts."""
    titles = {"none": "no positions", "positions": "with positions", "": "models of counts"}
    panels = dict(zip(titles, figure.subplots(1, 3, sharey=True), strict=True))
    times = range(1, LONGEST + 1)
    colours = {"bert": "C0", "distilbert": "C1", "gpt2": "C2", "linear": "C3", "relu": "C4"}
    for name, panel in panels.items():
        panel.plot(times, result.series["true"], "k:", label="true")
        panel.set(title=titles[name], xlabel="times “perfect”")
    for key, curve in result.series["curves"].items():
        parts = key.split("-")
        panel = panels[parts[3] if len(parts) > 3 else ""]
        label = NAMES.get(parts[0], {"relu": "ReLU network"}.get(key, key))
        known = panel.get_legend_handles_labels()[1]
        panel.plot(times, curve, color=colours[parts[0]], alpha=0.8, label=None if label in known else label)
    for panel in panels.values():
        panel.legend(loc="upper left", frameon=False)
    panels["none"].set_ylabel("log odds")
