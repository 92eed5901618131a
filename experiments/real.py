"""Real reviews explained by all methods once, and everything measured on what came out: tables 9, 10, 11 and figure 6 share it.

One part is a lot of texts of one data set and architecture; one record in it is a text and a method:

    profile, near    squared error of the predicted change by the number of removed tokens, and its mean (figure 6)
    deletion, insertion    area over the perturbation curve (table 11), every 5th number of tokens, as in the paper's code
    bayes            rank correlation with Naive Bayes, equal tokens counted once (table 9)
    human            AU-ROC for what people have marked (table 10)

the last four for each of the scores that a method has.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from experiments.classifiers import TITLES, about, classifiers, explainer
from experiments.harness import Cell, Claim, Lab, Table, lots, mean
from experiments.reviews import reviews
from slalom import Explainer
from slalom.errors import MissingExtra
from slalom.evaluate import NaiveBayes, fidelity, human_attention, naive_bayes_correlation, perturbation
from slalom.methods import KernelShap, Method, method
from slalom.result import Explanation

# Methods with the scores that are looked at; those of one number a token have "removal", which is that number.
SCORES: Mapping[str, tuple[str, ...]] = {
    "fidel": ("value", "importance", "linear"),
    "eff": ("value", "importance", "linear"),
    "joint": ("value", "importance", "linear", "removal"),
    "local": ("value", "importance", "linear", "removal"),
    "ridge": ("removal",),
    "lime": ("removal",),
    "kernel-shap": ("removal",),
    "kernel-shap-all": ("removal",),
    "integrated-gradients": ("removal",),
    "gradient": ("removal",),
    "attnlrp": ("removal",),
    "random": ("removal",),
}
CALLED = {
    "fidel": "SLALOM-fidel",
    "eff": "SLALOM-eff",
    "joint": "joint (ours)",
    "local": "local (ours)",
    "ridge": "ridge on deletions",
    "lime": "LIME",
    "kernel-shap": "SHAP",
    "kernel-shap-all": "SHAP of all tokens",
    "integrated-gradients": "IG",
    "gradient": "Grad",
    "attnlrp": "LRP",
    "random": "random",
}
# The package shap keeps ten tokens at most, as it comes; the same with all of them.
SHAP = ("kernel-shap", "kernel-shap-all")
Row = tuple[str, str]  # a method and one of its scores
_ALL = KernelShap(l1_reg=False, name="kernel-shap-all")
_LOT = 5  # texts in a part
_STEP = 5  # tokens from one point of a perturbation curve to the next
_CORPUS = 5000  # texts that Naive Bayes counts


@dataclass(frozen=True)
class Measured:
    """All records of some classifiers by (data, architecture), and what cannot be seen in them, in words."""

    records: Mapping[tuple[str, str], list[dict[str, Any]]]
    remarks: tuple[str, ...]

    @property
    def methods(self) -> list[str]:
        """All methods."""
        return list(SCORES)

    @property
    def shap(self) -> list[Row]:
        """The rows that stand for SHAP."""
        return [(name, "removal") for name in self.methods if name in SHAP]

    def values(self, name: tuple[str, str], row: Row, measure: str, most: int | None = None) -> list[float]:
        """Return a measure of one method and score for each text, or for the first ones; none where it could not be used."""
        own = [r for r in self.records[name] if r["method"] == row[0]][:most]
        return [v for r in own if (v := r["scores"][row[1]].get(measure)) is not None]

    def average(self, row: Row, measure: str) -> float:
        """Return the mean over all classifiers of the means over texts; NaN where the method could not be used."""
        every = [found for name in self.records if (found := self.values(name, row, measure))]
        return sum(mean(found)[0] for found in every) / len(every) if every else float("nan")

    def near(self, name: tuple[str, str], chosen: str) -> list[float]:
        """Return the near error of a method for each text."""
        return [r["near"] for r in self.records[name] if r["method"] == chosen and r["near"] is not None]

    def profile(self, name: tuple[str, str], chosen: str) -> dict[int, tuple[float, float]]:
        """Return the near error by the number of removed tokens, with its standard error."""
        own = [r["profile"] for r in self.records[name] if r["method"] == chosen and r["profile"]]
        numbers = sorted({int(k) for one in own for k in one})
        return {k: mean(one[str(k)] for one in own if str(k) in one) for k in numbers}


def measured(lab: Lab, names: list[tuple[str, str]]) -> Measured:
    """Explain and measure. Settings: `texts`, `samples`, or one data set's own, such as `yelp_texts`."""
    found = classifiers(lab, names)
    samples = {data: lab.each(data, "samples", 5000, 40) for data, _ in names}
    plan: dict[str, dict[str, Any]] = {}
    owner: dict[str, tuple[str, str]] = {}
    for data, arch in names:
        for lot, first in lots(len(reviews(lab, data).explained), _LOT).items():
            key = f"{data}-{arch}-{samples[data]}-{lot}"
            plan[key] = {"data": data, "arch": arch, "first": first, "samples": samples[data]}
            owner[key] = data, arch
    records: dict[tuple[str, str], list[dict[str, Any]]] = {name: [] for name in names}
    skipped: dict[str, int] = {}
    for key, part in lab.parts(explained, plan, "real", "lot").items():
        records[owner[key]] += part["records"]
        for name, reason in part["skipped"].items():
            skipped[f"{CALLED[name]}: {reason}"] = skipped.get(f"{CALLED[name]}: {reason}", 0) + 1
    texts = {data: len(reviews(lab, data).explained) for data, _ in names}
    size = "; ".join(f"{number} texts of {data}, {samples[data]} samples" for data, number in texts.items())
    short = () if lab.quick else ("Reviews of IMDB are of at most 200 words; all are cut at 256 tokens.",)
    left_out = tuple(f"Left out in {number} of {len(plan)} lots: {one}." for one, number in sorted(skipped.items()))
    return Measured(records, (f"{size}.", *short, *left_out, *about(found, lab)))


def explained(lab: Lab, data: str, arch: str, first: int, samples: int) -> dict[str, Any]:
    """Explain one lot of texts by all methods; return the records, and why a method could not be used."""
    of, ask = reviews(lab, data), explainer(lab, data, arch)
    lot = list(of.explained[first : first + _LOT])
    bayes = counted(ask, of.train.texts[:_CORPUS], of.train.labels[:_CORPUS].tolist()) if data == "imdb" else None
    records: list[dict[str, Any]] = []
    skipped: dict[str, str] = {}
    for name in SCORES:
        try:
            found = explanations(ask, lot, name, samples)
        except (MissingExtra, ArithmeticError) as reason:  # one fit that fails costs its method in this lot, and it is said
            skipped[name] = str(reason)
            continue
        strict = fidelity(found, ask, per=lab.of(20, 3), number=10, seed=lab.seed)
        curves = {s: perturbation(found, ask, score=s, step=_STEP) for s in SCORES[name]}
        for i, one in enumerate(found):
            near = strict[i]
            record: dict[str, Any] = {"text": first + i, "method": name, "queries": one.queries, "tokens": one.tokens}
            record |= {"near": near and near.near, "profile": near and {str(k): v for k, v in near.profile.items()}}
            record["scores"] = {}
            for score in SCORES[name]:
                cut = curves[score][i]
                record["scores"][score] = {
                    "deletion": cut and cut.deletion,
                    "insertion": cut and cut.insertion,
                    "bayes": bayes
                    and naive_bayes_correlation(one, bayes, score=score, tokens=ask.tokens(one.text), distinct=True),
                    "human": human_attention(one, *of.marked[first + i][1:3], score=score) if of.marked else None,
                }
            records.append(record)
    return {"records": records, "skipped": skipped}


def explanations(
    ask: Explainer, texts: list[str], name: str | Method, samples: int, unit: str | None = None
) -> list[Explanation]:
    """Return explanations by one method, in its own units unless told otherwise.

    What it says of texts that are cut, and packages of few samples, is not shown.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = name if isinstance(name, Method) else _ALL if name == _ALL.name else method(name)
        return list(ask(texts, method=chosen, queries=samples, unit=unit))


def counted(ask: Explainer, texts: tuple[str, ...], labels: list[int]) -> NaiveBayes:
    """Return Naive Bayes of the tokens of a model."""
    tokenizer: Any = ask.model.tokenizer
    ids = tokenizer(list(texts), add_special_tokens=False, truncation=False, verbose=False)["input_ids"]
    return NaiveBayes.fit(ids, labels, list)


def beside(
    title: str, found: Measured, rows: list[Row], measure: str, paper: Mapping[tuple[str, str], Mapping[Row, float]], most: int
) -> Table:
    """Return a table of one measure: a row for each method and score, two columns for each classifier, ours and the paper's."""
    names = list(found.records)
    columns = ["method", "score"]
    for data, arch in names:
        columns += [f"{TITLES[arch]}, {data}", "paper"]
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        line: list[Cell] = [CALLED[row[0]], "" if row[1] == "removal" and len(SCORES[row[0]]) == 1 else row[1]]
        for name in names:
            values = found.values(name, row, measure, most)
            line += [mean(values) if values else None, paper.get(name, {}).get(row)]
        lines.append(tuple(line))
    return Table(title, tuple(columns), tuple(lines))


def better(
    says: str,
    found: Measured,
    measure: str,
    ours: Row,
    others: list[Row],
    more: bool = True,
    slack: float = 0.0,
    otherwise: str = "",
) -> Claim:
    """Return the claim that a score is at least as good as others, on average over the classifiers.

    slack: by how much it may be worse ("comparable"). Methods that could not be used are named.
    """
    own = found.average(ours, measure)
    theirs = {row: found.average(row, measure) for row in others}
    there = {row: value for row, value in theirs.items() if isfinite(value)}
    holds = bool(there) and all(own + slack >= value if more else own - slack <= value for value in there.values())
    listed = ", ".join(f"{_called(row)} {value:.3f}" for row, value in there.items())
    absent = ", ".join(_called(row) for row in theirs if row not in there)
    return Claim(
        says, holds, f"{_called(ours)} {own:.3f}; {listed}" + (f"; not available: {absent}" if absent else ""), otherwise
    )


def _called(row: Row) -> str:
    return CALLED[row[0]] + ("" if len(SCORES[row[0]]) == 1 else f" {row[1]}")
