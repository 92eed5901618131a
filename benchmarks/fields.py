"""Records of several fields: near and far errors of methods at equal queries, and whether planted truths are found.

    PYTHONPATH=. python benchmarks/fields.py [--tasks news ...] [--examples 16] [--budgets 200 500] [--out results/fields.md]

Models and examples are those of benchmarks/field_tasks.py; the models are trained first, in minutes on two cores. Test rows and
errors are those of the arena: near, squared error of the changes by 1 to 10 removed units, relative to the variance of the
scores of parts of all sizes; far, 1 - R2 on these. No method has asked a test row, nor another one with the same words.
"""

import argparse
import sys
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace

import numpy as np
from scipy.stats import wilcoxon

from arena.answers import _fresh
from arena.scoring import errors
from slalom import Explainer
from slalom.evaluate import summarize

import field_tasks
from field_tasks import TASKS

METHODS = ("joint", "ridge", "lime", "kernel-shap")
ERRORS = ("near", "far")
FOUND = ("unit, removal", "unit, Shapley", "field, Shapley")
MODEL = "the model itself"
PLANTED = field_tasks.__doc__.partition("\n")[2].rpartition("\nData")[0].rstrip()
HEAD = """
## What is measured

`joint` and three others at equal queries, on models of several fields that are trained on the spot. Written by

    PYTHONPATH=. SLALOM_SHARED=FOLDER python benchmarks/fields.py --out results/fields.md

near: mean squared error of the changes by 1 to 10 removed units, relative to the variance of the scores of parts of all sizes;
far: 1 - R2 on such parts. No method has asked them; errors above 2 count as 2. Means over the records with 95% intervals; bold:
the best; "=": no difference from it by a Wilcoxon test on the same records (p >= 0.05). The last three columns are the share of
records in which the planted unit has the largest effect, and the field that it is in where this decides alone. Units are words;
a background replaces numbers and categories. `joint` asks no pairs here, as that costs queries; `kernel-shap` is shap as it
comes, which gives a score to ten units at most. In truth and entailment the answer about most parts is 0, so that the variance
by which near errors are divided is small, and no method predicts single changes well. What is planted:
{planted}
"""


def measure(task, budgets):
    """Return a table of numbers by example for each method and budget, and for the model itself."""
    explainer = Explainer(*task.model, unit="word", check=0, pairs=False, progress=False, **task.options)
    columns = {"columns": list(task.examples)} if hasattr(task.examples, "columns") else {}
    explained = {(budget, name): explainer(task.examples, method=name, queries=budget, **columns)
                 for budget in budgets for name in METHODS}  # fmt: skip
    results = {key: [] for key in [*explained, MODEL]}
    for i, (first, planted) in enumerate(zip(next(iter(explained.values())), task.planted, strict=True)):
        text = SimpleNamespace(kinds=np.zeros(len(first)), whole=first.score, tests={})
        for number, name in enumerate(ERRORS):
            rng = np.random.default_rng([i, number])
            keep = unasked(explainer, first, np.array(list(_fresh(name, len(first), rng, set()))))
            text.tests[name] = keep, explainer.ask(first, keep)
        unit, field = place(first, planted, task.alone)
        for key, explanations in explained.items():
            e = explanations[i]
            hits = hit(e.removal, unit), hit(e.shapley(), unit), hit([part.shapley for part in e.fields], field)
            results[key].append({**errors(text, e.predict), **dict(zip(FOUND, hits, strict=True))})
        single = hit(first.score - explainer.ask(first, ~np.eye(len(first), dtype=bool)), unit)
        whole = hit([part.removal for part in first.fields], field)
        results[MODEL].append({"units": len(first), FOUND[0]: single, FOUND[2]: whole})
    return {key: {column: np.array([row[column] for row in found], dtype=float) for column in found[0]}
            for key, found in results.items()}  # fmt: skip


def unasked(explainer, e, keep):
    """Return the rows whose inputs the model has not been asked about."""
    reading, units = explainer._read(e)
    asked = np.zeros(len(keep), dtype=bool)
    for group in reading.groups(units.atoms(keep)):
        asked[group.rows] |= [key in explainer.engine._memory.slots for key in group.build()[1]]
    return keep[~asked]


def place(e, planted, alone):
    """Return the numbers of the planted unit, and of its field if it decides alone."""
    unit = planted if isinstance(planted, int) else next(
        i for part in e.fields for i in part.units if (e.units[i], part.name) == planted
    )  # fmt: skip
    return unit, next(number for number, part in enumerate(e.fields) if unit in part.units) if alone else None


def hit(effects, planted):
    """Return whether an effect is the largest; NaN where there is none to find."""
    return np.nan if planted is None else float(np.abs(effects).argmax() == planted)


def cell(results, budget, method, column):
    """Return a mean with its 95% interval: bold where it is the best, "=" where it cannot be told from that."""
    values = results[budget, method][column]
    best = min(METHODS, key=lambda name: results[budget, name][column].mean())
    apart = values - results[budget, best][column]
    alike = not apart.any() or wilcoxon(apart, method="asymptotic").pvalue >= 0.05
    mean = f"**{values.mean():.3f}**" if method == best else f"{values.mean():.3f}"
    return f"{mean} ± {summarize(values).half_width:.3f}{' =' if alike and method != best else ''}"


def lines(results, budgets):
    """Yield the table of a task."""
    yield f"| queries | method | {' | '.join(ERRORS + FOUND)} |"
    yield "|---" * (2 + len(ERRORS + FOUND)) + "|"
    for budget in budgets:
        for name in METHODS:
            means = [cell(results, budget, name, column) for column in ERRORS]
            yield f"| {budget} | {name} | {' | '.join([*means, *shares(results[budget, name])])} |"
    yield f"| | {MODEL}, asked | | | {' | '.join(shares(results[MODEL]))} |"


def shares(found):
    means = [found.get(column, np.array(np.nan)).mean() for column in FOUND]
    return ["" if np.isnan(mean) else f"{mean:.0%}" for mean in means]


def losses(name, results, budgets):
    """Yield a line for each cell that joint loses."""
    for budget in budgets:
        for column in ERRORS + FOUND:
            sign = 1.0 if column in ERRORS else -1.0
            means = {method: sign * results[budget, method][column].mean() for method in METHODS}
            best = min(means, key=means.__getitem__)
            if means[best] < means["joint"]:
                told = "; not told apart" if column in ERRORS and cell(results, budget, "joint", column).endswith("=") else ""
                numbers = f"{best} {abs(means[best]):.3f}, joint {abs(means['joint']):.3f}"
                yield f"- {name}, {budget} queries, {column}: {numbers}{told}."


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--examples", type=int, default=16)
    parser.add_argument("--budgets", type=int, nargs="+", default=[200, 500])
    parser.add_argument("--out", type=Path, help="the page; default: standard output")
    options = parser.parse_args()
    lost, tables = [], []
    for name in options.tasks:
        began = perf_counter()
        task = TASKS[name](options.examples)
        trained = perf_counter()
        results = measure(task, options.budgets)
        n = results[MODEL].pop("units")
        print(f"{name}: trained in {trained - began:.0f} s, measured in {perf_counter() - trained:.0f} s", file=sys.stderr)
        lost += losses(name, results, options.budgets)
        tables += [f"\n## {name}\n", f"{task.about}. {len(n)} records of {n.min():.0f} to {n.max():.0f} units.\n",
                   *lines(results, options.budgets)]  # fmt: skip
        first = ["# Records of several fields", "## Where joint loses", "\n".join(lost or ["Nowhere."])]
        page = ["\n\n".join(first), HEAD.format(planted=PLANTED), *tables]
        if options.out:  # after each task
            options.out.write_text("\n".join([*page, ""]), encoding="utf-8")
    print("\n".join(page))


if __name__ == "__main__":
    main()
