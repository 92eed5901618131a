"""Attention beside gradients: Theorem 4.1 says that a gradient is attention times what the final layer makes of a word."""

from typing import Any

import numpy as np

from experiments.harness import Claim, Lab, Result, Table, mean
from experiments.one_layer import correlation, networks, scored
from slalom.render.figures.canvas import theme_of

PAIRS = (
    ("attention-mean", "gradient-mean"),
    ("attention-mean", "gradient-l1"),
    ("attention-mean", "gradient-l2"),
    ("attention-mean", "gradient-x-input"),
    ("attention-mean", "lime-limit"),
    ("attention-mean", "exact-shapley"),
    ("attention-mean", "size of Shapley"),
    ("attention-max", "size of Shapley"),
    ("gradient-l2", "size of Shapley"),
    ("gradient-mean", "exact-shapley"),
    ("gradient-x-input", "exact-shapley"),
    ("lime-printed", "exact-shapley"),
    ("lime-limit", "exact-shapley"),
)


def run(lab: Lab) -> Result:
    """Correlate the ranks that all closed forms give to the words of a text."""
    networks(lab, ("final",))
    records = scored(lab, "final")
    rows = tuple((one, other, mean(correlation(records, one, other))) for one, other in PAIRS)
    means = {(one, other): cell[0] for one, other, cell in rows}
    against, exact = mean(r["against"] for r in records), max(r["autograd"] for r in records)
    size = means["attention-mean", "gradient-l2"]
    signed = {name: means[name, "exact-shapley"] for name in ("attention-mean", "gradient-x-input", "lime-limit")}
    said = ", ".join(f"{name} {number:.2f}" for name, number in signed.items())
    claims = (
        Claim("The gradient in closed form is that of autograd.", exact < 1e-10, f"largest difference {exact:.0e}"),
        Claim("The size of the gradient follows the attention.", size > 0.5, f"mean rank correlation {size:.2f}"),
        Claim(
            "Attention cannot show what speaks against a class.",
            against[0] > 0.1,
            f"{against[0]:.0%} of what exact Shapley values share out is negative",
        ),
        Claim(
            "LIME and input times gradient tell more than attention.",
            min(signed["gradient-x-input"], signed["lime-limit"]) > signed["attention-mean"],
            f"mean rank correlation with exact Shapley values: {said}",
        ),
    )
    series = {f"{one} / {other}": correlation(records, one, other) for one, other in PAIRS}
    words = f"{len(records)} texts of {min(r['words'] for r in records)} to {max(r['words'] for r in records)} words."
    return Result(
        (Table("Rank correlations over the words of a text", ("score", "with", "mean"), rows),), claims, (words,), series
    )


def draw(result: Result, figure: Any) -> None:
    """Draw a box for each pair."""
    figure.set_size_inches(7.5, 5.2)
    ax, look = figure.subplots(), theme_of("light")
    names = list(result.series)
    ax.boxplot(
        [result.series[name] for name in names], orientation="horizontal", medianprops={"color": look.hue(1.0)}, widths=0.6
    )
    ax.set_yticks(np.arange(1, len(names) + 1), names, fontsize=8)
    ax.invert_yaxis()
    ax.axvline(0.0, color=look.ink, linewidth=0.6)
    ax.set_xlabel("rank correlation over the words of a text, one point a text")
    ax.spines[["top", "right"]].set_visible(False)
