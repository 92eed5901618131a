"""Methods side by side, on one model and the same texts.

    for every text, method and budget:  explanation -> near, far, profile, deletion, insertion, ... , queries, tokens, seconds

One record each. The model is asked through one engine; a method begins with an empty memory, so that times are its own, while
the queries that judge are the same for all methods of a text and are asked once. Records go to a file as they
come: a comparison that was interrupted goes on.
"""

import csv
import io
import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, final

from tqdm.auto import tqdm

from slalom.errors import InputError, MissingExtra
from slalom.evaluate import (
    Comparison,
    Summary,
    fidelity,
    holm,
    human_attention,
    naive_bayes_correlation,
    perturbation,
    seed_instability,
    summarize,
)
from slalom.evaluate import NaiveBayes as Ratios
from slalom.evaluate import compare as paired
from slalom.explainer import Explainer
from slalom.files import begun_lines, drop_rest, write_text
from slalom.methods import Method, NaiveBayes, method
from slalom.models import Target
from slalom.result import Explanation
from slalom.result.plain import written
from slalom.views import view

# Every measure: whether more is better (None: neither), and what it says.
MEASURES: Mapping[str, tuple[bool | None, str]] = {
    "near": (False, "squared error of the predicted change of the score, 1 to 10 units removed"),
    "far": (False, "1 - R2 of the predicted score, subsets of all sizes"),
    "deletion": (True, "how much of the probability goes with the top units (comprehensiveness)"),
    "insertion": (False, "how much of it the top units alone do not keep (sufficiency)"),
    "naive_bayes": (None, "rank correlation with Naive Bayes of the corpus"),
    "human": (True, "AU-ROC for what people have marked"),
    "instability": (False, "1 - rank correlation with another seed"),
    "queries": (False, "different inputs that the model was asked about"),
    "tokens": (False, "their tokens"),
    "seconds": (False, "time of an explanation"),
}
DEFAULT = ("joint", "local", "eff", "fidel", "ridge", "leave-one-out", "lime", "kernel-shap", "integrated-gradients", "random")
_AT_ONCE = 8  # texts that share their batches


@final
@dataclass(frozen=True, eq=False)
class Compared:
    """One record a text, method and budget; a method that could not be used is in `skipped`, with the reason.

    A record has `text` (its number), `method`, `budget` (None where the method takes none), `profile` (near error by the number
    of removed units), and the measures that were asked for (None where one is not defined).
    """

    records: tuple[Mapping[str, Any], ...]
    measures: tuple[str, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> list[tuple[str, int | None]]:
        """The methods with their budgets, in the order in which they were asked for."""
        return list(dict.fromkeys((record["method"], record["budget"]) for record in self.records))

    def values(self, row: tuple[str, int | None], measure: str) -> list[float | None]:
        """Return one number a text, in the order of the texts."""
        own = [r for r in self.records if (r["method"], r["budget"]) == row]
        return [record[measure] for record in sorted(own, key=lambda record: record["text"])]

    def summary(self, row: tuple[str, int | None], measure: str) -> Summary:
        """Return mean and standard error over the texts."""
        return summarize(self.values(row, measure))

    def profile(self, row: tuple[str, int | None]) -> dict[int, Summary]:
        """Return the near error by the number of units removed."""
        own = [r["profile"] or {} for r in self.records if (r["method"], r["budget"]) == row]
        numbers = sorted({int(k) for profile in own for k in profile})
        return {k: summarize([profile.get(str(k)) for profile in own]) for k in numbers}

    def best(self, measure: str) -> tuple[str, int | None] | None:
        """Return the row with the best mean; None where nobody has one, or more is neither better nor worse."""
        more = MEASURES[measure][0]
        means = {row: self.summary(row, measure).mean for row in self.rows}
        known = {row: mean for row, mean in means.items() if mean is not None}
        if more is None or not known:
            return None
        return (max if more else min)(known, key=lambda row: known[row])

    def against(self, row: tuple[str, int | None], measure: str) -> dict[tuple[str, int | None], tuple[Comparison, float]]:
        """Return how a row differs from every other one on the same texts, with p values corrected for their number (Holm)."""
        own = self.values(row, measure)
        found = {}
        for other in self.rows:
            theirs = self.values(other, measure)
            both = [(a, b) for a, b in zip(own, theirs, strict=False) if a is not None and b is not None]
            if other != row and both and len(own) == len(theirs):
                found[other] = paired([a for a, _ in both], [b for _, b in both])
        corrected = holm([one.p for one in found.values()]).tolist() if found else []
        return {other: (one, p) for (other, one), p in zip(found.items(), corrected, strict=True)}

    @property
    def plot(self) -> Any:
        """The pictures: `plot.profile()`, `plot.against_queries(measure)`, `plot.against_seconds(measure)`."""
        return view("compared plot")(self)

    def to_html(self, path: str | Path | None = None) -> str:
        """Return a self-contained page with tables and pictures, and write it to a file where one is named."""
        return written(view("compared page")(self), path)

    def to_dict(self) -> dict[str, Any]:
        """Return records and summaries as lists, numbers and strings."""
        table = [
            {"method": row[0], "budget": row[1], **{name: self.summary(row, name)._asdict() for name in self.measures}}
            for row in self.rows
        ]
        return {
            "format": "slalom comparison",
            "version": 1,
            "about": dict(self.about),
            "measures": list(self.measures),
            "skipped": dict(self.skipped),
            "summary": table,
            "records": [dict(record) for record in self.records],
        }

    def to_json(self, indent: int | None = None) -> str:
        """Return everything as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent)

    def to_csv(self) -> str:
        """Return one line a method and budget: means and standard errors."""
        lines = io.StringIO()
        columns = [part for name in self.measures for part in (name, f"{name}_se")]
        table = csv.writer(lines, lineterminator="\n")
        table.writerow(["method", "budget", "texts", *columns])
        for row in self.rows:
            found = [self.summary(row, name) for name in self.measures]
            numbers = [part for one in found for part in (one.mean, one.se)]
            table.writerow([row[0], "" if row[1] is None else row[1], len(self.values(row, "seconds")), *numbers])
        return lines.getvalue()


def compare(
    model: Any,
    texts: Iterable[str],
    tokenizer: Any = None,
    *,
    methods: Sequence[str | Method] = DEFAULT,
    queries: int | Sequence[int] = (500,),
    measures: Sequence[str] | None = None,
    corpus: tuple[Sequence[str], Sequence[int]] | None = None,
    human: Sequence[tuple[Sequence[str], Any]] | None = None,
    target: Target = None,
    unit: str | None = "token",
    seed: int = 0,
    out: str | Path | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Compared:
    """Explain texts by many methods and measure them all.

    model, tokenizer, target, unit, and `options`: as `Explainer` takes them. methods: names of ours and of baselines, or
    Methods. queries: the budgets. measures: names of MEASURES; None takes all that can be had but "instability", which explains
    everything again with another seed. corpus: labelled texts (labels 0 and 1), for Naive Bayes, which then also is a method
    of its own, "naive-bayes". human: what people have marked, (words, maps) for each text, which is " ".join(words). out: a
    file for the records, so that the same call goes on after an interruption.
    """
    if isinstance(model, Explainer):
        raise InputError("model must be what an Explainer takes; got an Explainer: pass its model and options instead")
    queries = [queries] if isinstance(queries, int) else queries
    every = list(texts)
    if not every or not all(isinstance(text, str) for text in every):
        raise InputError("texts must be a list of at least one string")
    if human is not None and [" ".join(words) for words, _ in human] != every:
        raise InputError("human must have the words and maps of each text, and each text must be its words joined by blanks")
    explainer = Explainer(model, tokenizer, target=target, seed=seed, unit=unit, progress=False, **options)
    chosen = [method(one) for one in methods]
    bayes = None
    if corpus is not None:
        bayes = Ratios.fit(*corpus, explainer.tokens)
        if explainer.tokens(every[0]) and unit in (None, "token", "type"):
            weights = {cast(int | str, token): (-ratio, ratio) for token, ratio in bayes.ratios.items()}
            chosen.append(NaiveBayes(weights))
    if len({one.name for one in chosen}) != len(chosen):
        raise InputError(f"methods must differ in their names; got {', '.join(one.name for one in chosen)}")
    wanted = _measures(measures, bayes is not None, human is not None)
    plan = [(one, budget) for one in chosen for budget in (queries if one.takes_budget else (None,))]
    about = {
        "model": explainer.model.name,
        "identity": explainer.engine.identify(),
        "texts": len(every),
        "first": every[0][:80],
        "last": every[-1][:80],
        "seed": seed,
        "unit": unit,
        "target": target if target is None or isinstance(target, str) else int(target),
    }
    book = _Book(Path(out) if out is not None else None, about, wanted)
    judge = _Judge(explainer, bayes, human, seed, wanted)
    _warm_up(judge, book, every, plan)
    with tqdm(
        total=len(every) * len(plan), unit="explanation", disable=None if progress is None else not progress, desc="comparing"
    ) as bar:
        for start in range(0, len(every), _AT_ONCE):
            numbers = list(range(start, min(start + _AT_ONCE, len(every))))
            lot = [every[i] for i in numbers]
            explainer.engine.forget()
            for one, budget in plan:
                bar.set_postfix_str(one.name)
                if not book.has(numbers, one.name, budget) and one.name not in book.skipped:
                    try:
                        book.add(judge(lot, numbers, one, budget))
                    except (InputError, MissingExtra) as reason:
                        book.skip(one.name, str(reason))
                bar.update(len(lot))
    order = {(one.name, budget): i for i, (one, budget) in enumerate(plan)}
    records = [r for r in book.records if (r["method"], r["budget"]) in order and r["method"] not in book.skipped]
    records.sort(key=lambda r: (order[r["method"], r["budget"]], r["text"]))
    if not records:
        raise InputError(f"no method could be used: {'; '.join(f'{k}: {v}' for k, v in book.skipped.items())}")
    cut = {record["text"] for record in records if record["cut"]}
    if cut:
        said = f"{len(cut)} of {len(every)} texts are longer than {explainer.model.name} can see, and were cut"
        warnings.warn(said, UserWarning, stacklevel=2)
    return Compared(tuple(records), wanted, dict(book.skipped), about)


def _warm_up(judge: "_Judge", book: "_Book", texts: list[str], plan: Sequence[tuple[Method, int | None]]) -> None:
    """Explain one text by every method that has something left to do: the first call loads packages and compiles."""
    for one in {one.name: one for one, budget in plan if not book.has(range(len(texts)), one.name, budget)}.values():
        try:
            judge.explained(texts[:1], one, 20, 0)
        except (InputError, MissingExtra) as reason:
            book.skip(one.name, str(reason))


def _measures(given: Sequence[str] | None, bayes: bool, human: bool) -> tuple[str, ...]:
    """Return the measures that are wanted and can be had."""
    needs = {"naive_bayes": (bayes, "a corpus of labelled texts"), "human": (human, "texts with what people have marked")}
    if given is None:
        return tuple(name for name in MEASURES if name != "instability" and needs.get(name, (True, ""))[0])
    for name in given:
        if name not in MEASURES:
            raise InputError(f"a measure must be one of {', '.join(MEASURES)}; got {name!r}")
        there, what = needs.get(name, (True, ""))
        if not there:
            raise InputError(f"the measure {name!r} needs {what}")
    return tuple(name for name in MEASURES if name in given or name in ("queries", "tokens", "seconds"))


@final
class _Judge:
    """Explains some texts by one method and measures what comes out."""

    def __init__(
        self,
        explainer: Explainer,
        bayes: Ratios | None,
        human: Sequence[tuple[Sequence[str], Any]] | None,
        seed: int,
        wanted: Sequence[str],
    ) -> None:
        self.explainer, self.bayes, self.human, self.seed, self.wanted = explainer, bayes, human, seed, set(wanted)

    def explained(self, lot: list[str], one: Method, budget: int | None, seed: int) -> list[Explanation]:
        """Explain texts; those that are cut are counted at the end, and not said at every method."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*can see and were cut", UserWarning)
            return list(self.explainer(lot, method=one, queries=budget, check=0, seed=seed))

    def __call__(self, lot: list[str], numbers: list[int], one: Method, budget: int | None) -> list[dict[str, Any]]:
        """Return one record a text."""
        again = "instability" in self.wanted
        with self.explainer.engine.fresh():
            found = self.explained(lot, one, budget, self.seed)
            other = self.explained(lot, one, budget, self.seed + 1) if again else []
        nothing = [None] * len(found)
        strict = fidelity(found, self.explainer, seed=self.seed) if self.wanted & {"near", "far"} else nothing
        order = perturbation(found, self.explainer) if self.wanted & {"deletion", "insertion"} else nothing
        records = []
        for i, e in enumerate(found):
            near = strict[i]
            cut = order[i]
            record: dict[str, Any] = {
                "text": numbers[i],
                "method": one.name,
                "budget": budget,
                "near": None if near is None else near.near,
                "far": None if near is None else near.far,
                "profile": None if near is None else {str(k): v for k, v in near.profile.items()},
                "deletion": None if cut is None else cut.deletion,
                "insertion": None if cut is None else cut.insertion,
                "cut": e.cut,
                "queries": e.queries,
                "tokens": e.tokens,
                "seconds": e.seconds,
            }
            if self.bayes is not None and "naive_bayes" in self.wanted:
                two = len(e.labels) == 2 and e.values.ndim == 1
                tokens = self.explainer.tokens(e.text)
                record["naive_bayes"] = naive_bayes_correlation(e, self.bayes, score="removal", tokens=tokens) if two else None
            if self.human is not None and "human" in self.wanted:
                words, maps = self.human[numbers[i]]
                record["human"] = human_attention(e, words, maps)
            if again:
                record["instability"] = seed_instability([e, other[i]]).rank
            records.append(record)
        return records


@final
class _Book:
    """The records, in memory and in a file whose first line says what they are about."""

    def __init__(self, path: Path | None, about: Mapping[str, Any], measures: Sequence[str]) -> None:
        self.path, self.records, self.skipped = path, list[dict[str, Any]](), dict[str, str]()
        head = {"format": "slalom comparison records", **about, "measures": list(measures)}
        if path is None:
            return
        whole, rest = begun_lines(path)
        if not whole and not rest:
            write_text(path, json.dumps(head, ensure_ascii=False) + "\n", append=True)
            return
        try:
            lines = [json.loads(line) for line in whole]
        except ValueError as error:
            raise InputError(f"{str(path)!r} holds something else; name another file, or delete it") from error
        if not lines or lines[0].get("format") != head["format"]:
            raise InputError(f"{str(path)!r} holds something else; name another file, or delete it")
        mine = json.loads(json.dumps(head))
        other = [name for name in mine if lines[0].get(name) != mine[name]]
        if other:
            raise InputError(
                f"{str(path)!r} is of another comparison ({', '.join(other)} differ); name another file, or delete it"
            )
        drop_rest(path, rest)
        self.records = lines[1:]

    def has(self, numbers: Iterable[int], name: str, budget: int | None) -> bool:
        """Whether all these texts have a record."""
        done = {r["text"] for r in self.records if r["method"] == name and r["budget"] == budget}
        return done.issuperset(numbers)

    def add(self, records: list[dict[str, Any]]) -> None:
        """Keep records."""
        self.records += records
        if self.path is not None:
            write_text(self.path, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), append=True)

    def skip(self, name: str, reason: str) -> None:
        """Note that a method cannot be used."""
        self.skipped[name] = reason
        self.records = [record for record in self.records if record["method"] != name]
