"""Which source made it say this: methods on contexts whose every subset is known.

    python benchmarks/context.py rows --lm FOLDER --texts reviews.jsonl.gz --question "..." --rows rows.jsonl
                                                   # contexts of real sentences, with the model's own answers; optional
    python benchmarks/context.py ask --lm FOLDER   # asks a language model about all subsets; continues where it stopped
    python benchmarks/context.py score             # methods against the answers; prints a table, and writes JSON

`ask` makes contexts of 8 sentences with made-up names, so that the language model must read them, of three kinds: the answer is
in one sentence; in two sentences with other words; or two sentences contradict each other (--contexts 0 leaves them out).
--rows adds contexts of the user, such as those of SQuAD: JSON lines with "context", "question" and "answer" (or "answers":
{"text": [...]}), of 4 to 8 sentences, and "kind", the table they belong to.

`rows` makes such a file of texts of the user (lines of JSON with "text", also .gz): texts of 8 sentences drawn at random, or
short ones joined (--join). {subject} in the question is the first name of two words in one of the joined texts. The answer is
what the model says in a chat, cut after 12 tokens. Rows are appended, so that one file has several kinds (--kind). With fewer
--sentences there are fewer subsets to ask about.

`score` explains every context with every method, budget and seed. Tested are subsets that no method has asked with this budget
and seed (with 256 queries all are asked, and all are tested): far 1 - R2 over all of them, near the mean squared error of the
change from the whole context over those without 1 to 3 sources. Contexts are the unit of sampling: means over seeds, 95%
intervals and a Wilcoxon test of pairs over contexts.
"""

import argparse
import gzip
import html
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
from scipy import stats

import slalom
from slalom.contexts import language_model_of, sources_of
from slalom.models.continuation import Continuation, LanguageModel
from slalom.models.sources import SourceReading, SourceTemplate

KINDS = ("one source", "stated twice", "contradicting")
METHODS = ("joint", "context-cite", "kernel-shap", "lime")
BUDGETS = (32, 64, 256)
SEEDS = range(5)
N = 8  # sentences of a context
LONGEST = 12  # tokens of an answer that the model writes
_NEAR = 3  # sources removed, at most, near the whole context

TEMPLATE = "Question: {question}\nContext: {context}\nAnswer:"  # subsets share all of it but the end
_SYLLABLES = (
    "bar",
    "del",
    "fen",
    "gor",
    "hul",
    "jem",
    "kav",
    "lor",
    "mir",
    "nes",
    "ost",
    "pel",
    "rov",
    "sul",
    "tam",
    "vex",
    "wol",
    "yan",
    "zet",
)
_VALUES = {
    "job": ("baker", "surgeon", "welder", "judge", "plumber", "florist", "pilot", "tailor", "dentist", "clerk"),
    "animal": ("heron", "wolf", "badger", "crane", "lynx", "beetle", "falcon", "hare", "goat", "swan"),
    "instrument": ("violin", "cello", "trumpet", "harp", "flute", "banjo", "drum", "guitar", "piano", "lute"),
    "colour": ("red", "blue", "green", "yellow", "purple", "orange", "brown", "black", "white", "grey"),
}
# What is said of somebody or somewhere ({a}), twice with other words; the question. The value ({b}) is the answer.
FACTS = (
    ("job", "{a} works as a {b}.", "The job of {a} is that of a {b}.", "What is the job of {a}?"),
    ("animal", "{a} has a {b} in the garden.", "A {b} lives with {a}.", "Which animal does {a} have?"),
    ("instrument", "{a} plays the {b}.", "The {b} is what {a} plays.", "Which instrument does {a} play?"),
    ("colour", "The boat of {a} is {b}.", "{a} owns a {b} boat.", "Which colour is the boat of {a}?"),
    ("number", "{a} lives in room {b}.", "Room {b} is where {a} lives.", "What is the room number of {a}?"),
    ("number", "{a} has {b} sisters.", "The sisters of {a} are {b}.", "How many sisters does {a} have?"),
    ("place", "{a} grew up in {b}.", "The home town of {a} is {b}.", "What is the home town of {a}?"),
    ("place", "{a} travels to {b}.", "The journey of {a} goes to {b}.", "Where does {a} travel to?"),
)


@dataclass(frozen=True)
class Case:
    """A context with a question and an answer."""

    kind: str
    context: str
    question: str
    answer: str


class _Words:
    """Made-up names and values, each at most once per context."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.used = rng, set[str]()

    def __call__(self, kind: str) -> str:
        while (word := self._drawn(kind)) in self.used:
            pass
        self.used.add(word)
        return word

    def _drawn(self, kind: str) -> str:
        if kind in ("name", "place"):
            return "".join(self.rng.choice(_SYLLABLES, 2)).capitalize()
        if kind == "number":
            return str(self.rng.integers(10, 99))
        return str(self.rng.choice(_VALUES[kind]))


def cases(per_kind: int, seed: int = 0) -> list[Case]:
    """Return contexts of 8 sentences, as many of each kind, in turn."""
    rng = np.random.default_rng(seed)
    return [_case(kind, rng) for _ in range(per_kind) for kind in KINDS]


def _case(kind: str, rng: np.random.Generator) -> Case:
    word, (value_kind, first, second, question) = _Words(rng), FACTS[int(rng.integers(len(FACTS)))]
    about, value = word("name"), word(value_kind)
    said = [first.format(a=about, b=value)]
    if kind != "one source":
        said.append(second.format(a=about, b=value if kind == "stated twice" else word(value_kind)))
    while len(said) < N:
        other = FACTS[int(rng.integers(len(FACTS)))]
        said.append(other[int(rng.integers(1, 3))].format(a=word("name"), b=word(other[0])))
    return Case(kind, " ".join(said[i] for i in rng.permutation(N)), question.format(a=about), value)


def rows_of(path: Path) -> list[Case]:
    """Return contexts of a file of the user, with 4 to 8 sentences."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        answer = row.get("answer") or (row.get("answers") or {}).get("text", [""])[0]
        if answer and 4 <= len(sources_of(row["context"]).spans) <= N:
            found.append(Case(row.get("kind", "rows of a file"), row["context"], row["question"], answer))
    return found


def make_rows(options: argparse.Namespace) -> None:
    """Append contexts of real sentences, a question and the model's own answer to a file of rows."""
    opened = gzip.open if options.texts.suffix == ".gz" else open
    with opened(options.texts, "rt", encoding="utf-8") as file:
        texts = [plain(json.loads(line)["text"]) for line in file]
    order = np.random.default_rng(options.seed).permutation(len(texts))
    language_model, made = language_model_of(options.lm, device=options.device), 0
    with options.rows.open("a", encoding="utf-8") as file:
        for context, about in _contexts_of([texts[i] for i in order], options.sentences, options.characters, options.join):
            names = re.findall(r"(?<=[a-z,] )(?:[A-Z][a-z]+ )+[A-Z][a-z]+", about)
            if made == options.contexts:
                break
            if "{subject}" in options.question and not names:
                continue
            question = options.question.replace("{subject}", names[0] if names else "")
            asked = f"Context: {context}\n\nQuestion: {question} Answer with one short sentence."
            answer = language_model.generate([{"role": "user", "content": asked}], LONGEST).partition("\n")[0]
            if not answer:
                continue
            row = {"kind": options.kind, "context": context, "question": question, "answer": answer}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            file.flush()
            made += 1
            print(f"{made}: {question} {answer}", flush=True)
    if made < options.contexts:
        raise SystemExit(
            f"{options.texts} has {made} contexts of {options.sentences} sentences and {options.characters} characters at most"
        )


def plain(text: str) -> str:
    """Return a text without HTML, and on one line."""
    text = re.sub(r" ?#39;", "'", html.unescape(text).replace("\\", " "))
    return " ".join(re.sub(r"<[^>]*>", " ", text).split())


def _contexts_of(texts: list[str], n: int, most: int, join: bool) -> Iterator[tuple[str, str]]:
    """Yield contexts of n sentences and `most` characters at most, each with one of its texts."""
    if not join:
        yield from ((text, text) for text in texts if text and len(text) <= most and len(sources_of(text).spans) == n)
        return
    parts: list[str] = []
    for text in (text for text in texts if text and len(text) <= most // 5):
        if len(sources_of(" ".join([*parts, text])).spans) <= n:
            parts.append(text)
        if len(sources_of(" ".join(parts)).spans) == n:
            yield " ".join(parts), parts[len(parts) // 2]
            parts = []


def subsets(n: int) -> np.ndarray:
    """Return all subsets (2^n, n); row k has the binary digits of k."""
    return (np.arange(2**n)[:, None] >> np.arange(n)) % 2 == 1


def ask(options: argparse.Namespace) -> None:
    """Ask a language model about all subsets of all contexts."""
    asked = cases(options.contexts, options.seed) + (rows_of(options.rows) if options.rows else [])
    done = [json.loads(line) for line in options.answers.read_text().splitlines()] if options.answers.exists() else []
    if [row["case"] for row in done] != [asdict(case) for case in asked[: len(done)]]:
        raise SystemExit(f"{options.answers} has answers about other contexts; name another file")
    language_model, template = language_model_of(options.lm, device=options.device), SourceTemplate(TEMPLATE)
    with options.answers.open("a", encoding="utf-8") as file:
        for number, case in enumerate(asked[len(done) :], len(done) + 1):
            sources = sources_of(case.context)
            model = Continuation(language_model, sources, template, case.question, case.answer)
            prompts = SourceReading(sources, template, case.question).prompts(subsets(len(sources.spans)))
            began = perf_counter()
            logs = model.collect(model.submit(prompts))
            row = {"case": asdict(case), "model": model.name, "spans": model.spans.tolist()}
            file.write(json.dumps({**row, "log_probs": np.round(logs, 6).tolist()}) + "\n")
            file.flush()
            total = logs.sum(axis=1)
            seconds = perf_counter() - began
            print(f"{number} of {len(asked)}: {case.kind}, {total.min():.1f} to {total.max():.1f}, {seconds:.0f} s", flush=True)


class Recorded(LanguageModel):
    """A language model whose answers about one context are known; it keeps which subsets it was asked about."""

    def __init__(self, row: dict) -> None:
        self.name, self.chats, self.row = row["model"], True, row
        self.logs, self.asked = np.array(row["log_probs"]), set[int]()
        case, sources = Case(**row["case"]), sources_of(row["case"]["context"])
        self.case, self.n = case, len(sources.spans)
        self.template = row.get("template", TEMPLATE)
        prompts = SourceReading(sources, SourceTemplate(self.template), case.question).prompts(subsets(self.n))
        self.numbers = {json.dumps(prompt): number for number, prompt in enumerate(prompts)}
        self.scores = self.logs.sum(axis=1)

    def tokens(self, answer: str, lead: str) -> np.ndarray:
        return np.array(self.row["spans"])

    def log_probs(self, prompts: list, answer: str, lead: str) -> np.ndarray:
        numbers = [self.numbers[json.dumps(prompt)] for prompt in prompts]
        self.asked.update(numbers)
        return self.logs[numbers]

    def generate(self, prompt: object, most: int) -> str:
        raise NotImplementedError

    def identity(self) -> str:
        return "recorded"


def errors(row: dict, budget: int, seed: int, methods: tuple[str, ...] = METHODS) -> dict[str, dict[str, float]]:
    """Return the errors of all methods with one budget and seed on one context."""
    model, found, asked = Recorded(row), {}, set[int]()
    for method in methods:
        model.asked = set()
        explainer = slalom.ContextExplainer(model, context=model.case.context, template=TEMPLATE, method=method, check=0)
        found[method] = explainer(model.case.question, model.case.answer, queries=budget, seed=seed)
        asked |= model.asked
    keep = subsets(model.n)
    unasked = np.array([number not in asked for number in range(len(keep))])
    tested = unasked if unasked.sum() >= 10 else np.ones(len(keep), dtype=bool)
    removed = model.n - keep.sum(axis=1)
    near, whole = tested & (removed > 0) & (removed <= _NEAR), model.scores[-1]
    results = {}
    for method, e in found.items():
        predicted = e.predict(keep)
        wrong = (predicted - model.scores)[tested]
        change = (predicted - predicted[-1] - (model.scores - whole))[near]
        far = float((wrong**2).sum() / ((model.scores[tested] - model.scores[tested].mean()) ** 2).sum())
        results[method] = {"far": far, "near": float((change**2).mean()), "pairs": float(len(e.pairs))}
    return results


def score(options: argparse.Namespace) -> None:
    """Score all methods, and print a table."""
    sys.path = [path for path in sys.path if path != str(Path(__file__).parent)]  # shap needs another coverage than ours
    rows = [json.loads(line) for line in options.answers.read_text().splitlines()]
    table: dict[str, dict[str, list]] = {}
    methods = tuple(options.methods.split(","))
    for number, row in enumerate(rows, 1):
        by_kind = table.setdefault(row["case"]["kind"], {})
        for budget in BUDGETS:
            runs = [errors(row, budget, seed, methods) for seed in SEEDS]
            for method in methods:
                means = {name: float(np.mean([run[method][name] for run in runs])) for name in ("far", "near", "pairs")}
                by_kind.setdefault(f"{budget} {method}", []).append(means)
        print(f"{number} of {len(rows)}", flush=True)
        options.out.write_text(json.dumps(table, indent=1))
    report(table)


def report(table: dict[str, dict[str, list]]) -> None:
    """Print means, 95% intervals over contexts, and the p value of Wilcoxon's test against joint."""
    if len(table) > 1:
        kinds = list(table.values())
        table = {**table, "all": {name: [row for kind in kinds for row in kind[name]] for name in kinds[0]}}
    for kind, by_method in table.items():
        print(f"\n{kind}, {len(next(iter(by_method.values())))} contexts\n")
        print("| queries | method | far 1 - R2 | median | p | near MSE | median | p |")
        print("|---|---|---|---|---|---|---|---|")
        for name, found in by_method.items():
            budget, method = name.split(" ")
            cells = []
            for part in ("far", "near"):
                numbers = np.array([means[part] for means in found])
                joint = np.array([means[part] for means in by_method[f"{budget} joint"]])
                half = stats.t.ppf(0.975, len(numbers) - 1) * numbers.std(ddof=1) / len(numbers) ** 0.5
                p = "" if method == "joint" else f"{stats.wilcoxon(joint, numbers).pvalue:.1g}"
                cells.append(f"{numbers.mean():.3f} ± {half:.3f} | {np.median(numbers):.3f} | {p}")
            print(f"| {budget} | {method} | {' | '.join(cells)} |")


def main() -> None:
    """Run a stage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("rows", "ask", "score", "report"))
    parser.add_argument("--lm", help="folder of a causal language model, for ask")
    parser.add_argument("--device")
    parser.add_argument("--contexts", type=int, default=40, help="contexts of each kind")
    parser.add_argument("--rows", type=Path, help="JSON lines with contexts of your own, for ask; the file that rows writes")
    parser.add_argument("--texts", type=Path, help="JSON lines with texts, for rows")
    parser.add_argument("--question", help="about the texts, for rows")
    parser.add_argument("--kind", default="rows of a file", help="name of their table, for rows")
    parser.add_argument("--join", action="store_true", help="join short texts until there are enough sentences, for rows")
    parser.add_argument("--sentences", type=int, default=N, choices=range(4, N + 1), help="of a context, for rows")
    parser.add_argument("--characters", type=int, default=1000, help="longest context, for rows")
    parser.add_argument("--seed", type=int, default=0, help="of the contexts")
    parser.add_argument("--answers", type=Path, default=Path("results/parts/context-answers.jsonl"))
    parser.add_argument("--methods", default=",".join(METHODS), help="joint first, for score")
    parser.add_argument("--out", type=Path, default=Path("results/parts/context.json"))
    options = parser.parse_args()
    options.answers.parent.mkdir(parents=True, exist_ok=True)
    if options.stage == "rows":
        make_rows(options)
    elif options.stage == "ask":
        ask(options)
    elif options.stage == "score":
        score(options)
    else:
        report(json.loads(options.out.read_text()))


if __name__ == "__main__":
    main()
