"""Saved explanations with one part changed: each is refused in one line, or works wherever an explanation is used.

Run: OMP_NUM_THREADS=1 python benchmarks/hostile_files.py [--cases 2000] [--seed 0]      (without --cases: all of them)

Every part of the saved form, at any depth, is removed, replaced by values of a wrong kind or size, made longer and shorter; of
a list the first and the last entry. Exits 1 where one of them raises anything but an InputError of one line, warns, or takes
much memory, and prints how often each part did so. A test runs a sample of it.
"""

import argparse
import copy
import io
import json
import random
import resource
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console

import slalom
from slalom.core import Additive
from slalom.core.checks import plain
from slalom.errors import InputError
from slalom.render.terminal import show
from slalom.result import Answer, Pair

TEXT = "A good film, not bad. The end is dull."
WRONG = [
    *(None, True, "x", "", -1, 0, 0.5, 1e3, 1e5, 1e7, 10**7, 1e-300, 1e120, 1e308, 2**63, 10**400, float("nan"), float("inf")),
    *([], {}, [[]], [None], [1.0], ["x"], [[1.0, 2.0]], [[[0.0]]], {"x": 1}),
]
MEMORY = 64 << 20  # bytes that the explanation of a short text may take


def explanations():
    """Explanations of every kind, by name: real ones, and parts that only long fits find."""

    def odds(texts):
        return [2.0 * t.count("good") - 3.0 * t.count("bad") - 1.5 * ("dull" in t and "end" in t) for t in texts]

    def logits(texts):
        return np.array([[t.count("o"), t.count("a"), 0.1 * len(t), t.count("e") % 3] for t in texts], dtype=float)

    one = slalom.Explainer(odds, output="log_odds", labels=["negative", "positive"], queries=60, progress=False)
    many = slalom.Explainer(logits, output="logits", labels=["o", "a", "long", "e"], queries=60, progress=False)
    bundled = slalom.Explainer(queries=20, check=10, progress=False)
    kinds = {method: one(TEXT, method=method) for method in ("joint", "local", "eff", "lime")}
    kinds |= {"one of four": many(TEXT), "all of four": many(TEXT, target="all"), "types": one(TEXT, unit="type")}
    kinds["windows"] = bundled(f"{TEXT} " * 60, unit="sentence", long="window")
    kinds |= {"merged": kinds["joint"].merge("sentence"), "a number": slalom.Explainer(odds, output="scores", queries=60)(TEXT)}
    for name in ("all of four", "joint"):
        e = kinds[name]
        shape = e.values.shape[1:]
        pair = Pair((0, 2), plain(np.ones(shape)), plain(np.full(shape, 0.1)))
        kinds[f"{name}, with a pair"] = replace(e, errors={"linear": np.abs(e.linear)}, pairs=(pair,))
        kinds[f"{name}, additive"] = replace(e, surrogate=Additive(e.values, np.zeros(shape)), pairs=())
    kinds["without a sign"] = replace(kinds["joint, additive"], signed=False, method="attention")
    answer = Answer("Is it good?", "It is. It was.", 7, 14, generated=True, tokens=4)
    about = {"labels": ("answer", "first"), "target": "answer", "scale": "log probability", "unit": "document", "label": None}
    figures = {"answer tokens": 4.0, "log probability per token": -2.5}
    kinds["sources"] = replace(kinds["joint"], answer=answer, figures=figures, notes=("A note.",), probabilities=None, **about)
    return kinds


def paths(part, before=()):
    """Yield the paths to all parts of plain data: every key, and the first and the last entries of lists."""
    if before:
        yield before
    if isinstance(part, (dict, list)) and before not in (("settings",), ("versions",)):  # whose entries may be anything
        for key in part if isinstance(part, dict) else sorted({0, len(part) - 1} & {*range(len(part))}):
            yield from paths(part[key], (*before, key))


def cases(saved):
    """Yield (path, name of the change, function that makes it in a copy) for every change of a saved explanation."""
    for path in paths(saved):
        yield path, "removed", _removed
        for wrong in WRONG:
            yield path, f"{wrong!r:.20}", lambda parent, key, wrong=wrong: parent.__setitem__(key, wrong)
        part = _at(saved, path)
        if isinstance(part, (list, str)) and part:
            yield path, "shorter", lambda parent, key: parent.__setitem__(key, parent[key][:-1])
            yield path, "longer", lambda parent, key: parent.__setitem__(key, parent[key] + parent[key][-1:])
            yield path, "twice", lambda parent, key: parent.__setitem__(key, 2 * parent[key])
            yield path, "reversed", lambda parent, key: parent.__setitem__(key, parent[key][::-1])
        if isinstance(part, (int, float)) and not isinstance(part, bool):
            yield path, "as text", lambda parent, key: parent.__setitem__(key, str(parent[key]))
            yield path, "in a list", lambda parent, key: parent.__setitem__(key, [parent[key]])
            yield path, "one more", lambda parent, key: parent.__setitem__(key, parent[key] + 1)


def _removed(parent, key):
    del parent[key]


def _at(part, path):
    for key in path:
        part = part[key]
    return part


def changed(saved, path, change):
    """Return a copy of a saved explanation with one part changed."""
    result = copy.deepcopy(saved)
    change(_at(result, path[:-1]), path[-1])
    return result


def use(e, folder):
    """Use an explanation in every way that its users do."""
    n = len(e)
    rows = np.ones((3, n), dtype=bool)
    rows[1, 0], rows[2, ::2] = n < 2, n < 2
    calls = [  # most properties are on the page and in the data frame
        *(lambda: str(e), e.to_html, e.to_pandas, e._repr_html_, lambda: show(e, Console(file=io.StringIO(), width=100), 5)),
        *(lambda: e.predict(rows), lambda: e.predict_interval(rows), lambda: e.removal, e.shapley, lambda: e.base, e.strongest),
        *(lambda name=name: e.interval(name) for name in ("removal", "gradient", "linear", "shapley", "value", "importance")),
        *(e.flip, lambda: e.interactions(3), lambda: e.merge("sentence"), lambda: e.save(folder / "again.json")),
        lambda: slalom.load(folder / "again.json"),
    ]
    for call in calls:
        try:
            call()
        except InputError as error:
            if "\n" in str(error):
                raise ValueError("an InputError of several lines") from error


def outcome(saved, folder):
    """Load a saved explanation and use it: "refused", "works", or what went wrong."""
    path = folder / "changed.json"
    path.write_text(json.dumps(saved))
    try:
        e = slalom.load(path)
    except InputError as error:
        return "refused" if "\n" not in str(error) and len(str(error)) < 1000 else f"a long message: {error}"
    except Exception:
        return traceback.format_exc()
    try:
        use(e, folder)
    except Exception:
        return traceback.format_exc()
    return "works"


def campaign(number=None, seed=0):
    """Yield (kind, path, change, outcome) of every explanation as it is, and of `number` cases drawn at random; None: all."""
    saved = {kind: json.loads(e.to_json()) for kind, e in explanations().items()}
    every = [(kind, *case) for kind, data in saved.items() for case in cases(data)]
    chosen = every if number is None else random.Random(seed).sample(every, min(number, len(every)))
    chosen = [(kind, ("text",), "unchanged", lambda parent, key: None) for kind in saved] + chosen
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind, path, name, change in chosen:
            data = changed(saved[kind], path, change)
            before = _peak()
            result = outcome(data, Path(folder))
            yield kind, path, name, result if _peak() - before <= MEMORY else f"takes {(_peak() - before) >> 20} MB more"


def _peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def main():
    """Count what happens, and print what went wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counted, wrong, shown = Counter(), Counter(), 0
    for kind, path, name, result in campaign(options.cases, options.seed):
        counted[result if result in ("refused", "works") else "wrong"] += 1
        if result not in ("refused", "works"):
            last = result.strip().splitlines()[-1]
            field = next((str(key) for key in path if isinstance(key, str)), "")
            wrong[field, name, last[:100]] += 1
            if shown < 5:
                shown += 1
                print(kind, path, name, result, sep="\n", file=sys.stderr)
    print(", ".join(f"{count} {name}" for name, count in counted.items()))
    for key, count in wrong.most_common(60):
        print(count, *key)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
