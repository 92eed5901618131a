"""Answers without log probabilities: how well samples tell what log probabilities tell.

    python benchmarks/sampled_answers.py [--lm FOLDER]      # prints a table of planted models, and one of a language model

Contexts have 8 sources, and the probability p of the answer is known for all 256 subsets: of planted models (log odds of 2 to 4
sources; in every other one two of them replace each other), and of a language model that completes a sentence of contexts as in
`context.py`. A sample is the answer with probability p: this is what sampling the model does, and nothing has to be written.

All methods ask the same number of queries. joint explains log probabilities or counts; ridge and lasso, with a strength by
cross-validation, fit the frequencies of random subsets, and their predictions are turned into log odds. Shown are means over
contexts and seeds, with 95% intervals over contexts:

    rank, strongest     rank correlation of effects (Shapley values; coefficients of linear models) with the exact Shapley
                        values of log p, and how often the strongest source is the same
    removals, R2        root mean squared error of the removal of each source from all of them, and R2 over all subsets; of log
                        odds, which log probabilities are turned into
"""

import argparse
import math
import re
from collections.abc import Iterator

import numpy as np
from scipy import stats
from scipy.special import expit, logit
from sklearn.linear_model import LassoCV, RidgeCV

import slalom
from context import FACTS, N, cases, subsets
from slalom.contexts import language_model_of, sources_of
from slalom.models.continuation import Continuation, LanguageModel
from slalom.models.sources import SourceReading, SourceTemplate

QUERIES, SAMPLES, SEEDS, PLANTED, PER_KIND = (32, 64), (8, 32), range(3), 30, 4
ANSWER, OTHER, TEMPLATE = "the answer", "something else", "{context}\n\nTo repeat it: {question}"
LEAST = 0.1  # probability of the answer with all sources; below, few samples give it
SINGLE = [2**N - 1 - 2**i for i in range(N)]  # the subsets without one source
Known = tuple[str, np.ndarray]  # a context, and the probabilities (256,) of an answer


class Tabled(LanguageModel):
    """A language model that gives the answer with known probabilities, by log probabilities and by samples."""

    name, chats = "tabled", False

    def __init__(self, context: str, p: np.ndarray, seed: int) -> None:
        prompts = SourceReading(sources_of(context), SourceTemplate(TEMPLATE), "?").prompts(subsets(N))
        self.p, self.rng = dict(zip(prompts, p.tolist(), strict=True)), np.random.default_rng(seed)

    def tokens(self, answer: str, lead: str) -> np.ndarray:
        return np.array([[0, len(answer)]])

    def log_probs(self, prompts: list, answer: str, lead: str) -> np.ndarray:
        return np.log([[self.p[prompt]] for prompt in prompts])

    def sample(self, prompts: list, most: int, count: int, temperature: float = 1.0, seed: int = 0) -> list[list[str]]:
        return [[ANSWER if said else OTHER for said in self.rng.random(count) < self.p[prompt]] for prompt in prompts]

    def generate(self, prompt: object, most: int) -> str:
        return ANSWER

    def identity(self) -> str:
        return "tabled"


def planted() -> Iterator[Known]:
    """Yield contexts and probabilities of planted models."""
    rng, keep = np.random.default_rng(0), subsets(N).astype(float)
    for number in range(PLANTED):
        chosen = rng.permutation(N)[: rng.integers(2, 5)]
        effects = rng.uniform(1.0, 4.0, len(chosen))
        score = keep[:, chosen] @ effects
        if number % 2:
            score -= min(effects[:2]) * keep[:, chosen[0]] * keep[:, chosen[1]]
        score += rng.uniform(0.5, 2.5) - score[-1]
        yield " ".join(f"This is source {i}." for i in range(N)), expit(score)


def asked(folder: str) -> Iterator[Known]:
    """Yield contexts and probabilities of a language model: "Zetgor works as a" after the context, and the job."""
    model, template = language_model_of(folder), SourceTemplate(TEMPLATE)
    for case in cases(PER_KIND):
        sources = sources_of(case.context)
        for _, first, _, question in FACTS:
            if about := re.fullmatch(re.escape(question).replace(r"\{a\}", "(.*)"), case.question):
                begun = first.format(a=about[1], b="|").partition("|")[0].strip()
        prompts = SourceReading(sources, template, begun).prompts(subsets(N))
        said = Continuation(model, sources, template, begun, case.answer)
        yield case.context, np.exp(said.collect(said.submit(prompts)).sum(axis=1))


def shapley(scores: np.ndarray) -> np.ndarray:
    """Return the Shapley values (n,) of scores of all subsets (2^n,)."""
    keep = subsets(N)
    weights = 1.0 / (N * np.array([math.comb(N - 1, k) for k in range(N)]))
    rows = [np.flatnonzero(~keep[:, i]) for i in range(N)]
    return np.array([weights[keep[row].sum(axis=1)] @ (scores[row + 2**i] - scores[row]) for i, row in enumerate(rows)])


def explained(known: Known, queries: int, seed: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield the effects (n,) and the predicted log odds (256,) by every method."""
    context, p = known
    options = {"context": context, "template": TEMPLATE, "queries": queries, "check": 0, "seed": seed, "progress": False}
    e = slalom.context(Tabled(context, p, seed), question="?", answer=ANSWER, **options)
    yield "joint, log probabilities", e.scores("shapley"), logit(np.exp(np.minimum(e.predict(subsets(N)), -1e-3)))
    for m in SAMPLES:
        e = slalom.context(Tabled(context, p, seed), question="?", answer=ANSWER, mode="sample", samples=m, **options)
        yield f"joint, {m} samples", e.scores("shapley"), e.predict(subsets(N))
        rng = np.random.default_rng([seed, m])
        rows = rng.choice(len(p), queries, replace=False)
        frequencies, keep = rng.binomial(m, p[rows]) / m, subsets(N).astype(float)
        for name, model in (("ridge", RidgeCV(np.logspace(-3, 3, 13))), ("lasso", LassoCV(cv=5, random_state=0))):
            model.fit(keep[rows], frequencies)
            yield f"{name}, {m} samples", model.coef_, logit(np.clip(model.predict(keep), 0.5 / m, 1.0 - 0.5 / m))


def quality(known: Known, effects: np.ndarray, odds: np.ndarray) -> tuple[float, float, float, float]:
    """Return rank correlation, whether the strongest source is the same, error of removals, and R2."""
    exact, true = shapley(np.log(known[1])), logit(known[1])
    flat = np.ptp(effects) == 0.0  # a lasso may keep nothing
    rank = 0.0 if flat else float(stats.spearmanr(effects, exact).statistic)
    wrong = (odds[-1] - odds[SINGLE]) - (true[-1] - true[SINGLE])
    r2 = 1.0 - float(np.mean((odds - true) ** 2) / np.var(true))
    return rank, float(not flat and np.argmax(effects) == np.argmax(exact)), float(np.sqrt(np.mean(wrong**2))), r2


def report(what: str, contexts: list[Known]) -> None:
    """Print a table."""
    print(f"\n{what}, {len(contexts)} contexts\n")
    print("| queries | method | rank | strongest | removals | R2 |\n|---|---|---|---|---|---|")
    for queries in QUERIES:
        found: dict[str, np.ndarray] = {}
        for number, known in enumerate(contexts):
            for seed in SEEDS:
                for method, effects, odds in explained(known, queries, seed):
                    rows = found.setdefault(method, np.zeros((len(contexts), 4)))
                    rows[number] += np.array(quality(known, effects, odds)) / len(SEEDS)
        for method, rows in found.items():
            half = stats.t.ppf(0.975, len(rows) - 1) * rows.std(axis=0, ddof=1) / len(rows) ** 0.5
            cells = " | ".join(f"{mean:.2f} ± {h:.2f}" for mean, h in zip(rows.mean(axis=0), half, strict=True))
            print(f"| {queries} | {method} | {cells} |", flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lm", help="folder of a causal language model")
    options = parser.parse_args()
    report("Planted models", list(planted()))
    if options.lm:
        known = list(asked(options.lm))
        said = [(context, p) for context, p in known if p[-1] >= LEAST]
        print(f"\n{len(said)} of {len(known)} answers have a probability of at least {LEAST:g} with all sources.")
        report("Language model", said)


if __name__ == "__main__":
    main()
