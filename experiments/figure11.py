"""Figure 11: attribution maps of a review by method, beside what a person marked.

The review and the marks are our own, as the texts of Yelp-HAT are not ours to print; the classifier has not seen it.
"""

from typing import Any

import numpy as np

from experiments.classifiers import about, classifiers, explainer
from experiments.harness import Claim, Lab, Result, Table
from experiments.real import CALLED, explanations
from experiments.texts import MIXED
from slalom.errors import MissingExtra
from slalom.evaluate import auroc, magnitude, unit_marks, word_spans

_ROWS = (
    ("eff", "importance"),
    ("eff", "linear"),
    ("fidel", "linear"),
    ("joint", "removal"),
    ("lime", "removal"),
    ("kernel-shap", "removal"),
    ("integrated-gradients", "removal"),
    ("gradient", "removal"),
    ("attnlrp", "removal"),
)


def run(lab: Lab) -> Result:
    """Explain the review by all methods."""
    model = classifiers(lab, [("yelp", "bert")])
    samples = lab.number("samples", 5000, 150)
    maps = lab.part(f"maps-{samples}", lambda: mapped(lab, samples))
    rows = tuple((one["name"], one["auroc"], one["hits"]) for one in maps)
    first = maps[0]
    marked = int(MIXED[1].marks.sum())
    claims = (
        Claim("Importances point at the words that the reader marked.", first["auroc"] > 0.5, f"AU-ROC {first['auroc']:.2f}"),
        Claim(
            "SLALOM finds many of the words that people mark: at least half of as many top words are marked.",
            max(one["hits"] for one in maps[:2]) >= marked / 2,
            f"{first['hits']} (importance) and {maps[1]['hits']} (linear) of {marked}",
        ),
    )
    table = Table("A review and its marks", ("method", "AU-ROC for the marks", f"marked among the top {marked} words"), rows)
    absent = {CALLED[name] for name, _ in _ROWS} - {one["name"].rsplit(" ", 1)[0] for one in maps} - {m["name"] for m in maps}
    remarks = [f"A review of our own with marks of our own, {samples} samples."]
    remarks += [f"Left out, not installed: {', '.join(sorted(absent))}."] if absent else []
    series = {"words": MIXED[1].words, "marks": MIXED[1].marks, "maps": maps}
    return Result((table,), claims, (*remarks, *about(model, lab)), series)


def mapped(lab: Lab, samples: int) -> list[dict[str, Any]]:
    """Return the strength of each word by method, from 0 to 1: that of its strongest token."""
    review, ask = MIXED[1], explainer(lab, "yelp", "bert")
    starts, found = word_spans(review.words)[:, 0], []
    for name, score in _ROWS:
        try:
            e = explanations(ask, [review.text], name, samples)[0]
        except MissingExtra:
            continue
        strength = magnitude(e, score)
        words = np.full(len(review.words), -np.inf)
        np.maximum.at(words, np.searchsorted(starts, e.spans[:, 0], side="right") - 1, strength)
        low = strength.min()
        shown = (np.maximum(words, low) - low) / max(float(strength.max() - low), 1e-12)
        top = np.argsort(-shown, kind="stable")[: int(review.marks.sum())]
        found.append(
            {
                "name": CALLED[name] + (f" {score}" if name in ("eff", "fidel") else ""),
                "auroc": auroc(unit_marks(e.spans, review.words, review.marks), strength),
                "hits": int(review.marks[top].sum()),
                "strength": shown,
            }
        )
    return found


def draw(result: Result, figure: Any) -> None:
    """Draw a row a method and a column a word."""
    words, maps = result.series["words"], result.series["maps"]
    grid = np.array([np.asarray(result.series["marks"], dtype=float), *(one["strength"] for one in maps)])
    figure.set_size_inches(14, 4.4)
    ax = figure.subplots()
    ax.imshow(grid, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    ax.axhline(0.5, color="black", linewidth=1)
    ax.set_yticks(range(len(grid)), ["marked", *(f"{one['name']} ({one['auroc']:.2f})" for one in maps)], fontsize=9)
    ax.set_xticks(range(len(words)), words, rotation=90, fontsize=8)
    ax.set_title("strength of each word by method (AU-ROC for the marks)", fontsize=10)
