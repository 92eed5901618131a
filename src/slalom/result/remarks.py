"""What a reader must know before using the numbers of an explanation.

Tokens cut, a diagnosis, effects that merely add up, predictions that a constant would beat (wherever R2 is negative).
"""

from typing import Any

from slalom.result.fidelity import TRIFLE


def remarks(e: Any) -> tuple[str, ...]:
    """Return the remarks on an Explanation, one sentence or two each."""
    ahead = e.cut and len(e.spans) and not e.text[: e.spans[0, 0]].strip()
    end = "last" if ahead else "first"
    cut = f"The model cannot see the {end} {e.cut} tokens of this text; they were cut." if e.cut else ""
    adds = ""
    if e.additive and not e.diagnosis and e.background is not None:
        share = 1.0 - float(e.weights.sum())
        adds = (
            f"The units hardly compete here, as the background has {share:.2%} of the attention: value and importance are"
            " not told apart, and only the effects of the units (the gradient and removal scores) mean something."
        )
    unsigned = f"The scores of {e.method} have no sign: they tell how much a unit counts, not for or against what."
    unsigned = "" if e.signed else f"{unsigned} They predict nothing."
    wrong, even = (
        " and ".join(
            where for quality, where in e.fidelity.known if e.signed and quality.below_zero and quality.useless is useless
        )
        for useless in (True, False)
    )
    if wrong:
        wrong = f"What this explanation predicts {wrong} is further from the model's answers than their mean is."
    if even:
        even = f"The model's answers {even} hardly vary, so that R2 says little there; the error is below {TRIFLE}."
    return tuple(remark for remark in (cut, e.diagnosis, unsigned, adds, wrong, even) if remark)
