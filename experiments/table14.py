"""Table 14: how many samples SLALOM-eff needs, by the deletion AOPC, beside SHAP with as many as it takes (2 n + 2048)."""

from typing import Any

from experiments.classifiers import about, classifiers, explainer
from experiments.harness import Cell, Claim, Lab, Result, Table, lots, mean
from experiments.real import explanations
from experiments.reviews import reviews
from slalom.errors import MissingExtra
from slalom.evaluate import perturbation

PAPER = {"SHAP": 0.9135, "500": 0.9243, "1000": 0.9236, "2000": 0.9348, "5000": 0.9387, "10000": 0.9387}
_LOT = 10
_CLOSE = 0.02


def run(lab: Lab) -> Result:
    """Explain with more and more samples."""
    model = classifiers(lab, [("imdb", "bert")])
    number = len(reviews(lab, "imdb").explained)
    budgets = lab.of((500, 1000, 2000, 5000, 10_000), (50, 100, 200))
    plan = {lot: {"first": first, "budgets": budgets} for lot, first in lots(number, _LOT).items()}
    parts = list(lab.parts(deleted, plan, what="lot").values())
    found = {key: [v for part in parts for v in part.get(key, [])] for key in ("SHAP", *map(str, budgets), "joint", "random")}
    found = {key: values for key, values in found.items() if values}
    names = {"SHAP": 'SHAP (nsamples="auto")', "joint": f"joint (ours), {budgets[0]} samples", "random": "random"}
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (names.get(key, f"SLALOM-eff, {key} samples"), mean(values), PAPER.get(key)) for key, values in found.items()
    )
    least, most = (mean(found[str(one)])[0] for one in (budgets[0], budgets[-1]))
    claims = [
        Claim("More samples do not hurt.", most >= least - _CLOSE, f"{budgets[0]}: {least:.4f}, {budgets[-1]}: {most:.4f}"),
    ]
    if lab.quick:
        chance = mean(found["random"])[0]
        claims.append(Claim("Few samples do better than chance.", least > chance, f"{least:.4f} against {chance:.4f}"))
    else:
        theirs = mean(found["SHAP"])[0] if "SHAP" in found else float("nan")
        said = f"500 samples {least:.4f}, SHAP {theirs:.4f}"
        claims.append(Claim("500 samples do as well as SHAP.", least >= theirs, said))
    absent = () if "SHAP" in found else ("SHAP was left out: shap is not installed.",)
    remark = f"{number} texts of IMDB, BERT, linear scores, curves at every 5th number of tokens."
    return Result(
        (Table("Deletion AOPC", ("method", "ours", "paper"), rows),), tuple(claims), (remark, *absent, *about(model, lab))
    )


def deleted(lab: Lab, first: int, budgets: tuple[int, ...]) -> dict[str, list[float]]:
    """Return the deletion AOPC of some texts by method or number of samples."""
    ask = explainer(lab, "imdb", "bert")
    lot = list(reviews(lab, "imdb").explained[first : first + _LOT])
    step = 5
    plan = [(str(samples), "eff", samples, "linear") for samples in budgets]
    plan += [("joint", "joint", budgets[0], "removal"), ("random", "random", 2, "removal")]
    found = {
        key: [one.deletion for one in perturbation(explanations(ask, lot, name, samples), ask, score=score, step=step) if one]
        for key, name, samples, score in plan
    }
    try:
        shap = [
            explanations(ask, [text], "kernel-shap", 2 * len(ask.tokens(text)) + 2048)[0] for text in lot[: lab.of(_LOT, 1)]
        ]
    except MissingExtra:
        return found
    return found | {"SHAP": [one.deletion for one in perturbation(shap, ask, step=step) if one]}


def draw(result: Result, figure: Any) -> None:
    """Draw the AOPC against the number of samples."""
    rows = [(str(row[0]), row[1], row[2]) for row in result.tables[0].rows]
    ours = [(int(name.split()[1]), found, paper) for name, found, paper in rows if name.startswith("SLALOM")]
    ax = figure.subplots()
    samples = [one[0] for one in ours]
    ax.errorbar(samples, [one[1][0] for one in ours], [one[1][1] for one in ours], fmt="o-", label="SLALOM-eff, ours")
    if any(one[2] is not None for one in ours):
        ax.plot(samples, [one[2] for one in ours], "s--", color="C0", alpha=0.5, label="SLALOM-eff, paper")
    for name, found, _ in rows:
        if name.startswith("SHAP"):
            ax.axhline(found[0], color="C1", label="SHAP, ours")
    ax.set_xscale("log")
    ax.set_xticks(samples, map(str, samples))
    ax.minorticks_off()
    ax.set_xlabel("samples")
    ax.set_ylabel("deletion AOPC")
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
