"""The Explainer: one model, and everything that can be asked about its decisions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, final, overload

import numpy as np
from numpy.typing import ArrayLike

from slalom.core.checks import Floats, whole_number
from slalom.errors import InputError
from slalom.methods import Method
from slalom.methods import method as find_method
from slalom.models import Engine, Model, Output, Queries, Target, model_of
from slalom.pipeline import CELLS, Options, Pipeline
from slalom.result import Explanation, Explanations, presence
from slalom.text import KINDS, as_texts


class _Unset:
    """Stands for an argument that was not given, where None means something."""

    def __repr__(self) -> str:
        return "as the Explainer was told"


_UNSET = _Unset()


@final
class Explainer:
    """Explains the decisions of one model.

    Args:
        model: A Hugging Face classifier, a text-classification pipeline, the path of a saved classifier, a fitted scikit-learn
            classifier, or a callable ``list[str] -> (n, n_classes)``. Default: the sentiment classifier of English film
            reviews that ships with slalom.
        tokenizer: The tokenizer of a Hugging Face classifier.
        method: "joint", "local", "eff", "fidel" or a Method.
        unit: "token", "type", "word" or "sentence". Default: the method's own.
        queries: How many parts of the text are asked about at most. Default: five per unit, between 200 and 1000.
        check: How many further queries test the fit. Default: a tenth of the budget, 20 to 100 (20 for eff, which is to be
            quick).
        target: The class to explain, by label or index, or "all" for every class. A label comes first: of the classes -1 and
            1 the target 1 is the second. Default: class 1 of two, else the class that the model predicts.
        seed: Of the queries and the fit. None draws one, which the explanation names.
        long: "cut" explains what the model can see of a text that is too long, with a warning; "window" explains the mean of
            the scores of overlapping windows.
        output: What a callable returns: "logits", "probabilities", "log_odds", or "scores" for numbers that stand for no
            probability.
        labels: Names of a callable's classes: a list in the order of its columns, or a mapping such as ``id2label``.
        batch_size: Strings in one call of a callable or scikit-learn model.
        precision: "bfloat16" asks a Hugging Face model in half precision.
        device: Where a model given by its path is put.
        cache: An SQLite file that keeps the answers.
        identity: What to call the model in the cache, where it is a callable.
        progress: Whether to show a bar. Default: one in a terminal where it takes long.

    Example:
        >>> shouts = Explainer(lambda texts: [text.count("!") - 1.0 for text in texts], output="log_odds")
        >>> shouts("Stop! Now!").strongest(2)
        [1, 3]
    """

    def __init__(
        self,
        model: Any = None,
        tokenizer: Any = None,
        *,
        method: str | Method = "joint",
        unit: str | None = None,
        queries: int | None = None,
        check: int | None = None,
        target: Target = None,
        seed: int | None = 0,
        long: Literal["cut", "window"] = "cut",
        output: Output | None = None,
        labels: Iterable[object] | Mapping[Any, object] | None = None,
        batch_size: int | None = None,
        precision: Literal["bfloat16"] | None = None,
        device: str | None = None,
        cache: str | Path | None = None,
        identity: str | None = None,
        progress: bool | None = None,
    ) -> None:
        chosen = int(np.random.default_rng().integers(2**31)) if seed is None else seed
        self.options = Options(find_method(method), unit or "", queries, check, target, chosen, long)
        _checked(self.options)
        self.model: Model = model_of(
            model, tokenizer, output=output, labels=labels, precision=precision, device=device, batch_size=batch_size
        )
        self.engine = Engine(self.model, cache, identity, progress)
        self._pipeline = Pipeline(self.model, self.engine)

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self,
        text: str,
        /,
        *,
        method: str | Method | None = ...,
        unit: str | None = ...,
        queries: int | None = ...,
        check: int | None = ...,
        target: Target | _Unset = ...,
        seed: int | None = ...,
        long: Literal["cut", "window"] | None = ...,
        errors: Literal["raise", "keep"] = ...,
        first: int = ...,
    ) -> Explanation: ...
    @overload
    def __call__(
        self,
        text: Iterable[str],
        /,
        *,
        method: str | Method | None = ...,
        unit: str | None = ...,
        queries: int | None = ...,
        check: int | None = ...,
        target: Target | _Unset = ...,
        seed: int | None = ...,
        long: Literal["cut", "window"] | None = ...,
        errors: Literal["raise", "keep"] = ...,
        first: int = ...,
    ) -> Explanations: ...
    def __call__(
        self,
        text: str | Iterable[str],
        /,
        *,
        method: str | Method | None = None,
        unit: str | None = None,
        queries: int | None = None,
        check: int | None = None,
        target: Target | _Unset = _UNSET,
        seed: int | None = None,
        long: Literal["cut", "window"] | None = None,
        errors: Literal["raise", "keep"] = "raise",
        first: int = 0,
    ) -> Explanation | Explanations:
        """Explain one text, or several at once, which share batches. Options given here replace those of the Explainer.

        Args:
            text: A string, or a list, array, Series, column or generator of strings.
            method, unit, queries, check, target, seed, long: As the Explainer takes them.
            errors: What becomes of a text that cannot be explained: "raise" ends with its error; "keep" goes on, and the
                result names it in ``failures``. For several texts.
            first: The number that the first of several texts has in messages.

        Returns:
            An Explanation for a string, Explanations for several texts.
        """
        if errors not in ("raise", "keep"):
            raise InputError(f"errors must be 'raise' or 'keep'; got {errors!r}")
        base = self.options
        chosen = base.method if method is None else find_method(method)
        options = _checked(
            replace(
                base,
                method=chosen,
                unit=unit or base.unit,
                queries=base.queries if queries is None else queries,
                check=base.check if check is None else check,
                target=base.target if isinstance(target, _Unset) else target,
                seed=base.seed if seed is None else seed,
                long=base.long if long is None else long,
                errors=errors if not isinstance(text, str) else "raise",
            )
        )
        self.model.head.resolve(options.target, np.zeros(self.model.head.n_outputs))  # before anything is asked
        if isinstance(text, str):
            return Explanations(self._pipeline.run([text], options))[0]
        return Explanations(self._pipeline.run(as_texts(text), options, first))

    def tokens(self, text: str) -> list[int] | list[str]:
        """Return the units of a text as they can be counted: token ids where units are tokens of the model, else names."""
        options = _checked(self.options)
        reading, made = self._pipeline.read(text, options.unit, options.long)
        if self.model.tokenized and options.unit in ("token", "type"):
            return [int(number) for number in reading.types]
        return list(made.names)

    def made(self, explanation: Explanation, target: Target | _Unset = _UNSET) -> bool:
        """Return whether an explanation is one that this Explainer would make of its text: same model, method and options."""
        options = _checked(self.options if isinstance(target, _Unset) else replace(self.options, target=target))
        mine = (options.method.name, options.seed, options.unit, self.model.name, options.settings(self.engine.identify()))
        e = explanation
        return mine == (e.method, e.seed, e.unit, e.model, dict(e.settings))

    def ask(self, explanation: Explanation, keep: ArrayLike) -> Floats:
        """Return what the model itself says where `explanation.predict` guesses: its scores for presence of units (m, n)."""
        return self.ask_many([explanation], [keep])[0]

    def ask_many(self, explanations: Sequence[Explanation], keeps: Sequence[ArrayLike]) -> list[Floats]:
        """Return what `ask` says of each explanation and its rows. All texts share batches; equal queries are asked once."""
        if len(explanations) != len(keeps):
            raise InputError(f"ask_many needs one keep an explanation; got {len(keeps)} for {len(explanations)}")
        head, found = self.model.head, list[Floats]()
        questions: list[Queries] = []
        for number, (explanation, keep) in enumerate(zip(explanations, keeps, strict=True)):
            where = "" if len(explanations) == 1 else f" (explanation {number})"
            questions.append(self._question(explanation, keep, where))
            if number == len(explanations) - 1 or sum(question.keep.size for question in questions) > CELLS:
                for answer in self.engine(questions):
                    scores = head.scores(answer.outputs, self._column(explanations[len(found)]))
                    found.append(scores if np.ndim(keeps[len(found)]) == 2 else scores[0])
                questions = []
        return found

    def _column(self, explanation: Explanation) -> int | Literal["all"]:
        """Return the target of an explanation as the index of a class of this model."""
        if explanation.values.ndim == 2:
            return "all"
        if explanation.target not in self.model.head.labels:
            raise InputError(f"{explanation.target!r} is no class of this model; ask the model that was explained")
        return self.model.head.labels.index(explanation.target)

    def _question(self, explanation: Explanation, keep: ArrayLike, where: str) -> Queries:
        """Return what is asked for presence of units (m, n) or (n,), as the model reads the text."""
        reading, made = self._pipeline.read(explanation.text, explanation.unit, self.options.long)
        if made.names != explanation.units:
            raise InputError(
                f"this model reads the text as {len(made)} {explanation.unit}s, the explanation has {len(explanation)}{where};"
                " ask the model that was explained"
            )
        rows = np.atleast_2d(presence(keep, len(made)))
        if not reading.empty and not rows.any(axis=1).all():
            raise InputError(
                f"{self.model.name} cannot be asked about nothing: a row of keep must have at least one unit{where}"
            )
        return Queries(reading, made.atoms(rows))


def _checked(options: Options) -> Options:
    """Check the options; an empty unit becomes that of the method."""
    unit = options.unit or options.method.unit
    if unit not in KINDS:
        raise InputError(f"unit must be one of {', '.join(map(repr, KINDS))}; got {unit!r}")
    if options.long not in ("cut", "window"):
        raise InputError(f"long must be 'cut' or 'window'; got {options.long!r}")
    for name, number, least in (("queries", options.queries, 2), ("check", options.check, 0)):
        if number is not None:
            whole_number(name, number, least)
    whole_number("seed", options.seed, 0)
    return replace(options, unit=unit)
