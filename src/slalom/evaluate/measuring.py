"""What a comparison measures: texts explained by one method, and all measures of the explanations."""

import warnings
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, final

import numpy as np

from slalom.budget import AUTO
from slalom.evaluate.aopc import ERASER, deletion_masks, fractions_of, insertion_masks, perturbation
from slalom.evaluate.checks import ranking_score
from slalom.evaluate.fidelity import fidelity, masks
from slalom.evaluate.human import human_attention
from slalom.evaluate.naive_bayes import NaiveBayes as LogRatios
from slalom.evaluate.naive_bayes import naive_bayes_correlation
from slalom.explainer import Explainer
from slalom.methods import Method
from slalom.models import Estimate, Queries
from slalom.result import Explanation

Budget: TypeAlias = int | Literal["auto"] | None
Annotations: TypeAlias = Sequence[tuple[Sequence[str], Any]]  # words and maps (annotators, words) of each text


@final
class Evaluator:
    """Explains a batch of texts by one method and measures the explanations."""

    def __init__(
        self,
        explainer: Explainer,
        ratios: LogRatios | None,
        human: Annotations | None,
        seed: int,
        measures: Sequence[str],
    ) -> None:
        self.explainer, self.ratios, self.human, self.seed, self.measures = explainer, ratios, human, seed, set(measures)

    def explained(self, texts: list[str], method: Method, budget: Budget) -> list[Explanation]:
        """Explain texts without a warning for each one that is cut; `compare` counts them."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*do not fit into .* and were cut", UserWarning)
            check = None if budget == AUTO else 0  # "auto" needs held-out queries
            return list(self.explainer(texts, method=method, queries=budget, check=check, seed=self.seed))

    def estimate(self, texts: list[str], method: Method, budget: Budget) -> Estimate:
        """Return what `explained` asks about texts."""
        check = None if budget == AUTO else 0
        return self.explainer.estimate(texts, method=method, queries=budget, check=check, seed=self.seed)

    def estimate_of_tests(self, texts: list[str], runs: int) -> Estimate:
        """Return what measuring the explanations of texts by so many methods and budgets asks."""
        options, queries = self.explainer.options, list[Queries]()
        for text in texts:
            reading, units = self.explainer.pipeline.read(text, options.unit_or_default, options.long)
            n, rows = len(units), [np.zeros((0, len(units)), dtype=bool)]
            if self.measures & {"near", "far"}:
                rows += masks(text, n, seed=self.seed)
            if self.measures & {"deletion", "insertion"} and n > 1:
                numbers = fractions_of(n, ERASER)
                for order in (np.random.default_rng(i).permutation(n).astype(np.float64) for i in range(runs)):
                    rows += [deletion_masks(order, numbers), insertion_masks(order, numbers)]
            queries.append(Queries(reading, units.atoms(np.concatenate(rows))))
        return self.explainer.engine.estimate(queries)

    def __call__(self, texts: list[str], numbers: list[int], method: Method, budget: Budget) -> list[dict[str, Any]]:
        """Return one record per text."""
        with self.explainer.engine.fresh():
            explanations = self.explained(texts, method, budget)
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
            records.append(record)
        return records

    def _naive_bayes(self, e: Explanation, ratios: LogRatios) -> float | None:
        if len(e.labels) != 2 or e.values.ndim != 1:
            return None
        return naive_bayes_correlation(e, ratios, score=ranking_score(e), tokens=self.explainer.tokens(e.text))


def total_of(one: Estimate, other: Estimate) -> Estimate:
    """Return what two estimates cost together."""
    return one._replace(
        queries=one.queries + other.queries,
        tokens=one.tokens + other.tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cost=None if one.cost is None or other.cost is None else one.cost + other.cost,
        cached=one.cached + other.cached,
        at_least=one.at_least or other.at_least,
        pairs=one.pairs + other.pairs,
    )
