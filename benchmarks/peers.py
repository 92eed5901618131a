"""How well small changes and large ones are predicted by slalom, ridge regression, LIME, SHAP and captum, query for query.

    python benchmarks/peers.py [--texts 12] [--queries 500 ...] [--seed 0] [--json FILE]

Every method explains the classifier that ships with slalom on the same IMDB test reviews of 40 to 120 words, in the same units
(words and punctuation marks, taken away), from as many queries, through the same engine with an empty memory: methods are
compared, not loops. The score is the log odds. The reviews are looked for where benchmarks/reviews.py says.

near: mean squared error of the predicted change of the score, 1 to 10 units removed, 10 removals of each number (none of a
single unit where slalom has asked about all of those, in short texts).
far: 1 - R2 of the predicted score on 100 random subsets of all sizes. Means and standard errors over the texts; after them the
ratio to slalom local (near) or slalom joint (far). Neither slalom nor ridge has seen these queries; the others may have.
asked: different inputs that the model really got. seconds: a text, queries and fit; loading and compiling are left out.

All but slalom are additive: the change is minus the scores of the units removed, the score is a base plus the scores of those
kept. The base is the method's own: the intercept of LIME and ridge, for SHAP the score of the empty text.

ridge, near     deletions of 1 to 10 units, the very queries of slalom local; strength by generalised cross-validation
ridge, all sizes  subsets of all sizes, the very queries of slalom joint, likewise
LIME            LimeTextExplainer as it comes, by position, with all units
KernelSHAP      shap.KernelExplainer as it comes: at most 10 units get a score, the others 0
KernelSHAP, all units  the same with l1_reg=False
PartitionSHAP   shap.PartitionExplainer, shap's default for text, with the tree of shap.maskers.Text over our units
captum          captum.attr.KernelShap as it comes
"""

import argparse
import json
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import shap
import torch
from captum.attr import KernelShap
from lime.lime_text import LimeTextExplainer

import slalom
from slalom.text.samplers import removed

from reviews import rows

NEAR, FAR = 100, 100  # queries a text that judge
REMOVED = "UNKWORDZ"  # what LIME writes in place of a word


class Additive:
    """A base, and one number a unit."""

    def __init__(self, base, effects):
        self.base, self.effects = float(base), np.asarray(effects, dtype=float)

    def predict(self, keep):
        return self.base + keep @ self.effects


class Task:
    """A text to be explained with so many queries: its units, and an explainer that has not been asked anything."""

    def __init__(self, model, known, queries, seed):
        self.known, self.queries, self.seed = known, queries, seed
        self.explainer = slalom.Explainer(model, progress=False)

    def __len__(self):
        return len(self.known)

    def ask(self, keep):
        """Return the log odds for presence (m, n)."""
        return self.explainer.ask(self.known, np.asarray(keep, dtype=bool))

    def drawn(self, method):
        """Return the queries of a method of slalom."""
        rng = np.random.default_rng(self.seed)
        return slalom.METHODS[method].sampler.draw(np.arange(len(self)), self.queries, rng, True).keep


def ours(method):
    def explain(task):
        return task.explainer(
            task.known.text, method=method, unit=task.known.unit, queries=task.queries, check=0, seed=task.seed
        )

    return explain


def ridge(method):
    def explain(task):
        keep = task.drawn(method)
        return gcv(keep.astype(float), task.ask(keep))

    return explain


def gcv(keep, scores):
    """Return ridge regression with an intercept, strength by generalised cross-validation."""
    mean, level = keep.mean(axis=0), scores.mean()
    left, size, right = np.linalg.svd(keep - mean, full_matrices=False)
    along = left.T @ (scores - level)
    outside = ((scores - level) ** 2).sum() - (along**2).sum()
    best, effects = np.inf, np.zeros(keep.shape[1])
    for strength in np.geomspace(1e-6, 1e3, 91) * (size**2).mean():
        kept = size**2 / (size**2 + strength)
        error = (outside + (((1 - kept) * along) ** 2).sum()) / (len(scores) - 1 - kept.sum()) ** 2
        if kept.sum() < len(scores) - 1.5 and error < best:
            best, effects = error, right.T @ (size / (size**2 + strength) * along)
    return Additive(level - mean @ effects, effects)


def lime(task):
    """LIME reads words that stand for the units, so that its positions are ours."""

    def classify(texts):
        scores = task.ask([[word != REMOVED for word in text.split()] for text in texts])
        return np.column_stack([-scores, scores])

    n = len(task)
    found = LimeTextExplainer(bow=False, mask_string=REMOVED, random_state=task.seed).explain_instance(
        " ".join(f"u{i}" for i in range(n)), classify, labels=(1,), num_features=n, num_samples=task.queries
    )
    effects = np.zeros(n)
    for i, effect in found.local_exp[1]:
        effects[i] = effect
    return Additive(found.intercept[1], effects)


def kernel(**options):
    def explain(task):
        np.random.seed(task.seed)  # noqa: NPY002 (shap draws from there)
        explainer = shap.KernelExplainer(task.ask, np.zeros((1, len(task))))
        # The text and the empty text are asked besides the samples.
        effects = explainer.shap_values(np.ones(len(task)), nsamples=task.queries - 2, silent=True, **options)
        return Additive(explainer.expected_value, effects)

    return explain


def partition(task):
    """The tree sees the real units; the model gets their numbers, 0 where one is masked."""

    def tokenizer(text, return_offsets_mapping=True):
        spans = task.known.spans.tolist() if text else []
        return {"input_ids": list(range(1, len(spans) + 1)), "offset_mapping": spans}

    np.random.seed(task.seed)  # noqa: NPY002 (shap draws from there)
    masker = shap.maskers.Text(tokenizer, mask_token=0, output_type="token_ids")
    explainer = shap.PartitionExplainer(lambda ids: task.ask(ids != 0), masker)
    found = explainer([task.known.text], max_evals=task.queries, silent=True)
    return Additive(found.base_values[0], found.values[0])


def captum(task):
    torch.manual_seed(task.seed)
    found = KernelShap(lambda keep: torch.from_numpy(task.ask(keep.numpy()))).attribute(
        torch.ones(1, len(task)), n_samples=task.queries, perturbations_per_eval=task.queries
    )
    empty = task.ask(np.zeros((1, len(task))))[0]  # captum has asked it: the engine remembers
    return Additive(empty, found.numpy()[0])


METHODS = {
    "slalom joint": ours("joint"),
    "slalom local": ours("local"),
    "ridge, near": ridge("local"),
    "ridge, all sizes": ridge("joint"),
    "LIME": lime,
    "KernelSHAP": kernel(),
    "KernelSHAP, all units": kernel(l1_reg=False),
    "PartitionSHAP": partition,
    "captum KernelShap": captum,
}


class Judge:
    """Queries of one text that neither slalom nor ridge has asked, and the answers."""

    def __init__(self, explainer, known, asked, rng):
        self.names, n = known.units, len(known)
        used = {self.query(row) for row in asked}
        self.near = np.concatenate([self.fresh(n, np.full(NEAR // 10, k), used, rng) for k in range(1, 11)])
        self.far = self.fresh(n, rng.integers(1, n, FAR), used, rng)
        self.full = np.ones((1, n), dtype=bool)
        scores = explainer.ask(known, np.concatenate([self.full, self.near, self.far]))
        self.change, self.scores = scores[1 : 1 + len(self.near)] - scores[0], scores[1 + len(self.near) :]

    def query(self, keep):
        """Return what is left: of "very very" it does not matter which one goes."""
        return tuple(name for name, kept in zip(self.names, keep, strict=True) if kept)

    def fresh(self, n, numbers, used, rng):
        """Return rows with so many units removed, none of them used; fewer where hardly any are left."""
        found = []
        for number in numbers:
            for _ in range(1000):
                row = removed(n, np.array([number]), rng)[0]
                if self.query(row) not in used:
                    used.add(self.query(row))
                    found.append(row)
                    break
        return np.array(found, dtype=bool).reshape(-1, n)

    def __call__(self, predict):
        change = predict(self.near) - predict(self.full)
        error = ((predict(self.far) - self.scores) ** 2).mean()
        return float(((change - self.change) ** 2).mean()), float(error / self.scores.var())


def chosen(number, least=40, most=120):
    """Return the first test reviews of `least` to `most` words that are not training reviews too, as many of each class."""
    seen = {row["text"] for row in rows("imdb_train")}
    fit = [row for row in rows("imdb_test") if least <= len(row["text"].split()) <= most and row["text"] not in seen]
    classes = [[row["text"] for row in fit if row["label"] == label] for label in (0, 1)]
    return [text for pair in zip(*classes, strict=False) for text in pair][:number]


def measured(options):
    """Return one record a text, budget and method."""
    judging = slalom.Explainer(progress=False)
    records = []
    for number, text in enumerate(chosen(options.texts)):
        known, seed = judging(text, unit="word", queries=50, check=0), options.seed + number
        if not records:
            for explain in METHODS.values():
                explain(Task(judging.model, known, options.queries[0], seed))  # the first call compiles and warms up
        tasks = {q: Task(judging.model, known, q, seed) for q in options.queries}
        asked = np.concatenate([task.drawn(method) for task in tasks.values() for method in ("joint", "local")])
        judge = Judge(judging, known, asked, np.random.default_rng([options.seed, number, 7]))
        for queries in options.queries:
            for name, explain in METHODS.items():
                task = Task(judging.model, known, queries, seed)
                start = time.perf_counter()
                found = explain(task)
                seconds = time.perf_counter() - start
                near, far = judge(found.predict)
                records.append(
                    {
                        "text": number,
                        "units": len(known),
                        "method": name,
                        "queries": queries,
                        "asked": task.explainer.engine.spent.inputs,
                        "near": near,
                        "far": far,
                        "seconds": seconds,
                    }
                )
        print(f"{number + 1} of {options.texts} texts, {len(known)} units", file=sys.stderr, flush=True)
    return records


def summary(records, queries):
    """Return the means and standard errors of every method, and the ratios to slalom's."""
    table = {}
    for name in METHODS:
        own = [record for record in records if record["method"] == name and record["queries"] == queries]
        row = {"method": name, "queries": queries}
        for key in ("asked", "near", "far", "seconds"):
            values = np.array([record[key] for record in own])
            row[key] = float(values.mean())
            row[f"{key}_se"] = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
        table[name] = row
    for row in table.values():
        row["near_ratio"] = row["near"] / table["slalom local"]["near"]
        row["far_ratio"] = row["far"] / table["slalom joint"]["far"]
    return list(table.values())


def show(table):
    def pair(row, key):
        error = row[f"{key}_se"]
        return f"{row[key]:.3f} ± {error:.3f}" if error is not None else f"{row[key]:.3f}"

    print(f"\n| {table[0]['queries']} queries | asked | near | x local | far | x joint | seconds |")
    print("|---|---|---|---|---|---|---|")
    for row in table:
        cells = [
            row["method"],
            f"{row['asked']:.0f}",
            pair(row, "near"),
            f"{row['near_ratio']:.2f}",
            pair(row, "far"),
            f"{row['far_ratio']:.2f}",
            pair(row, "seconds"),
        ]
        print("| " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=12)
    parser.add_argument("--queries", type=int, nargs="+", default=[500])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    records = measured(options)
    tables = [summary(records, queries) for queries in options.queries]
    for table in tables:
        show(table)
    if options.json:
        packages = ("slalom", "shap", "lime", "captum", "scikit-learn", "numpy", "torch")
        result = {
            "seed": options.seed,
            "texts": options.texts,
            "versions": {name: version(name) for name in packages},
            "means": [row for table in tables for row in table],
            "records": records,
        }
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
