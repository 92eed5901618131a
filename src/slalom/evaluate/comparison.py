"""Running a comparison: methods side by side, on one model and the same texts.

    for every text, method and budget:  explanation -> near, far, profile, deletion, insertion, ... , queries, tokens, seconds

One record each. The model is queried through one engine. Each method starts with an empty cache, so that its time is its own;
the queries that measure it are the same for all methods of a text and are sent once. Records are appended to a file as they
are made, so that an interrupted comparison can be continued.
"""

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack, cast, final

from tqdm.auto import tqdm

from slalom.errors import InputError, MissingExtra
from slalom.evaluate.aopc import perturbation
from slalom.evaluate.compared import MEASURES, Compared
from slalom.evaluate.fidelity import fidelity
from slalom.evaluate.human import human_attention
from slalom.evaluate.naive_bayes import NaiveBayes as LogRatios
from slalom.evaluate.naive_bayes import naive_bayes_correlation
from slalom.evaluate.stability import seed_instability
from slalom.explainer import Explainer, ModelKeywords
from slalom.files import drop_partial_line, read_complete_lines, write_text
from slalom.methods import Method, NaiveBayes
from slalom.methods import method as find_method
from slalom.models import Target
from slalom.result import Explanation

DEFAULT_METHODS = (
    "joint", "local", "eff", "fidel", "ridge", "leave-one-out", "lime", "kernel-shap", "integrated-gradients", "random",
)  # fmt: skip
_BATCH = 8  # texts explained together
_COSTS = ("queries", "tokens", "seconds")
_Annotations = Sequence[tuple[Sequence[str], Any]]


def compare(
    model: Any,
    texts: Iterable[str],
    tokenizer: Any = None,
    *,
    methods: Sequence[str | Method] = DEFAULT_METHODS,
    queries: int | Sequence[int] = (500,),
    measures: Sequence[str] | None = None,
    corpus: tuple[Sequence[str], Sequence[int]] | None = None,
    human: _Annotations | None = None,
    target: Target = None,
    unit: str | None = "token",
    seed: int = 0,
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
        queries: One or more budgets per text.
        measures: Names of `MEASURES`. Default: all that apply, except "instability", which explains everything again with
            another seed.
        corpus: Labelled texts and their labels, 0 or 1. They add the measure "naive_bayes" and the method "naive-bayes".
        human: Words and maps (annotators, words) for each text, which must be ``" ".join(words)``. Adds the measure "human".
        target: As `Explainer` takes it.
        unit: As `Explainer` takes it; None: that of each method.
        seed: Seed of the queries, the fits and the masks.
        out: File for the records; the same call continues an interrupted comparison.
        progress: Whether to show a progress bar. Default: in a terminal.
        **options: Options of the `Explainer` about the model: output, labels, batch_size, precision, device, cache, identity
            and long.

    Returns:
        The records, with tables and pictures. A method that cannot be used on this model is left out and named in `skipped`.

    Raises:
        InputError: If an argument is out of range, no method can be used, or `out` holds something else.

    Example:
        >>> def model(texts):
        ...     return [2.0 * ("good" in text) - ("bad" in text) for text in texts]
        >>> texts = ["a good film", "a bad end"]
        >>> compare(model, texts, methods=["ridge", "random"], queries=50, output="log_odds", progress=False).rows
        [('ridge', 50), ('random', None)]
    """
    if isinstance(model, Explainer):
        raise InputError("model must be what an Explainer takes; got an Explainer: pass its model and options instead")
    budgets = [queries] if isinstance(queries, int) else queries
    texts = list(texts)
    if not texts or not all(isinstance(text, str) for text in texts):
        raise InputError("texts must be a list of at least one string")
    if human is not None and [" ".join(words) for words, _ in human] != texts:
        raise InputError("human must have the words and maps of each text, and each text must be its words joined by blanks")
    explainer = Explainer(model, tokenizer, target=target, seed=seed, unit=unit, progress=False, **options)
    chosen = [find_method(method) for method in methods]
    ratios = None
    if corpus is not None:
        ratios = LogRatios.fit(*corpus, explainer.tokens)
        if explainer.tokens(texts[0]) and unit in (None, "token", "type"):
            weights = {cast(int | str, token): (-ratio, ratio) for token, ratio in ratios.ratios.items()}
            chosen.append(NaiveBayes(weights))
    if len({method.name for method in chosen}) != len(chosen):
        raise InputError(f"methods must differ in their names; got {', '.join(method.name for method in chosen)}")
    names = _measures(measures, ratios is not None, human is not None)
    about = {
        "model": explainer.model.name,
        "identity": explainer.engine.identify(),
        "texts": len(texts),
        "first": texts[0][:80],
        "last": texts[-1][:80],
        "seed": seed,
        "unit": unit,
        "target": target if target is None or isinstance(target, str) else int(target),
    }
    records = _Records(Path(out) if out is not None else None, about, names)
    runs = [(method, budget) for method in chosen for budget in (budgets if method.takes_budget else (None,))]
    _run(runs, texts, _Evaluator(explainer, ratios, human, seed, names), records, progress)
    rows = records.sorted([(method.name, budget) for method, budget in runs])
    if not rows:
        raise InputError(f"no method could be used: {'; '.join(f'{k}: {v}' for k, v in records.skipped.items())}")
    cut = {row["text"] for row in rows if row["cut"]}
    if cut:
        message = f"{len(cut)} of {len(texts)} texts are longer than {explainer.model.name} can see, and were cut"
        warnings.warn(message, UserWarning, stacklevel=2)
    return Compared(tuple(rows), names, dict(records.skipped), about)


def _run(
    runs: Sequence[tuple[Method, int | None]],
    texts: list[str],
    evaluate: "_Evaluator",
    records: "_Records",
    progress: bool | None,
) -> None:
    """Make the records that are missing, batch by batch. A method that cannot be used is skipped."""
    missing = {m.name: m for m, budget in runs if not records.has(range(len(texts)), m.name, budget)}
    for method in missing.values():  # the first call loads packages and compiles; its time is not the method's
        try:
            evaluate.explained(texts[:1], method, 20, 0)
        except (InputError, MissingExtra) as reason:
            records.skip(method.name, str(reason))
    hidden = None if progress is None else not progress
    with tqdm(total=len(texts) * len(runs), unit="explanation", disable=hidden, desc="comparing") as bar:
        for start in range(0, len(texts), _BATCH):
            numbers = list(range(start, min(start + _BATCH, len(texts))))
            evaluate.explainer.engine.forget()
            for method, budget in runs:
                bar.set_postfix_str(method.name)
                if not records.has(numbers, method.name, budget) and method.name not in records.skipped:
                    try:
                        records.add(evaluate([texts[i] for i in numbers], numbers, method, budget))
                    except (InputError, MissingExtra) as reason:
                        records.skip(method.name, str(reason))
                bar.update(len(numbers))


def _measures(requested: Sequence[str] | None, has_corpus: bool, has_human: bool) -> tuple[str, ...]:
    """Return the requested measures, or all that apply."""
    needs = {
        "naive_bayes": (has_corpus, "a corpus of labelled texts"),
        "human": (has_human, "texts with words that people have marked"),
    }
    if requested is None:
        return tuple(name for name in MEASURES if name != "instability" and needs.get(name, (True, ""))[0])
    for name in requested:
        if name not in MEASURES:
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

    def explained(self, texts: list[str], method: Method, budget: int | None, seed: int) -> list[Explanation]:
        """Explain texts without a warning for each one that is cut; `compare` counts them."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*do not fit into .* and were cut", UserWarning)
            return list(self.explainer(texts, method=method, queries=budget, check=0, seed=seed))

    def __call__(self, texts: list[str], numbers: list[int], method: Method, budget: int | None) -> list[dict[str, Any]]:
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
                "tokens": e.tokens,
                "seconds": e.seconds,
            }
            if self.ratios is not None and "naive_bayes" in self.measures:
                record["naive_bayes"] = self._naive_bayes(e, self.ratios)
            if self.human is not None and "human" in self.measures:
                words, maps = self.human[numbers[i]]
                record["human"] = human_attention(e, words, maps)
            if repeat:
                record["instability"] = seed_instability([e, repeated[i]]).rank
            records.append(record)
        return records

    def _naive_bayes(self, e: Explanation, ratios: LogRatios) -> float | None:
        if len(e.labels) != 2 or e.values.ndim != 1:
            return None
        return naive_bayes_correlation(e, ratios, score="removal", tokens=self.explainer.tokens(e.text))


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
        if not records or records[0].get("format") != header["format"]:
            raise foreign
        expected = json.loads(json.dumps(header))
        different = [name for name in expected if records[0].get(name) != expected[name]]
        if different:
            raise InputError(
                f"{str(path)!r} is of another comparison ({', '.join(different)} differ); name another file, or delete it"
            )
        drop_partial_line(path, partial)
        self.records = records[1:]

    def has(self, numbers: Iterable[int], method: str, budget: int | None) -> bool:
        """Return whether all these texts have a record."""
        done = {r["text"] for r in self.records if r["method"] == method and r["budget"] == budget}
        return done.issuperset(numbers)

    def add(self, records: list[dict[str, Any]]) -> None:
        """Add records, to the file too."""
        self.records += records
        if self.path is not None:
            write_text(self.path, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), append=True)

    def skip(self, method: str, reason: str) -> None:
        """Leave a method out."""
        self.skipped[method] = reason
        self.records = [record for record in self.records if record["method"] != method]

    def sorted(self, rows: Sequence[tuple[str, int | None]]) -> list[dict[str, Any]]:
        """Return the records of these methods and budgets, in this order, then in that of the texts."""
        order = {row: i for i, row in enumerate(rows)}
        requested = [r for r in self.records if (r["method"], r["budget"]) in order and r["method"] not in self.skipped]
        return sorted(requested, key=lambda r: (order[r["method"], r["budget"]], r["text"]))
