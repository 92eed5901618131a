"""The explanation of one text: frozen data, its scores and predictions. Entry i of every array belongs to units[i]."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom.core import Shifts, Slalom, Surrogate
from slalom.core.checks import Floats, freeze, read_only, whole_number
from slalom.errors import InputError
from slalom.models import class_index
from slalom.result.answer import Answer, AnswerSentence, in_turn
from slalom.result.codec import PARTS, decode, encode, parts_of
from slalom.result.document import Document
from slalom.result.fidelity import Fidelity, HeldOut
from slalom.result.fields import FieldEffect, field_effects
from slalom.result.flip import Flip, headline, propose
from slalom.result.frame import columns, frame
from slalom.result.pairs import Pair, interactions
from slalom.result.plain import normal_quantile, presence
from slalom.result.remarks import remarks
from slalom.result.scale import full_effect, saturated
from slalom.result.scores import score_named
from slalom.result.spread import Spread, predict_interval
from slalom.result.wording import summary
from slalom.text import KINDS, Record, units


@final
@dataclass(frozen=True, eq=False)
class Explanation(Document):
    """Why a model gave a text its score: a value and an importance for each unit.

    n is the number of units. Where all classes are explained, a number marked * is an array (n_classes,), and an array marked *
    has a last axis of n_classes.

    Attributes:
        units: Names of the units (n,).
        spans: First and last character (exclusive) of each unit in the text (n, 2).
        surrogate: The fitted surrogate; where it is an Additive, values are effects, importances and weights are 0.
        score: The model's own score of the text*: log odds of the target, or one centred logit per class.
        target: Label of the explained class, or "all".
        fidelity: Quality of the predictions on queries that were not used in the fit.
        fit_r2: R2 on the queries that were used in the fit.
        unit: Kind of the units: "token", "type", "word", "sentence", or "unit" where a function of the user found them.
        sizes: Number of tokens of each unit (n,).
        queries: Number of distinct queries.
        tokens: Number of tokens in those queries.
        measured: The model's own answers by the names of scores: "removal" of units that were removed alone, "value" of units
            that were asked alone; NaN for the others.
        errors: Standard errors of scores by their names, as far as the method has any: what more queries would change.
        pairs: Pairs of units that act together, strongest first, with effects from the model's own answers.
        pair_queries: How many of `queries` were about them.
        spread: Errors of predictions by the number of removed tokens; None where too few queries were held out.
        label: Label that the model gives the whole text, if any. Default: that of the highest probability.
        probabilities: Probabilities that the model gives the whole text (n_labels,), if any.
        scale: What the score is: "log odds", "log probability" of an answer, "decision value" or "output".
        held_out: The queries that `fidelity` is computed from; None where there are none.
        cut: Number of tokens of the text that the model cannot see.
        diagnosis: What went wrong, in plain words; empty otherwise.
        settings: The options of the call, and the fingerprint of the model (identity).
        signed: Whether the sign of a score means for or against the target. If not, `predict` means nothing.
        merged_from: Kind of the units that were merged into these; empty if none were.
        stopped: Why the queries ended where they did, for queries="auto"; empty for a fixed budget.
        figures: Numbers about the model's answers, by name, such as the share of probability on the labels of a prompt.
        notes: Sentences about the model's answers, which are among the remarks.
        answer: The question and the answer of a language model, where units are its sources.
        details: Explanations of the parts of what is explained, from the same queries: the sentences of an answer.
        words: Explanations of the words of a sentence of an answer, where they were asked for.
        record: The fields, where the text is a record of several.
        without_fields: The model's own score without each field (n_fields,)*, where it was asked.
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
    errors: Mapping[str, Floats] = field(default_factory=dict)
    measured: Mapping[str, Floats] = field(default_factory=dict)
    pairs: tuple[Pair, ...] = ()
    pair_queries: int = 0
    spread: Spread | None = None
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
    stopped: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    answer: Answer | None = None
    record: Record | None = None
    without_fields: Floats | None = None
    details: tuple["Explanation", ...] = ()
    words: tuple["Explanation", ...] = ()

    def __post_init__(self) -> None:
        record = self.record or (self.text if isinstance(self.text, Record) else None)
        if record is not None:
            object.__setattr__(self, "record", record)
            object.__setattr__(self, "text", record)
        freeze(self)
        object.__setattr__(self, "errors", {name: read_only(errors) for name, errors in self.errors.items()})
        if self.label is None and self.probabilities is not None:
            object.__setattr__(self, "label", self.labels[int(np.argmax(self.probabilities))])

    def __reduce__(self) -> tuple[Any, ...]:  # copies are read-only, too
        return Explanation, tuple(getattr(self, part.name) for part in fields(self))

    def __len__(self) -> int:
        return len(self.units)

    def __repr__(self) -> str:
        return summary(self)

    def _repr_html_(self) -> str:
        from slalom.render.notebook import notebook  # noqa: PLC0415

        return notebook(self)

    @property
    def plot(self) -> Any:
        """Plots of this explanation: `plot.scatter()`, `plot.bar()`, `plot.pairs()`, `plot.removal_curve()`."""
        from slalom.render.figures import Plots  # noqa: PLC0415

        return Plots(self)

    @property
    def prediction(self) -> tuple[str, float | None] | None:
        """The label that the model gives the text and its probability (None if unknown); None where it gives no label."""
        if self.label is None:
            return None
        if self.probabilities is None or self.label not in self.labels:
            return self.label, None
        return self.label, float(self.probabilities[self.labels.index(self.label)])

    @property
    def leading(self) -> int:
        """Index of the class that the model gives the text, or of the highest score; 0 where one target is explained."""
        if self.surrogate.values.ndim == 1:
            return 0
        return self.labels.index(self.label) if self.label in self.labels else int(np.argmax(self.score))

    @property
    def values(self) -> Floats:
        """What the model says of each unit alone, less of no text: (n,), or (n, n_classes)."""
        return self.all_classes("value")

    @property
    def importances(self) -> Floats:
        """How much attention each unit takes, as logarithms: s (n,), with mean zero."""
        return self.surrogate.importances

    @property
    def competition(self) -> float | None:
        """From 0, where values of units add up, to 1, where they are averaged; None for methods that do not fit it."""
        return self.surrogate.competition if isinstance(self.surrogate, Slalom) else None

    @property
    def additive(self) -> bool:
        """Whether values of units (nearly) add up, so that importances mean nothing."""
        return self.surrogate.additive

    @property
    def linear(self) -> Floats:
        """The linearised scores of the paper, value times exp(competition times importance), (n,) or (n, n_classes)."""
        return self.all_classes("linear")

    @property
    def gradient(self) -> Floats:
        """Derivative of the predicted score by the presence of each unit: (n,) or (n, n_classes)."""
        return self.all_classes("gradient")

    @property
    def removal(self) -> Floats:
        """Decrease of the predicted score without a unit, predict(all) - predict(all but it): (n,) or (n, n_classes)."""
        return self.all_classes("removal")

    @property
    def weights(self) -> Floats:
        """Share of attention of each unit in the whole text (n,)."""
        return self.all_classes("weight")

    def shapley(self) -> Floats:
        """Return the Shapley values of the predicted score, (n,) or (n, n_classes); they sum to predict(all) - base."""
        return self.all_classes("shapley")

    @property
    def place_effects(self) -> Floats | None:
        """The part of `removal` that is due to later units shifting position, (n,)*; None where there is none."""
        n, parts = len(self), self.surrogate.parts if isinstance(self.surrogate, Slalom) else ()
        shifts = [part for part in parts if isinstance(part, Shifts)]
        return np.asarray(sum(part(np.ones((1, n))) - part(1.0 - np.eye(n)) for part in shifts)) if shifts else None

    @property
    def fields(self) -> tuple[FieldEffect, ...]:
        """The fields of a record, each with its units and effects; none for a text.

        Example:
            >>> import slalom
            >>> explainer = slalom.Explainer(lambda rows: [a.count("!") - b.count("?") for a, b in rows], output="scores")
            >>> e = explainer(("Go!", "No?"))
            >>> [(field.name, float(field.removal)) for field in e.fields]
            [('text 1', 1.0), ('text 2', -1.0)]
        """
        return field_effects(self)

    @property
    def sentences(self) -> tuple[AnswerSentence, ...]:
        """The sentences of the answer that is explained, each with the sources that it rests on; none without an answer."""
        if self.answer is None:
            return ()
        return tuple(map(AnswerSentence, self.details or (self,)))

    @property
    def base(self) -> float | Floats:
        """The predicted score of the empty text, where Shapley values start."""
        return self.surrogate.empty_score

    @property
    def saturated(self) -> bool:
        """Whether every removal changes less than 5% of the distance to another decision; Shapley values say more then."""
        return saturated(self)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader must know before using the numbers, in plain sentences."""
        return tuple(remarks(self))

    def column(self, target: int | str | None = None) -> int | None:
        """Return the column of a class (default: that of the model's label) in values, removal, ...; None for one target."""
        if target is None:
            return None if self.surrogate.values.ndim == 1 else self.leading
        index = class_index(self.labels, target)
        if self.surrogate.values.ndim == 2:
            return index
        if self.labels[index] != self.target:
            raise InputError(f"this explanation is of {self.target!r} only; explain with target={target!r} or target='all'")
        return None

    @cached_property
    def _computed(self) -> dict[str, Floats]:
        return {}

    def all_classes(self, name: str = "removal") -> Floats:
        """Return a score by its name, for all classes that are explained: (n,) or (n, n_classes); computed once."""
        if name not in self._computed:
            self._computed[name] = read_only(score_named(name).compute(self))
        return self._computed[name]

    def scores(self, name: str = "removal", target: int | str | None = None) -> Floats:
        """Return a score of one class (n,), by its name in `slalom.result.SCORES`: "removal", "shapley", "value", ..."""
        scores, column = self.all_classes(name), self.column(target)
        return scores if column is None or scores.ndim == 1 else np.asarray(scores[:, column])

    def standard_errors(self, name: str = "removal", target: int | str | None = None) -> Floats | None:
        """Return the standard errors of `scores` (n,); None where they are not known."""
        column, errors = self.column(target), self.errors.get(score_named(name).name)
        return errors if errors is None or column is None or errors.ndim == 1 else errors[:, column]

    def interval(self, name: str = "removal", level: float = 0.95, target: int | str | None = None) -> Floats | None:
        """Return intervals (n, 2) that hold the scores of very many queries with that probability; None without errors."""
        errors = self.standard_errors(name, target)
        if errors is None:
            return None
        half, centre = normal_quantile(level) * errors, self.scores(name, target)
        return np.stack([centre - half, centre + half], axis=1)

    def certain(self, level: float = 0.95, name: str = "removal", target: int | str | None = None) -> NDArray[np.bool_] | None:
        """Return which units (n,) have a score that is distinguishable from zero: its `interval` does not contain 0."""
        interval = self.interval(name, level, target)
        return None if interval is None else (interval[:, 0] > 0.0) | (interval[:, 1] < 0.0)

    def full_effect(self, name: str = "removal", target: int | str | None = None) -> float:
        """Return the size of a score that has the full colour in every picture.

        For removal and gradient it is the largest of: the strongest of them; a fifth of the distance to another decision (for
        an output without one, to that of the empty text); 0.1 where the scale is log odds. Else it is the strongest.
        """
        return full_effect(self, name, target)

    def strongest(self, k: int = 10) -> list[int]:
        """Return the indices of the k units with the largest effect of removal, strongest first.

        Of the sources of an answer, two may say the same: they are those of the largest Shapley values, in the order in which
        their removal, one after another, lowers the predicted score most.
        """
        if self.answer is not None and self.signed:
            shares = np.argsort(-np.abs(self.scores("shapley")), kind="stable").tolist()
            return in_turn(self, shares[: whole_number("k", k, 0)])
        effect = np.abs(self.removal).reshape(len(self), -1).max(axis=1)
        return [int(i) for i in np.argsort(-effect, kind="stable")[: whole_number("k", k, 0)]]

    def predict(self, keep: ArrayLike) -> Floats:
        """Predict the scores (m,)* of parts of the text from the presence (m, n) of its units.

        Example:
            >>> import slalom
            >>> e = slalom.Explainer(lambda texts: [t.count("!") + 1.0 for t in texts], output="log_odds")("Stop! Now!")
            >>> e.predict([[1, 1, 1, 1], [1, 0, 1, 1]]).round(3).tolist()
            [3.0, 2.0]
        """
        mask = presence(keep, len(self.units))
        scores = self.surrogate(np.atleast_2d(mask).astype(np.float64))
        return scores if mask.ndim == 2 else scores[0]

    def predict_interval(self, keep: ArrayLike, level: float = 0.95) -> Floats | None:
        """Return intervals (m, 2)* that contain the model's own scores of parts of the text; None where `spread` is.

        Measured at 0.95 on six sentences: without 1, 2, 3, 5 or 10 units 1.00, 0.93, 0.90, 0.93 and 0.96 of the scores are in.
        """
        return predict_interval(self, keep, level)

    def interactions(self, k: int = 10, target: int | str | None = None) -> tuple[Pair, ...]:
        """Return the k pairs of units that are predicted to interact most next to the whole text.

        Their effect is predict(all) - predict(without i) - predict(without j) + predict(without both): negative where one of
        them is enough. `pairs` has the strongest with the model's own answers.
        """
        return interactions(self, k, target)

    @cached_property
    def headline(self) -> str:
        """What the model decides, and what would change that, as the first sentences; empty where it decides nothing."""
        return headline(self)

    def flip(self, threshold: float | None = None) -> Flip | None:
        """Return a small set of units without which the predicted decision is another one; None where none was found.

        The model is not asked; `Explainer.flip` does so.

        Args:
            threshold: Score that separates two decisions. Default: where the label changes, which numbers without a label lack.

        Example:
            >>> import slalom
            >>> e = slalom.Explainer(lambda texts: [t.count("!") - 0.5 for t in texts], output="log_odds")("Stop! Now!")
            >>> e.flip().units
            (1, 3)
        """
        return propose(self, threshold)

    def merge(self, unit: str) -> "Explanation":
        """Return the explanation in "word" or "sentence" units; what is known of the small units only is left out."""
        if unit not in KINDS[2:]:
            raise InputError(f"merge takes 'word' or 'sentence'; got {unit!r}")
        if self.unit not in KINDS or KINDS.index(unit) < KINDS.index(self.unit) or self.answer is not None:
            raise InputError(f"merge makes larger units: {self.unit}s cannot become {unit}s; explain with unit={unit!r}")
        larger = units(self.text, unit, self.units, self.spans, np.arange(len(self)))
        return replace(
            self, units=larger.names, spans=larger.spans, surrogate=self.surrogate.merged(larger.unit_of_atom), unit=unit,
            sizes=np.bincount(larger.unit_of_atom, self.sizes).astype(np.int64), merged_from=self.merged_from or self.unit,
            fidelity=Fidelity(None, None), errors={}, measured={}, pairs=(), spread=None, held_out=None,
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        return encode(self)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Explanation":
        """Return the explanation of a dictionary made by `to_dict`."""
        parts = decode(saved, fields(cls))
        details, words = (tuple(map(cls.from_dict, parts_of(saved, name))) for name in PARTS)
        return cls(**parts, details=details, words=words)

    def _page(self) -> str:
        from slalom.render.page import page  # noqa: PLC0415

        return page([self])

    def to_pandas(self, *, tidy: bool = False) -> Any:
        """Return a DataFrame with one row per unit, or per unit and class (tidy); NaN where a score means nothing."""
        return frame(columns(self, tidy))
