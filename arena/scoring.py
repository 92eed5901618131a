"""Errors of methods on the texts of the arena, and the table of them.

near: mean squared error of the change from the whole text, relative to the variance of the scores of the far rows. far,
halves: 1 - R2; alone: the same, of units alone that no method was given. Above 2 an error counts as 2, so that no text decides
a mean. LDS: rank correlation of predicted and true scores of the far rows. seconds: of one fit with its predictions.
"""

import csv
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

from arena.answers import BUDGETS, load
from arena.cases import CASES
from arena.methods import METHODS
from slalom.evaluate import summarize

FOLDER = Path(__file__).parent / "scores"
ERRORS = ("near", "far", "halves", "alone")
COLUMNS = (*ERRORS, "LDS", "seconds")
_WORST = 2.0
_LEAST_ALONE = 10  # units alone, by which a method is tested
_ALIKE = 0.05  # p value from which two methods are called equal


def run(names, jobs=1):
    """Fit and test methods on every text with every budget, and write their scores."""
    tasks = [(name, case.name, number) for name in names for case in CASES for number in range(len(load(case)))]
    found = {name: [] for name in names}
    with ProcessPoolExecutor(jobs, get_context("spawn"), signal, (SIGINT, SIG_IGN)) as pool:  # Ctrl-C is ours
        for (name, _, _), rows in zip(tasks, tqdm(pool.map(_scored, tasks), total=len(tasks)), strict=True):
            found[name] += rows
            if len(found[name]) == len(tasks) // len(names) * len(BUDGETS):
                FOLDER.mkdir(exist_ok=True)
                with (FOLDER / f"{name}.csv").open("w", newline="") as file:
                    table = csv.DictWriter(file, ["case", "text", "budget", *COLUMNS], lineterminator="\n")
                    table.writeheader()
                    table.writerows(found[name])


def _scored(task):
    name, case, number = task
    chosen, text = METHODS[name], _texts(case)[number]
    rows = []
    for budget in BUDGETS:
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
        else:
            error = float(((predicted - scores) ** 2).mean() / scores.var())
        found[name] = round(min(error, _WORST), 4)
        if name == "far":
            found["LDS"] = round(float(spearmanr(predicted, scores).statistic), 4) if np.ptp(predicted) else 0.0
    return found


class Table:
    """Scores of all methods that have run, as arrays over the same texts."""

    def __init__(self):
        self.scores, self._rows = {}, {}
        for name in METHODS:
            file = FOLDER / f"{name}.csv"
            if file.exists():
                rows = list(csv.DictReader(file.read_text().splitlines()))
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
        best = {column: (max if column == "LDS" else min)(found, key=found.__getitem__) for column, found in means.items()}
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
