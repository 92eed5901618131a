"""An explanation in words: a summary of a few lines, its fidelity in one, and the numbers of its units."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from slalom.errors import count
from slalom.result.fidelity import EXACT
from slalom.result.plain import NORMAL_95, duration, number

if TYPE_CHECKING:
    from slalom.result.answer import AnswerSentence
    from slalom.result.explanation import Explanation

_COMPETITION = (  # up to which competition, and what it means
    (0.02, "add up"),
    (0.35, "mostly add up"),
    (0.65, "are between both"),
    (1.0, "are mostly averaged: one counts less beside others"),
)
_ENUMERABLE = 12  # units of a text whose parts may all have been asked


def prediction_text(e: "Explanation") -> str:
    """Return the prediction as text: "positive 90.1%", "positive", or empty."""
    if e.prediction is None:
        return ""
    label, probability = e.prediction
    return label if probability is None else f"{label} {probability:.1%}"


def competition_text(e: "Explanation") -> str:
    """Return how units work together in the fit, in one line; empty where the method does not fit it."""
    kappa = e.competition
    if kappa is None or e.method not in ("joint", "local"):
        return ""
    level = next(text for most, text in _COMPETITION if kappa <= most)
    return f"competition {kappa:.2f} (0: {one_unit(e)}s add up, 1: they are averaged): they {level}"


def score_name(e: "Explanation") -> str:
    """Return the name of the score: its scale, or "centred logit" where all classes are explained."""
    if e.values.ndim == 1:
        return e.scale
    return "centred logit" if e.scale == "log odds" else f"centred {e.scale}"


def score_of(e: "Explanation", label: str) -> str:
    """Return the name of the score of a class; a model that returns one number has no class to name."""
    return label if e.prediction is None and len(e.labels) == 1 and e.answer is None else f"{score_name(e)} of {label}"


def one_unit(e: "Explanation") -> str:
    """Return the word for one of the units."""
    return "token" if e.unit == "type" else e.unit


def all_asked(e: "Explanation") -> bool:
    """Return whether the model was asked about every part of the text that units make, but perhaps the empty one."""
    return len(e) <= _ENUMERABLE and e.queries >= 2 ** len(e) - 1


def summary(e: "Explanation") -> str:
    """Return a few lines about an Explanation: prediction, what was explained, fidelity, strongest units, remarks."""
    every = np.ndim(e.score) > 0
    name = f"{score_name(e)}s" if every else score_of(e, e.target)
    lines = [
        f"{prediction_text(e)}   {name}: {number(e.score, e.labels)}".lstrip(),
        f"Explanation of {'all classes' if every else repr(e.target)}: {count(len(e), e.unit)}, {e.method},"
        f" {queries_text(e)}, {duration(e.seconds)}",
        *([f"stopped: {e.stopped}"] if e.stopped else []),
        f"fidelity: {fidelity_text(e)}",
    ]
    strongest = e.strongest(5)
    lines += [f"  {e.units[i]!r}: {text}" for i, text in zip(strongest, unit_texts(e, strongest), strict=True)]
    return "\n".join([*lines, *field_lines(e), *e.remarks])


def field_lines(e: "Explanation") -> list[str]:
    """Return a line for each field of a record: what its removal and its units do."""
    lines = []
    for name, chosen, removal, shapley in e.fields:
        asked_removal = "" if removal is None else f"removal {number(removal, e.labels)} (asked), "
        total = f"Shapley values {number(shapley, e.labels)} in all"
        lines.append(f"  field {name!r}: {asked_removal}{total}, {count(len(chosen), e.unit)}")
    return lines


def queries_text(e: "Explanation") -> str:
    """Return the number of queries of an Explanation, apart from those that test it and those about its pairs."""
    tests, pairs = sum(quality.queries for quality, _ in e.fidelity.known), e.pair_queries
    if not tests < e.queries - pairs:
        return count(e.queries, "query")
    parts = [count(e.queries - tests - pairs, "query"), *([f"{tests} to test"] if tests else [])]
    return " + ".join([*parts, *([f"{pairs} on pairs"] if pairs else [])])


def fidelity_text(e: "Explanation") -> str:
    """Return the fidelity of an Explanation in one line, or why there is none."""
    if not e.signed:
        return "not tested: scores without a sign predict nothing"
    if e.merged_from and not e.fidelity.known:
        return f"not tested for {e.unit}s, which were merged from {e.merged_from}s"
    if not e.fidelity.known and e.settings.get("queries") == 0:
        return "not tested: no query was asked about parts of this text"
    if not e.fidelity.known and all_asked(e):
        exact = "; the surrogate is exact" if e.fit_r2 > EXACT else f", R2 = {e.fit_r2:.3f}"
        return f"not tested: all parts of this text ({e.queries}) were asked and fitted{exact}"
    return str(e.fidelity)


def source_numbers(e: "Explanation") -> list[str]:
    """Return the number of each unit among all sources: "7", or "8 to 12" for a run of them."""
    ends = zip(e.sizes.tolist(), e.sizes.cumsum().tolist(), strict=True)
    return [str(end) if n == 1 else f"{end - n + 1} to {end}" for n, end in ends]


def source_names(e: "Explanation") -> list[str]:
    """Return the names of sources after their numbers; that of a run has them."""
    given = zip(source_numbers(e), e.units, e.sizes.tolist(), strict=True)
    return [f"[{number}] {name}" if n == 1 else name for number, name, n in given]


def rests_on(sentence: "AnswerSentence") -> str:
    """Return what a sentence of an answer rests on, and by how much its score falls without that."""
    parts, interval, numbers = list[str](), sentence.interval, source_numbers(sentence.explanation)
    for group in sentence.groups:
        effect, i = sentence.effect(group), group[0]
        half = 0.0 if interval is None or len(group) > 1 else float(interval[i, 1]) - effect
        cited = " or ".join(f"[{numbers[k]}]" for k in sorted(group))
        parts.append(f"{cited} {effect:.2f}" + (f" ± {half:.2f}" if half > 0.0 else ""))
    return ", ".join(parts) or ("from the model's own memory" if sentence.from_memory else "on no single source")


def unit_texts(e: "Explanation", chosen: Iterable[int]) -> list[str]:
    """Return the numbers of chosen units of an Explanation as text, with 95% intervals where they are known."""
    effect, certain = e.removal, e.certain()
    if certain is not None and effect.ndim == 2:
        certain = np.asarray((np.abs(effect) > NORMAL_95 * e.errors["removal"]).any(axis=1))
    texts = []
    for i in chosen:
        if e.signed:
            sure = certain is None or certain[i] or asked(e, "removal")[i]
            doubt = "" if sure else " (not distinguishable from zero)"
            parts = [f"removal {_with_error(e, 'removal', i)}{doubt}"]
        else:
            parts = [f"strength {number(np.abs(effect[i]), e.labels).replace('+', '')}"]
        parts.append(f"value {_with_error(e, 'value', i)}")
        if not e.additive:
            parts.append(f"importance {_with_error(e, 'importance', i)}")
        texts.append(", ".join(parts))
    return texts


def asked(e: "Explanation", name: str) -> NDArray[np.bool_]:
    """Return of which units (n,) a score is the model's own answer."""
    own = e.measured.get(name)
    return np.zeros(len(e), dtype=bool) if own is None else np.asarray(~np.isnan(own.reshape(len(e), -1)).any(axis=1))


def _with_error(e: "Explanation", name: str, i: int) -> str:
    """Return a score of a unit as text, with its 95% interval where the standard errors are known and it is one number."""
    score, errors = e.all_classes(name)[i], e.errors.get(name)
    if np.ndim(score):
        return f"({number(score, e.labels)})"
    if asked(e, name)[i]:
        return f"{number(score + 0.0)} (asked)"
    if errors is None or not np.isfinite(errors[i]):
        return number(score)
    return f"{number(score)} ± {NORMAL_95 * float(errors[i]):.3f}"
