"""How a lexicon is learnt: answers about parts of many texts and about each of their words alone, and the fits of them.

All words are fitted at once. A few texts stay out of a first fit: they tell how far a text differs from the lexicon, and how
well it predicts a text without a query.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slalom.core import Observed
from slalom.core.checks import Floats, whole_number
from slalom.core.fitting.across import Across, fitted_across, word_counts
from slalom.core.fitting.joint import Fitted
from slalom.errors import InputError, SlalomError
from slalom.lexicon.known import alone_keys, check_single, first_units, identity_of, mirrored
from slalom.methods import JointMethod, method
from slalom.methods.base import named_failures
from slalom.models import Estimate, Model, Queries, Reading
from slalom.text import Mixed, Units, as_texts
from slalom.threads import one_blas_thread

if TYPE_CHECKING:
    from slalom.lexicon.lexicon import Lexicon

LEAST_TEXTS = 10
_AT_ONCE = 200  # texts whose answers are asked for together
_HELD = 24  # texts, at most, that stay out of the first fit
_ROWS = 50  # of each of these that tell how far it differs
_FAR = 10  # removed units from which a row tells what words say; the others are nearly the whole text
_SEEN = 5  # texts of each half that a word must be in to tell how far they differ
_ROUNDS = 2  # in which the variances are learnt
_FIRST = np.array([0.1, 0.5, 0.2, 0.2, 0.1])  # deviations before they are learnt: values, importances, kernels, noise
_FIRST_CERTAIN = np.array([1.0, 2.0, 0.3, 0.3, 0.3])
_LEAST_VARIANCE = 0.1  # of the logarithm of a variance between texts

Keep = NDArray[np.bool_]


class _Text(NamedTuple):
    """A text with its rows: whole, empty where that is possible, and parts."""

    reading: Reading
    units: Units
    keep: Keep
    words: NDArray[np.int64]  # number of each unit
    new: list[int]  # units that no text before has
    outputs: Floats = np.zeros((0, 0))

    @property
    def queries(self) -> Queries:
        """The rows, and the new words alone."""
        alone = np.eye(len(self.units), dtype=bool)[self.new]
        return Queries(self.reading, self.units.atoms(np.concatenate([self.keep, alone])))


def learn(made: "type[Lexicon]", explainer: Any, texts: Iterable[str], queries: int) -> "Lexicon":
    """Learn a lexicon; see `Lexicon.learn`."""
    engine, identity = explainer.engine, identity_of(explainer.engine)
    planned = _Plan(explainer, queries)
    asked, alone = list[_Text](), list[Floats]()
    with engine.spending.planned():
        for some in planned.groups(texts):
            answers = engine([text.queries for text in some], "learning words")
            for text, answer in zip(some, answers, strict=True):
                outputs, own = np.split(answer.outputs, [len(text.keep)])
                asked.append(text._replace(outputs=outputs))
                alone.extend(own)
    if len(asked) < LEAST_TEXTS:
        raise InputError(f"a lexicon needs at least {LEAST_TEXTS} texts; got {len(asked)} that can be read{planned.last}")
    options = explainer.options
    about = {
        "model": engine.model.name, "identity": identity, "labels": list(engine.model.head.labels), "unit": options.unit_kind,
        "texts": len(asked), "skipped": planned.skipped, "queries": queries, "seed": int(options.seed),
    }  # fmt: skip
    joint = method("joint")
    assert isinstance(joint, JointMethod)
    with named_failures(joint), one_blas_thread():
        return _Learning(made, engine.model, joint, planned, asked, np.array(alone)).lexicon(about)


def estimate(explainer: Any, texts: Iterable[str], queries: int) -> Estimate:
    """Return what `learn` would ask."""
    planned: Estimate = explainer.engine.estimate(
        text.queries for some in _Plan(explainer, queries).groups(texts) for text in some
    )
    return planned


class _Plan:
    """The rows of texts as they come, and the words that are new in each."""

    def __init__(self, explainer: Any, queries: int) -> None:
        self.explainer, self.queries = explainer, whole_number("queries", queries, 20)
        self.rng = np.random.default_rng([explainer.options.seed, 3])
        self.numbers = dict[bytes, int]()  # of the inputs of words alone
        self.spellings = list[Counter[str]]()
        self.skipped, self.last = 0, ""

    def groups(self, texts: Iterable[str]) -> Iterator[list[_Text]]:
        """Yield texts that are asked together; one that cannot be read, or has no units, is skipped."""
        if isinstance(texts, str):
            raise InputError("a lexicon is learnt from several texts; got one string")
        some = list[_Text]()
        for text in as_texts(texts):
            check_single(text)
            options = self.explainer.options
            try:
                if not isinstance(text, str):
                    raise InputError("a text must be a string")
                reading, units = self.explainer.pipeline.read(text, options.unit_or_default, options.long)
                if not len(units):
                    raise InputError("a text must have at least one unit")
            except SlalomError as error:
                self.skipped, self.last = self.skipped + 1, f"; the last that cannot: {error}"
                continue
            some.append(self._text(reading, units))
            if len(some) == _AT_ONCE:
                yield some
                some = []
        if some:
            yield some

    def _text(self, reading: Reading, units: Units) -> _Text:
        types, first, new = units.shared.type_of_unit, first_units(units), list[int]()
        keys = alone_keys(reading, units, first)
        for key, i in zip(keys, first.tolist(), strict=True):
            if key not in self.numbers:
                self.numbers[key] = len(self.numbers)
                self.spellings.append(Counter())
                new.append(i)
            self.spellings[self.numbers[key]][units.names[i].strip() or units.names[i]] += 1
        keep = Mixed(known=tuple(range(len(first)))).draw(types, self.queries, self.rng, reading.empty).keep
        keep = keep[keep.any(axis=1) & ~keep.all(axis=1)]
        ends = np.ones((1, len(types)), dtype=bool), np.zeros((int(reading.empty), len(types)), dtype=bool)
        return _Text(reading, units, np.concatenate([*ends, keep]), np.array([self.numbers[k] for k in keys])[types], new)


class _Learning:
    """Everything that is known when all answers are there."""

    def __init__(
        self, made: "type[Lexicon]", model: Model, joint: JointMethod, planned: _Plan, texts: list[_Text], alone: Floats
    ) -> None:
        self.made, self.model, self.joint, self.texts = made, model, joint, texts
        self.alone = _columns(model, alone)[0]
        empty = next((text.outputs[1:2] for text in texts if text.reading.empty), alone[:0])
        names = tuple(spellings.most_common(1)[0][0] for spellings in planned.spellings)
        self.fixed = names, tuple(planned.numbers), self._seen(texts), alone, empty

    def _seen(self, texts: Sequence[_Text]) -> NDArray[np.int64]:
        """Return in how many of some texts each word is."""
        return np.bincount(np.concatenate([np.unique(text.words) for text in texts]), minlength=len(self.alone))

    def lexicon(self, about: dict[str, Any]) -> "Lexicon":
        """Fit the words without some texts, learn from these how far texts differ from that, and fit all words."""
        number = min(_HELD, len(self.texts) // 4)
        held = set(np.unique(np.linspace(0, len(self.texts) - 1, number).round().astype(int)).tolist())
        others, left = [text for i, text in enumerate(self.texts) if i not in held], [self.texts[i] for i in sorted(held)]
        rest = self._lexicon(others, 2.0 * np.log(_FIRST), _FIRST_CERTAIN, about)
        variances, certain = rest.log_variances, rest.certain
        for _ in range(_ROUNDS):
            found = np.array([self._variances(rest, text) for text in left if len(text.units) > 1])
            if len(found):
                variances, certain = np.median(found, axis=0), 1.0 / np.maximum(found.var(axis=0), _LEAST_VARIANCE)
            rest = replace(rest, log_variances=variances, certain=certain)
        near, far = (_median(part) for part in zip(*(self._quality(rest, text) for text in left), strict=True))
        about = {**about, "held_out": {"texts": len(left), "near": near, "far": far}}
        whole = self._lexicon(self.texts, variances, certain, about)
        in_texts, importances = self._errors(whole.across)
        return replace(whole, across=whole.across._replace(in_texts_se=in_texts, importances_se=importances)).shortened()

    def _errors(self, across: Across) -> list[Floats]:
        """Return errors of values in texts and of importances, with what all words share: two halves of the texts tell it."""
        parts = self.texts[::2], self.texts[1::2]
        halves, seen = [self._across(part) for part in parts], np.min([self._seen(part) for part in parts], axis=0) >= _SEEN
        errors = list[Floats]()
        for name in ("in_texts", "importances"):
            differences = getattr(halves[0], name)[seen] - getattr(halves[1], name)[seen]
            own = sum(getattr(half, f"{name}_se")[seen] ** 2 for half in halves)
            common = np.maximum((differences**2 - own).mean(axis=0), 0.0) / 2.0 if seen.any() else 0.0
            errors.append(np.sqrt(getattr(across, f"{name}_se") ** 2 + common / 2.0))
        return errors

    def _lexicon(self, texts: Sequence[_Text], variances: Floats, certain: Floats, about: dict[str, Any]) -> "Lexicon":
        across, empty = self._across(texts), _columns(self.model, self.fixed[-1])[0]
        start = empty if len(empty) else across.after_link(np.zeros((1, self.alone.shape[1])))
        return self.made(*self.fixed, self.alone - start, across, variances, certain, about)

    def _across(self, texts: Sequence[_Text]) -> Across:
        rows, scores, numbers = list[tuple[Keep, NDArray[np.int64]]](), list[Floats](), list[NDArray[np.int64]]()
        for i, text in enumerate(texts):
            removed = (~text.keep).sum(axis=1)
            observed, known = _columns(self.model, text.outputs)
            used = ((removed > min(_FAR, len(text.units) // 2)) | (removed == 0)) & known
            rows.append((text.keep[used], text.words))
            scores.append(observed[used])
            numbers.append(np.full(int(used.sum()), i))
        counts = word_counts(rows, len(self.alone))
        return fitted_across(counts, np.concatenate(scores), self.alone, np.concatenate(numbers))

    def _fit(self, lexicon: "Lexicon", text: _Text, rows: NDArray[np.int64]) -> tuple[Fitted, int, Observed]:
        """Fit some rows of a text, for the class of its highest score; return the fit, the class and all its scores."""
        head = self.model.head
        target = len(head.labels) - 1 if mirrored(head) else int(_columns(self.model, text.outputs[:1])[0][0].argmax())
        observed, words = self.model.observe(text.outputs, target), lexicon.of_text(text.reading, text.units)
        fit = self.joint.known_fit(words, self.model, text.units, text.keep[rows], observed.rows(rows), target)
        return fit, target, observed

    def _variances(self, lexicon: "Lexicon", text: _Text) -> Floats:
        """Return the logarithms of the variances that one text alone has, of scores with deviation 1."""
        rows = np.unique(np.linspace(0, len(text.keep) - 1, _ROWS).round().astype(np.int64))
        found, target, _ = self._fit(lexicon, text, rows)
        spread = lexicon.across.spread[lexicon.column(self.model.head, target)[0]]
        return np.asarray(found.state.log_variances - 2.0 * np.log(np.array([spread, 1.0, spread, spread, spread])))

    def _quality(self, lexicon: "Lexicon", text: _Text) -> tuple[float | None, float | None]:
        """Return R2 near a text and far from it, of a fit that has the score of the whole text only."""
        found, _, observed = self._fit(lexicon, text, np.zeros(1, dtype=np.int64))
        scores, predicted = observed.start(), found.model(text.keep.astype(float))
        removed = (~text.keep).sum(axis=1)
        least = min(_FAR, len(text.units) // 2)
        near, far = (removed > 0) & (removed <= least), removed > least
        changes, expected = scores[near] - scores[0], predicted[near] - predicted[0]
        centre = scores[far].mean() if far.any() else 0.0
        return _share(changes, expected, 0.0), _share(scores[far], predicted[far], centre)


def _share(scores: Floats, predicted: Floats, centre: float) -> float | None:
    """Return R2; None where all scores are alike."""
    total = float(((scores - centre) ** 2).sum())
    return 1.0 - float(((scores - predicted) ** 2).sum()) / total if total > 0.0 else None


def _median(numbers: Sequence[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return float(np.median(known)) if known else None


def _columns(model: Model, outputs: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the scores (m, K) of the classes, and which rows (m,) are known."""
    head = model.head
    targets = [len(head.labels) - 1] if mirrored(head) else range(len(head.labels))
    observed = [model.observe(outputs, target) for target in targets]
    return np.stack([part.start() for part in observed], axis=1), np.all([part.known for part in observed], axis=0)
