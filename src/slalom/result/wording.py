"""An explanation in words: a summary of a few lines, its fidelity in one, and the numbers of its units."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from slalom.core.checks import Floats
from slalom.errors import count
from slalom.result.fidelity import EXACT
from slalom.result.plain import NORMAL_95, duration, number


def summary(e: Any) -> str:
    """Return a few lines about an Explanation: prediction, what was explained, fidelity, strongest units, remarks."""
    every = np.ndim(e.score) > 0
    name = f"{e.score_name}s" if every else e.score_of(e.target)
    lines = [
        f"{e.prediction_text}   {name}: {number(e.score, e.labels)}".lstrip(),
        f"Explanation of {'all classes' if every else repr(e.target)}: {count(len(e), e.unit)}, {e.method},"
        f" {queries_text(e)}, {duration(e.seconds)}",
        *([f"stopped: {e.stopped}"] if e.stopped else []),
        f"fidelity: {fidelity_text(e)}",
    ]
    strongest = e.strongest(5)
    lines += [f"  {e.units[i]!r}: {text}" for i, text in zip(strongest, unit_texts(e, strongest), strict=True)]
    return "\n".join([*lines, *e.remarks])


def queries_text(e: Any) -> str:
    """Return the number of queries of an Explanation, apart from those that test it and those about its pairs."""
    tests, pairs = sum(quality.queries for quality, _ in e.fidelity.known), e.pair_queries
    if not tests < e.queries - pairs:
        return count(e.queries, "query")
    parts = [
        count(e.queries - tests - pairs, "query"),
        f"{tests} to test" if tests else "",
        f"{pairs} on pairs" if pairs else "",
    ]
    return ", ".join(part for part in parts if part)


def fidelity_text(e: Any) -> str:
    """Return the fidelity of an Explanation in one line, or why there is none."""
    if not e.signed:
        return "not tested: scores without a sign predict nothing"
    if e.merged_from and not e.fidelity.known:
        return f"not tested for {e.unit}s, which were merged from {e.merged_from}s"
    if not e.fidelity.known and e.all_asked:
        exact = "; the surrogate is exact" if e.fit_r2 > EXACT else f", R2 = {e.fit_r2:.3f}"
        return f"not tested: all parts of this text ({e.queries}) were asked and fitted{exact}"
    return str(e.fidelity)


def unit_texts(e: Any, chosen: Iterable[int]) -> list[str]:
    """Return the numbers of chosen units of an Explanation as text, with 95% intervals where they are known."""
    effect, certain = e.removal, e.certain()
    if certain is not None and effect.ndim == 2:
        certain = np.any([e.certain(target=label) for label in e.labels], axis=0)
    known, loud = (None, None) if e.additive else (e.determined("value"), e.determined("importance"))
    texts = []
    for i in chosen:
        if not e.signed:
            text = f"strength {number(np.abs(effect[i]), e.labels).replace('+', '')}"
        else:
            text = f"removal {_with_error(e, effect[i], e.removal_se, i)}"
            text += "" if certain is None or certain[i] else " (not distinguishable from zero)"
        if not e.additive:
            value = _with_error(e, e.values[i], e.values_se, i) if known is None or known[i] else "too uncertain to show"
            importance = _with_error(e, e.importances[i], e.importances_se, i)
            text += f", value {value}, importance {importance if loud is None or loud[i] else 'too uncertain to show'}"
        texts.append(text)
    return texts


def _with_error(e: Any, score: float | Floats, errors: Floats | None, i: int) -> str:
    """Return a score as text, with its 95% interval where the standard errors are known and it is one number."""
    if np.ndim(score):
        return f"({number(score, e.labels)})"
    if errors is None or not np.isfinite(errors[i]):
        return number(score)
    return f"{number(score)} ± {NORMAL_95 * float(errors[i]):.3f}"
