"""An explanation of one text: frozen, with everything needed to judge and to repeat it.

Arrays are aligned: entry i of values, importances, linear, removal, ... belongs to units[i], which is text[spans[i, 0] :
spans[i, 1]]. An explanation is saved as JSON (`codec`); numbers come back bit by bit.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom.core import Background, Lengths, Link, Surrogate
from slalom.core.checks import Floats, read_only
from slalom.errors import InputError
from slalom.files import write_text
from slalom.models import class_index
from slalom.result.codec import decode, encode
from slalom.result.fidelity import Fidelity, HeldOut
from slalom.result.plain import frame, number, presence, written
from slalom.result.remarks import remarks
from slalom.text import KINDS, units
from slalom.views import view

SCORES = ("removal", "linear", "gradient", "shapley", "value", "importance")


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
                object.__setattr__(self, name, read_only(part))
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
    def plot(self) -> Any:
        """The pictures of this explanation: `plot.scatter()`, `plot.text()`, `plot.bar()`, `plot.removal_curve()`."""
        return view("plot")(self)

    @property
    def values(self) -> Floats:
        """What each unit says: v (n,), or (n, n_classes)."""
        return self.surrogate.values

    @property
    def importances(self) -> Floats:
        """How loudly each unit says it: s (n,), mean zero."""
        return self.surrogate.importances

    @property
    def background(self) -> Background | None:
        """Value and importance of what every query sees besides the units; None where there is none."""
        return self.surrogate.background

    @property
    def link(self) -> Link | None:
        """The saturating link; None where there is none."""
        return self.surrogate.link

    @property
    def linear(self) -> Floats:
        """The paper's linearised scores v exp(s)."""
        return self.surrogate.linear()

    @property
    def gradient(self) -> Floats:
        """The derivative of the predicted score by the presence of each unit, that of the length (from below) included."""
        found = self.surrogate.gradient()
        return found if self.lengths is None else found + np.multiply.outer(self.sizes, self.lengths.slope)

    @property
    def removal(self) -> Floats:
        """By how much the predicted score falls when one unit is taken away: predict(all) - predict(all but this one)."""
        found = self.surrogate.removal()
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
        level = self.surrogate.empty_score
        if self.lengths is not None:
            level = level + self.lengths.offsets[0]
        return float(level) if np.ndim(level) == 0 else np.asarray(level)

    @property
    def weights(self) -> Floats:
        """The share of attention of each unit in the whole text (n,)."""
        return np.asarray(self.surrogate.weights(np.ones((1, len(self.units))))[0])

    @property
    def additive(self) -> bool:
        """Whether units act (nearly) independently of each other; value and importance are then not told apart."""
        return self.surrogate.additive

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader must know before using the numbers, in plain sentences; see `slalom.result.remarks`."""
        return remarks(self)

    def shapley(self) -> Floats:
        """Return the Shapley values of the predicted score, on the scale of the score, link and length included.

        They sum to predict(all) - base, exactly to rounding, or to 1e-9 of the reach of the link where there is one.
        """
        found = self.surrogate.shapley()
        return found if self.lengths is None else found + self.lengths.shapley(self.sizes)

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

        target: the label or the index of a class; None takes the class that the model gives the text.
        """
        if target is None:
            return None if self.values.ndim == 1 else self.leading
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
            surrogate=self.surrogate.merged(made.unit_of_atom),
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
            f"Explanation of {self.target!r}: score {number(self.score)}, {len(self)} {self.unit}s, {self.method},"
            f" {self.queries} queries, {self.seconds:.2g} s",
            f"fidelity: {self.fidelity_said}",
        ]
        effect = self.removal
        lines += [f"  {self.units[i]!r}: {self.numbers_of(i, effect)}" for i in self.strongest(5)]
        return "\n".join([*lines, *self.remarks])

    @property
    def fidelity_said(self) -> str:
        """The held-out quality in one line, or why there is none."""
        if self.merged_from and not self.fidelity.known:
            return f"not tested for {self.unit}s, which were merged from {self.merged_from}s"
        return str(self.fidelity)

    def numbers_of(self, i: int, effect: Floats) -> str:
        """Return the numbers of one unit; value and importance only where they are told apart."""
        said = f"removal {number(effect[i])}"
        return said if self.additive else f"{said}, value {number(self.values[i])}, importance {self.importances[i]:+.2f}"

    def _repr_html_(self) -> str:
        """Show the text in a notebook, its units coloured by their effect."""
        return str(view("notebook")(self))

    @property
    def leading(self) -> int:
        """The class that the model gives the text, else the one with the highest score; 0 where one target is explained."""
        if self.values.ndim == 1:
            return 0
        return self.labels.index(self.label) if self.label in self.labels else int(np.argmax(self.score))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as lists, numbers and strings."""
        return encode(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> "Explanation":
        """Return the explanation of a dictionary made by `to_dict`."""
        return cls(**decode(given))

    def to_json(self, indent: int | None = None) -> str:
        """Return everything as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent)

    def save(self, path: str | Path) -> None:
        """Write the explanation to a JSON file; `slalom.load` reads it."""
        write_text(path, self.to_json())

    def to_html(self, path: str | Path | None = None) -> str:
        """Return a self-contained page about this explanation, and write it to a file where one is named."""
        return written(view("page")([self]), path)

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame, one row a unit."""
        return frame(self.columns())

    def columns(self) -> dict[str, Any]:
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
