"""Data with known answers for all tests: planted surrogates, designs, explanations made by hand, and models they explain."""

import subprocess
import sys
import textwrap
from dataclasses import replace
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np

from slalom import Explainer
from slalom.core import Additive, Neighbours, Shifts, Slalom
from slalom.core.checks import plain
from slalom.result import Explanation, Fidelity, Pair
from slalom.text import simple_words as words
from tests.oracle import Oracle

# --- surrogates, and queries about them


def planted(rng, n, classes=None, spread=1.0, **parts):
    """A SLALOM to be found again."""
    return Slalom(rng.normal(size=n if classes is None else (n, classes)), spread * rng.normal(size=n), **parts)


def random_slalom(seed, n=6, *, classes=None, competition=0.4, link=False):
    """A SLALOM whose bias is random too, and its link where it has one: only one score has."""
    rng = np.random.default_rng(seed)
    values, importances, bias = (
        rng.normal(size=n if classes is None else (n, classes)),
        rng.normal(size=n),
        rng.normal(size=classes),
    )
    return Slalom(
        values, importances, competition, bias, (rng.normal(), rng.uniform(3.0, 5.0)) if link and classes is None else None
    )


def random_additive(seed, n=6, *, classes=None):
    """An additive surrogate."""
    rng = np.random.default_rng(seed)
    return Additive(rng.normal(size=n if classes is None else (n, classes)), rng.normal(size=classes))


def parameter_error(model, truth):
    """The largest difference between the parameters of two SLALOMs."""
    return max(np.abs(model.values - truth.values).max(), np.abs(model.importances - truth.importances).max())


def subsets(rng, m, n):
    """Counts (m, n): every unit with probability 1/2, at least one."""
    counts = (rng.random((m, n)) < 0.5).astype(float)
    counts[~counts.any(axis=1), 0] = 1.0
    return counts


def pairs(rng, m, n):
    """Counts (m, n) of two units each."""
    return np.stack([np.isin(np.arange(n), rng.choice(n, 2, replace=False)) for _ in range(m)]).astype(float)


def deletions(rng, m, n):
    """Counts (m, n) that lack one to five units."""
    return np.stack([~np.isin(np.arange(n), rng.choice(n, rng.integers(1, 6))) for _ in range(m)]).astype(float)


# --- explanations


def explained(surrogate, text, spans, **fields):
    """An explanation of a text by a surrogate; its score is what the surrogate predicts, unless given."""
    spans = np.asarray(spans, dtype=np.int64).reshape(-1, 2)
    score = surrogate(np.ones((1, len(spans))))[0]
    several = score.ndim == 1
    defaults = {
        "units": tuple(text[a:b] for a, b in spans),
        "score": score if several else float(score),
        "target": "all" if several else "yes",
        "labels": tuple(f"class {c}" for c in range(len(score))) if several else ("no", "yes"),
        "fidelity": Fidelity(None, None),
        "fit_r2": 1.0,
        "unit": "word",
        "sizes": np.ones(len(spans), dtype=np.int64),
        "method": "joint",
        "seed": 0,
        "queries": 1,
        "tokens": 1,
        "seconds": 0.1,
    }
    return Explanation(text=text, spans=spans, surrogate=surrogate, **(defaults | fields))


def explanation(text, effects, *, base=0.0, score=None, labels=("no", "yes"), target=None, **fields):
    """An additive explanation of the words of a text."""
    effects = np.asarray(effects, dtype=float)
    fields |= {} if score is None else {"score": score}
    fields |= {"target": target or ("all" if effects.ndim == 2 else labels[-1]), "labels": labels}
    return explained(Additive(effects, np.full(effects.shape[1:], base)), text, words(text), **fields)


def adder(effects, base=0.0, **options):
    """An explainer of a model whose log odds are base + the sum of the effects of the words that are there."""

    def log_odds(texts):
        return [base + sum(effects.get(word, 0.0) for word in text.split()) for text in texts]

    return Explainer(log_odds, output="log_odds", labels=["no", "yes"], progress=False, **options)


def in_order(units, values, importances, text=None, se=None, score=1.0, competition=1.0, **fields):
    """An explanation of units that stand in the text one after the other; se are standard errors of the values."""
    text = " ".join(units) if text is None else text
    spans, at = [], 0
    for unit in units:
        start = text.index(unit, at)
        at = start + len(unit)
        spans.append((start, at))
    errors = np.linspace(0.1, 0.5, len(units))
    fields = {
        "units": tuple(units),
        "score": score,
        "errors": {} if se is None else {"value": se, "importance": errors},
    } | fields
    return explained(Slalom(values, importances, competition), text, spans, **fields)


def random_words(n, seed=0, **fields):
    """An explanation of n words with random numbers."""
    rng = np.random.default_rng(seed)
    names = [f"word{i}" if i % 3 else f"w{i}" for i in range(n)]
    return in_order(names, 5 * rng.normal(size=n), rng.normal(size=n), **fields)


def three_classes():
    """An explanation of three classes with known values."""
    values = np.array([[3.0, -1.0, -2.0], [-1.0, 2.0, -1.0], [0.0, -4.0, 4.0], [0.5, 0.5, -1.0]])
    scores, se = np.array([0.2, -0.5, 0.3]), np.arange(12.0).reshape(4, 3)
    names = ["red", "green", "blue", "grey"]
    return in_order(names, values, [1.0, 0.0, 0.5, -1.5], se=se, score=scores, labels=("r", "g", "b"), target="all")


def with_errors(e, seed=0, size=0.3):
    """The same explanation with standard errors of every score, on average this share of its largest number."""
    rng = np.random.default_rng(seed)
    scores = {name: e.all_classes(name) for name in ("removal", "linear", "gradient", "shapley", "value", "importance")}
    return replace(e, errors={name: 2 * size * np.abs(x).max() * rng.random(x.shape) for name, x in scores.items()})


def with_se(e, **errors):
    """The same explanation with these standard errors; None: without them."""
    return replace(e, errors={name: se for name, se in {**e.errors, **errors}.items() if se is not None})


def with_parts(e):
    """The same explanation by a SLALOM with neighbours and, after every third unit, a knot."""
    n, shape, rng = len(e), e.values.shape[1:], np.random.default_rng(4)
    offsets, units = rng.normal(size=(n // 3, 5, *shape)), np.arange(n // 3 * 3)
    offsets[:, 0] = 0.0
    near = Neighbours(rng.random((9, n)) < 0.7, rng.uniform(0.0, 0.4, n), rng.normal(size=(9, *shape)))
    shifts = Shifts(n, units, units // 3, e.sizes[units], offsets)
    s = e.surrogate
    return replace(e, surrogate=Slalom(s.values, s.importances, s.competition, s.bias, s.link, [near, shifts]))


def with_removals(e, changes):
    """The same explanation with other predictions near the text: those of each row without one unit move."""
    n, s = len(e), e.surrogate
    near = Neighbours(~np.eye(n, dtype=bool), np.full(n, 40.0), -np.asarray(changes))
    return replace(e, surrogate=Slalom(s.values, s.importances, parts=[near]))


def with_pairs(e, pairs):
    """A copy of the explanation with pairs of units that act together: indices, effect and standard error of each."""
    return replace(e, pairs=tuple(Pair(units, plain(effect), plain(error)) for units, effect, error in pairs))


def random_explanation(n=12, *, classes=None, competition=0.4, link=True, additive=False, seed=0, **fields):
    """An explanation of words of one to three tokens by a random surrogate."""
    surrogate = (
        random_additive(seed, n, classes=classes)
        if additive
        else random_slalom(seed, n, classes=classes, competition=competition, link=link)
    )
    names = [f"w{i}" for i in range(n)]
    ends = np.cumsum([len(name) + 1 for name in names]) - 1
    score = surrogate(np.ones((1, n)))[0]
    odds = score if score.ndim else np.array([-score, score])
    sizes = np.random.default_rng(seed).integers(1, 4, n)
    fields = {"sizes": sizes, "probabilities": np.exp(odds) / np.exp(odds).sum()} | fields
    return explained(surrogate, " ".join(names), np.stack([ends - [len(name) for name in names], ends], axis=1), **fields)


@cache
def fitted(text="A good film, not bad at all.\n\nThe end   is dull, and the music good.", **options):
    """A real fit, with standard errors and held-out queries."""
    oracle = Oracle({"good": 3.0, "bad": -5.0, "dull": -2.0, "film,": 2.0}, {"bad": 1.0, "dull": 0.5}, (0.1, 0.5))
    return Explainer(oracle, output="log_odds", labels=["negative", "positive"], queries=150, **options)(text)


@cache
def fitted_classes():
    """A real fit of three classes."""

    def logits(texts):
        return np.array([[t.count("o"), t.count("a"), 0.1 * len(t)] for t in texts], dtype=float)

    return Explainer(logits, output="logits", labels=["o", "a", "long"], queries=120, target="all")(fitted().text)


MARKUP = "</script><script>window.hacked=1</script> <img src=x onerror=window.hacked=2> a\u2028b & \"c\" 'd' <!-- ]]>"
MARKUP_LABELS = ['<img src=x onerror="window.hacked=3">', "</script><script>window.hacked=4</script>"]


@cache
def full_of_markup():
    """An explanation with markup wherever there is text."""
    explainer = Explainer(lambda ts: [float(t.count("a")) for t in ts], output="log_odds", labels=MARKUP_LABELS, queries=60)
    e = explainer(MARKUP)
    return replace(
        e,
        model="<script>window.hacked=5</script>",
        diagnosis="<img src=x onerror=window.hacked=6>",
        units=tuple(f"<b>{unit}</b>" for unit in e.units),
        versions={"<i>": "</dd><script>window.hacked=7</script>"},
    )


@cache
def film_record(target=None):
    """An explanation of a record of three fields, one with markup as its name; of three classes for target="all"."""

    def score(row):
        title, body = ("good" in row[name] for name in ("<b>title</b>", "body"))
        return 2.0 * title + body - 1.5 * ("not" in row["body"]) + 0.5 * row["stars"]

    def logits(row):
        return [score(row), -score(row), 0.3 * row["stars"]]

    known = {"target": target, "background": {"stars": 1}, "queries": 60}
    if target is None:
        explainer = Explainer(lambda rows: [score(row) for row in rows], output="scores", **known)
    else:
        labels = ["good", "bad", "many stars"]
        explainer = Explainer(lambda rows: [logits(row) for row in rows], output="logits", labels=labels, **known)
    return explainer({"<b>title</b>": "A good film", "body": "not so\ngood , and long", "stars": 4})


ODD_WORDS = [
    *("$5_{x}$", "a_b", "C:\\temp\\x", "שלום", "مرحبا", "👍🏽", "映画", "<b>", "$", "\x00bad", "\ud83d", "very " * 30, "naïve"),
]


def benchmark(name):
    """A module of benchmarks/, by its path: other packages install a module called benchmarks."""
    spec = spec_from_file_location(name, Path(__file__).parents[1] / "benchmarks" / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def install(folder, name, code, group, entries):
    """Install a package of one module into a folder, by its own metadata; `entries` are its entry points in a group."""
    (folder / f"{name}.py").write_text(code)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{entries}\n")


def python(folder, code):
    """Run code in a new interpreter that can import from a folder."""
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r})\n{textwrap.dedent(code)}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def short_sighted(folder, tokens=16):
    """Save a tiny classifier with random weights that sees few tokens, and return its folder."""
    import torch  # noqa: PLC0415

    from slalom.models.huggingface.saved import quietly  # noqa: PLC0415
    from slalom.theory.blank import new_classifier, word_tokenizer  # noqa: PLC0415

    torch.manual_seed(0)
    words = word_tokenizer(["a", "good", "bad", "film"], tokens, start=True)
    with quietly():
        new_classifier("bert", words, ("negative", "positive"), 1, 8, 2, 32).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder
