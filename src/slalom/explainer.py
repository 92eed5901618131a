"""The Explainer: one model, its options, and explanations of its decisions."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, cast, final, overload

import numpy as np
from numpy.typing import ArrayLike

from slalom.core.checks import Floats, whole_number
from slalom.errors import InputError
from slalom.lexicon import Lexicon
from slalom.methods import JointMethod, Method
from slalom.methods import method as find_method
from slalom.models import Decision, Engine, Estimate, Model, Output, Prices, Queries, Reading, Target, model_of
from slalom.models.costs import Spending
from slalom.models.removal import Removal, removal_name
from slalom.models.strings import digest_of
from slalom.pipeline import LEAST_QUERIES, Options, Pipeline, Step, certify, refine
from slalom.result import CertifiedShapley, Explanation, Explanations, Failure, Flip, presence
from slalom.result.flip import Masks, Reply, Rule, confirm
from slalom.text import CHOSEN, UnitFunction, Units, as_examples

Example = str | tuple[Any, ...] | Mapping[str, Any]  # a text, or a record of fields


class CallOptions(TypedDict, total=False):
    """Options that a call may replace: `explainer(text, queries=500)`.

    An option that is not given is that of the Explainer. Every value means what it means in the constructor, None included:
    `queries=None` restores the default budget, `seed=None` draws a seed.
    """

    method: str | Method
    unit: str | UnitFunction | None
    queries: int | Literal["auto"] | None
    tolerance: float | None
    max_queries: int | None
    check: int | None
    target: Target
    seed: int | None
    long: Literal["cut", "window"]
    pairs: bool


class ModelKeywords(TypedDict, total=False):
    """Options of the Explainer about its model and how to query it; `slalom.compare` passes them on."""

    output: Output | None
    labels: Iterable[object] | Mapping[Any, object] | None
    batch_size: int | None
    precision: Literal["bfloat16"] | None
    device: str | None
    trust_remote_code: bool
    cache: str | Path | None
    identity: str | None
    long: Literal["cut", "window"]
    prices: Mapping[str, Any] | Prices | str | Path | None
    max_cost: float | None
    background: Any


@final
class Explainer:
    """Explains the decisions of one text classifier.

    Args:
        model: A Hugging Face classifier, a text-classification pipeline, the path of a saved classifier, a fitted scikit-learn
            classifier, or a callable ``list[str] -> (n, n_classes)``; callables may take tuples, dictionaries or data frames of
            fields instead. Default: the bundled sentiment classifier of English film reviews.
        tokenizer: The tokenizer of a Hugging Face classifier.
        method: Name of a method (`slalom.list_methods()` lists them), or a Method.
        unit: "token", "type" (equal tokens share all parameters), "word", "sentence", or a function from a text to the
            ``(start, end)`` pairs of its units, in order and without overlaps. What is between two units belongs to the one
            before it. Results and caches know a function by its module and name. Default: the method's.
        queries: Budget of model queries per text, or "auto": rounds of queries, each doubling the budget, until the error on
            held-out queries no longer falls. Default: five per unit, between 200 and 1000.
        tolerance: Another goal of "auto", which it implies: rounds until the 95% intervals of `removal` of the ten strongest
            units are within plus and minus this number, in units of the score (log odds).
        max_queries: Largest budget of "auto". Default: 5000; 1500 for "joint" and "local". For a fixed budget: a limit of all
            queries about a text, those that test it included; a text that needs more is an error before any is asked.
        check: Number of held-out queries that test the explanation, besides the budget. Default: a tenth of the budget, at
            least 20 and at most 100 (20 for methods that need few queries); 100 for "auto".
        target: The class to explain, by label or index, or "all" for every class. Labels take precedence: of the classes -1
            and 1 the target 1 is the second. Default: class 1 of two, else the class that the model predicts.
        seed: Seed of the queries and the fit. None draws one, which the explanation records.
        long: "cut" explains the part of a long text that fits into the model's context, with a warning; "window" explains the
            mean score of overlapping windows.
        pairs: Whether `joint` looks for pairs of units that act together, and asks the model about the strongest: at most 12
            queries besides the budget.
        output: What a callable returns: "logits", "probabilities", "log_odds", or "scores" for numbers without a
            probability.
        labels: Names of a callable's classes: a list in the order of its columns, or a mapping such as ``id2label``.
        batch_size: Strings per call of a callable or scikit-learn model.
        precision: "bfloat16" runs a Hugging Face model in half precision.
        device: Device for a model given by its path.
        trust_remote_code: Whether a model given by its path may run Python modules that its folder brings; else a folder that
            needs them is an error.
        cache: An SQLite file that keeps the model's answers.
        identity: Name of a callable in the cache; without one its answers are not kept between calls.
        progress: Whether to show a progress bar. Default: in a terminal, where it takes long.
        prices: Prices of tokens, in dollars per million: ``{"input": 0.15, "output": 0.60}``, a table of such prices by names
            of models, or a JSON file with either. The progress bar then shows what is spent.
        max_cost: Most dollars that this Explainer may spend, in all its calls. A call whose estimate is above what is left
            is an error before any request; a request that would exceed it is not sent.
        prior: A Lexicon of the model, or its file: what `joint` begins with, so that fewer queries do (0: none but the text
            and its new words). Other methods of a call do not use it.
        removal: What it means to remove units: "drop" (what follows moves forward), "mask" (the mask or unknown token in
            their place; "_" for models that read strings), "blank" (the padding token; blanks), or a function that takes the
            kept parts of a text, with None for each gap, and returns a text, or several, of whose answers the mean is taken.
        background: Rows of values, as a data frame or dictionaries, that replace removed fields which are no texts: the mean of
            the answers to up to eight of them, each a query. Default: such a field is missing (NaN).

    Raises:
        InputError: If the model cannot be explained or an option is out of range.

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
        unit: str | UnitFunction | None = None,
        queries: int | Literal["auto"] | None = None,
        tolerance: float | None = None,
        max_queries: int | None = None,
        check: int | None = None,
        target: Target = None,
        seed: int | None = 0,
        long: Literal["cut", "window"] = "cut",
        pairs: bool = True,
        output: Output | None = None,
        labels: Iterable[object] | Mapping[Any, object] | None = None,
        batch_size: int | None = None,
        precision: Literal["bfloat16"] | None = None,
        device: str | None = None,
        trust_remote_code: bool = False,
        cache: str | Path | None = None,
        identity: str | None = None,
        progress: bool | None = None,
        prices: Mapping[str, Any] | Prices | str | Path | None = None,
        max_cost: float | None = None,
        prior: Lexicon | str | Path | None = None,
        removal: Removal = "drop",
        background: Any = None,
    ) -> None:
        self.prior = Lexicon.load(prior) if isinstance(prior, (str, Path)) else prior
        chosen = find_method(method) if self.prior is None else self.prior.on(find_method(method))
        self.options = Options(
            chosen, unit, queries, check, target, _drawn(seed), long,
            tolerance=tolerance, max_queries=max_queries, pairs=pairs, removal=removal_name(removal),
        )  # fmt: skip
        self.model: Model = model_of(
            model, tokenizer, output=output, labels=labels, precision=precision, device=device, batch_size=batch_size,
            trust_remote_code=trust_remote_code, background=background,
        ).removing(removal)  # fmt: skip
        if background is not None:
            self.options = replace(self.options, background=digest_of(self.model))
        self.engine = Engine(self.model, cache, identity, progress)
        self.engine.spending = Spending(self.model, prices, max_cost)
        self.pipeline = Pipeline(self.model, self.engine)
        if self.prior is not None:
            self.prior.check(self.engine, self.options.unit_kind)

    def with_prior(self, prior: Lexicon | None) -> "Explainer":
        """Return the same Explainer, with its cache, beginning with a lexicon, or with none.

        Raises:
            InputError: The lexicon is of another model or of other units, or the method takes none.
        """
        made, method = copy(self), self.options.method
        if prior is not None:
            prior.check(self.engine, self.options.unit_kind)
            method = prior.on(method)
        elif isinstance(method, JointMethod):
            method = method.knowing(None)
        made.prior, made.options = prior, replace(self.options, method=method, queries=self._queries_of(method))
        return made

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, text: Example, /, *, errors: Literal["raise", "keep"] = ..., **options: Unpack[CallOptions]
    ) -> Explanation: ...
    @overload
    def __call__(
        self,
        text: Iterable[Example],
        /,
        *,
        columns: Sequence[str] | str | None = ...,
        errors: Literal["raise", "keep"] = ...,
        **options: Unpack[CallOptions],
    ) -> Explanations: ...
    def __call__(
        self,
        text: Example | Iterable[Example],
        /,
        *,
        columns: Sequence[str] | str | None = None,
        errors: Literal["raise", "keep"] = "raise",
        **options: Unpack[CallOptions],
    ) -> Explanation | Explanations:
        """Explain one text, or several at once, which share batches.

        Args:
            text: A string; a tuple or a dictionary of fields for a model that takes such; a list of these; a data frame.
            columns: Columns of a data frame that are the fields of a record, or the one that has the texts.
            errors: With "keep" a text that fails is left out of the result, which lists it as a Failure.
            **options: Options of the Explainer that this call replaces.

        Example:
            >>> explainer = Explainer(lambda texts: [float("good" in text) for text in texts], output="log_odds", queries=50)
            >>> [e.strongest(1) for e in explainer(["a good film", "good"], unit="word", queries=None)]
            [[1], [0]]
        """
        chosen = self._configured(errors=errors, **options)
        texts, single = as_examples(text, columns, self.model.reads_records, errors == "keep")
        if single:
            chosen = replace(chosen, errors="raise")
        self._check(texts, chosen)
        explanations = Explanations(self.pipeline.run(texts, chosen))
        return explanations[0] if single else explanations

    def stream(
        self, texts: Iterable[Example], /, *, errors: Literal["raise", "keep"] = "raise", **options: Unpack[CallOptions]
    ) -> Iterator[Explanation | Failure]:
        """Explain several texts as a call does, one after the other: each is there as soon as it is finished.

        Args:
            texts: The texts; they share batches.
            errors: As in a call; with "keep" a text that fails is a Failure.
            **options: As in a call.

        Yields:
            One explanation per text, in their order.

        Example:
            >>> explainer = Explainer(lambda texts: [float("good" in text) for text in texts], output="log_odds", queries=50)
            >>> [e.text for e in explainer.stream(["a good film", "good"])]
            ['a good film', 'good']
        """
        chosen, listed = self._configured(errors=errors, **options), self._examples(texts, errors)
        self._check(listed, chosen)
        yield from self.pipeline.run(listed, chosen)

    def refine(self, text: Example, /, *, first: int = 50, **options: Unpack[CallOptions]) -> Iterator[Explanation]:
        """Explain one text at once, and then better and better.

        The first explanation is that of a part of the queries of a call, the next one of twice as many, the last one of all:
        it is the one that a call returns. Each query is asked once. The first of several rounds is not tested, so that it
        comes early; all others are tested by the same held-out queries. A method that has no budget or chooses its own
        queries has one round.

        Args:
            text: The text.
            first: Queries of the first round.
            **options: As in a call. Where ``queries="auto"``, further rounds follow as in a call.

        Yields:
            An explanation per round. A generator that is closed asks nothing more.

        Raises:
            InputError: As a call does, when the first explanation is asked for.
            ModelError: As a call does.

        Example:
            >>> explainer = Explainer(lambda texts: [float("good" in text) for text in texts], output="log_odds")
            >>> text = "not a very good film but one that I could see again with my friends"
            >>> [e.queries for e in explainer.refine(text)]
            [50, 120, 220]
        """
        for step in self.steps(text, first=first, **options):
            if step.explanation is not None:
                yield step.explanation

    def steps(
        self, text: Example, /, *, first: int = 50, seconds: float | None = None, **options: Unpack[CallOptions]
    ) -> Iterator[Step]:
        """Explain one text as `refine` does, in small steps; for programs with several texts at a time, such as a server.

        Args:
            text: The text.
            first: As in `refine`.
            seconds: How long a step that asks the model should take, about; None: a round is asked in one step.
            **options: As in a call.

        Yields:
            A step after each lot of queries and after each explanation.
        """
        whole_number("first", first, 2)
        chosen = self._configured(**options)
        (example,) = self._examples(text)
        self._check([example], chosen)
        yield from refine(self.pipeline, example, chosen, first, seconds)

    def _examples(self, given: Any, errors: str = "raise") -> list[Any]:
        return as_examples(given, None, self.model.reads_records, errors == "keep")[0]

    def _check(self, texts: Sequence[Any], options: Options) -> None:
        """Fail before any query where the target is not a class or the texts cost too much."""
        self._check_target(options)
        if self.engine.spending.max_cost is not None:
            estimate = self._estimated(texts, options)
            self.engine.spending.reserve(estimate.cost or 0.0, f"this call ({estimate})")

    def _check_target(self, options: Options) -> None:
        self.model.head.resolve(options.target, np.zeros(self.model.head.n_outputs))

    def estimate(
        self,
        text: Example | Iterable[Example],
        /,
        *,
        errors: Literal["raise", "keep"] = "raise",
        **options: Unpack[CallOptions],
    ) -> Estimate:
        """Return what explaining texts will ask and cost; the model is asked nothing.

        Equal queries count once, and those in the cache are free. For a budget that grows it is the first round.

        Args:
            text: A string, or several, as in a call.
            errors: As in a call; with "keep" a text that cannot be explained costs nothing.
            **options: As in a call.

        Raises:
            InputError: As a call does.

        Example:
            >>> explainer = Explainer(lambda texts: [len(t) for t in texts], output="scores", prices={"input": 0.15})
            >>> print(explainer.estimate("one two"))
            4 queries, about 4 tokens: $0.0000006
        """
        chosen = self._configured(errors=errors, **options)
        self._check_target(chosen)
        return self._estimated(self._examples(text, errors), chosen)

    def _estimated(self, texts: Sequence[Any], options: Options) -> Estimate:
        with warnings.catch_warnings():  # the call itself warns
            warnings.simplefilter("ignore", UserWarning)
            return self.pipeline.estimate(texts, options)

    def tokens(self, text: Example) -> Sequence[int | str]:
        """Return the units of a text in a form that can be counted.

        Args:
            text: The text, or the fields of a record.

        Returns:
            Token ids (n,) where units are tokens of the model, else the names of the units; a unit of several tokens, which
            are parts of one character, has its name too.
        """
        unit = self.options.unit_or_default
        (example,) = self._examples(text)
        reading, text_units = self.pipeline.read(example, unit, self.options.long)
        if not self.model.tokenized or unit not in ("token", "type"):
            return list(text_units.names)
        ids = dict(zip(text_units.unit_of_atom.tolist(), reading.types.tolist(), strict=True))
        return [ids[i] if text_units.sizes[i] == 1 else name for i, name in enumerate(text_units.names)]

    def ask(self, explanation: Explanation, keep: ArrayLike) -> Floats:
        """Return the model's own scores where `explanation.predict` gives predicted ones.

        Args:
            explanation: An explanation of this model.
            keep: Presence of its units, (m, n) or (n,).

        Returns:
            Scores (m,), or (m, n_classes) for an explanation of all classes; without the first axis for one row.

        Raises:
            InputError: If this is not the model that was explained, or `keep` does not fit the units.
        """
        return self.ask_many([explanation], [keep])[0]

    def ask_many(self, explanations: Sequence[Explanation], keeps: Sequence[ArrayLike]) -> list[Floats]:
        """Return what `ask` returns, for several explanations. All texts share batches; equal queries are asked once.

        Args:
            explanations: Explanations of this model.
            keeps: Presence of the units of each, (m, n) or (n,).

        Returns:
            The scores for each explanation.

        Raises:
            InputError: As `ask` does, or if there is not one `keep` per explanation.
        """
        if len(explanations) != len(keeps):
            raise InputError(f"ask_many needs one keep per explanation; got {len(keeps)} for {len(explanations)}")
        wheres = [""] if len(explanations) == 1 else [f" (explanation {number})" for number in range(len(explanations))]
        questions = [self._question(*asked) for asked in zip(explanations, keeps, wheres, strict=False)]
        results = list[Floats]()
        for explanation, keep, answer in zip(explanations, keeps, self.engine(questions), strict=True):
            scores = self.model.observe(answer.outputs, self._column(explanation)).scores
            results.append(scores if np.ndim(keep) == 2 else scores[0])
        return results

    def decide_parts(self, explanation: Explanation, keep: ArrayLike) -> tuple[Floats, list[Decision]]:
        """Return what the model says about parts of a text: scores as `ask` does, and its decisions.

        Args:
            explanation: An explanation of this model.
            keep: Presence of its units, (m, n).

        Returns:
            The scores (m,), or (m, n_classes) for an explanation of all classes, and a decision per row.

        Raises:
            InputError: As `ask` does.

        Example:
            >>> explainer = Explainer(lambda texts: [t.count("!") - 0.5 for t in texts], output="log_odds")
            >>> scores, decisions = explainer.decide_parts(explainer("Stop! Now!"), [[1, 1, 1, 1], [1, 0, 1, 0]])
            >>> scores.tolist(), [d.label for d in decisions]
            ([1.5, -0.5], ['1', '0'])
        """
        (answer,) = self.engine([self._question(explanation, keep, "")])
        scores = self.model.observe(answer.outputs, self._column(explanation)).scores
        return scores, self.model.head.decide(answer.outputs[:, : self.model.head.n_outputs])

    def decide(self, texts: Sequence[Example], target: Target = None) -> tuple[Floats, list[Decision]]:
        """Return what the model says about whole texts.

        Args:
            texts: The texts.
            target: The class of the scores, by label or index, or "all". Default: class 1 of two, else the class with the
                highest output for the first text.

        Returns:
            The scores (m,), or (m, n_classes) for "all", and a decision per text.

        Raises:
            InputError: There is no such class, or a text is not a string.
            ModelError: If the model fails or its answers are unusable.

        Example:
            >>> explainer = Explainer(lambda texts: [t.count("!") - 0.5 for t in texts], output="log_odds")
            >>> scores, decisions = explainer.decide(["Stop!", "Go"])
            >>> scores.tolist(), [d.label for d in decisions]
            ([0.5, -0.5], ['1', '0'])
        """
        self.model.head.resolve(target, np.zeros(self.model.head.n_outputs))  # fails before any query
        queries = []
        for text in self._examples(texts):
            reading, _ = self.pipeline.read(text, "token", self.options.long)
            queries.append(Queries(reading, np.ones((1, len(reading.names)), dtype=bool)))
        answers = self.engine(queries)
        outputs = np.concatenate([answer.outputs for answer in answers]) if answers else np.zeros((0, self.model.n_columns))
        column = self.model.head.resolve(target, outputs[0] if len(outputs) else np.zeros(self.model.head.n_outputs))
        decisions = self.model.decisions([query.reading.text for query in queries], outputs)
        return self.model.observe(outputs, column).scores, decisions

    def flip(self, explanation: Explanation, *, threshold: float | None = None, max_queries: int = 50) -> Flip | None:
        """Return a small set of units without which this model decides otherwise.

        The surrogate proposes the set. Where the model does not agree, it is asked about larger sets until its decision
        changes; then units that the set does not need are left out. Every set that is returned is confirmed by the model.

        Args:
            explanation: An explanation of this model.
            threshold: As in `Explanation.flip`.
            max_queries: Most queries to the model; with fewer, the set may be larger than it must be, or not be found.

        Returns:
            The set; None where none of the sets that were asked changes the decision.

        Raises:
            InputError: If this is not the model that was explained, the scores have no sign, or there is no threshold.

        Example:
            >>> explainer = Explainer(lambda texts: [t.count("!") - 0.5 for t in texts], output="log_odds")
            >>> explainer.flip(explainer("Stop! Now!")).units
            (1, 3)
        """
        rule, head, target = Rule(explanation, threshold), self.model.head, self._column(explanation)
        several = threshold is None and target != "all" and head.kind == "classes" and len(head.labels) > 2

        def ask(keep: Masks) -> list[Reply]:
            (answer,) = self.engine([self._question(explanation, keep, "")])
            replies = rule.replies(self.model.observe(answer.outputs, target).scores)
            if not several:
                return replies
            is_target = explanation.label == explanation.target  # the score of one class does not tell the label
            labels = [decision.label for decision in head.decide(answer.outputs[:, : head.n_outputs])]
            return [
                Reply(reply.score, (label == explanation.target) != is_target, label)
                for reply, label in zip(replies, labels, strict=True)
            ]

        empty = self._question(explanation, np.ones(len(explanation)), "").reading.empty
        return confirm(explanation, ask, empty, threshold, max_queries)

    def shapley(self, explanation: Explanation, *, queries: int = 200, seed: int | None = 0) -> CertifiedShapley:
        """Return Shapley values of the model itself, with 95% intervals that do not need the surrogate to be right.

        The model is asked about random parts of the text and their complements. Surrogates fitted to four fifths of the
        answers are corrected by the others, so the values have no bias; a better surrogate makes intervals narrower. Queries
        for all parts of the text make the values exact. With fewer than 100 queries answers that are rare are easily missed.

        Args:
            explanation: An explanation of this model; one of few queries will do, as only its held-out answers are used.
            queries: Number of queries, at least 12 or all.
            seed: Seed of the queries. None draws one.

        Raises:
            InputError: As `ask` does, for too few queries, or if the model accepts no empty text or its scores are not exact.

        Example:
            >>> explainer = Explainer(lambda texts: [t.count("!") + 1.0 for t in texts], output="log_odds")
            >>> print(explainer.shapley(explainer("Stop! Now!")).values.round(9) + 0.0)
            [0. 1. 0. 1.]
        """
        reading, text_units = self._read(explanation)
        if not reading.empty:
            raise InputError(f"Shapley values start at the empty text, which {self.model.name} does not accept")
        return certify(self.engine, reading, text_units, explanation, self._column(explanation), queries, _drawn(seed))

    def _configured(self, *, errors: str = "raise", **options: Unpack[CallOptions]) -> Options:
        unknown = options.keys() - CallOptions.__annotations__.keys()
        if unknown:
            names = ", ".join(CallOptions.__annotations__)
            raise TypeError(f"an option of a call must be errors, {names}; got {sorted(unknown)[0]!r}")
        changes = cast(dict[str, Any], dict(options))
        if "method" in changes:
            changes["method"] = found = find_method(changes["method"])
            if self.prior is not None and found.name == self.options.method.name:
                changes["method"] = self.options.method
            changes.setdefault("queries", self._queries_of(changes["method"]))
        if "seed" in changes:
            changes["seed"] = _drawn(changes["seed"])
        if changes.get("queries", "auto") != "auto":
            changes = {"tolerance": None, **({"max_queries": None} if self.options.auto else {})} | changes
        elif changes.get("tolerance") is not None:
            changes = {"queries": "auto"} | changes
        chosen = replace(self.options, **changes, errors=errors)
        if self.prior is not None and chosen.method.prior is not None and "unit" in changes:
            self.prior.check(self.engine, chosen.unit_kind)
        return chosen

    def _queries_of(self, method: Method) -> int | str | None:
        """Return the budget of a method: so few queries as with a lexicon only do with one."""
        queries = self.options.queries
        return None if method.prior is None and isinstance(queries, int) and queries < LEAST_QUERIES else queries

    def _column(self, explanation: Explanation) -> int | Literal["all"]:
        if explanation.values.ndim == 2:
            return "all"
        if explanation.target not in self.model.head.labels:
            raise InputError(f"{explanation.target!r} is not a class of this model; ask the model that was explained")
        return self.model.head.labels.index(explanation.target)

    def _read(self, explanation: Explanation, where: str = "") -> tuple[Reading, Units]:
        """Return the text of an explanation as the model reads it, and its units."""
        given = self.model.given_units(explanation.text, explanation.unit) is not None  # runs of these, perhaps
        cells = explanation.spans if given or explanation.unit == CHOSEN else None  # whatever function found them
        reading, text_units = self.pipeline.read(
            explanation.text, explanation.unit, explanation.settings.get("long", self.options.long), cells
        )
        if text_units.names != explanation.units:
            raise InputError(
                f"this model reads the text as {len(text_units)} {explanation.unit}s, the explanation has"
                f" {len(explanation)}{where}; ask the model that was explained"
            )
        return reading, text_units

    def _question(self, explanation: Explanation, keep: ArrayLike, where: str) -> Queries:
        """Return the query for presence of units (m, n) or (n,), as the model reads the text."""
        reading, text_units = self._read(explanation, where)
        rows = np.atleast_2d(presence(keep, len(text_units)))
        if not reading.empty and not rows.any(axis=1).all():
            raise InputError(
                f"{self.model.name} does not accept an empty input: each row of keep must have at least one unit{where}"
            )
        return Queries(reading, text_units.atoms(rows))


def _drawn(seed: int | None) -> int:
    return int(np.random.default_rng().integers(2**31)) if seed is None else seed
