"""Without the final layer: does attention become the explanation?"""

from typing import Any

import numpy as np

from experiments.harness import Claim, Lab, Result, Table, mean
from experiments.one_layer import correlation, networks, scored
from slalom.render.figures.canvas import theme_of

_PAIRS = (
    ("attention-mean", "exact-shapley"),
    ("attention-mean", "size of Shapley"),
    ("attention-mean", "gradient-mean"),
    ("attention-mean", "gradient-l2"),
    ("attention-mean", "lime-limit"),
    ("gradient-x-input", "exact-shapley"),
)


def run(lab: Lab) -> Result:
    """Train the same network with and without W, and correlate."""
    known = networks(lab, ("final", "bare"))
    found = {kind: scored(lab, kind) for kind in known}
    rows = tuple(
        (one, other, *(mean(correlation(found[kind], one, other)) for kind in ("final", "bare"))) for one, other in _PAIRS
    )
    signed, bare = rows[0][3][0], mean(r["against"] for r in found["bare"])[0]
    right = {kind: known[kind]["accuracy"] for kind in known}
    claims = [
        Claim(
            "Without the final layer attention still has no sign: the value vectors keep one.",
            bare > 0.1 and signed < 0.9,
            f"{bare:.0%} of what Shapley values share out is negative; rank correlation of attention with them {signed:.2f}",
        ),
        Claim(
            "W is not needed: W W_v is one matrix to the network.",
            right["bare"] > right["final"] - 0.05,
            f"accuracy {right['final']:.3f} with it, {right['bare']:.3f} without",
        ),
    ]
    if not lab.quick:
        (w, w_se), (no_w, no_se) = rows[1][2:]
        says = "Without the final layer attention tells better how much a word matters."
        said = f"rank correlation with the size of Shapley values {w:.3f} ± {w_se:.3f}, without W {no_w:.3f} ± {no_se:.3f}"
        more = no_w - w > 2 * (w_se**2 + no_se**2) ** 0.5
        why = "W and the value matrices are one matrix to the network, whether it is written as one or as two."
        claims.append(Claim(says, more, said, why))
    table = Table("Rank correlations over the words of a text", ("score", "with", "with W", "without W"), rows)
    return Result((table,), tuple(claims))


def draw(result: Result, figure: Any) -> None:
    """Draw two bars a pair of scores."""
    ax, look = figure.subplots(), theme_of("light")
    rows = result.tables[0].rows
    for shift, column, name, strength in ((-0.2, 2, "with W", 1.0), (0.2, 3, "without W", 0.45)):
        means, errors = zip(*(row[column] for row in rows), strict=True)
        ax.barh(np.arange(len(rows)) + shift, means, 0.38, xerr=errors, color=look.hue(1.0), alpha=strength, label=name)
    ax.set_yticks(range(len(rows)), [f"{one} / {other}" for one, other, *_ in rows], fontsize=9)
    ax.invert_yaxis()
    ax.axvline(0.0, color=look.ink, linewidth=0.6)
    ax.set_xlabel("rank correlation over the words of a text (with standard error)")
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
