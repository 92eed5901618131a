"""Figures 5 and 12: value against importance of the tokens of a review, by SLALOM-eff on the BERT for film reviews.

The review is our own, as the texts of IMDB are not ours to print; the classifier has not seen it.
"""

from typing import Any

import numpy as np

from experiments.classifiers import about, classifiers, explainer
from experiments.harness import Claim, Lab, Result, Table
from experiments.real import explanations
from experiments.texts import MIXED
from slalom.evaluate import unit_marks
from slalom.result import Explanation

_PLAIN = ("the", "a", "of", "and", "is", "to", "on")


def run(lab: Lab) -> Result:
    """Explain the review and look at its words."""
    model = classifiers(lab, [("imdb", "bert")])
    review = MIXED[0]
    samples = lab.number("samples", 5000, 200)
    kept = lab.part(f"explanation-{samples}", lambda: explained(lab, review.text, samples))
    e = Explanation.from_dict(kept)
    marked = unit_marks(e.spans, review.words, review.marks)
    plain = np.array([unit.lower() in _PLAIN for unit in e.units])
    loud = {name: float(e.importances[mask].mean()) for name, mask in (("marked", marked), ("plain", plain))}
    values = e.values[marked]
    order = np.argsort(-e.importances, kind="stable")
    first = list({e.units[i].lower(): int(i) for i in order[::-1]}.values())[::-1][:15]
    rows = tuple((e.units[i], float(e.values[i]), float(e.importances[i]), "yes" if marked[i] else "") for i in first)
    both = f"values from {values.min():.2f} to {values.max():.2f}"
    claims = (
        Claim("Good and bad words are given values of different signs.", bool(values.min() < 0 < values.max()), both),
        Claim(
            "They have higher importances than words such as 'the'.",
            loud["marked"] > loud["plain"],
            f"mean importance {loud['marked']:.2f} against {loud['plain']:.2f}",
        ),
    )
    table = Table("The 15 tokens of the highest importance", ("token", "value", "importance", "good or bad word"), rows)
    remark = f"A review of our own, {samples} samples; its log odds of a good one are {e.score:.2f}."
    return Result((table,), claims, (remark, *about(model, lab)), {"explanation": kept})


def explained(lab: Lab, text: str, samples: int) -> dict[str, Any]:
    """Return the explanation as lists, numbers and strings."""
    return explanations(explainer(lab, "imdb", "bert"), [text], "eff", samples)[0].to_dict()


def draw(result: Result, figure: Any) -> None:
    """Draw the picture of the library."""
    figure.set_size_inches(8, 6)
    Explanation.from_dict(result.series["explanation"]).plot.scatter(label=25, ax=figure.subplots())
