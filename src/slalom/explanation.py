"""What comes out: an explanation of one text, or of several, frozen, with everything needed to judge and to repeat it.

Arrays are aligned: entry i of values, importances, linear, removal, ... belongs to units[i], which is text[spans[i, 0] :
spans[i, 1]]. An explanation is saved as JSON; numbers come back bit by bit.
"""

import html
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast, final, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom.colours import strengths, wash
from slalom.core import Additive, Background, Lengths, Link, Slalom, Surrogate, shapley
from slalom.core.checks import Floats
from slalom.core.scores import gradient, linear, merge, removal
from slalom.errors import InputError, MissingExtra
from slalom.files import write_text
from slalom.models import class_index
from slalom.text import KINDS, pieces, printable, units

if TYPE_CHECKING:
    from slalom.plots import Plots

_FORMAT = "slalom explanation"
_BATCH = "slalom explanations"
_FAILURE = "slalom failure"
_VERSION = 1
_ABSURD = -10  # values of R2 below that are not written out
_TRIFLE = 0.05  # log odds that nobody minds
_COMPETING = 0.05  # the share of attention that the units must have to compete for it

NORMAL_95 = 1.96  # standard errors in half of a 95% interval

SCORES = ("removal", "linear", "gradient", "shapley", "value", "importance")


class Quality(NamedTuple):
    """How well the surrogate predicts queries that it was not fitted on.

    r2: share of their variance explained (None where the model's answers do not vary). mse: mean squared error of the log odds.
    """

    r2: float | None
    mse: float
    queries: int

    @property
    def shown(self) -> str:
        """R2 as it is written: minus a million, where the model's answers hardly vary, says no more than minus ten."""
        return "undefined" if self.r2 is None else f"{self.r2:.3f}" if self.r2 > _ABSURD else f"below {_ABSURD}"

    @property
    def below_zero(self) -> bool:
        """Whether a constant predicts better."""
        return self.r2 is not None and self.r2 < 0.0

    @property
    def useless(self) -> bool:
        """Whether a constant predicts better, and not only by a trifle."""
        return self.below_zero and self.mse > _TRIFLE**2


class Fidelity(NamedTuple):
    """Held-out quality near the text (1 to 10 units removed; change of the score) and on subsets of all sizes (score itself).

    None where there was no such query: all of them were used in the fit (very short texts), or check=0.
    """

    near: Quality | None
    far: Quality | None

    @property
    def known(self) -> list[tuple[Quality, str]]:
        """Those that there are, each with the queries that it is of."""
        places = zip(self, ("near the text", "on parts of all sizes"), strict=True)
        return [(quality, where) for quality, where in places if quality is not None]

    def __str__(self) -> str:
        """Say it in one line."""
        if not self.known:
            return "not tested"
        return ", ".join(f"{name} {_quality(q)}" for name, q in (("near the text", self.near), ("all sizes", self.far)))


@final
@dataclass(frozen=True, eq=False)
class HeldOut:
    """The queries that tested the fit, and what the model answered.

    keep (m, n): which units were present; the first `near` rows have 1 to 10 units removed, the others are subsets of all
    sizes. scores (m,) or (m, n_classes): the model's own.
    """

    keep: NDArray[np.bool_]
    scores: Floats
    near: int

    def __post_init__(self) -> None:
        """Make the arrays read-only."""
        object.__setattr__(self, "keep", _read_only(self.keep))
        object.__setattr__(self, "scores", _read_only(self.scores))


def _quality(quality: Quality | None) -> str:
    if quality is None:
        return "not tested (no query was left)"
    return f"R2 = {quality.shown} (MSE {quality.mse:.3g}, {quality.queries} queries)"


@final
@dataclass(frozen=True, eq=False)
class Explanation:
    """Why a model gave a text its score: one value and one importance a unit.

    text, units, spans (n, 2): what was explained, the names of its units and where they are. surrogate: the fitted Slalom,
    or Additive where the method says that effects add up: values are then the effects, importances and weights are 0.
    lengths: what the mere length of the input does to the score, by its number of tokens; None where it does nothing. It is
    part of `predict`, and of every score that is a change of the prediction.
    sizes (n,): tokens of each unit.
    values_se, importances_se: standard errors, None where the fitter gives none: how far the estimate may be from that of very
    many queries with the same method. They say nothing of whether the model is a SLALOM, which `fidelity` does. background_se:
    only in old files, as it did not hold. score: the model's own score of
    the text (log odds of `target`; one centred logit a class where target is "all"). labels: of all classes.
    label, probabilities (n_labels,): what the model itself decides about the whole text; None where it does not say.
    scale: what the score is called: "log odds", or "decision value" and "output" where it stands for no probability.
    merged_from: the unit that was merged into larger ones; empty where none was.
    fidelity: on queries not used in the fit, which are in held_out; fit_r2: on those used. queries, tokens, seconds: what it
    took. cut: tokens of the text that the model cannot see. diagnosis: plain words where something is wrong; empty otherwise.
    settings: the options as they were given (queries, check, target, long), and the fingerprint of the model where it has one.
    signed: whether the sign of a score means for or against the target; where it does not, `predict` means nothing.
    """

    text: str
    units: tuple[str, ...]
    spans: NDArray[np.int64]
    surrogate: Surrogate
    score: float | Floats
    target: str
    labels: tuple[str, ...]
    fidelity: Fidelity
    fit_r2: float
    unit: str
    sizes: NDArray[np.int64]
    method: str
    seed: int
    queries: int
    tokens: int
    seconds: float
    values_se: Floats | None = None
    importances_se: Floats | None = None
    background_se: tuple[float | Floats, float] | None = None
    lengths: Lengths | None = None
    label: str | None = None
    probabilities: Floats | None = None
    scale: str = "log odds"
    held_out: HeldOut | None = None
    cut: int = 0
    diagnosis: str = ""
    model: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    signed: bool = True
    merged_from: str = ""

    def __post_init__(self) -> None:
        """Make all arrays read-only; take the label of the highest probability where only probabilities are known."""
        for name in ("spans", "sizes", "values_se", "importances_se", "probabilities", "score"):
            part = getattr(self, name)
            if isinstance(part, np.ndarray):
                object.__setattr__(self, name, _read_only(part))
        if self.label is None and self.probabilities is not None:
            object.__setattr__(self, "label", self.labels[int(np.argmax(self.probabilities))])

    @property
    def prediction(self) -> tuple[str, float | None] | None:
        """The label that the model gives the text, None where it gives none; and its probability, None where it has none."""
        if self.label is None:
            return None
        if self.probabilities is None or self.label not in self.labels:
            return self.label, None
        return self.label, float(self.probabilities[self.labels.index(self.label)])

    @property
    def decided(self) -> str:
        """The prediction as it is written: "positive 90.1%", "positive", or nothing."""
        if self.prediction is None:
            return ""
        label, share = self.prediction
        return label if share is None else f"{label} {share:.1%}"

    @property
    def score_name(self) -> str:
        """What the score is called: the scale, or "centred logit" where all classes are explained."""
        if self.values.ndim == 1:
            return self.scale
        return "centred logit" if self.scale == "log odds" else f"centred {self.scale}"

    @property
    def plot(self) -> "Plots":
        """The pictures of this explanation: `plot.scatter()`, `plot.text()`, `plot.bar()`, `plot.removal_curve()`."""
        return cast("Plots", floor_above("plots").Plots(self))

    @property
    def values(self) -> Floats:
        """What each unit says: v (n,), or (n, n_classes)."""
        return self.surrogate.effects if isinstance(self.surrogate, Additive) else self.surrogate.values

    @property
    def importances(self) -> Floats:
        """How loudly each unit says it: s (n,), mean zero."""
        return np.zeros(len(self.units)) if isinstance(self.surrogate, Additive) else self.surrogate.importances

    @property
    def background(self) -> Background | None:
        """Value and importance of what every query sees besides the units; None where there is none."""
        return None if isinstance(self.surrogate, Additive) else self.surrogate.background

    @property
    def link(self) -> Link | None:
        """The saturating link; None where there is none."""
        return None if isinstance(self.surrogate, Additive) else self.surrogate.link

    @property
    def linear(self) -> Floats:
        """The paper's linearised scores v exp(s)."""
        return self._effects(linear)

    @property
    def gradient(self) -> Floats:
        """The derivative of the predicted score by the presence of each unit, that of the length (from below) included."""
        found = self._effects(gradient)
        return found if self.lengths is None else found + np.multiply.outer(self.sizes, self.lengths.slope)

    @property
    def removal(self) -> Floats:
        """By how much the predicted score falls when one unit is taken away: predict(all) - predict(all but this one)."""
        found = self._effects(removal)
        return found if self.lengths is None else found + self.lengths.removal(self.sizes)

    @property
    def length_effect(self) -> float | Floats | None:
        """The part of `removal` that the mere length has in a unit of one token, whichever it is; None where it has none."""
        if self.lengths is None:
            return None
        slope = self.lengths.slope
        return float(slope) if slope.ndim == 0 else slope

    @property
    def base(self) -> float | Floats:
        """The predicted score of the empty text; without a background, that of the evidence 0. Shapley values start there."""
        if isinstance(self.surrogate, Additive):
            level = np.asarray(self.surrogate.base)
        elif self.background is None:
            level = self.surrogate.output(np.zeros(self.values.shape[1:]))
        else:
            level = self.surrogate(np.zeros((1, len(self.units))))[0]
        if self.lengths is not None:
            level = level + self.lengths.offsets[0]
        return float(level) if np.ndim(level) == 0 else np.asarray(level)

    @property
    def weights(self) -> Floats:
        """The share of attention of each unit in the whole text (n,)."""
        if isinstance(self.surrogate, Additive):
            return np.zeros(len(self.units))
        return np.asarray(self.surrogate.weights(np.ones((1, len(self.units))))[0])

    @property
    def additive(self) -> bool:
        """Whether the units hardly compete for attention, because the background has nearly all of it.

        Each then has an effect of its own, whatever else is there. Value and importance matter only by their product, so that
        they are not told apart, and values are huge.
        """
        if isinstance(self.surrogate, Additive):
            return True
        return self.background is not None and float(self.weights.sum()) < _COMPETING

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader must know before using the numbers.

        Tokens cut, a diagnosis, effects that merely add up, predictions that a constant would beat (wherever R2 is negative).
        """
        ahead = self.cut and len(self.spans) and not self.text[: self.spans[0, 0]].strip()
        end = "last" if ahead else "first"
        cut = f"The model cannot see the {end} {self.cut} tokens of this text; they were cut." if self.cut else ""
        adds = ""
        if self.additive and not self.diagnosis and isinstance(self.surrogate, Slalom):
            share = 1.0 - float(self.weights.sum())
            adds = (
                f"The units hardly compete here, as the background has {share:.2%} of the attention: value and importance are"
                " not told apart, and only the effects of the units (the gradient and removal scores) mean something."
            )
        wrong, even = (
            " and ".join(where for quality, where in self.fidelity.known if quality.below_zero and quality.useless is useless)
            for useless in (True, False)
        )
        if wrong:
            wrong = f"What this explanation predicts {wrong} is further from the model's answers than their mean is."
        if even:
            even = f"The model's answers {even} hardly vary, so that R2 says little there; the error is below {_TRIFLE}."
        return tuple(remark for remark in (cut, self.diagnosis, adds, wrong, even) if remark)

    def shapley(self) -> Floats:
        """Return the Shapley values of the predicted score, on the scale of the score, link and length included.

        They sum to predict(all) - base, exactly to rounding, or to 1e-9 of the reach of the link where there is one.
        """
        found = self._effects(shapley)
        return found if self.lengths is None else found + self.lengths.shapley(self.sizes)

    def _effects(self, score: Callable[[Slalom], Floats]) -> Floats:
        return self.surrogate.effects if isinstance(self.surrogate, Additive) else score(self.surrogate)

    def scores(self, name: str = "removal", target: int | str | None = None) -> Floats:
        """Return one of the scores by its name, one number a unit (n,).

        name: "removal", "linear", "gradient", "shapley", "value" or "importance". target: as `column` takes it.
        """
        if name not in SCORES:
            raise InputError(f"a score must be one of {', '.join(map(repr, SCORES))}; got {name!r}")
        column = self.column(target)
        if name == "importance":
            return self.importances
        every = self.shapley() if name == "shapley" else self.values if name == "value" else getattr(self, name)
        return cast(Floats, every if column is None else every[:, column])

    def column(self, target: int | str | None = None) -> int | None:
        """Return which column of values, scores, ... belongs to a class; None where they have one target and no columns.

        target: the label or the index of a class; None takes the class with the highest score.
        """
        if target is None:
            return None if self.values.ndim == 1 else self._leading()
        index = class_index(self.labels, target)
        if self.values.ndim == 2:
            return index
        if self.labels[index] != self.target:
            raise InputError(f"this explanation is of {self.target!r} only; explain with target={target!r} or target='all'")
        return None

    def predict(self, keep: ArrayLike) -> Floats:
        """Return the predicted scores for presence of units (m, n) or (n,): ones where a unit is kept.

        That is the surrogate's score, and the effect of the length of what is kept.
        """
        mask = presence(keep, len(self.units))
        rows = np.atleast_2d(mask).astype(np.float64)
        scores = self.surrogate(rows)
        if self.lengths is not None:
            scores = scores + self.lengths(np.rint(rows @ self.sizes).astype(np.int64).clip(max=len(self.lengths.offsets) - 1))
        return scores if mask.ndim == 2 else scores[0]

    def merge(self, unit: str) -> "Explanation":
        """Return the explanation in larger units ("word" or "sentence"); its predictions for whole units stay the same.

        Standard errors and fidelity are those of the small units, so the merged explanation has none.
        """
        if unit not in KINDS[2:]:
            raise InputError(f"merge takes 'word' or 'sentence'; got {unit!r}")
        if KINDS.index(unit) < KINDS.index(self.unit):
            raise InputError(f"merge makes larger units: {self.unit}s cannot become {unit}s; explain with unit={unit!r}")
        made = units(self.text, unit, self.units, self.spans, np.arange(len(self.units)))
        return replace(
            self,
            units=made.names,
            spans=made.spans,
            surrogate=self.surrogate.merged(made.unit_of_atom)
            if isinstance(self.surrogate, Additive)
            else merge(self.surrogate, made.unit_of_atom),
            unit=unit,
            sizes=np.bincount(made.unit_of_atom, self.sizes).astype(np.int64),
            merged_from=self.merged_from or self.unit,
            fidelity=Fidelity(None, None),
            values_se=None,
            importances_se=None,
            background_se=None,
            held_out=None,
        )

    def strongest(self, k: int = 10) -> list[int]:
        """Return the k units with the largest effect of removal, strongest first."""
        effect = np.abs(self.removal)
        return [int(i) for i in np.argsort(-(effect if effect.ndim == 1 else effect.max(axis=1)), kind="stable")[:k]]

    def __len__(self) -> int:
        """Return the number of units."""
        return len(self.units)

    def __repr__(self) -> str:
        """Say what it is about in a few lines."""
        lines = [
            f"Explanation of {self.target!r}: score {_number(self.score)}, {len(self)} {self.unit}s, {self.method},"
            f" {self.queries} queries, {self.seconds:.2g} s",
            f"fidelity: {self.fidelity_said}",
        ]
        effect = self.removal
        lines += [f"  {self.units[i]!r}: {self._numbers_of(i, effect)}" for i in self.strongest(5)]
        return "\n".join([*lines, *self.remarks])

    @property
    def fidelity_said(self) -> str:
        """The held-out quality in one line, or why there is none."""
        if self.merged_from and not self.fidelity.known:
            return f"not tested for {self.unit}s, which were merged from {self.merged_from}s"
        return str(self.fidelity)

    def _numbers_of(self, i: int, effect: Floats) -> str:
        """Return the numbers of one unit; value and importance only where they are told apart."""
        said = f"removal {_number(effect[i])}"
        return said if self.additive else f"{said}, value {_number(self.values[i])}, importance {self.importances[i]:+.2f}"

    def _repr_html_(self) -> str:
        """Show the text with its units coloured by their effect: blue speaks for the target, orange against it.

        It has no script and takes its text colour from the notebook, light or dark.
        """
        effects = self.removal
        several = effects.ndim == 2
        label = self.labels[self._leading()] if several else self.target
        shares = strengths(effects[:, self._leading()] if several else effects)
        parts = []
        for text, i in pieces(self.text, self.spans):
            if i is None:
                parts.append(_escaped(text))
                continue
            said = f"{self.units[i]}: {self._numbers_of(i, effects)}"
            line = "solid" if shares[i] >= 0 else "dashed"
            look = f"background:{wash(shares[i])};border-bottom:2px {line} {wash(shares[i])};border-radius:3px;padding:1px 0"
            parts.append(f'<span style="{look}" title="{_escaped(said)}">{_escaped(text)}</span>')
        ends = " &middot; ".join(
            f'<b style="background:{wash(side)};padding:0 .5em;font-weight:inherit">{word} {_escaped(label)}</b>'
            for side, word in ((1.0, "for"), (-1.0, "against"))
        )
        sure = f"{_escaped(self.decided)} &middot; " if self.decided else ""
        head = f"<b>{sure}{_escaped(self.target)} {_number(self.score)}</b> &middot; {_escaped(self.fidelity_said)}"
        note = "".join(f'<p style="margin:.4em 0">&#9888; {_escaped(remark)}</p>' for remark in self.remarks)
        return (
            '<div style="color:inherit;max-width:56em">'
            f'<p style="margin:.4em 0">{head}</p>'
            f'<p dir="auto" style="line-height:1.9;white-space:pre-wrap;overflow-wrap:anywhere">{"".join(parts)}</p>'
            f'<p style="margin:.4em 0;font-size:85%">{ends} &middot; effect of removal; hover for numbers</p>{note}</div>'
        )

    def _leading(self) -> int:
        return int(np.argmax(self.score))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as lists, numbers and strings."""
        model = self.surrogate
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "text": self.text,
            "units": list(self.units),
            "spans": self.spans.tolist(),
            "values": self.values.tolist(),
            "importances": self.importances.tolist(),
            "background": None if self.background is None else [_plain(part) for part in self.background],
            "link": None if self.link is None else [_plain(part) for part in self.link],
            "gamma": model.gamma if isinstance(model, Slalom) else 0.0,
            "base": _plain(model.base) if isinstance(model, Additive) else None,
            "lengths": None if self.lengths is None else self.lengths.offsets.tolist(),
            "sizes": self.sizes.tolist(),
            "values_se": _plain(self.values_se),
            "importances_se": _plain(self.importances_se),
            "background_se": None if self.background_se is None else [_plain(part) for part in self.background_se],
            "score": _plain(self.score),
            "scale": self.scale,
            "label": self.label,
            "probabilities": _plain(self.probabilities),
            "held_out": None
            if self.held_out is None
            else {
                "keep": [row.tobytes().hex() for row in np.packbits(self.held_out.keep, axis=1)],
                "scores": self.held_out.scores.tolist(),
                "near": self.held_out.near,
            },
            "target": self.target,
            "labels": list(self.labels),
            "fidelity": {name: None if q is None else q._asdict() for name, q in self.fidelity._asdict().items()},
            "fit_r2": self.fit_r2,
            "unit": self.unit,
            "method": self.method,
            "seed": self.seed,
            "queries": self.queries,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "cut": self.cut,
            "diagnosis": self.diagnosis,
            "model": self.model,
            "settings": dict(self.settings),
            "versions": dict(self.versions),
            "signed": self.signed,
            "merged_from": self.merged_from,
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> "Explanation":
        """Return the explanation of a dictionary made by `to_dict`."""
        _check_format(given, _FORMAT)
        try:
            errors, tested = given["background_se"], given.get("held_out")
            return cls(
                text=given["text"],
                units=tuple(given["units"]),
                spans=np.array(given["spans"], dtype=np.int64).reshape(-1, 2),
                surrogate=_surrogate(given),
                score=_array(given["score"]),
                target=given["target"],
                labels=tuple(given["labels"]),
                fidelity=Fidelity(**{name: None if q is None else Quality(**q) for name, q in given["fidelity"].items()}),
                fit_r2=given["fit_r2"],
                unit=given["unit"],
                sizes=np.array(given["sizes"], dtype=np.int64),
                method=given["method"],
                seed=given["seed"],
                queries=given["queries"],
                tokens=given["tokens"],
                seconds=given["seconds"],
                values_se=_array(given["values_se"]),
                importances_se=_array(given["importances_se"]),
                background_se=None if errors is None else (_array(errors[0]), errors[1]),
                lengths=None if given["lengths"] is None else Lengths(_array(given["lengths"])),
                label=given.get("label"),
                probabilities=_array(given.get("probabilities")),
                scale=given.get("scale", "log odds"),
                held_out=None if tested is None else _tested(tested, len(given["units"])),
                cut=given["cut"],
                diagnosis=given["diagnosis"],
                model=given["model"],
                settings=given.get("settings", {}),
                versions=given["versions"],
                signed=given.get("signed", True),
                merged_from=given.get("merged_from", ""),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"a saved explanation lacks a part or has one of a wrong kind: {error}") from error

    def to_json(self, indent: int | None = None) -> str:
        """Return everything as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent)

    def save(self, path: str | Path) -> None:
        """Write the explanation to a JSON file; `slalom.load` reads it."""
        write_text(path, self.to_json())

    def to_html(self, path: str | Path | None = None) -> str:
        """Return a self-contained page about this explanation, and write it to a file where one is named."""
        return Explanations([self]).to_html(path)

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame, one row a unit."""
        return _frame(self._columns())

    def _columns(self) -> dict[str, Any]:
        """Return the columns of a data frame; value, importance and their product are NaN where they are not told apart."""
        columns: dict[str, Any] = {"unit": list(self.units), "start": self.spans[:, 0], "end": self.spans[:, 1]}
        told = np.nan if self.additive else 1.0
        scores = {
            "value": told * self.values,
            "value_se": None if self.values_se is None else told * self.values_se,
            "removal": self.removal,
            "linear": told * self.linear,
        }
        for name, score in scores.items():
            if score is None or score.ndim == 1:
                columns[name] = score
            else:
                columns |= {f"{name}[{label}]": score[:, c] for c, label in enumerate(self.labels)}
        sure = None if self.importances_se is None else told * self.importances_se
        return columns | {"importance": told * self.importances, "importance_se": sure, "weight": self.weights}


@final
@dataclass(frozen=True)
class Failure:
    """A text that could not be explained: its number among those given (from 0), the text itself, and the error in one line."""

    number: int
    text: str
    error: str

    def to_dict(self) -> dict[str, Any]:
        """Return everything as numbers and strings."""
        return {"format": _FAILURE, "version": _VERSION, "number": self.number, "text": self.text, "error": self.error}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> "Failure":
        """Return the failure of a dictionary made by `to_dict`."""
        _check_format(given, _FAILURE)
        try:
            return cls(int(given["number"]), str(given["text"]), str(given["error"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"a saved failure lacks a part or has one of a wrong kind: {error}") from error

    def to_json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)


@final
class Explanations(Sequence[Explanation]):
    """Explanations of several texts, in their order.

    failures: the texts that could not be explained, where `errors="keep"` was asked for. They have no place in the sequence.
    """

    def __init__(self, explanations: Iterable[Explanation | Failure]) -> None:
        every = tuple(explanations)
        self._all = tuple(one for one in every if isinstance(one, Explanation))
        self.failures = tuple(one for one in every if isinstance(one, Failure))

    @overload
    def __getitem__(self, index: int) -> Explanation: ...
    @overload
    def __getitem__(self, index: slice) -> "Explanations": ...
    def __getitem__(self, index: int | slice) -> "Explanation | Explanations":
        """Return one explanation, or some of them."""
        return Explanations(self._all[index]) if isinstance(index, slice) else self._all[index]

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self._all)

    def __iter__(self) -> Iterator[Explanation]:
        """Go through the explanations."""
        return iter(self._all)

    def __repr__(self) -> str:
        """Say what it is in one line."""
        failed = f"; {len(self.failures)} failed, see .failures" if self.failures else ""
        return f"Explanations of {len(self)} texts: {self.queries} queries, {self.seconds:.2g} s{failed}"

    def _repr_html_(self) -> str:
        """Show one text after the other."""
        return "<hr/>".join(one._repr_html_() for one in self)

    @property
    def queries(self) -> int:
        """How many queries were asked in all."""
        return sum(one.queries for one in self)

    @property
    def tokens(self) -> int:
        """How many tokens they had."""
        return sum(one.tokens for one in self)

    @property
    def seconds(self) -> float:
        """How long it took."""
        return sum(one.seconds for one in self)

    @property
    def fidelity(self) -> tuple[Fidelity, ...]:
        """The held-out quality of each."""
        return tuple(one.fidelity for one in self)

    def merge(self, unit: str) -> "Explanations":
        """Return the explanations in larger units."""
        return Explanations([*(one.merge(unit) for one in self), *self.failures])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as lists, numbers and strings."""
        found = {"format": _BATCH, "version": _VERSION, "explanations": [one.to_dict() for one in self]}
        return found | ({"failures": [one.to_dict() for one in self.failures]} if self.failures else {})

    def to_json(self, indent: int | None = None) -> str:
        """Return everything as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent)

    def save(self, path: str | Path) -> None:
        """Write the explanations to a JSON file; `slalom.load` reads it."""
        write_text(path, self.to_json())

    def to_html(self, path: str | Path | None = None) -> str:
        """Return one self-contained page with all of them, and write it to a file where one is named."""
        page = cast(str, floor_above("report").page(self))
        if path is not None:
            write_text(path, page)
        return page

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame, one row a unit; the column `text` is the number of the text."""
        frames = [_frame({"text": np.full(len(one), i)} | one._columns()) for i, one in enumerate(self)]
        return _pandas().concat(frames, ignore_index=True) if frames else _frame({})


def load(path: str | Path) -> Explanation | Explanations:
    """Return what `save` wrote: an Explanation, or Explanations; those of a .jsonl file, one a line, too."""
    try:
        content = Path(path).read_text(encoding="utf-8", errors="surrogatepass")
        if Path(path).suffix == ".jsonl":
            return Explanations(restored(json.loads(line)) for line in content.split("\n") if line.strip())
        given = json.loads(content)
    except FileNotFoundError as error:
        raise InputError(f"there is no file {str(path)!r}") from error
    except (UnicodeDecodeError, json.JSONDecodeError, OSError) as error:
        raise InputError(f"{str(path)!r} must be a JSON file written by save(); {error}") from error
    if isinstance(given, dict) and given.get("format") == _BATCH:
        _check_format(given, _BATCH)
        return Explanations(restored(one) for one in (*given.get("explanations", [None]), *given.get("failures", ())))
    return Explanation.from_dict(given)


def restored(given: Any) -> Explanation | Failure:
    """Return the explanation, or the failure, of a dictionary made by `to_dict`."""
    if isinstance(given, Mapping) and given.get("format") == _FAILURE:
        return Failure.from_dict(given)
    return Explanation.from_dict(given)


def presence(keep: ArrayLike, n: int) -> NDArray[np.bool_]:
    """Return presence of n units as an array (m, n) or (n,); InputError where it is not that."""
    try:
        mask = np.asarray(keep)
    except ValueError as error:
        raise InputError(f"keep must be an array (m, {n}); its rows differ in length") from error
    if mask.ndim not in (1, 2) or mask.shape[-1] != n:
        raise InputError(f"keep must have shape (m, {n}), one column for each unit; got {mask.shape}")
    if mask.dtype != bool and not (mask.dtype.kind in "iuf" and np.isin(mask, (0, 1)).all()):
        raise InputError("keep must hold True and False, or 1 and 0: whether each unit is kept; it holds something else")
    return mask.astype(bool)


@cache
def versions(*packages: str) -> Mapping[str, str]:
    """Return the versions of those packages that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _check_format(given: Any, expected: str) -> None:
    if not isinstance(given, Mapping) or given.get("format") != expected:
        raise InputError(f"expected a saved {expected.removeprefix('slalom ')}; this is something else")
    if given.get("version") != _VERSION:
        raise InputError(f"this file has format version {given.get('version')!r}, this slalom reads {_VERSION}; update slalom")


def floor_above(name: str) -> Any:
    """Return the module that draws results. Results do not know it: it is looked up by name when a user asks for a picture."""
    return import_module(f"slalom.{name}")


def _surrogate(given: Mapping[str, Any]) -> Surrogate:
    if given.get("base") is not None:
        return Additive(given["values"], given["base"])
    return Slalom(given["values"], given["importances"], given["background"], given["link"], given["gamma"])


def _tested(given: Mapping[str, Any], n: int) -> HeldOut:
    rows = [np.frombuffer(bytes.fromhex(row), dtype=np.uint8) for row in given["keep"]]
    packed = np.array(rows, dtype=np.uint8).reshape(len(rows), -1)
    return HeldOut(np.unpackbits(packed, axis=1, count=n).astype(bool), _array(given["scores"]), given["near"])


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def _plain(part: Any) -> Any:
    return part.tolist() if isinstance(part, (np.ndarray, np.generic)) else part


def _array(part: Any) -> Any:
    return np.array(part, dtype=np.float64) if isinstance(part, list) else part


def _escaped(text: str) -> str:
    return html.escape(printable(text))


def _number(value: Any) -> str:
    numbers = np.atleast_1d(value)
    return f"{numbers[0]:+.3f}" if len(numbers) == 1 else "(" + ", ".join(f"{x:+.2f}" for x in numbers) + ")"


def _pandas() -> Any:
    try:
        import pandas  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtra("to_pandas needs pandas; install it with: pip install 'slalom[pandas]'") from error
    return pandas


def _frame(columns: dict[str, Any]) -> Any:
    return _pandas().DataFrame({name: column for name, column in columns.items() if column is not None})
