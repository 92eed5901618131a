"""Tables 2 and 13: seconds of an explanation by the number of samples, on DistilBERT, and for 1000 samples on BLOOM."""

from dataclasses import replace
from functools import cache
from time import perf_counter
from typing import Any

from experiments.classifiers import TITLES, about, classifiers, explainer
from experiments.harness import Cell, Claim, Lab, Result, Table, mean
from experiments.real import CALLED, explanations
from experiments.reviews import reviews
from slalom import Explainer
from slalom.errors import MissingExtra

_METHODS = ("kernel-shap", "lime", "fidel", "eff", "joint", "attnlrp", "integrated-gradients", "gradient")
_LARGE = ("kernel-shap", "lime", "integrated-gradients", "gradient", "eff", "joint")
_WHY = "All methods ask through one engine; a small network answers fast, so drawing and fitting may take most of the time."
_WITHOUT_BUDGET = ("attnlrp", "integrated-gradients", "gradient")
PAPER: dict[tuple[str, str], dict[int, float]] = {
    ("distilbert", "kernel-shap"): {1000: 2.35, 2000: 4.62, 5000: 11.56, 10_000: 23.08},
    ("distilbert", "lime"): {1000: 0.80, 2000: 1.58, 5000: 3.93, 10_000: 8.04},
    ("distilbert", "fidel"): {1000: 0.74, 2000: 1.42, 5000: 3.77, 10_000: 7.95},
    ("distilbert", "eff"): {1000: 0.42, 2000: 0.80, 5000: 2.03, 10_000: 4.13},
    ("distilbert", "attnlrp"): dict.fromkeys((1000, 2000, 5000, 10_000), 0.02),
    ("distilbert", "integrated-gradients"): dict.fromkeys((1000, 2000, 5000, 10_000), 0.02),
    ("distilbert", "gradient"): dict.fromkeys((1000, 2000, 5000, 10_000), 0.01),
    ("bloom", "kernel-shap"): {1000: 25.04},
    ("bloom", "lime"): {1000: 15.73},
    ("bloom", "integrated-gradients"): {1000: 0.29},
    ("bloom", "gradient"): {1000: 0.06},
    ("bloom", "eff"): {1000: 0.62},
}


def run(lab: Lab) -> Result:
    """Take the time of one text after the other, with nothing else under way. Setting: `timed` texts."""
    models = classifiers(lab, [("yelp", "distilbert"), ("yelp", "bloom")])
    alone = replace(lab, jobs=1)  # times are of one process that has the device for itself
    budgets, texts = lab.of((1000, 2000, 5000, 10_000), (50, 100)), lab.number("timed", 3, 1)
    wanted = [("distilbert", name, samples) for name in _METHODS for samples in budgets]
    wanted += [("bloom", name, budgets[0]) for name in _LARGE]
    plan = {
        f"{arch}-{name}-{samples}-{texts}": {"arch": arch, "name": name, "samples": samples, "texts": texts}
        for arch, name, samples in wanted
    }
    parts = alone.parts(timed, plan, what="method")
    found = {one: parts[f"{one[0]}-{one[1]}-{one[2]}-{texts}"] for one in wanted}
    tables = tuple(
        _table(arch, names, numbers, found)
        for arch, names, numbers in (("distilbert", _METHODS, budgets), ("bloom", _LARGE, budgets[:1]))
    )
    absent = sorted({CALLED[name] for (_, name, _), one in found.items() if not one})
    remarks = [
        f"Seconds of {texts} reviews ({lab.of('of Yelp-HAT', 'our own')}), one after the other, after one that is not counted."
    ]
    remarks += [f"Left out, not installed: {', '.join(absent)}."] if absent else []
    return Result(tables, _claims(lab, found, budgets), (*remarks, *about(models, lab)))


def _table(
    arch: str, names: tuple[str, ...], budgets: tuple[int, ...], found: dict[tuple[str, str, int], dict[str, list[float]]]
) -> Table:
    columns = ["method"]
    for samples in budgets:
        columns += [f"{samples} samples", "paper", "tokens read"]
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        row: list[Cell] = [CALLED[name]]
        for samples in budgets:
            one, paper = found[arch, name, samples], PAPER.get((arch, name), {}).get(samples)
            row += [mean(one["seconds"]), paper, round(mean(one["tokens"])[0])] if one else [None, paper, None]
        rows.append(tuple(row))
    return Table(f"Seconds of an explanation, {TITLES[arch]}", tuple(columns), tuple(rows))


def _claims(lab: Lab, found: dict[tuple[str, str, int], dict[str, list[float]]], budgets: tuple[int, ...]) -> tuple[Claim, ...]:
    samples = budgets[-2]
    what = lab.of("seconds", "tokens")
    spent = {
        name: mean(found["distilbert", name, samples][what])[0]
        for name in ("eff", "lime", "kernel-shap", "joint", "fidel")
        if found["distilbert", name, samples]
    }
    said = ", ".join(f"{CALLED[name]} {value:.3g}" for name, value in spent.items()) + f" {what} at {samples} samples"
    claims = []
    for name, factor in (("lime", 2.0), ("kernel-shap", 5.0)):
        if lab.quick and name in spent:
            says = f"SLALOM-eff reads fewer tokens than {CALLED[name]} with as many samples."
            claims.append(Claim(says, spent["eff"] < spent[name], said))
        elif not lab.quick:
            fast = name in spent and spent[name] >= factor * spent["eff"]
            there = said if name in spent else f"{CALLED[name]} is not installed; {said}"
            claims.append(Claim(f"SLALOM-eff is {factor:.0f} times as fast as {CALLED[name]}.", fast, there, _WHY))
    return tuple(claims) or (Claim("SLALOM-eff reads fewer tokens than SLALOM-fidel.", spent["eff"] < spent["fidel"], said),)


def timed(lab: Lab, arch: str, name: str, samples: int, texts: int) -> dict[str, list[float]]:
    """Return seconds and tokens of each text; nothing where the package of the method is missing."""
    ask = _loaded(lab, arch)
    some = reviews(lab, "yelp").explained[: texts + 1]
    found: dict[str, list[float]] = {"seconds": [], "tokens": []}
    if name in _WITHOUT_BUDGET:
        samples = 2
    try:
        for text in some:
            ask.engine.forget()
            start = perf_counter()
            one = explanations(ask, [text], name, samples)[0]
            found["seconds"].append(perf_counter() - start)
            found["tokens"].append(float(one.tokens))
    except MissingExtra:
        return {}
    return {key: values[1:] or values for key, values in found.items()}


@cache
def _loaded(lab: Lab, arch: str) -> Explainer:
    """Return the explainer of a classifier, loaded once for all methods and numbers of samples."""
    return explainer(lab, "yelp", arch)


def draw(result: Result, figure: Any) -> None:
    """Draw seconds against samples, the paper's dashed."""
    table = result.tables[0]
    ax = figure.subplots()
    samples = [int(name.split()[0]) for name in table.columns[1::3]]
    for i, row in enumerate(table.rows):
        if row[1] is not None:
            ax.errorbar(
                samples, [c[0] for c in row[1::3]], [c[1] for c in row[1::3]], fmt="o-", color=f"C{i}", label=str(row[0])
            )
        if row[2] is not None:
            ax.plot(samples, row[2::3], "--", color=f"C{i}", alpha=0.5)
    ax.set_xscale("log")
    ax.set_xticks(samples, map(str, samples))
    ax.minorticks_off()
    ax.set_yscale("log")
    ax.set_xlabel("samples")
    ax.set_ylabel("seconds of an explanation (dashed: paper)")
    figure.legend(loc="outside right upper", frameon=False, fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)
