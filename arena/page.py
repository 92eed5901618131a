"""The page of the arena: results/arena.md."""

import json

from arena.answers import load
from arena.cases import BUDGETS, CASES, MANY, REPORT
from arena.methods import METHODS
from arena.scoring import MEMORY, Table, largest

_TOP = """# The arena

Methods that predict what a model says of parts of a text, on the same stored answers of {cases} models and kinds of text,
{texts} texts in all. Written by `python -m arena table`; arena/README.md says how to add a method.

near: mean squared error of the changes by 1 to 10 removed units, relative to the variance of the scores of far parts. far:
parts of all sizes; halves: random halves; alone: units alone (of long texts: all of short ones are fitted); these as 1 - R2.
None of the parts was given to any method (fewer than 0.1% have the same words as one that was, where a word is repeated).
Errors above 2 count as 2. LDS: rank correlation on the far parts. seconds: a fit with its predictions, on one core. Means over
texts, with 95% intervals; bold: the best; "=": no difference from it by a Wilcoxon test on the same texts (p >= 0.05). Models,
texts and methods are listed at the end. deletion: of about 24 stored parts without k units, the one that a method predicts to
be lowest, for k from 1 to 10: how far the score falls there; 0 is as far as in all of them on average, 1 as far as in the
lowest. Curves of deletion, for which a model must be asked, are in `slalom compare`.
"""

_SOURCES = """Sentences of contexts of news are removed; the score is the log probability of the answer that the model gave from
the whole context. `sources`: SmolLM2-135M, contexts of 16 to 66 sentences, "What is said about ...?". `questions`:
Qwen2.5-Coder-1.5B-Instruct, contexts of 16 to 129 sentences, questions that the model has written about one of the news, up
to 1,000 queries. The authors of SPEX report, for other contexts, models and questions, 1 - R2 on random halves of 0.37 to
0.46 with 6,900 queries, and of 0.47 to 0.55 for linear fits."""
_MEMORY = """Peak memory, in MB beyond what the process had, of a fit of {rows:,} rows of {units} units with its predictions
(`python -m arena memory all`)."""
_ROWS = """Rows that are fitted are those that `joint` asks (mixed: units alone, small deletions, subsets), subsets of even
sizes (even), or random halves (halves); the last two may repeat a row. The first five methods know which units are the same
word. Regressions with the weights of LIME and KernelSHAP are not their packages: `slalom compare` runs these. The paper's
SLALOM-eff asks pairs of units; here its fit is given the same rows as others."""
_BRIEF = {
    "joint": "slalom, `joint` (default)",
    "joint-even": "the same fit, on the rows of the peers below",
    "joint-halves": "the same fit, on the rows of ProxySPEX",
    "hamming-gp": "a Gaussian process of masks (`hamming-gp`, the surrogate of ShaplEIG)",
    "trees": "gradient-boosted trees (`trees`, LightGBM)",
    "pairs-gp": "all pairs of words (`pairs-gp`)",
    "proxyspex": "ProxySPEX (`proxyspex`)",
    "lasso": "a lasso, as in ContextCite (`lasso`)",
    "lime": "a regression with LIME's weights",
    "kernel-shap": "a regression with KernelSHAP's weights",
}


def page() -> str:
    """Return the page as Markdown."""
    table = Table()
    missing = [name for name in _BRIEF if name not in table.scores]
    if missing:
        raise SystemExit(f"error: the table needs scores of {', '.join(missing)}; python -m arena run {' '.join(missing)}")
    sizes = {case: [len(text.kinds) for text in load(case)] for case in CASES}
    chosen = {case.name for case in CASES} - REPORT
    lines = [_TOP.format(cases=len(CASES), texts=sum(map(len, sizes.values()))), "## Where slalom loses", ""]
    lines += [f"- {line}" for line in _lost(table)]
    lines += ["", "## Models that were used for no choice", ""]
    for budget in BUDGETS:
        lines += [*table.lines(budget, REPORT), ""]
    taus = (table.stability(budget, column, REPORT) for budget in BUDGETS for column in ("near", "far"))
    lines += [
        f"Ranks of the methods on two halves of the texts agree: Kendall's tau at least {min(taus):.2f} (near and far).",
        "",
    ]
    lines += ["## Models on which defaults of slalom were chosen", ""]
    for budget in BUDGETS:
        lines += [*table.lines(budget, chosen), ""]
    lines += ["## Which source made it say this", "", _SOURCES, ""]
    for case in (case for case in CASES if case.name in ("sources", "questions")):
        lines += [f"### `{case.name}`", ""]
        for budget in case.budgets:
            lines += [*table.lines(budget, {case.name}), ""]
    lines += ["## By model", ""]
    for column in ("near", "far"):
        lines += [*table.by_case(200, column), "", *table.by_case(500, column), ""]
    weighed = json.loads(MEMORY.read_text())
    lines += ["## Memory", "", _MEMORY.format(rows=MANY[-1], units=len(largest().kinds)), ""]
    lines += [", ".join(f"{name} {weighed[name]}" for name in sorted(weighed, key=weighed.__getitem__)) + ".", ""]
    lines += ["## Models and texts", ""]
    for case, units in sizes.items():
        lines.append(f"- `{case.name}`: {case.about}; {len(units)} texts of {min(units)} to {max(units)} units")
    lines += ["", "## Methods", "", _ROWS, ""]
    lines += [f"- `{name}`, on {METHODS[name].rows} rows: {METHODS[name].summary}" for name in table.scores]
    return "\n".join(lines) + "\n"


def brief(table: Table) -> list[str]:
    """Return the short table of the README: cases of the report, 200 and 500 queries."""
    columns, budgets = ("near", "far", "halves", "seconds"), (200, 500)
    means = {(column, budget): table.means(budget, column, REPORT) for column in columns for budget in budgets}
    lines = ["| 200 / 500 queries | near | far | random halves | seconds |", "|---|---|---|---|---|"]
    for name, title in _BRIEF.items():
        cells = [" / ".join(_shown(means[column, budget], name, column) for budget in budgets) for column in columns]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return lines


def _shown(means: dict[str, float], name: str, column: str) -> str:
    """Return a mean of a method; in bold where it is the least of the short table, but for seconds."""
    if column == "seconds":
        return f"{means[name]:.2f}"
    return f"**{means[name]:.3f}**" if means[name] == min(means[other] for other in _BRIEF) else f"{means[name]:.3f}"


def _lost(table: Table) -> list[str]:
    """Return a line for each column and budget in which a method of others is better than `joint`, on cases of the report."""
    found = []
    for budget in BUDGETS:
        for column in ("near", "far", "halves"):
            means = table.means(budget, column, REPORT)
            best = min((name for name in means if not name.startswith("joint")), key=means.__getitem__)
            if means[best] < means["joint"]:
                rows = "halves" if METHODS[best].rows == "halves" else "even"
                ours = f"joint {means['joint']:.3f} (on the same kind of rows {means[f'joint-{rows}']:.3f})"
                found.append(f"{column}, {budget} queries: {best} {means[best]:.3f}, {ours}.")
    for case in (case for case in CASES if case.name in REPORT):
        for budget in case.budgets:
            for column in ("near", "far"):
                means = table.means(budget, column, {case.name})
                others = (name for name in means if not name.startswith("joint") and means[name] < means["joint"])
                better = sorted(others, key=means.__getitem__)
                if better:
                    place = f"joint ({means['joint']:.3f}) is number {len(better) + 1} of {len(means) - 2}"
                    found.append(f"{case.name}, {column}, {budget} queries: {place}; {better[0]} has {means[better[0]]:.3f}.")
    return found or ["Nowhere."]
