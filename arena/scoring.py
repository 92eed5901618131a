"""Errors of methods on the texts of the arena, and the table of them.

near: mean squared error of the change from the whole text, relative to the variance of the scores of the far rows. far,
halves: 1 - R2; alone: the same, of units alone that no method was given. Above 2 an error counts as 2, so that no text decides
a mean. LDS: rank correlation of predicted and true scores of the far rows. deletion: of the rows near the text that remove k
units, the one that a method predicts lowest: how far the score falls there, summed over k; 0 is the mean of these rows, and
1 the lowest of them. seconds: of one fit with its predictions.
"""

import csv
import json
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from signal import SIG_IGN, SIGINT, signal
from time import perf_counter

import numpy as np
from scipy.stats import kendalltau, rankdata, spearmanr, wilcoxon
from threadpoolctl import threadpool_limits
from tqdm.auto import tqdm

from arena.answers import load
from arena.cases import CASES, MANY
from arena.methods import METHODS
from slalom.evaluate import summarize

FOLDER = Path(__file__).parent / "scores"
ERRORS = ("near", "far", "halves", "alone")
_HIGH = ("LDS", "deletion")  # the rest: the lower the better
COLUMNS = (*ERRORS, *_HIGH, "seconds")
_WORST = 2.0
_LEAST_ALONE = 10  # units alone, by which a method is tested
_ALIKE = 0.05  # p value from which two methods are called equal
_ORDER = [case.name for case in CASES]
MEMORY = FOLDER / "memory.json"


def run(names, jobs=1, cases=CASES):
    """Fit and test methods on every text of cases with every budget, and write their scores; those of other cases stay."""
    tasks = [(name, case.name, number) for name in names for case in cases for number in range(len(load(case)))]
    found = {name: [] for name in names}
    with ProcessPoolExecutor(jobs, get_context("spawn"), signal, (SIGINT, SIG_IGN)) as pool:  # Ctrl-C is ours
        for (name, _, _), rows in zip(tasks, tqdm(pool.map(_scored, tasks), total=len(tasks)), strict=True):
            found[name].append(rows)
            if len(found[name]) == len(tasks) // len(names):
                _write(name, [row for rows in found[name] for row in rows], {case.name for case in cases})


def _write(name, rows, cases):
    """Write the scores of a method for cases, beside those that it has for others."""
    file = FOLDER / f"{name}.csv"
    rows += [row for row in _read(file) if row["case"] not in cases]
    FOLDER.mkdir(exist_ok=True)
    with file.open("w", newline="") as opened:
        table = csv.DictWriter(opened, ["case", "text", "budget", *COLUMNS], lineterminator="\n")
        table.writeheader()
        table.writerows(sorted(rows, key=lambda row: _ORDER.index(row["case"])))


def _read(file):
    return list(csv.DictReader(file.read_text().splitlines())) if file.exists() else []


def memory(names):
    """Measure what methods need for the largest text, each in a process of its own, and write it in MB."""
    if not Path("/proc/self/clear_refs").exists():
        raise SystemExit("error: memory is measured on Linux only")
    found = json.loads(MEMORY.read_text()) if MEMORY.exists() else {}
    for name in tqdm(names):
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            found[name] = pool.submit(_memory, name).result()
        MEMORY.write_text(json.dumps({name: found[name] for name in METHODS if name in found}, indent=1) + "\n")


def largest():
    """Return the text with the most units."""
    return max((text for case in CASES if case.budgets == MANY for text in load(case)), key=lambda text: len(text.kinds))


def _memory(name):
    """Return by how many MB the memory of this process grows at most, by a fit with its predictions (Linux)."""
    chosen, text = METHODS[name], largest()
    keep, scores = text.pools[chosen.rows, MANY[-1]]
    chosen.fit(keep[:50], scores[:50], text.kinds)(keep[:50])  # imports what it needs
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = _kilobytes("VmRSS")
    errors(text, chosen.fit(keep, scores, text.kinds))
    return round((_kilobytes("VmHWM") - before) / 1024)


def _kilobytes(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(name)))


def _scored(task):
    name, case, number = task
    chosen, text = METHODS[name], _texts(case)[number]
    rows = []
    for budget in text.budgets:
        keep, scores = text.pools[chosen.rows, budget]
        with threadpool_limits(1):
            began = perf_counter()
            predict = chosen.fit(keep, scores, text.kinds)
            row = {"case": case, "text": number, "budget": budget, **errors(text, predict, budget)}
            rows.append({**row, "seconds": round(perf_counter() - began, 3)})
    return rows


@cache
def _texts(name):
    return load(next(case for case in CASES if case.name == name))


def errors(text, predict, budget=None):
    """Return the errors of predictions for a text, and LDS; of units alone where a budget of the fit is given."""
    found, far, tests = {}, text.tests["far"][1], dict(text.tests)
    if budget is not None and len((alone := text.alone(budget))[1]) >= _LEAST_ALONE:
        tests["alone"] = alone
    for name, (keep, scores) in tests.items():
        predicted = np.asarray(predict(keep))
        if not scores.var():
            continue
        if name == "near":
            whole = predict(np.ones((1, len(text.kinds)), dtype=bool))
            error = float((((predicted - whole) - (scores - text.whole)) ** 2).mean() / far.var())
            found["deletion"] = round(_deletion((~keep).sum(axis=1), predicted, text.whole - scores), 4)
        else:
            error = float(((predicted - scores) ** 2).mean() / scores.var())
        found[name] = round(min(error, _WORST), 4)
        if name == "far":
            found["LDS"] = round(float(spearmanr(predicted, scores).statistic), 4) if np.ptp(predicted) else 0.0
    return found


def _deletion(removed, predicted, falls):
    """Return how far scores fall in the rows predicted lowest, one for each number of removed units: 0 chance, 1 the best."""
    groups = [np.flatnonzero(removed == k) for k in np.unique(removed)]
    chosen = sum(falls[rows[np.argmin(predicted[rows])]] for rows in groups)
    chance, largest = (sum(of(falls[rows]) for rows in groups) for of in (np.mean, np.max))
    return float((chosen - chance) / (largest - chance))


class Table:
    """Scores of all methods that have run, as arrays over the same texts."""

    def __init__(self):
        self.scores, self._rows = {}, {}
        for name in METHODS:
            if rows := _read(FOLDER / f"{name}.csv"):
                self.scores[name] = {column: np.array([row[column] or "nan" for row in rows]) for column in rows[0]}

    def values(self, name, budget, column, cases):
        """Return a column of a method by text, NaN where there is none."""
        scores, key = self.scores[name], (name, budget, frozenset(cases))
        if key not in self._rows:
            self._rows[key] = np.flatnonzero((scores["budget"] == str(budget)) & np.isin(scores["case"], list(cases)))
        return scores[column][self._rows[key]].astype(float)

    def means(self, budget, column, cases):
        """Return the mean of each method that has one."""
        values = {name: self.values(name, budget, column, cases) for name in self.scores}
        return {name: float(np.nanmean(part)) for name, part in values.items() if np.isfinite(part).any()}

    def lines(self, budget, cases):
        """Yield the table of some cases, as lines of Markdown."""
        means = {column: self.means(budget, column, cases) for column in COLUMNS}
        means = {column: found for column, found in means.items() if found}
        best = {column: (max if column in _HIGH else min)(found, key=found.__getitem__) for column, found in means.items()}
        yield f"| {budget} queries | {' | '.join(means)} |"
        yield "|---" * (len(means) + 1) + "|"
        for name in sorted(self.scores, key=lambda name: means["near"][name] + means["far"][name]):
            cells = []
            for column, found in means.items():
                values = self.values(name, budget, column, cases)
                if column == "seconds":
                    cells.append(f"{found[name]:.2f}")
                elif best[column] == name:
                    cells.append(f"**{found[name]:.3f}** ± {summarize(values).half_width:.3f}")
                else:
                    apart = (values - self.values(best[column], budget, column, cases))[np.isfinite(values)]
                    alike = not apart.any() or wilcoxon(apart, method="asymptotic").pvalue >= _ALIKE
                    cells.append(f"{found[name]:.3f} ± {summarize(values).half_width:.3f}{' =' if alike else ''}")
            yield f"| {name} | {' | '.join(cells)} |"

    def by_case(self, budget, column):
        """Yield a table of a column by case."""
        yield f"| {column}, {budget} queries | {' | '.join(self.scores)} |"
        yield "|---" * (len(self.scores) + 1) + "|"
        for case in CASES:
            if means := self.means(budget, column, {case.name}):
                least = min(means.values())
                cells = [f"**{means[name]:.3f}**" if means[name] == least else f"{means[name]:.3f}" for name in self.scores]
                yield f"| {case.name}{'' if case.chosen else ' (report)'} | {' | '.join(cells)} |"

    def stability(self, budget, column, cases):
        """Return Kendall's tau between the ranks of methods on the even and on the odd texts."""
        ranks = []
        for half in (0, 1):
            parts = np.array([self.values(name, budget, column, cases)[half::2] for name in self.scores])
            known = np.isfinite(parts).all(axis=0)
            ranks.append(rankdata(parts[:, known], axis=0).mean(axis=1))
        return kendalltau(*ranks).statistic
