"""A comparison that runs: texts explained by every method, and all measures of the explanations.

    for every text, method and budget:  explanation -> near, far, profile, deletion, insertion, ... , queries, tokens, seconds

One record each. The model is queried through one engine. Each method starts with an empty cache, so that its time is its own;
the queries that measure it are the same for all methods of a text and are sent once.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, final

import numpy as np

from slalom.budget import AUTO
from slalom.errors import CostLimit, InputError, ModelError, SlalomError
from slalom.evaluate.aopc import numbers_of, perturbation, perturbed
from slalom.evaluate.checks import ranking_score
from slalom.evaluate.compared import Compared
from slalom.evaluate.fidelity import fidelity, masks
from slalom.evaluate.human import human_attention
from slalom.evaluate.naive_bayes import NaiveBayes, naive_bayes_correlation
from slalom.evaluate.records import Records
from slalom.explainer import Explainer
from slalom.methods import Method
from slalom.models import Estimate, Queries
from slalom.progress import progress_bar
from slalom.result import Explanation

Budget: TypeAlias = int | Literal["auto"] | None
Annotations: TypeAlias = Sequence[tuple[Sequence[str], Any]]  # words and maps (annotators, words) of each text
_BATCH = 8  # texts explained together
_WARM_UP = 20  # queries of a method about the first text, before anything is timed


class MethodRun(NamedTuple):
    """A row of a comparison: its name, an explainer that removes units in one way, a method and its budget."""

    name: str
    explainer: Explainer
    method: Method
    budget: Budget


@final
@dataclass(frozen=True)
class Comparison:
    """A comparison whose arguments are checked."""

    explainers: list[Explainer]  # one for each way to remove units; they share what is spent
    texts: list[str]
    runs: list[MethodRun]
    measures: tuple[str, ...]
    ratios: NaiveBayes | None
    human: Annotations | None
    path: Path | None
    about: dict[str, Any]

    def compared(self, progress: bool | None) -> Compared:
        """Make the records that are missing; a method that fails is skipped, where the model fails all stops."""
        texts, records = self.texts, Records(self.path, self.about, self.measures)
        missing = {run.name: run for run in self.runs if not records.has(range(len(texts)), run.name, run.budget)}
        for run in missing.values():  # the first call loads packages and compiles; its time is not the method's
            with _skipped(records, run.name):
                self._explained(texts[:1], run._replace(budget=_WARM_UP))
        with progress_bar(progress, total=len(texts) * len(self.runs), unit="explanation", desc="comparing") as bar:
            for start in range(0, len(texts), _BATCH):
                numbers = list(range(start, min(start + _BATCH, len(texts))))
                for explainer in self.explainers:
                    explainer.engine.forget()
                for run in self.runs:
                    bar.set_postfix_str(run.name)
                    if not records.has(numbers, run.name, run.budget) and run.name not in records.skipped:
                        with _skipped(records, run.name):
                            records.add(self._measured(numbers, run))
                    bar.update(len(numbers))
        rows = records.sorted([(run.name, run.budget) for run in self.runs])
        if not rows:
            raise InputError(f"no method could be used: {'; '.join(f'{k}: {v}' for k, v in records.skipped.items())}")
        cut = {row["text"] for row in rows if row["cut"]}
        if cut:
            message = f"{len(cut)} of {len(texts)} texts are longer than {self.about['model']} can see, and were cut"
            warnings.warn(message, UserWarning, stacklevel=3)
        return Compared(tuple(rows), self.measures, dict(records.skipped), self.about)

    def estimate(self) -> Estimate:
        """Return what it will ask; methods that cannot be used cost nothing."""
        total = reduce(_total, (e.engine.estimate([self._tests(text, e) for text in self.texts]) for e in self.explainers))
        warm_ups = {run.name: (self.texts[:1], run._replace(budget=_WARM_UP)) for run in self.runs}
        for texts, run in (*warm_ups.values(), *((self.texts, run) for run in self.runs)):
            with suppress(SlalomError):
                total = _total(total, run.explainer.estimate(texts, **self._options(run)))
        return total

    def _options(self, run: MethodRun) -> Any:
        """Return the options of an explanation; only "auto" needs held-out queries."""
        check = None if run.budget == AUTO else 0
        return {"method": run.method, "queries": run.budget, "check": check, "seed": self.about["seed"]}

    def _explained(self, texts: list[str], run: MethodRun) -> list[Explanation]:
        with warnings.catch_warnings():  # `compared` counts the texts that are cut
            warnings.filterwarnings("ignore", ".*do not fit into .* and were cut", UserWarning)
            return list(run.explainer(texts, **self._options(run)))

    def _asks(self, *measures: str) -> bool:
        return not set(measures).isdisjoint(self.measures)

    def _tests(self, text: str, explainer: Explainer) -> Queries:
        """Return about what measuring the explanations of a text asks; the order of the units is not known yet."""
        options, runs = explainer.options, sum(run.explainer is explainer for run in self.runs)
        reading, units = explainer.pipeline.read(text, options.unit_or_default, options.long)
        n = len(units)
        rows = [np.zeros((0, n), dtype=bool)]
        if self._asks("near", "far"):
            rows += masks(text, n, seed=self.about["seed"])
        if self._asks("deletion", "insertion") and n > 1:
            orders = (np.random.default_rng(i).permutation(n).astype(np.float64) for i in range(runs))
            rows += [perturbed(order, numbers_of(n))[1:] for order in orders]
        return Queries(reading, units.atoms(np.concatenate(rows)))

    def _measured(self, numbers: list[int], run: MethodRun) -> list[dict[str, Any]]:
        """Return one record for each of these texts."""
        explainer = run.explainer
        with explainer.engine.fresh():
            explanations = self._explained([self.texts[i] for i in numbers], run)
        undefined = [None] * len(explanations)
        seed = self.about["seed"]
        strict = fidelity(explanations, explainer, seed=seed) if self._asks("near", "far") else undefined
        areas = perturbation(explanations, explainer) if self._asks("deletion", "insertion") else undefined
        records = []
        for number, e, errors, area in zip(numbers, explanations, strict, areas, strict=True):
            record: dict[str, Any] = {
                "text": number,
                "method": run.name,
                "budget": run.budget,
                "near": None if errors is None else errors.near,
                "far": None if errors is None else errors.far,
                "profile": None if errors is None else {str(k): v for k, v in errors.profile.items()},
                "deletion": None if area is None else area.deletion,
                "insertion": None if area is None else area.insertion,
                "cut": e.cut,
                "queries": e.queries,
                "tokens": e.tokens if explainer.model.tokenized else None,  # strings are counted as queries alone
                "seconds": e.seconds,
            }
            if self.ratios is not None and self._asks("naive_bayes"):
                two = len(e.labels) == 2 and e.values.ndim == 1
                keys = explainer.tokens(e.text)
                record["naive_bayes"] = (
                    naive_bayes_correlation(e, self.ratios, score=ranking_score(e), tokens=keys) if two else None
                )
            if self.human is not None and self._asks("human"):
                record["human"] = human_attention(e, *self.human[number], score=ranking_score(e))
            records.append(record)
        return records


@contextmanager
def _skipped(records: Records, name: str) -> Iterator[None]:
    """Leave a method out that fails; methods of other packages may raise anything."""
    try:
        yield
    except (ModelError, CostLimit):
        raise
    except Exception as error:
        records.skip(name, error)


def _total(one: Estimate, other: Estimate) -> Estimate:
    """Return what two estimates cost together."""
    cost = None if one.cost is None or other.cost is None else one.cost + other.cost
    sums = {
        name: getattr(one, name) + getattr(other, name) for name in ("queries", "tokens", "output_tokens", "cached", "further")
    }
    return one._replace(**sums, cost=cost, at_least=one.at_least or other.at_least)
