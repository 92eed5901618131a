"""Without the final layer: does attention become the explanation?"""

from experiments.harness import Claim, Lab, Result, Table, mean
from experiments.one_layer import correlation, networks, scored

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
        sizes = rows[1][2][0], rows[1][3][0]
        says = "Without the final layer attention tells better how much a word matters."
        said = f"rank correlation with the size of Shapley values {sizes[0]:.2f} with W, {sizes[1]:.2f} without"
        claims.append(Claim(says, sizes[1] > sizes[0], said))
    table = Table("Rank correlations over the words of a text", ("score", "with", "with W", "without W"), rows)
    return Result((table,), tuple(claims))
