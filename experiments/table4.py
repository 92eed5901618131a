"""Table 4: how often the classifiers of the real-data experiments are right."""

from experiments.classifiers import ARCHS, TITLES, about, classifiers
from experiments.harness import Claim, Lab, Result, Table

PAPER = {
    ("imdb", "bert"): 0.90,
    ("imdb", "distilbert"): 0.88,
    ("imdb", "gpt2"): 0.74,
    ("yelp", "bert"): 0.88,
    ("yelp", "distilbert"): 0.86,
    ("yelp", "gpt2"): 0.88,
}


def run(lab: Lab) -> Result:
    """Train all, and judge them on texts that they have not seen."""
    found = classifiers(lab, [(data, arch) for data in ("imdb", "yelp") for arch in ARCHS])
    rows = tuple(
        (data, TITLES[arch], one["layers"], one["parameters"], one["tested"], one["accuracy"], PAPER[data, arch])
        for (data, arch), one in found.items()
    )
    columns = ("data", "model", "layers", "parameters", "test texts", "accuracy", "paper")
    least = min(one["accuracy"] for one in found.values())
    worst = min(one["accuracy"] - PAPER[name] for name, one in found.items())
    if lab.quick:
        claim = Claim("All classifiers are right far more often than by chance.", least > 0.7, f"at least {least:.2f}")
    else:
        says = "All classifiers are as good as the paper's, within 5 points."
        claim = Claim(says, worst > -0.05, f"the worst difference is {worst:+.2f}")
    return Result((Table("Accuracy", columns, rows),), (claim,), about(found, lab))
