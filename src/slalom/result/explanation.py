"""The explanation of one text: frozen data, its scores and predictions.

Arrays are aligned: entry i of values, importances, linear, removal, ... belongs to units[i], which is text[spans[i, 0] :
spans[i, 1]]. An explanation is saved as JSON (`codec`); numbers come back bit by bit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom.core import Background, Lengths, Link, Surrogate, TwoScale
from slalom.core.checks import Floats, freeze, read_only, whole_number
from slalom.errors import InputError
from slalom.models import class_index
from slalom.result.answer import Answer
from slalom.result.codec import decode, encode
from slalom.result.document import Document
from slalom.result.fidelity import Fidelity, HeldOut
from slalom.result.flip import Flip, propose
from slalom.result.frame import columns, frame
from slalom.result.pairs import Pair, interactions
from slalom.result.plain import presence
from slalom.result.remarks import remarks
from slalom.result.scale import determined, full_effect, saturated
from slalom.result.scores import known
from slalom.result.spread import Spread, prediction_variance
from slalom.result.wording import summary
from slalom.text import KINDS, units


@final
@dataclass(frozen=True, eq=False)
class Explanation(Document):
    """Why a model gave a text its score: a value and an importance for each unit.

    n is the number of units. Where all classes are explained, a number marked * is an array (n_classes,), and an array marked *
    has a last axis of n_classes.

    Attributes:
        text: The text.
        units: Names of the units (n,).
        spans: First and last character (exclusive) of each unit in the text (n, 2).
        surrogate: The fitted surrogate: a Slalom, or an Additive where the method is additive; values are then the
            effects, importances and weights are 0.
        score: The model's own score of the text*: log odds of the target, or one centred logit per class.
        target: Label of the explained class, or "all".
        labels: Labels of all classes.
        fidelity: Quality of the predictions on queries that were not used in the fit.
        fit_r2: R2 on the queries that were used in the fit.
        unit: Kind of the units: "token", "type", "word" or "sentence"; "unit" where a function found them, which settings
            name; of sources also "paragraph", "document" or "turn".
        sizes: Number of tokens of each unit (n,).
        method: Name of the method.
        seed: Seed of all random choices.
        queries: Number of distinct queries.
        tokens: Number of tokens in those queries.
        seconds: Time that it took.
        errors: Standard errors of scores by their names, shaped as the scores: how far they may be from those of very many
            queries with the same method. They do not say whether the model is a SLALOM; `fidelity` does. Empty where the
            method has none.
        spread: How far predictions are from the model's own scores, by the number of removed tokens; None where too few queries
            were held out to tell.
        pairs: Pairs of units that act together, strongest first, with the model's own answers: F(all) - F(without i) -
            F(without j) + F(without both). The model is asked about the four strongest of `interactions`, with at most 12
            queries beside the budget; those below a tenth of the strongest effect are not listed. Only `joint` looks for them.
        pair_queries: How many of `queries` were about them.
        lengths: Effect of the length of the input, by its number of tokens; part of `predict` and of every score that is a
            change of the prediction. None where there is none.
        label: Label that the model gives the whole text; None where it gives none. Default: that of the highest probability.
        probabilities: Probabilities that the model gives the whole text (n_labels,); None where it gives none.
        scale: What the score is: "log odds", "log probability" of an answer, or "decision value" or "output" where it does not
            represent a probability.
        held_out: The queries that `fidelity` is computed from; None where there are none.
        cut: Number of tokens of the text that the model cannot see.
        diagnosis: What went wrong, in plain words; empty otherwise.
        model: Name of the model.
        settings: The options queries, check, target and long as given (with queries="auto" also tolerance and max_queries),
            and the fingerprint of the model (identity).
        versions: Versions of Python and of the packages.
        signed: Whether the sign of a score means for or against the target. If not, `predict` means nothing.
        merged_from: Kind of the units that were merged into these; empty if none were.
        answer: The question and the answer of a language model, where units are its sources; None elsewhere.
        figures: Numbers about the model's answers, by name, such as the share of probability on the labels of a prompt.
        notes: Sentences about the model's answers, which are among the remarks.
        stopped: Why the queries ended where they did, for queries="auto"; empty for a fixed budget.
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
    pairs: tuple[Pair, ...] = ()
    pair_queries: int = 0
    spread: Spread | None = None
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
    stopped: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    answer: Answer | None = None

    def __post_init__(self) -> None:
        self._freeze()
        if self.label is None and self.probabilities is not None:
            object.__setattr__(self, "label", self.labels[int(np.argmax(self.probabilities))])

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._freeze()

    def _freeze(self) -> None:
        freeze(self)
        object.__setattr__(self, "errors", {name: read_only(errors) for name, errors in self.errors.items()})

    def __len__(self) -> int:
        return len(self.units)

    def __repr__(self) -> str:
        return summary(self)

    def _repr_html_(self) -> str:
        """Show the text in a notebook, its units coloured by their effect."""
        from slalom.render.notebook import notebook  # noqa: PLC0415

        return notebook(self)

    @property
    def plot(self) -> Any:
        """Plots of this explanation: `plot.scatter()`, `plot.text()`, `plot.bar()`, `plot.removal_curve()`."""
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
        if self.values.ndim == 1:
            return 0
        return self.labels.index(self.label) if self.label in self.labels else int(np.argmax(self.score))

    @property
    def values(self) -> Floats:
        """What the score tends to where a unit gets all attention: v (n,), or (n, n_classes)."""
        return self.surrogate.values

    @property
    def importances(self) -> Floats:
        """How much attention each unit takes, as logarithms: s (n,), with mean zero."""
        return self.surrogate.importances

    @property
    def background(self) -> Background | None:
        """Value and importance of what every query contains besides the units; None where there is none."""
        return self.surrogate.background

    @property
    def link(self) -> Link | None:
        """The saturating link; None where there is none."""
        return self.surrogate.link

    @property
    def additive(self) -> bool:
        """Whether units act (nearly) independently, so that only the product of value and weight is determined."""
        return self.surrogate.additive

    @property
    def linear(self) -> Floats:
        """The linearised scores v exp(s) of the paper, (n,) or (n, n_classes)."""
        return self.all_classes("linear")

    @property
    def gradient(self) -> Floats:
        """Derivative of the predicted score, length included, by the presence of each unit: (n,) or (n, n_classes)."""
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
    def length_effect(self) -> float | Floats | None:
        """The part of `removal` that is due to the length, for any unit of one token; None where length has no effect on it."""
        if self.lengths is None or not np.any(slope := self.lengths.slope):
            return None
        return float(slope) if slope.ndim == 0 else slope

    @property
    def place_effects(self) -> Floats | None:
        """The part of `removal` that is due to later units shifting position, (n,)*; None where there is none."""
        shifts = self.surrogate.shifts if isinstance(self.surrogate, TwoScale) else None
        return None if shifts is None else shifts.removal(np.ones(len(self)))

    @property
    def base(self) -> float | Floats:
        """The predicted score of the empty text, where Shapley values start; without a background, that of the evidence 0."""
        level = self.surrogate.empty_score
        if self.lengths is not None:
            level = level + self.lengths.offsets[0]
        return float(level) if np.ndim(level) == 0 else np.asarray(level)

    @property
    def saturated(self) -> bool:
        """Whether no single unit decides: every removal changes less than 5% of the distance to another decision.

        Removals say little then; Shapley values and `flip` say more.
        """
        return saturated(self)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader must know before using the numbers, in plain sentences."""
        return tuple(remarks(self))

    def column(self, target: int | str | None = None) -> int | None:
        """Return the column of values, removal, ... that belongs to a class.

        Args:
            target: Label or index of the class. Default: the class that the model gives the text.

        Returns:
            The column; None where one target is explained, and there are no columns.

        Raises:
            InputError: There is no such class, or it is not explained.
        """
        if target is None:
            return None if self.values.ndim == 1 else self.leading
        index = class_index(self.labels, target)
        if self.values.ndim == 2:
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
            self._computed[name] = read_only(known(name).compute(self))
        return self._computed[name]

    def scores(self, name: str = "removal", target: int | str | None = None) -> Floats:
        """Return a score by its name, for one class.

        Args:
            name: "removal", "shapley", "gradient", "linear", "value", "importance", "weight" or "banzhaf".
            target: As in `column`.

        Returns:
            One number per unit (n,).

        Raises:
            InputError: There is no such score or class, or the score leaves the range of floats.
        """
        scores, column = self.all_classes(name), self.column(target)
        return scores if column is None or scores.ndim == 1 else np.asarray(scores[:, column])

    def standard_errors(self, name: str = "removal", target: int | str | None = None) -> Floats | None:
        """Return the standard errors of a score for one class (n,), as `scores` does; None where they are not known."""
        column, errors = self.column(target), self.errors.get(known(name).name)
        return errors if errors is None or column is None or errors.ndim == 1 else errors[:, column]

    def interval(self, name: str = "removal", level: float = 0.95, target: int | str | None = None) -> Floats | None:
        """Return an interval of every unit's score.

        Args:
            name: As in `scores`.
            level: Probability that the interval contains the score that very many queries would give; between 0 and 1.
            target: As in `column`.

        Returns:
            Lower and upper ends (n, 2); None where the standard errors are not known.

        Raises:
            InputError: There is no such score or class, or the level is out of range.
        """
        errors = self.standard_errors(name, target)
        if errors is None:
            return None
        half, centre = _normal_quantile(level) * errors, self.scores(name, target)
        return np.stack([centre - half, centre + half], axis=1)

    def certain(self, level: float = 0.95, name: str = "removal", target: int | str | None = None) -> NDArray[np.bool_] | None:
        """Return which units (n,) have a score that is distinguishable from zero: its `interval` does not contain 0.

        None where the standard errors are not known.
        """
        interval = self.interval(name, level, target)
        return None if interval is None else (interval[:, 0] > 0.0) | (interval[:, 1] < 0.0)

    def determined(self, name: str = "value", target: int | str | None = None) -> NDArray[np.bool_] | None:
        """Return which values or importances the queries determine.

        A value is not determined where its 95% interval contains 0 and reaches further to each side than the values of the text
        differ (standard deviation, weighted by attention). An importance is not determined where its interval reaches further
        than all importances lie apart.

        Args:
            name: "value" or "importance".
            target: As in `column`.

        Returns:
            (n,); None where the method has no standard errors.
        """
        return determined(self, name, target)

    def full_effect(self, name: str = "removal", target: int | str | None = None) -> float:
        """Return the size of a score that has the full colour in every picture.

        For removal and gradient it is the largest of: the strongest of them; a fifth of the distance to another decision (for
        an output without one, to that of the empty text); 0.1 where the scale is log odds. Other scores have the full colour at
        the strongest (Shapley values of log odds: at 0.1 or more).

        Args:
            name: As in `scores`.
            target: As in `column`.
        """
        return full_effect(self, name, target)

    def strongest(self, k: int = 10) -> list[int]:
        """Return the indices of the units with the largest effect of removal, strongest first.

        Args:
            k: How many, not negative; fewer where there are fewer units.

        Raises:
            InputError: k is not such a number.
        """
        number = whole_number("k", k, 0)
        effect = np.abs(self.removal)
        return [int(i) for i in np.argsort(-(effect if effect.ndim == 1 else effect.max(axis=1)), kind="stable")[:number]]

    def predict(self, keep: ArrayLike) -> Floats:
        """Predict the scores of parts of the text: the score of the surrogate plus the effect of the length.

        Args:
            keep: Which units are present, (m, n) or (n,): booleans, or 0 and 1.

        Returns:
            (m,) or (m, n_classes); for one row () or (n_classes,).

        Raises:
            InputError: `keep` is something else, or a row is empty and there is no background.

        Example:
            >>> import slalom
            >>> e = slalom.Explainer(lambda texts: [t.count("!") - 1.0 for t in texts], output="log_odds")("Stop! Now!")
            >>> e.predict([[1, 1, 1, 1], [1, 0, 1, 1]]).round(3).tolist()
            [1.0, 0.0]
        """
        mask = presence(keep, len(self.units))
        rows = np.atleast_2d(mask).astype(np.float64)
        scores = self.surrogate(rows)
        if self.lengths is not None:
            scores = scores + self.lengths(np.rint(rows @ self.sizes).astype(np.int64).clip(max=len(self.lengths.offsets) - 1))
        return scores if mask.ndim == 2 else scores[0]

    def predict_interval(self, keep: ArrayLike, level: float = 0.95) -> Floats | None:
        """Return intervals that contain the model's own scores of parts of the text.

        Args:
            keep: As in `predict`.
            level: Probability that the model's score is inside; between 0 and 1. Measured at 0.95, for the removal of one unit:
                0.95 to 1.00, for those shown as the strongest 0.93 to 1.00 (results/core.md).

        Returns:
            Lower and upper ends (m, 2) or (m, n_classes, 2), for one row without the first axis; None where `spread` is.

        Raises:
            InputError: `keep` is something else, or the level is out of range.
        """
        reach = _normal_quantile(level)
        if self.spread is None:
            return None
        mask = presence(keep, len(self.units))
        scores, gone = self.predict(np.atleast_2d(mask)), ~np.atleast_2d(mask).astype(bool)
        change = self.predict(np.ones(len(self))) - scores
        errors = self.errors.get("removal")
        half = reach * np.sqrt(prediction_variance(self.spread, gone, self.sizes, change, self.removal, errors))
        ends = np.stack([scores - half, scores + half], axis=-1)
        return ends if mask.ndim == 2 else ends[0]

    def interactions(self, k: int = 10, target: int | str | None = None) -> tuple[Pair, ...]:
        """Return pairs of units by how much less or more they are predicted to do together, next to the whole text.

        The effect of a pair is predict(all) - predict(without i) - predict(without j) + predict(without both). It is negative
        where two units say the same, so that one of them is enough. Strongest first; of a long text the 60 units with the
        strongest Shapley values are combined. `pairs` has the strongest with the model's own answers.

        Args:
            k: How many pairs; fewer where there are fewer.
            target: As in `column`.

        Raises:
            InputError: There is no such class.

        Example:
            >>> import slalom
            >>> explainer = slalom.Explainer(lambda texts: [float("red" in t or "pink" in t) for t in texts], output="log_odds")
            >>> [(pair.units, round(pair.effect, 1)) for pair in explainer("a red and pink old big car").interactions(1)]
            [((1, 3), -1.0)]
        """
        return interactions(self, k, target)

    def flip(self, threshold: float | None = None) -> Flip | None:
        """Return a smallest set of units without which the predicted decision is another one.

        The model is not asked; `Explainer.flip` does so.

        Args:
            threshold: Score that separates two decisions. Default: where the label changes. Models that give a number and no
                label need one.

        Returns:
            The set; None where no set of units changes the predicted decision.

        Raises:
            InputError: The scores have no sign, or there is no threshold.

        Example:
            >>> import slalom
            >>> e = slalom.Explainer(lambda texts: [t.count("!") - 0.5 for t in texts], output="log_odds")("Stop! Now!")
            >>> e.flip().units
            (1, 3)
        """
        return propose(self, threshold)

    def merge(self, unit: str) -> "Explanation":
        """Return the explanation in larger units; its predictions for whole units stay the same.

        Standard errors and fidelity are those of the small units, so the merged explanation has none.

        Args:
            unit: "word" or "sentence".

        Raises:
            InputError: The units are larger than that.
        """
        if unit not in KINDS[2:]:
            raise InputError(f"merge takes 'word' or 'sentence'; got {unit!r}")
        if self.unit not in KINDS or KINDS.index(unit) < KINDS.index(self.unit) or self.answer is not None:
            raise InputError(f"merge makes larger units: {self.unit}s cannot become {unit}s; explain with unit={unit!r}")
        merged = units(self.text, unit, self.units, self.spans, np.arange(len(self.units)))
        return replace(
            self,
            units=merged.names,
            spans=merged.spans,
            surrogate=self.surrogate.merged(merged.unit_of_atom),
            unit=unit,
            sizes=np.bincount(merged.unit_of_atom, self.sizes).astype(np.int64),
            merged_from=self.merged_from or self.unit,
            fidelity=Fidelity(None, None),
            errors={},
            pairs=(),
            spread=None,
            held_out=None,
        )

    def to_dict(self) -> dict[str, Any]:
        return encode(self)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Explanation":
        """Return the explanation of a dictionary made by `to_dict`.

        Args:
            saved: The dictionary; fields that older versions did not write may be missing.

        Raises:
            InputError: It is something else, of another version, or lacks a part.
        """
        return cls(**decode(saved, fields(cls)))

    def _page(self) -> str:
        from slalom.render.page import page  # noqa: PLC0415

        return page([self])

    def to_pandas(self, *, tidy: bool = False) -> Any:
        """Return a pandas DataFrame with one row per unit: names, spans, scores, standard errors and weights.

        Value, importance and linear scores are NaN where they are not determined. Where all classes are explained, scores
        have one column per class, such as "removal[positive]".

        Args:
            tidy: One row per unit and class instead, with the class in the column "class" and one column per score.

        Raises:
            MissingExtra: pandas is not installed.
        """
        return frame(columns(self, tidy))


def _normal_quantile(level: float) -> float:
    """Return how many standard errors an interval reaches to each side."""
    if not 0.0 < level < 1.0:
        raise InputError(f"level must be a number between 0 and 1, such as 0.95; got {level!r}")
    return NormalDist().inv_cdf(0.5 + 0.5 * level)
