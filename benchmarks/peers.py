"""How well small changes and large ones are predicted by slalom, ridge regression, LIME and SHAP, query for query.

    python benchmarks/peers.py [--texts 12] [--queries 500 ...] [--seed 0] [--json FILE]

`slalom compare` on the classifier that ships with slalom: IMDB test reviews of 40 to 120 words (looked for where
benchmarks/reviews.py says), units are words and punctuation marks, every method gets as many queries through the same engine.
After the table come the ratios to slalom local (near) and slalom joint (far).

kernel-shap gives at most 10 units a score, as shap does by itself; kernel-shap-all has l1_reg=False.
"""

import argparse
from pathlib import Path

import slalom
from slalom.methods import KernelShap

from reviews import rows
from side_by_side import show

METHODS = [
    "joint",
    "local",
    "ridge",
    "ridge-scales",
    "lime",
    "kernel-shap",
    KernelShap(False, name="kernel-shap-all"),
]
METHODS += ["partition-shap"]


def chosen(number, least=40, most=120):
    """Return the first test reviews of `least` to `most` words that are not training reviews too, as many of each class."""
    seen = {row["text"] for row in rows("imdb_train")}
    fit = [row for row in rows("imdb_test") if least <= len(row["text"].split()) <= most and row["text"] not in seen]
    classes = [[row["text"] for row in fit if row["label"] == label] for label in (0, 1)]
    return [text for pair in zip(*classes, strict=False) for text in pair][:number]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=12)
    parser.add_argument("--queries", type=int, nargs="+", default=[500])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    options = {"methods": METHODS, "queries": given.queries, "measures": ("near", "far"), "unit": "word", "seed": given.seed}
    found = slalom.compare(None, chosen(given.texts), **options)
    show(found)
    for queries in given.queries:
        base = {"near": ("local", queries), "far": ("joint", queries)}
        print(f"\n| {queries} queries | near x local | far x joint |\n|---|---|---|")
        for row in found.rows:
            if row[1] == queries:
                ratios = [found.summary(row, name).mean / found.summary(one, name).mean for name, one in base.items()]
                print(f"| {row[0]} | {' | '.join(f'{ratio:.2f}' for ratio in ratios)} |")
    if given.json:
        given.json.write_text(found.to_json(indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
