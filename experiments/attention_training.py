"""The second paper's network on IMDB: its accuracy beside the published one."""

from experiments.harness import Claim, Lab, Result, Table
from experiments.one_layer import NAMES, networks

_PAPER = 0.8019


def run(lab: Lab) -> Result:
    """Train all three networks."""
    found = networks(lab)
    rows = tuple(
        (
            NAMES[kind],
            one["accuracy"],
            _PAPER if kind == "final" else None,
            one["new"],
            one["parameters"],
            len(one["validation"]),
        )
        for kind, one in found.items()
    )
    columns = ("network", "accuracy", "paper", "on texts not also in training", "parameters", "epochs")
    right = found["final"]["accuracy"]
    says = "One layer of attention without feed-forward layers learns sentiment: 80.19% of the test reviews."
    claim = Claim(says, right > _PAPER - 0.02, f"{right:.2%} of {found['final']['tested']} texts")
    remark = "The vocabulary is every word of the training texts; the paper's tokenizer is not described."
    return Result((Table("Accuracy (paper: arXiv 2402.03485)", columns, rows),), (claim,), (remark,))
