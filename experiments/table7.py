"""Tables 7 and 8 (and figure 4cd): transformers are taught a SLALOM; is it found again in their answers?"""

from typing import Any

import numpy as np

from experiments.harness import Claim, Lab, Result, Table, mean
from experiments.sequence_networks import TRANSFORMERS
from experiments.synthetic_runs import Runs, over_runs, runs_on_slalom

LOGITS = {  # Table 7, MSE x 100; "below 0.001" is printed for 0
    "distilbert": {1: (0.002, 0.001), 2: (0.003, 0.002), 6: (0.001, 0.001), 12: (0.0, 0.0)},
    "bert": {1: (0.002, 0.0), 2: (0.003, 0.002), 6: (0.011, 0.007), 12: (0.0, 0.0)},
    "gpt2": {1: (0.011, 0.009), 2: (0.017, 0.011), 6: (0.0, 0.0), 12: (0.0, 0.0)},
}
PARAMETERS = {  # Table 8, MSE x 100
    "distilbert": {1: (0.092, 0.045), 2: (0.094, 0.049), 6: (0.124, 0.030), 12: (0.287, 0.088)},
    "bert": {1: (0.540, 0.301), 2: (0.368, 0.085), 6: (0.830, 0.182), 12: (0.394, 0.255)},
    "gpt2": {1: (0.940, 0.392), 2: (1.652, 0.903), 6: (0.569, 0.177), 12: (0.385, 0.126)},
}
_LARGEST = 0.02, 1.652  # of the two tables, the first rounded up
_COLUMNS = {
    "SLALOM": ("logits", "slalom"),
    "joint (ours)": ("logits", "joint"),
    "network itself": ("network",),
    "SLALOM to network": ("misfit",),
    "least from labels": ("floor",),
    "variance of F": ("variance",),
}
_NEGLIGIBLE = 0.05  # of the variance of the log odds


def run(lab: Lab) -> Result:
    """Train on data from a SLALOM, fit a SLALOM to the networks, and compare logits and parameters."""
    found = runs_on_slalom(lab, lab.of({10: 5, 200: 1}, {10: 1}))
    shown = found[lab.of(200, 10)]["distilbert", lab.of(2, 1)][0]
    values, importances = (
        float(np.corrcoef(shown["truth"][name], shown["recovered"][name])[0, 1]) for name in ("values", "importances")
    )
    claims = [_negligible(runs, n_words) for n_words, runs in found.items()]
    claims.append(
        Claim(
            "There is a strong connection between the original parameters and those recovered (Figure 4d).",
            values > 0.9 and importances > 0.7,
            f"correlation of the values {values:.3f}, of the importances {importances:.3f} (asked for: 0.9, 0.7)",
        )
    )
    if not lab.quick:
        claims.append(_as_printed(found[10], ("logits", "slalom"), _LARGEST[0], "7"))
        claims.append(_as_printed(found[10], ("parameters", "slalom", "all"), _LARGEST[1], "8"))
    tables = [table(runs, n_words) for n_words, runs in found.items() for table in (_logits, _parameters)]
    return Result(tuple(tables), tuple(claims), _REMARKS, {"truth": shown["truth"], "recovered": shown["recovered"]})


_REMARKS = (
    "Transformers have hidden size 256 and 4 heads, and see 20 x 20000 different sequences once, in batches of 1000 at a"
    " learning rate of 3e-4. A quick run has one DistilBERT of hidden size 16, uniform draws for the Naive Bayes scores, and is"
    " taught the probabilities instead of labels drawn from them.",
    "Values are twice the Naive Bayes scores (smoothing 40) of words drawn from the 30000 most frequent ones of IMDB (the"
    " paper: of BERT's word pieces); importances are 5 |v|^1.5 + N(0, 1) / 2, equation 81 with |v|, as v may be negative.",
    "The paper does not say of how many of its 200 words Tables 7 and 8 are; here five runs have 10 and one has 200. Least"
    " from labels is about the Cramér-Rao bound, (2 |V| - 1) / sum P (1 - P): no unbiased way from labels to logits has a"
    " lower expected error, whatever the network.",
    "SLALOM is fitted by Algorithm 1 (Sgd) to the answers on 10000 sequences (quick: 3000); joint is slalom's own fit, here"
    " without a link, to the first 500 of them (1000 for 200 words). Values are the scores of single"
    " words. Both is the mean of the errors of values and importances (these sum to 0).",
)


def _negligible(found: Runs, n_words: int) -> Claim:
    share = max(np.mean(over_runs(runs, "logits", "slalom")) / np.mean(over_runs(runs, "variance")) for runs in found.values())
    return Claim(
        f"In logit space the differences are negligibly small ({n_words} words).",
        bool(share < _NEGLIGIBLE),
        f"at most {100 * share:.1f}% of the variance of the log odds (negligible: {100 * _NEGLIGIBLE:.0f}%)",
        "The log odds of ten words hardly vary, so labels hold little about them.",
    )


def _as_printed(found: Runs, path: tuple[str, ...], largest: float, number: str) -> Claim:
    errors = {key: 100 * float(np.mean(over_runs(runs, *path))) for key, runs in found.items()}
    worst = max(errors, key=lambda key: errors[key])
    return Claim(
        f"All errors (x 100) are as small as the largest of Table {number}, {largest}.",
        errors[worst] <= largest,
        f"the largest is {errors[worst]:.3f} ({TRANSFORMERS[worst[0]]}, L = {worst[1]})",
        "From 400,000 labels no unbiased method reaches the printed figures (column least from labels); the paper must have had"
        " more of them, or other words.",
    )


def _logits(found: Runs, n_words: int) -> Table:
    rows = []
    for (kind, size), runs in found.items():
        excess = mean(one["cross_entropy"] - one["least"] for one in runs)
        ours = (_hundred(runs, *path) for path in _COLUMNS.values())
        rows.append((TRANSFORMERS[kind], size, excess, *ours, _printed(LOGITS, kind, size)))
    columns = ("architecture", "L", "cross-entropy above least", *_COLUMNS, "paper: SLALOM")
    return Table(f"Table 7: MSE x 100 in logit space, {n_words} words", columns, tuple(rows))


def _parameters(found: Runs, n_words: int) -> Table:
    paths = (("slalom", "values"), ("slalom", "importances"), ("slalom", "all"), ("joint", "all"))
    rows = tuple(
        (TRANSFORMERS[kind], size, *(_hundred(runs, "parameters", *path) for path in paths), _printed(PARAMETERS, kind, size))
        for (kind, size), runs in found.items()
    )
    columns = ("architecture", "L", "values", "importances", "both", "both, joint (ours)", "paper: both")
    return Table(f"Table 8: MSE x 100 in parameter space, {n_words} words", columns, rows)


def _hundred(runs: list[dict[str, Any]], *path: str) -> tuple[float, float]:
    return mean(100 * error for error in over_runs(runs, *path))


def _printed(table: dict[str, dict[int, tuple[float, float]]], kind: str, size: int) -> Any:
    found = table[kind][size]
    return found if found[0] else "below 0.001"


def draw(result: Result, figure: Any) -> None:
    """Draw what was recovered against the truth: log odds, and the parameters."""
    figure.set_size_inches(8, 3.8)
    truth, recovered = result.series["truth"], result.series["recovered"]
    panels = (("log odds", (("log_odds", ""),)), ("parameters", (("values", "value v"), ("importances", "importance s"))))
    for axes, (title, names) in zip(figure.subplots(1, 2), panels, strict=True):
        for name, label in names:
            axes.scatter(truth[name], recovered[name], s=12, alpha=0.7, label=label or None)
        axes.axline((0, 0), slope=1, color="black", linestyle="--", linewidth=0.8)
        axes.set(title=title, xlabel="planted SLALOM", ylabel="recovered from DistilBERT")
    axes.legend()
