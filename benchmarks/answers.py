"""Which source does each sentence of an answer rest on: methods on answers whose every subset of sources is known.

    python benchmarks/answers.py ask --lm FOLDER     # asks a language model about all subsets; continues where it stopped
    python benchmarks/answers.py score               # methods against these answers: tables, and JSON; continues too
    python benchmarks/answers.py words               # words of answers: by the fit of their sentence, and by fits of their own
    python benchmarks/answers.py tokens --lm FOLDER  # the share of tokens that go through the network, with its tokenizer

`ask` makes contexts of 8 sentences about people with ordinary names and questions about two or three facts, and lets the
language model answer in a chat, as it likes. Answers are kept of which at least two sentences state a fact of the context or of
the world, one of them of the kind that the context is made for: a fact stated once, stated twice, in contradicting sentences,
in two that are both needed ("The wife of Tom is Ann."), or in none.

`score` explains every answer with every method, budget and seed. Tested are subsets that neither `joint` nor `context-cite` has
asked with this budget and seed: far is 1 - R2, near the mean squared error of the change from the whole context without 1 to
3 sources, LDS the rank correlation with the model. "top k" is the true fall of the log probability of a sentence without the k
sources that a method finds strongest; "best" is the largest there is. Answers are the unit of sampling: means over sentences
and seeds, 95% intervals and Wilcoxon tests of pairs over answers.
"""

import argparse
import gzip
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import combinations, product
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import comb

import slalom
from context import TEMPLATE, Case, Recorded, subsets
from slalom.contexts import language_model_of, sources_of
from slalom.models.continuation import Continuation
from slalom.models.sources import CHAT, PLAIN, SourceReading, SourceTemplate
from slalom.text import sentences

KINDS = ("one source", "stated twice", "contradicting", "two hops", "memory")
N = 8  # sentences of a context
RECORDED = "results/answers.jsonl.gz"
BUDGETS = (32, 64, 128)
SEEDS = range(3)
_FEW = 20  # queries with which not all removals are asked
_NEAR = 3  # sources removed, at most, near the whole context
_THREE = 0.3  # share of answers with three sentences, not two
_TRIES = 20  # contexts for one answer that is kept, at most
_LONGEST = 80  # tokens of an answer
NAMES = ("Anna", "Tom", "Paul", "Lucy", "Emma", "Jack", "Sarah", "David", "Julia", "Frank", "Kate", "Simon", "Laura", "Mark")
CITIES = ("Paris", "Rome", "Berlin", "Madrid", "London", "Vienna", "Tokyo", "Athens", "Dublin", "Oslo", "Warsaw", "Cairo")
# What is said of somebody ({a}), twice with other words; the question; the values ({b}).
FACTS = {
    "city": ("{a} lives in {b}.", "The home of {a} is in {b}.", "Where does {a} live?", CITIES),
    "job": (
        "{a} works as a {b}.",
        "The job of {a} is {b}.",
        "What does {a} work as?",
        ("nurse", "baker", "lawyer", "farmer", "pilot", "teacher", "painter", "waiter", "doctor", "driver"),
    ),
    "pet": (
        "{a} has a {b}.",
        "The pet of {a} is a {b}.",
        "Which pet does {a} have?",
        ("dog", "cat", "rabbit", "horse", "parrot", "turtle", "hamster", "goldfish", "snake", "mouse"),
    ),
    "age": (
        "{a} is {b} years old.",
        "The age of {a} is {b}.",
        "How old is {a}?",
        ("21", "27", "33", "38", "42", "46", "51", "55", "64", "69"),
    ),
    "food": (
        "{a} likes {b}.",
        "The favourite food of {a} is {b}.",
        "What does {a} like to eat?",
        ("pizza", "rice", "soup", "cheese", "fish", "bread", "salad", "cake", "apples", "noodles"),
    ),
    "sport": (
        "{a} plays {b}.",
        "The sport of {a} is {b}.",
        "Which sport does {a} play?",
        ("tennis", "football", "golf", "chess", "hockey", "basketball", "rugby", "cricket", "volleyball", "baseball"),
    ),
}
RELATIONS = ("wife", "sister", "friend", "mother", "boss", "neighbour", "daughter", "teacher")
# Knowledge of the world: a question that no source answers, and what a right answer has.
WORLD = (
    *(
        (f"Which country is {city} the capital of?", city, country)
        for city, country in (
            ("Paris", "France"),
            ("Rome", "Italy"),
            ("Berlin", "Germany"),
            ("Madrid", "Spain"),
            ("Vienna", "Austria"),
            ("Tokyo", "Japan"),
            ("Athens", "Greece"),
            ("Cairo", "Egypt"),
        )
    ),
    ("What colour is grass?", "grass", "green"),
    ("What colour is snow?", "snow", "white"),
    ("How many days does a week have?", "week", "seven|7"),
    ("What do bees make?", "bees", "honey"),
    ("Which planet do we live on?", "planet", "earth"),
    ("What does a cow give?", "cow", "milk"),
)
HOW = "Answer each question in a full sentence that says who or what it is about. Say no more than that."


@dataclass(frozen=True)
class _Fact:
    """Something that an answer may say: the words that say it, and which sources do."""

    kind: str
    words: tuple[str, ...]
    sources: list[list[str]]  # sets of them that are enough
    question: str


class _Context:
    """People and values of one context, each value at most once."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.people, self.used = rng, rng.permutation(NAMES).tolist(), set[str]()

    def value(self, name: str) -> str:
        word = str(self.rng.choice([word for word in FACTS[name][3] if word not in self.used]))
        self.used.add(word)
        return word

    def facts(self, kind: str) -> list[_Fact]:
        """Return facts that answer one question: two where sources contradict each other."""
        rng, a, name = self.rng, self.people.pop(), str(self.rng.choice(list(FACTS)))
        first, second, question, _ = FACTS[name]
        b = self.value(name)
        if kind == "two hops":
            other, about = self.people.pop(), f"the {rng.choice(RELATIONS)} of {a}"
            told = [f"T{about[1:]} is {other}.", first.format(a=other, b=b)]
            return [_Fact(kind, (about, b), [told], question.format(a=about))]
        said, twice, question = first.format(a=a, b=b), second.format(a=a, b=b), question.format(a=a)
        if kind == "stated twice":
            return [_Fact(kind, (a, b), [[said], [twice]], question)]
        if kind == "contradicting":
            other = self.value(name)
            return [
                _Fact(kind, (a, b), [[said]], question),
                _Fact(kind, (a, other), [[second.format(a=a, b=other)]], question),
            ]
        return [_Fact("one source", (a, b), [[said if rng.random() < 0.7 else twice]], question)]


def drawn(kind: str, rng: np.random.Generator) -> tuple[list[str], list[_Fact], list[_Fact]]:
    """Return the sources of a context, the facts that are asked for, and all facts."""
    context = _Context(rng)
    special = [context.facts(kind) for _ in range({"memory": 0, "two hops": 2}.get(kind, 3))]
    told = [text for facts in special for fact in facts for group in fact.sources for text in group]
    plain = [context.facts("one source") for _ in range(N - len(told))]
    told += [text for facts in plain for fact in facts for group in fact.sources for text in group]
    if kind == "memory":
        question, *words = WORLD[int(rng.integers(len(WORLD)))]
        special = [[_Fact("memory", tuple(words), [], question)]]
    asked = [special[0][0], plain[0][0], [*special[1:], *plain[1:]][0][0]][: 2 + int(rng.random() < _THREE)]
    asked = [asked[i] for i in rng.permutation(len(asked))]
    return [told[i] for i in rng.permutation(N)], asked, [fact for facts in special + plain for fact in facts]


def known(said: str, facts: list[_Fact], told: list[str]) -> tuple[str | None, list[list[int]] | None]:
    """Return the kind of a sentence of an answer, and the sets of sources that are enough for it."""
    stated = [fact for fact in facts if all(re.search(rf"\b({word})\b", said, re.I) for word in fact.words)]
    if len(stated) != 1:
        return None, None
    return stated[0].kind, [[told.index(text) for text in group] for group in stated[0].sources]


def made(model: Any, kind: str, seed: int) -> dict:
    """Return a case: an answer of the model of which two sentences are known, one of them of the kind."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    for _ in range(_TRIES):
        told, asked, facts = drawn(kind, rng)
        context, question = " ".join(told), " ".join([*(fact.question for fact in asked), HOW])
        answer = " ".join(model.generate(SourceTemplate(CHAT).fill(context, question), _LONGEST).split())
        about = [known(answer[start:stop], facts, told) for start, stop in sentences(answer).tolist()]
        kinds = [fact_kind for fact_kind, _ in about]
        print(f"{kind} {seed}: {answer} {kinds}", flush=True)
        if 2 <= len(about) <= 5 and sum(fact_kind is not None for fact_kind in kinds) >= 2 and kind in kinds:
            rests = [sources for _, sources in about]
            return {"case": asdict(Case(kind, context, question, answer)), "template": CHAT, "kinds": kinds, "rests": rests}
    raise SystemExit(f"{model.name} states no fact of kind {kind!r} in {_TRIES} answers; use a better model")


def ask(options: argparse.Namespace) -> None:
    """Make cases, and ask the language model about all subsets of their sources."""
    done = {(row["case"]["kind"], row["seed"]) for row in read_rows(options.answers)}
    model = language_model_of(options.lm, device=options.device)
    first, step = (int(number) for number in options.share.split("/"))
    for seed in range(options.seed + first, options.seed + options.contexts, step):
        for kind in (kind for kind in KINDS if (kind, seed) not in done):
            began = perf_counter()
            row = made(model, kind, seed)
            case, template = row["case"], SourceTemplate(CHAT)
            sources = sources_of(case["context"])
            answer = Continuation(model, sources, template, case["question"], case["answer"])
            prompts = SourceReading(sources, template, case["question"]).prompts(subsets(N))
            model.computed = 0
            logs = answer.collect(answer.submit(prompts))
            row |= {"seed": seed, "model": model.name, "spans": answer.spans.tolist(), "computed": model.computed}
            with options.answers.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**row, "log_probs": np.round(logs, 4).tolist()}) + "\n")
            total = logs.sum(axis=1)
            print(f"{kind} {seed}: {total.min():.1f} to {total[-1]:.1f}, {perf_counter() - began:.0f} s", flush=True)


def read_rows(path: Path) -> list[dict]:
    """Return recorded answers."""
    if not path.exists():
        return []
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


class _Asked:
    """The log probabilities of one sentence for all subsets of sources."""

    def __init__(self, scores: np.ndarray) -> None:
        self.scores, self.n = scores, int(np.log2(len(scores)))

    def __call__(self, kept: Iterable[int]) -> float:
        return float(self.scores[sum(1 << i for i in set(kept))])

    def drop(self, removed: Iterable[int]) -> float:
        """Return by how much the log probability falls without some sources."""
        return float(self.scores[-1]) - self(set(range(self.n)) - set(removed))

    def most(self, k: int) -> float:
        """Return the most that it can fall without k sources."""
        return max(self.drop(removed) for removed in combinations(range(self.n), k))

    def left_out(self) -> np.ndarray:
        """Return the effects of leaving out each source, of n + 1 queries."""
        return np.array([self.drop([i]) for i in range(self.n)])

    def shapley(self) -> np.ndarray:
        """Return the Shapley values of all sources."""
        numbers, sizes = np.arange(2**self.n), subsets(self.n).sum(axis=1)
        weights = 1.0 / (self.n * comb(self.n - 1, np.arange(self.n)))
        values = []
        for i in range(self.n):
            without = numbers[numbers >> i & 1 == 0]
            values.append(float(weights[sizes[without]] @ (self.scores[without | 1 << i] - self.scores[without])))
        return np.array(values)


def tracllm(truth: _Asked, budget: int, rng: np.random.Generator, most: int = 5) -> np.ndarray:
    """Return the scores of TracLLM (Wang, Zou, Geng, Jia: arXiv 2506.04202, 2025).

    Sources are halved into groups; of more than `most` groups those with the highest scores are kept and halved again, until
    each has one source. There are three such searches, and the score of a source is its largest: alone (less none); left out of
    those that are left (twice); Shapley values by permutations, of each the mean of the largest fifth. As in their package,
    `most` is 5; there are as many permutations as the budget has room for, at least 2.
    """
    asked = set[frozenset[int]]()

    def value(groups: Iterable[tuple[int, ...]]) -> float:
        kept = frozenset(i for group in groups for i in group)
        asked.add(kept)
        return truth(kept)

    def alone(groups: list[tuple[int, ...]]) -> list[float]:
        return [value([group]) - value([]) for group in groups]

    def without(groups: list[tuple[int, ...]]) -> list[float]:
        return [2.0 * (value(groups) - value([g for g in groups if g != group])) for group in groups]

    def shapley(groups: list[tuple[int, ...]]) -> list[float]:
        steps: list[list[float]] = [[] for _ in groups]
        while len(steps[0]) < 2 or (len(asked) + len(groups) - 3 <= budget and len(steps[0]) < 50):
            order = rng.permutation(len(groups)).tolist()
            values = [value([groups[i] for i in order[:k]]) for k in range(len(order) + 1)]
            for place, i in enumerate(order):
                steps[i].append(values[place + 1] - values[place])
        return [float(np.mean(sorted(step)[-max(1, int(0.2 * len(step))) :])) for step in steps]

    scores = np.zeros(truth.n)
    for score in (alone, without, shapley):
        groups, found = [tuple(range(truth.n))], list[float]()
        while max(map(len, groups)) > 1:
            groups = [half for g in groups for half in (g[: len(g) // 2], g[len(g) // 2 :]) if half]
            if len(groups) > most:
                found = score(groups)
                kept = sorted(np.argsort(found)[::-1][:most].tolist())
                groups, found = [groups[i] for i in kept], [found[i] for i in kept]
        for (i,), f in zip(groups, found, strict=True):
            scores[i] = max(scores[i], f)
    return scores


def explained(row: dict, method: str, budget: int, seed: int) -> tuple[Any, np.ndarray]:
    """Return the sentences of an answer, explained, and which subsets were asked (2^n,)."""
    model, case = Recorded(row), row["case"]
    explainer = slalom.ContextExplainer(model, context=case["context"], template=row["template"], method=method, check=0)
    e = explainer(case["question"], case["answer"], queries=budget, seed=seed)
    return e.sentences, np.isin(np.arange(2**N), list(model.asked))


def truths(row: dict, found: Any) -> list[_Asked]:
    """Return what the model says of each sentence."""
    logs, (starts, stops) = np.array(row["log_probs"]), np.array(row["spans"]).T
    return [_Asked(logs[:, (starts < sentence.stop) & (stops > sentence.start)].sum(axis=1)) for sentence in found]


def measured(row: dict, budget: int, seed: int) -> list[dict[str, dict[str, Any]]]:
    """Return the figures of all methods for each sentence of an answer, with one budget and seed."""
    (ours, asked), (cited, asked_too) = (explained(row, method, budget, seed) for method in ("joint", "context-cite"))
    keep, unasked = subsets(N), ~(asked | asked_too)
    removed = N - keep.sum(axis=1)
    near, results = unasked & (removed > 0) & (removed <= _NEAR), []
    for sentence, cite, truth, rests in zip(ours, cited, truths(row, ours), row["rests"], strict=True):
        predicted, single = sentence.predict(keep), truth.left_out()
        traced = tracllm(truth, budget, np.random.default_rng(seed))
        orders = {
            "slalom": [*sentence.sources, *(i for i in greedy(predicted) if i not in sentence.sources)],
            "context-cite": _order(cite.effects),
            "leave-one-out": _order(single),
            "tracllm": _order(traced),
            "slalom, by Shapley": _order(sentence.explanation.scores("shapley")),
            "slalom, by removal": _order(sentence.effects),
            "slalom, greedy": greedy(predicted),
        }
        predictions = {
            "slalom": predicted,
            "context-cite": cite.predict(keep),
            "leave-one-out": truth.scores[-1] - ~keep @ single,
            "tracllm": keep @ traced,  # its scores tell an order, not how large the log probability is
        }
        figures: dict[str, dict[str, Any]] = {}
        for method, order in orders.items():
            figures[method] = {f"top {k}": truth.drop(order[:k]) for k in (1, 3)}
            if rests:
                figures[method]["first"] = float(any(order[0] in group for group in rests))
                figures[method]["known"] = float(any(set(order[: len(group)]) == set(group) for group in rests))
        for method, guess in predictions.items():
            rank = stats.spearmanr(guess[unasked], truth.scores[unasked]).statistic if np.ptp(guess) else 0.0
            figures[method]["lds"] = float(rank)
            if method != "tracllm":
                change = guess - guess[-1] - (truth.scores - truth.scores[-1])
                figures[method]["far"] = float(((guess - truth.scores)[unasked] ** 2).mean() / truth.scores[unasked].var())
                figures[method]["near"] = float((change[near] ** 2).mean())
        figures["best"] = {f"top {k}": truth.most(k) for k in (1, 3)}
        interval = sentence.explanation.interval("shapley")
        inside = (interval[:, 0] <= truth.shapley()) & (truth.shapley() <= interval[:, 1])
        listed, known = set(sentence.sources), {i for group in rests or [] for i in group}
        figures["sentence"] = {
            "from memory": float(sentence.from_memory),
            "total": float(truth.scores[-1] - truth.scores[0]),  # what a rule without an explanation would look at
            "strongest": float(single.max()),
            "Shapley covered": float(inside.mean()),
        }
        if known:
            figures["sentence"] |= {"listed are known": len(listed & known) / max(len(listed), 1)}
            figures["sentence"] |= {"known are listed": len(listed & known) / len(known)}
        if rests and len(rests) == 2:
            figures["sentence"]["one group"] = float(any(known <= set(group) for group in sentence.groups))
        results.append(figures)
    return results


def _order(effects: np.ndarray) -> list[int]:
    return np.argsort(-effects, kind="stable").tolist()


def greedy(predicted: np.ndarray) -> list[int]:
    """Return sources in the order in which removing one more lowers a prediction (2^n,) most."""
    kept, order = set(range(N)), list[int]()
    while kept:
        order.append(min(kept, key=lambda i: predicted[sum(1 << j for j in kept - {i})]))
        kept.remove(order[-1])
    return order


def covered(row: dict, seed: int) -> list[float]:
    """Return whether 95% intervals of removal effects that were not asked, with few queries, have the true ones."""
    found, asked = explained(row, "joint", _FEW, seed)
    open_ = ~asked[[2**N - 1 - (1 << i) for i in range(N)]]
    both = [(s.interval, truth.left_out()) for s, truth in zip(found, truths(row, found), strict=True)]
    return [float(np.mean(((i[:, 0] <= t) & (t <= i[:, 1]))[open_])) for i, t in both if open_.any()]


def score(options: argparse.Namespace) -> None:
    """Score all methods, and print tables."""
    rows = read_rows(options.answers)
    results = json.loads(options.out.read_text()) if options.out.exists() else []
    if [result["case"] for result in results] != [row["case"] for row in rows[: len(results)]]:
        raise SystemExit(f"{options.out} has figures of other answers; name another file")
    for number, row in enumerate(rows[len(results) :], len(results) + 1):
        found = {str(budget): [measured(row, budget, seed) for seed in SEEDS] for budget in BUDGETS}
        few = [share for seed in SEEDS for share in covered(row, seed)]
        about = {name: row[name] for name in ("case", "kinds", "rests")}
        results.append({**about, "figures": found, "few covered": few})
        print(f"{number} of {len(rows)}", flush=True)
        options.out.write_text(json.dumps(results))
    report(results)


_FIGURES = {
    "first": "a known source first",
    "known": "all needed first",
    "top 1": "top 1",
    "top 3": "top 3",
    "lds": "LDS",
    "far": "far",
    "near": "near",
}
_SHARES = ("listed are known", "known are listed", "one group", "Shapley covered")


def report(results: list[dict]) -> None:
    """Print means and 95% intervals over answers, and p values of Wilcoxon's test of pairs against ours."""
    kinds = [kind for result in results for kind in result["kinds"]]
    counts = {str(kind): kinds.count(kind) for kind in (*KINDS, None)}
    print(f"{len(results)} answers; sentences: {counts}")
    methods = [name for name in results[0]["figures"][str(BUDGETS[0])][0][0] if name != "sentence"]
    print(f"\n| queries | method | {' | '.join(_FIGURES.values())} |\n|---|---|{'---|' * len(_FIGURES)}")
    for budget, method in product(map(str, BUDGETS), methods):
        cells = []
        for name in _FIGURES:
            ours, theirs = (_means(results, budget, m, name) for m in ("slalom", method))
            differ = len(theirs) and (ours != theirs).any()
            cells.append(_interval(theirs) + (f" ({stats.wilcoxon(ours, theirs).pvalue:.1g})" if differ else ""))
        print(f"| {budget} | {method} | {' | '.join(cells)} |")
    print(f"\nKnown source first, top 3\n\n| queries | method | {' | '.join(KINDS)} |\n|---|---|{'---|' * len(KINDS)}")
    for budget, method in product(map(str, BUDGETS), methods):
        cells = [", ".join(_of_kind(results, budget, method, name, kind) for name in ("known", "top 3")) for kind in KINDS]
        print(f"| {budget} | {method} | {' | '.join(cells)} |")
    print(f"\n| queries | {' | '.join(_SHARES)} | from memory: {' | '.join(map(str, (*KINDS, None)))} | rules |")
    for budget in map(str, BUDGETS):
        shares = [_interval(_means(results, budget, "sentence", name)) for name in _SHARES]
        called = [_of_kind(results, budget, "sentence", "from memory", kind) for kind in (*KINDS, None)]
        print(f"| {' | '.join([budget, *shares, *called, *_rules(results, budget)])} |")
    print(f"\nremovals not asked with {_FEW} queries:", _interval(np.array([np.mean(r["few covered"]) for r in results])))


def _sentences(results: list[dict], budget: str) -> Iterator[tuple[int, str | None, list[dict]]]:
    """Yield the number of the answer, the kind and the figures of each seed, of all sentences."""
    for number, result in enumerate(results):
        for k, kind in enumerate(result["kinds"]):
            yield number, kind, [seed[k] for seed in result["figures"][budget]]


def _means(results: list[dict], budget: str, method: str, name: str) -> np.ndarray:
    """Return the mean of a figure over sentences and seeds, for each answer that has it."""
    found: dict[int, list[float]] = {}
    for number, _, seeds in _sentences(results, budget):
        found.setdefault(number, []).extend(seed[method][name] for seed in seeds if name in seed.get(method, {}))
    return np.array([np.mean(numbers) for numbers in found.values() if numbers])


def _of_kind(results: list[dict], budget: str, method: str, name: str, kind: str | None) -> str:
    """Return the mean of a figure over the sentences of a kind."""
    found = [
        seed[method][name]
        for _, k, seeds in _sentences(results, budget)
        for seed in seeds
        if k == kind and name in seed[method]
    ]
    return f"{np.mean(found):.2f}" if found else "-"


def _interval(numbers: np.ndarray) -> str:
    if len(numbers) < 2:
        return "-"
    half = stats.t.ppf(0.975, len(numbers) - 1) * numbers.std(ddof=1) / len(numbers) ** 0.5
    return f"{numbers.mean():.3f} ± {half:.3f}"


def _rules(results: list[dict], budget: str) -> list[str]:
    """Return what thresholds, chosen on every other answer, call from memory in the rest: of such sentences, and of others."""
    rules = []
    for name in ("total", "strongest"):
        rows = [(n % 2, kind == "memory", seeds[0]["sentence"][name]) for n, kind, seeds in _sentences(results, budget) if kind]
        half, memory, values = (np.array(column) for column in zip(*rows, strict=True))

        def called(
            threshold: float, which: int, values: np.ndarray = values, half: np.ndarray = half, memory: np.ndarray = memory
        ) -> Any:
            return [(values < threshold)[(half == which) & (memory == m)].mean() for m in (True, False)]

        best = max(values[half == 0], key=lambda threshold: float(np.subtract(*called(threshold, 0))))
        rules.append(f"{name} below {best:.2f}: {called(best, 1)[0]:.2f} and {called(best, 1)[1]:.2f}")
    return rules


def words(options: argparse.Namespace) -> None:
    """Print how well words are predicted by the fit of their sentence, and by a fit of their own."""
    rows, keep = read_rows(options.answers), subsets(N)
    print("| queries | fit of | far | far, words that vary | far, sums | Shapley covered | same sources | seconds |")
    print("|" + "---|" * 8)
    for budget in BUDGETS:
        found: dict[str, list[list[float]]] = {"the sentence": [], "the word": []}
        seconds = dict.fromkeys(found, 0.0)
        for row, seed in product(rows, SEEDS):
            case, model = row["case"], Recorded(row)
            about = {"question": case["question"], "answer": case["answer"], "queries": budget, "seed": seed}
            plain, explainer = (
                slalom.ContextExplainer(
                    model, context=case["context"], template=row["template"], check=0, pairs=False, words=own
                )
                for own in (False, True)
            )
            times = [perf_counter()]
            plain(**about)
            times.append(perf_counter())
            e = explainer(**about)
            times.append(perf_counter())
            each = [explainer(**about, part=w.explanation.target).sentences[0] for s in e.sentences for w in s.words]
            seconds["the sentence"] += times[2] - times[1] - (times[1] - times[0])
            seconds["the word"] += perf_counter() - times[2]
            unasked = ~np.isin(np.arange(2**N), list(model.asked))
            for s, whole in zip(e.sentences, truths(row, e.sentences), strict=True):
                separate, each = each[: len(s.words)], each[len(s.words) :]
                for name, parts in (("the sentence", s.words), ("the word", separate)):
                    found[name].append(_of_words(row, s, parts, whole.scores, unasked, keep))
        for name, figures in found.items():
            cells = [f"{mean:.3f}" for mean in np.nanmean(figures, axis=0)]
            print(f"| {budget} | {name} | {' | '.join(cells)} | {seconds[name]:.1f} |", flush=True)


def _of_words(row: dict, sentence: Any, parts: Any, whole: np.ndarray, unasked: np.ndarray, keep: np.ndarray) -> list[float]:
    """Return the figures of the words of a sentence."""
    logs, (starts, stops) = np.array(row["log_probs"]), np.array(row["spans"]).T
    logs = logs[:, (starts < sentence.stop) & (stops > sentence.start)]
    ends = np.cumsum([word.tokens for word in parts])
    assert ends[-1] == logs.shape[1]
    truth = [_Asked(tokens.sum(axis=1)) for tokens in np.split(logs, ends[:-1], axis=1)]
    true, guess = np.stack([t.scores for t in truth])[:, unasked], np.stack([word.predict(keep) for word in parts])[:, unasked]
    wrong, variance = ((guess - true) ** 2).mean(axis=1), true.var(axis=1)
    vary = np.array([np.ptp(t.scores) > 1.0 for t in truth])
    none = np.zeros((N, 2))  # of words whose log probability never changes
    intervals = [none if (i := word.explanation.interval("shapley")) is None else i for word in parts]
    inside = [(i[:, 0] <= t.shapley()) & (t.shapley() <= i[:, 1]) for i, t in zip(intervals, truth, strict=True)]
    return [
        float(wrong.sum() / variance.sum()),
        float((wrong / variance)[vary].mean()) if vary.any() else np.nan,
        float(((guess.sum(axis=0) - whole[unasked]) ** 2).mean() / whole[unasked].var()),
        float(np.mean(inside)),
        float(np.mean([set(word.sources) == _counting(t) for word, t in zip(parts, truth, strict=True)])),
    ]


def _counting(truth: _Asked) -> set[int]:
    """Return the sources whose true Shapley values say that they count."""
    shares = truth.shapley()
    return set(np.flatnonzero(shares >= max(1.0, 0.1 * abs(truth.scores[-1] - truth.scores[0]))).tolist())


def tokens(options: argparse.Namespace) -> None:
    """Print the share of tokens that go through the network, of those of plain passes: it does not depend on the weights."""
    import torch  # noqa: PLC0415
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM  # noqa: PLC0415

    from slalom.models.huggingface.causal import LocalLanguageModel  # noqa: PLC0415

    torch.manual_seed(0)
    tokenizer, shape = (
        AutoTokenizer.from_pretrained(options.lm, trust_remote_code=False),
        {"hidden_size": 8, "intermediate_size": 8},
    )
    tiny = LlamaConfig(
        vocab_size=len(tokenizer), num_hidden_layers=1, num_attention_heads=1, max_position_embeddings=4096, **shape
    )
    rows = read_rows(options.answers)[:8]
    for count in (1, 4):  # contexts of 8 and 32 sentences
        for name, template in (("question first", TEMPLATE), ("question last", PLAIN), ("chat", None)):
            shares = []
            for row in rows[: len(rows) // count * count : count]:
                model = LocalLanguageModel(LlamaForCausalLM(tiny).eval(), tokenizer)
                plain = 0
                asked = model.log_probs

                def log_probs(prompts: list, answer: str, lead: str, model: Any = model, asked: Any = asked) -> np.ndarray:
                    nonlocal plain
                    length = len(model.tokens(answer, lead)) - 1
                    plain += sum(len(model._prompt(prompt, length)) + length for prompt in prompts)
                    return asked(prompts, answer, lead)

                model.log_probs = log_probs
                context = " ".join(r["case"]["context"] for r in rows[rows.index(row) :][:count])
                explainer = slalom.ContextExplainer(model, context=context, template=template)
                explainer(row["case"]["question"], row["case"]["answer"])
                shares.append(model.computed / plain)
            print(f"{N * count} sentences, {name}: {np.mean(shares):.2f} of the tokens of plain passes")


def main() -> None:
    """Run a stage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("ask", "score", "report", "words", "tokens"))
    parser.add_argument("--lm", help="folder of a causal language model, for ask")
    parser.add_argument("--device")
    parser.add_argument("--contexts", type=int, default=12, help="of each kind")
    parser.add_argument("--seed", type=int, default=0, help="of the first contexts")
    parser.add_argument("--share", default="0/1", help="which of several processes this one is, for ask")
    parser.add_argument("--answers", type=Path, help="default: those of the repository; for ask a new file")
    parser.add_argument("--out", type=Path, default=Path("results/parts/answers.json"))
    options = parser.parse_args()
    Path("results/parts").mkdir(parents=True, exist_ok=True)
    options.answers = options.answers or Path("results/parts/answers.jsonl" if options.stage == "ask" else RECORDED)
    if options.stage == "ask":
        ask(options)
    elif options.stage == "score":
        score(options)
    elif options.stage == "words":
        words(options)
    elif options.stage == "tokens":
        tokens(options)
    else:
        report(json.loads(options.out.read_text()))


if __name__ == "__main__":
    main()
