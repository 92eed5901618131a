"""Remarks: what a reader must know before using the numbers of an explanation."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from slalom.errors import count
from slalom.result.fidelity import NEGLIGIBLE
from slalom.result.scale import strongest_change
from slalom.result.wording import one_unit, score_name, score_of
from slalom.text import KINDS

if TYPE_CHECKING:
    from slalom.result.explanation import Explanation

_LOW_R2 = 0.5  # near the text; with the rule for errors it found 25 of 25 reviews whose removals were worse than zeros, of 160


def remarks(e: "Explanation") -> Iterator[str]:
    """Yield the remarks on an Explanation, each of one or two sentences."""
    if e.cut:
        seen_from_start = len(e.spans) and not e.text[: e.spans[0, 0]].strip()
        end, they_were = "last" if seen_from_start else "first", "it was" if e.cut == 1 else "they were"
        yield f"The model cannot see the {end} {count(e.cut, 'token')} of this text; {they_were} cut."
    if e.diagnosis:
        yield e.diagnosis
    yield from e.notes
    if not e.signed:
        why = "they tell how much a unit counts, not for or against what. They predict nothing."
        yield f"The scores of {e.method} have no sign: {why}"
    if e.saturated:
        yield no_single_unit(e)
    tested = [(quality, where) for quality, where in e.fidelity.known if e.signed and quality.beyond_noise]
    below_zero = [(quality, where) for quality, where in tested if quality.below_zero]
    useless = " and ".join(where for quality, where in below_zero if quality.useless)
    steady = " and ".join(where for quality, where in below_zero if not quality.useless)
    if useless:
        yield f"This explanation predicts worse than a constant {useless}: do not rely on it there."
    if "near the text" not in useless and _rough(e):
        more = "use more queries, or sentences as units" if e.unit in KINDS[:3] else "use more queries"
        yield f"The effects of single {one_unit(e)}s are rough here and may be wrong: {more}."
    if steady:
        yield f"The model's answers {steady} hardly vary, so that R2 means little there; the error is below {NEGLIGIBLE}."


def _rough(e: "Explanation") -> bool:
    """Return whether removals may be as wrong as zeros: a low R2 near the text, or errors as large as the removals."""
    near = e.fidelity.near
    low = near is not None and near.r2 is not None and near.r2 < _LOW_R2 and near.mse > NEGLIGIBLE**2
    errors = e.errors.get("removal")
    if not e.signed or errors is None:
        return e.signed and low
    error = float((errors**2).mean())
    return bool(low or NEGLIGIBLE**2 < error > float((e.removal**2).mean()))


def no_single_unit(e: "Explanation") -> str:
    """Return the remark on an Explanation that is saturated."""
    change, distance = strongest_change(e)
    if e.values.ndim == 2:
        what = f"the lead of {e.labels[e.leading]} over the next class by at most {change:.3g} of {distance:.2f}"
    elif e.answer is not None:
        what = f"the {score_name(e)} of the {e.target} by at most {change:.3g} of the {distance:.2f} that all of them do"
    else:
        what = f"the {score_of(e, e.target)} by at most {change:.3g} of {e.score:+.2f}"
    return f"No single {one_unit(e)} decides: removing any one is predicted to change {what}."
