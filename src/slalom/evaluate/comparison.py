"""Running a comparison: methods side by side, on one model and the same texts.

    for every text, method and budget:  explanation -> near, far, profile, deletion, insertion, ... , queries, tokens, seconds

One record each. The model is queried through one engine. Each method starts with an empty cache, so that its time is its own;
the queries that measure it are the same for all methods of a text and are sent once. Records are appended to a file as they
are made, so that an interrupted comparison can be continued.
"""

import json
import logging
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Unpack, cast, final

import numpy as np
from tqdm.auto import tqdm

from slalom.budget import AUTO
from slalom.core.checks import plain, whole_number
from slalom.errors import CostLimit, InputError, ModelError, SlalomError, one_line
from slalom.evaluate.aopc import ERASER, deletion_masks, fractions_of, insertion_masks, perturbation
from slalom.evaluate.checks import ranking_score
from slalom.evaluate.compared import MEASURES, Compared
from slalom.evaluate.fidelity import fidelity, masks
from slalom.evaluate.human import consensus, human_attention, unit_marks
from slalom.evaluate.naive_bayes import NaiveBayes as LogRatios
from slalom.evaluate.naive_bayes import naive_bayes_correlation
from slalom.evaluate.stability import seed_instability
from slalom.explainer import Explainer, ModelKeywords
from slalom.files import drop_partial_line, read_complete_lines, write_text
from slalom.methods import Method, NaiveBayes
from slalom.methods import method as find_method
from slalom.models import Estimate, Queries, Target
from slalom.result import Explanation
from slalom.text import as_texts

_LOG = logging.getLogger("slalom")
DEFAULT_METHODS = (
    "joint", "local", "eff", "fidel", "ridge", "leave-one-out", "lime", "kernel-shap", "integrated-gradients", "random",
)  # fmt: skip
_BATCH = 8  # texts explained together
_KEYS = {"text", "method", "budget"}  # what a record is found by
_COSTS = ("queries", "tokens", "seconds")
_Budget = int | Literal["auto"] | None
_Annotations = Sequence[tuple[Sequence[str], Any]]


def compare(
    model: Any,
    texts: Iterable[str],
    tokenizer: Any = None,
    *,
    methods: Sequence[str | Method] = DEFAULT_METHODS,
    queries: int | Literal["auto"] | Sequence[int | Literal["auto"]] = (500,),
    measures: Sequence[str] | None = None,
    corpus: tuple[Sequence[str], Sequence[int]] | None = None,
    human: _Annotations | None = None,
    target: Target = None,
    unit: str | None = "token",
    seed: int | None = 0,
    out: str | Path | None = None,
    progress: bool | None = None,
    **options: Unpack[ModelKeywords],
) -> Compared:
    """Explain texts by several methods and measure all of them.

    Args:
        model: As `Explainer` takes it.
        texts: The texts to explain.
        tokenizer: As `Explainer` takes it.
        methods: Names of methods, or Methods; `slalom.methods()` lists the names.
        queries: One or more budgets per text; "auto" asks in rounds until the error on its own held-out queries, which count
            as queries, no longer falls.
        measures: Names of `MEASURES`. Default: all that apply, except "instability", which explains everything again with
            another seed.
        corpus: Labelled texts and their labels, 0 or 1. They add the measure "naive_bayes" and the method "naive-bayes".
        human: Words and maps (annotators, words) for each text, which must be ``" ".join(words)``. Adds the measure "human".
        target: As `Explainer` takes it.
        unit: As `Explainer` takes it; None: that of each method.
        seed: Seed of the queries, the fits and the masks. None draws one, which `about` records.
        out: File for the records; the same call continues an interrupted comparison.
        progress: Whether to show a progress bar. Default: in a terminal.
        **options: Options of the `Explainer` about the model: output, labels, batch_size, precision, device, cache, identity,
            long, prices and max_cost.

    Returns:
        The records, with tables and pictures. A method that fails or cannot be used on this model is left out and named in
        `skipped`.

    Raises:
        InputError: If an argument is out of range, no method can be used, or `out` holds something else.
        CostLimit: If it would cost more than `max_cost`, by the estimate before anything is asked, or as it goes; what was
            measured until then is in `out`.
        ModelError: If the model fails or its answers are unusable.
        TypeError: If there is no such option.

    Example:
        >>> def model(texts):
        ...     return [2.0 * ("good" in text) - ("bad" in text) for text in texts]
        >>> texts = ["a good film", "a bad end"]
        >>> compare(model, texts, methods=["ridge", "random"], queries=50, output="log_odds", progress=False).rows
        [('ridge', 50), ('random', None)]
    """
    comparison = _prepared(
        model, texts, tokenizer, methods, queries, measures, corpus, human, target, unit, seed, out, dict(options)
    )
    spending = comparison.evaluator.explainer.engine.spending
    if spending.max_cost is not None:
        estimate = comparison.estimate()
        spending.check(estimate.cost or 0.0, f"this comparison ({estimate})")
    return comparison.compared(progress)


def comparison_estimate(
    model: Any,
    texts: Iterable[str],
    tokenizer: Any = None,
    *,
    methods: Sequence[str | Method] = DEFAULT_METHODS,
    queries: int | Literal["auto"] | Sequence[int | Literal["auto"]] = (500,),
    measures: Sequence[str] | None = None,
    target: Target = None,
    unit: str | None = "token",
    seed: int | None = 0,
    **options: Unpack[ModelKeywords],
) -> Estimate:
    """Return what a comparison will ask and cost; the model is asked nothing.

    It counts the queries of every method and budget, those that measure it, and twenty of each method that come before the
    first text. What is in the cache is free. Methods that choose queries as they go, and budgets of "auto", ask more.

    Args:
        model: As `compare` takes it.
        texts: As `compare` takes them.
        tokenizer: As `compare` takes it.
        methods: As `compare` takes them.
        queries: As `compare` takes them.
        measures: As `compare` takes them.
        target: As `compare` takes it.
        unit: As `compare` takes it.
        seed: As `compare` takes it.
        **options: As `compare` takes them.

    Raises:
        InputError: As `compare` does.

    Example:
        >>> def model(texts):
        ...     return [2.0 * ("good" in text) - ("bad" in text) for text in texts]
        >>> options = {"methods": ["ridge"], "queries": 50, "output": "log_odds", "prices": {"input": 1.0}}
        >>> print(comparison_estimate(model, ["one good film and two bad ones", "a bad end"], **options))
        164 queries, about 754 tokens: $0.000754
    """
    return _prepared(
        model, texts, tokenizer, methods, queries, measures, None, None, target, unit, seed, None, dict(options)
    ).estimate()


def _prepared(
    model: Any,
    texts: Any,
    tokenizer: Any,
    methods: Any,
    queries: Any,
    measures: Any,
    corpus: Any,
    human: Any,
    target: Target,
    unit: str | None,
    seed: int | None,
    out: Any,
    options: dict[str, Any],
) -> "_Comparison":
    """Check all arguments of a comparison."""
    if isinstance(model, Explainer):
        raise InputError("model must be what an Explainer takes; got an Explainer: pass its model and options instead")
    unknown = sorted(options.keys() - ModelKeywords.__annotations__.keys())
    if unknown:
        taken = ", ".join(ModelKeywords.__annotations__)
        raise TypeError(f"compare has no option {', '.join(unknown)}; those of the model are {taken}")
    texts, budgets, path = _texts(texts), _budgets(queries), _file(out)
    chosen = [find_method(method) for method in _listed("methods", methods, "'joint', 'lime'")]
    if not chosen:
        raise InputError("methods must name at least one method; slalom.methods() lists them")
    names = _measures(measures, corpus is not None, human is not None)
    human = _annotations(human, texts)
    explainer = Explainer(model, tokenizer, target=target, seed=seed, unit=unit, progress=False, **options)
    explainer.model.head.resolve(target, np.zeros(explainer.model.head.n_outputs))  # before anything is asked
    seed = int(explainer.options.seed)
    ratios = None
    if corpus is not None:
        ratios = LogRatios.fit(*_labelled(corpus), explainer.tokens)
        if explainer.tokens(texts[0]) and unit in (None, "token", "type"):
            weights = {cast(int | str, token): (-ratio, ratio) for token, ratio in ratios.ratios.items()}
            chosen.append(NaiveBayes(weights))
    if len({method.name for method in chosen}) != len(chosen):
        raise InputError(f"methods must differ in their names; got {', '.join(method.name for method in chosen)}")
    about = {
        "model": explainer.model.name,
        "identity": explainer.engine.identify(),
        "texts": len(texts),
        "first": texts[0][:80],
        "last": texts[-1][:80],
        "seed": seed,
        "unit": unit,
        "target": plain(target),
    }
    runs = [(method, budget) for method in chosen for budget in (budgets if method.takes_budget else (None,))]
    return _Comparison(texts, runs, _Evaluator(explainer, ratios, human, seed, names), path, about, names)


@final
@dataclass(frozen=True)
class _Comparison:
    """A comparison whose arguments are checked."""

    texts: list[str]
    runs: list[tuple[Method, _Budget]]
    evaluator: "_Evaluator"
    path: Path | None
    about: dict[str, Any]
    names: tuple[str, ...]

    def compared(self, progress: bool | None) -> Compared:
        """Run it."""
        texts, records = self.texts, _Records(self.path, self.about, self.names)
        _run(self.runs, texts, self.evaluator, records, progress)
        rows = records.sorted([(method.name, budget) for method, budget in self.runs])
        if not rows:
            raise InputError(f"no method could be used: {'; '.join(f'{k}: {v}' for k, v in records.skipped.items())}")
        cut = {row["text"] for row in rows if row["cut"]}
        if cut:
            message = f"{len(cut)} of {len(texts)} texts are longer than {self.about['model']} can see, and were cut"
            warnings.warn(message, UserWarning, stacklevel=3)
        return Compared(tuple(rows), self.names, dict(records.skipped), self.about)

    def estimate(self) -> Estimate:
        """Return what it will ask; methods that cannot be used cost nothing."""
        total = self.evaluator.estimate_of_tests(self.texts, len(self.runs))
        first = dict.fromkeys(method for method, _ in self.runs)
        for texts, method, budget in (
            *((self.texts[:1], method, 20) for method in first),
            *((self.texts, method, budget) for method, budget in self.runs),
        ):
            with suppress(SlalomError):
                total = _sum(total, self.evaluator.estimate(texts, method, budget))
        return total


def _sum(one: Estimate, other: Estimate) -> Estimate:
    """Return what two estimates cost together."""
    return one._replace(
        queries=one.queries + other.queries,
        tokens=one.tokens + other.tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cost=None if one.cost is None or other.cost is None else one.cost + other.cost,
        cached=one.cached + other.cached,
        at_least=one.at_least or other.at_least,
    )


def _run(
    runs: Sequence[tuple[Method, _Budget]],
    texts: list[str],
    evaluate: "_Evaluator",
    records: "_Records",
    progress: bool | None,
) -> None:
    """Make the records that are missing, batch by batch. A method that fails is skipped; where the model fails, all stops."""
    missing = {m.name: m for m, budget in runs if not records.has(range(len(texts)), m.name, budget)}
    for method in missing.values():  # the first call loads packages and compiles; its time is not the method's
        try:
            evaluate.explained(texts[:1], method, 20, 0)
        except (ModelError, CostLimit):
            raise
        except Exception as error:  # methods of other packages may raise anything
            records.skip(method.name, error)
    hidden = None if progress is None else not progress
    with tqdm(total=len(texts) * len(runs), unit="explanation", disable=hidden, desc="comparing") as bar:
        for start in range(0, len(texts), _BATCH):
            numbers = list(range(start, min(start + _BATCH, len(texts))))
            evaluate.explainer.engine.forget()
            for method, budget in runs:
                bar.set_postfix_str(method.name)
                if not records.has(numbers, method.name, budget) and method.name not in records.skipped:
                    try:
                        measured = evaluate([texts[i] for i in numbers], numbers, method, budget)
                    except (ModelError, CostLimit):
                        raise
                    except Exception as error:
                        records.skip(method.name, error)
                    else:
                        records.add(measured)
                bar.update(len(numbers))


def _texts(texts: Any) -> list[str]:
    """Return the texts of any ordered container, at least one."""
    if isinstance(texts, str):
        raise InputError("texts must be a list of strings; got one string; pass a list: [text]")
    listed = as_texts(texts)
    wrong = next((number for number, text in enumerate(listed) if not isinstance(text, str)), None)
    if wrong is not None:
        raise InputError(f"texts must be a list of at least one string; text {wrong} is {type(listed[wrong]).__name__}")
    if not listed:
        raise InputError("texts must be a list of at least one string; got none")
    return listed


def _listed(name: str, items: Any, example: str) -> list[Any]:
    """Return the items of a list; a string or a single object is refused."""
    if isinstance(items, (str, bytes)) or not isinstance(items, Iterable) or getattr(items, "shape", None) == ():
        raise InputError(f"{name} must be a list, such as [{example}]; got {items!r:.80}")
    return list(items)


def _budgets(queries: Any) -> list[int | Literal["auto"]]:
    """Return the budgets, each once."""
    single = isinstance(queries, (int, np.integer)) or queries == AUTO
    budgets: list[int | Literal["auto"]] = [
        "auto" if budget == AUTO else whole_number("queries", budget, 2)
        for budget in ([queries] if single else _listed("queries", queries, "500"))
    ]
    if not budgets:
        raise InputError("queries must have at least one budget, such as [500]; got none")
    return list(dict.fromkeys(budgets))


def _file(out: Any) -> Path | None:
    if out is None:
        return None
    if not isinstance(out, (str, os.PathLike)):
        raise InputError(f"out must be the name of a file; got {out!r:.80}")
    if Path(out).is_dir():
        raise InputError(f"out must be the name of a file; {str(out)!r} is a folder")
    return Path(out)


def _labelled(corpus: Any) -> tuple[list[str], list[Any]]:
    try:
        texts, labels = corpus
        return _texts(texts), list(labels)
    except (TypeError, ValueError) as error:
        if isinstance(error, SlalomError):
            raise
        raise InputError(f"corpus must be a pair: labelled texts, and their labels 0 or 1; got {corpus!r:.80}") from error


def _annotations(human: Any, texts: list[str]) -> _Annotations | None:
    """Return the words and maps of each text."""
    if human is None:
        return None
    wrong = "human must have the words and maps of each text, and each text must be its words joined by blanks"
    try:
        pairs = [(list(words), maps) for words, maps in human]
        joined = [" ".join(words) for words, _ in pairs]
    except (TypeError, ValueError) as error:
        raise InputError(f"{wrong}; got {human!r:.80}") from error
    if joined != texts:
        raise InputError(wrong)
    for words, maps in pairs:
        unit_marks(np.zeros((0, 2), dtype=np.int64), words, consensus(maps))  # raises where they do not fit
    return pairs


def _measures(requested: Sequence[str] | None, has_corpus: bool, has_human: bool) -> tuple[str, ...]:
    """Return the requested measures, or all that apply."""
    needs = {
        "naive_bayes": (has_corpus, "a corpus of labelled texts"),
        "human": (has_human, "texts with words that people have marked"),
    }
    if requested is None:
        return tuple(name for name in MEASURES if name != "instability" and needs.get(name, (True, ""))[0])
    requested = _listed("measures", requested, "'near', 'far'")
    for name in requested:
        if name not in tuple(MEASURES):
            raise InputError(f"a measure must be one of {', '.join(MEASURES)}; got {name!r}")
        available, requirement = needs.get(name, (True, ""))
        if not available:
            raise InputError(f"the measure {name!r} needs {requirement}")
    return tuple(name for name in MEASURES if name in requested or name in _COSTS)


@final
class _Evaluator:
    """Explains a batch of texts by one method and measures the explanations."""

    def __init__(
        self,
        explainer: Explainer,
        ratios: LogRatios | None,
        human: _Annotations | None,
        seed: int,
        measures: Sequence[str],
    ) -> None:
        self.explainer, self.ratios, self.human, self.seed, self.measures = explainer, ratios, human, seed, set(measures)

    def explained(self, texts: list[str], method: Method, budget: _Budget, seed: int) -> list[Explanation]:
        """Explain texts without a warning for each one that is cut; `compare` counts them."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*do not fit into .* and were cut", UserWarning)
            check = None if budget == AUTO else 0  # "auto" needs held-out queries
            return list(self.explainer(texts, method=method, queries=budget, check=check, seed=seed))

    def estimate(self, texts: list[str], method: Method, budget: _Budget) -> Estimate:
        """Return what `explained` asks about texts, once or twice."""
        check = None if budget == AUTO else 0
        found = self.explainer.estimate(texts, method=method, queries=budget, check=check, seed=self.seed)
        return _sum(found, found) if "instability" in self.measures else found

    def estimate_of_tests(self, texts: list[str], runs: int) -> Estimate:
        """Return what measuring the explanations of texts by so many methods and budgets asks."""
        options, queries = self.explainer.options, list[Queries]()
        for text in texts:
            reading, units = self.explainer.pipeline.read(text, options.unit_kind, options.long)
            n, rows = len(units), [np.zeros((0, len(units)), dtype=bool)]
            if self.measures & {"near", "far"}:
                rows += masks(text, n, seed=self.seed)
            if self.measures & {"deletion", "insertion"} and n > 1:
                numbers = fractions_of(n, ERASER)
                for order in (np.random.default_rng(i).permutation(n).astype(np.float64) for i in range(runs)):
                    rows += [deletion_masks(order, numbers), insertion_masks(order, numbers)]
            queries.append(Queries(reading, units.atoms(np.concatenate(rows))))
        return self.explainer.engine.estimate(queries)

    def __call__(self, texts: list[str], numbers: list[int], method: Method, budget: _Budget) -> list[dict[str, Any]]:
        """Return one record per text."""
        repeat = "instability" in self.measures
        with self.explainer.engine.fresh():
            explanations = self.explained(texts, method, budget, self.seed)
            repeated = self.explained(texts, method, budget, self.seed + 1) if repeat else []
        undefined = [None] * len(explanations)
        strict = fidelity(explanations, self.explainer, seed=self.seed) if self.measures & {"near", "far"} else undefined
        areas = perturbation(explanations, self.explainer) if self.measures & {"deletion", "insertion"} else undefined
        records = []
        for i, (e, errors, area) in enumerate(zip(explanations, strict, areas, strict=True)):
            record: dict[str, Any] = {
                "text": numbers[i],
                "method": method.name,
                "budget": budget,
                "near": None if errors is None else errors.near,
                "far": None if errors is None else errors.far,
                "profile": None if errors is None else {str(k): v for k, v in errors.profile.items()},
                "deletion": None if area is None else area.deletion,
                "insertion": None if area is None else area.insertion,
                "cut": e.cut,
                "queries": e.queries,
                "tokens": e.tokens if self.explainer.model.tokenized else None,  # strings are counted as queries alone
                "seconds": e.seconds,
            }
            if self.ratios is not None and "naive_bayes" in self.measures:
                record["naive_bayes"] = self._naive_bayes(e, self.ratios)
            if self.human is not None and "human" in self.measures:
                words, maps = self.human[numbers[i]]
                record["human"] = human_attention(e, words, maps, score=ranking_score(e))
            if repeat:
                record["instability"] = seed_instability([e, repeated[i]], score=ranking_score(e)).rank
            records.append(record)
        return records

    def _naive_bayes(self, e: Explanation, ratios: LogRatios) -> float | None:
        if len(e.labels) != 2 or e.values.ndim != 1:
            return None
        return naive_bayes_correlation(e, ratios, score=ranking_score(e), tokens=self.explainer.tokens(e.text))


@final
class _Records:
    """The records, in memory and in a file whose first line says what they are about."""

    def __init__(self, path: Path | None, about: Mapping[str, Any], measures: Sequence[str]) -> None:
        self.path, self.records, self.skipped = path, list[dict[str, Any]](), dict[str, str]()
        if path is not None:
            self._resume(path, {"format": "slalom comparison records", **about, "measures": list(measures)})

    def _resume(self, path: Path, header: dict[str, Any]) -> None:
        """Read the records of an interrupted comparison with this header, or start a new file."""
        lines, partial = read_complete_lines(path)
        if not lines and not partial:
            write_text(path, json.dumps(header, ensure_ascii=False) + "\n", append=True)
            return
        foreign = InputError(f"{str(path)!r} holds something else; name another file, or delete it")
        try:
            records = [json.loads(line) for line in lines]
        except ValueError as error:
            raise foreign from error
        if not records or not all(isinstance(record, dict) for record in records):
            raise foreign
        if records[0].get("format") != header["format"] or any(not record.keys() >= _KEYS for record in records[1:]):
            raise foreign
        expected = json.loads(json.dumps(header))
        different = [name for name in expected if records[0].get(name) != expected[name]]
        if different:
            raise InputError(
                f"{str(path)!r} is of another comparison ({', '.join(different)} differ); name another file, or delete it"
            )
        drop_partial_line(path, partial)
        self.records = records[1:]

    def has(self, numbers: Iterable[int], method: str, budget: _Budget) -> bool:
        """Return whether all these texts have a record."""
        done = {r["text"] for r in self.records if r["method"] == method and r["budget"] == budget}
        return done.issuperset(numbers)

    def add(self, records: list[dict[str, Any]]) -> None:
        """Add records, to the file too."""
        self.records += records
        if self.path is not None:
            write_text(self.path, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), append=True)

    def skip(self, method: str, error: Exception) -> None:
        """Leave a method out; an unexpected error is logged with its traceback."""
        expected = isinstance(error, SlalomError)
        self.skipped[method] = str(error) if expected else f"{type(error).__name__}: {one_line(error)}"
        if not expected:
            _LOG.debug("method %s failed", method, exc_info=error)
        self.records = [record for record in self.records if record["method"] != method]

    def sorted(self, rows: Sequence[tuple[str, _Budget]]) -> list[dict[str, Any]]:
        """Return the records of these methods and budgets, in this order, then in that of the texts."""
        order = {row: i for i, row in enumerate(rows)}
        requested = [r for r in self.records if (r["method"], r["budget"]) in order and r["method"] not in self.skipped]
        return sorted(requested, key=lambda r: (order[r["method"], r["budget"]], r["text"]))
