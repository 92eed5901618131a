"""Answers of models about parts of texts: what methods are fitted to, and what they are tested on.

Rows to fit, for each of the budgets: `mixed`, those that `joint` asks; `even`, as many units kept as any other number;
`halves`, each unit kept with probability 1/2. A budget has the first rows of the last two. Rows to test, none of which is among
those: `near`, 1 to 10 units removed; `far`, of every size; `halves`. Units alone that only a larger budget of `mixed` has test
the smaller ones. A file has all texts of a case: masks as bits, scores in single precision.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from arena.cases import BUDGETS, TEXTS, Case, asked
from slalom.methods import OURS, JointMethod

FOLDER = Path(__file__).parent / "answers"
TESTS = {"near": 240, "far": 300, "halves": 150}  # rows, at most
POOLS = ("mixed", "even", "halves")
_LEAST = 50  # test rows near a text and far from it
_NEAR = 10  # units removed, at most
_TRIES = 20  # draws per test row: short texts have few parts

Keep = NDArray[np.bool_]
Floats = NDArray[np.float64]
Rows = tuple[Keep, Floats]  # which units are there (m, n), and the model's scores (m,)


@dataclass(frozen=True)
class Text:
    """A text of n units.

    Attributes:
        kinds: Equal numbers (n,) where units are the same word.
        whole: Score of the whole text.
        pools: Rows to fit by pool and budget.
        tests: Rows to test by kind; kinds of which there are none are left out.
        budgets: How many rows there are to fit, from few to many.
    """

    kinds: NDArray[np.int64]
    whole: float
    pools: dict[tuple[str, int], Rows]
    tests: dict[str, Rows]
    budgets: tuple[int, ...] = BUDGETS

    def alone(self, budget: int) -> Rows:
        """Return units alone that no method is given with a budget."""
        keep, scores = self.pools["mixed", self.budgets[-1]]
        known = {row.tobytes() for pool in POOLS for row in self.pools[pool, budget][0]}
        new = np.array([row.sum() == 1 and row.tobytes() not in known for row in keep])
        return keep[new], scores[new]


def load(case: Case) -> list[Text]:
    """Return the texts of a case."""
    found = []
    with np.load(FOLDER / f"{case.name}.npz") as file:
        for number in count():
            if f"{number} kinds" not in file:
                return found
            kinds, parts = file[f"{number} kinds"], dict[str, Rows]()
            for name in _names(case.budgets):
                if f"{number} {name} scores" in file:
                    scores = file[f"{number} {name} scores"].astype(float)
                    bits = np.unpackbits(file[f"{number} {name}"], axis=1, count=len(kinds))
                    parts[name] = bits.astype(bool), scores
            pools = {("mixed", budget): parts[f"mixed {budget}"] for budget in case.budgets}
            for pool in POOLS[1:]:
                keep, scores = parts[pool]
                pools |= {(pool, budget): (keep[:budget], scores[:budget]) for budget in case.budgets}
            tests = {name: parts[f"test {name}"] for name in TESTS if f"test {name}" in parts}
            if min(len(tests[name][1]) if name in tests else 0 for name in ("near", "far")) < _LEAST:
                continue  # rows to fit are nearly all parts of so short a text
            found.append(Text(kinds.astype(np.int64), float(file[f"{number} whole"]), pools, tests, case.budgets))
    return found


def ask(case: Case, folder: Path, device: str, number: int = TEXTS) -> None:
    """Ask the model of a case about all rows, and write the file."""
    parts = dict[str, Any]()
    for i, one in enumerate(tqdm(asked(case, folder, device, number), total=number, desc=case.name)):
        recorder, rng = _Recorder(OURS[0].name, OURS[0].sampler), np.random.default_rng([i, *case.name.encode()])
        rows = dict[str, Keep]()
        for budget in case.budgets:
            e = one.explainer(*one.arguments, method=recorder, queries=budget)
            rows[f"mixed {budget}"] = recorder.asked[-1]
        n = len(e)
        rows["even"] = np.array([_sized(n, int(rng.integers(1, n)), rng) for _ in range(case.budgets[-1])])
        rows["halves"] = np.array([_half(n, rng) for _ in range(case.budgets[-1])])
        seen = {row.tobytes() for keep in rows.values() for row in keep}
        for name in TESTS:
            fresh = np.array(list(_fresh(name, n, rng, set(seen)))).reshape(-1, n)
            if len(fresh):
                rows[f"test {name}"] = fresh
        scores = one.explainer.ask(e, np.concatenate([np.ones((1, n), dtype=bool), *rows.values()]))
        parts[f"{i} kinds"] = np.asarray(recorder.kinds, dtype=np.int16)
        parts[f"{i} whole"] = np.float32(scores[0])
        ends = np.cumsum([1, *map(len, rows.values())])
        for (name, keep), first, last in zip(rows.items(), ends[:-1], ends[1:], strict=True):
            parts[f"{i} {name}"] = np.packbits(keep, axis=1)
            parts[f"{i} {name} scores"] = scores[first:last].astype(np.float32)
        FOLDER.mkdir(exist_ok=True)
        np.savez_compressed(FOLDER / f"{case.name}.npz", **parts)


class _Recorder(JointMethod):
    """`joint`, which remembers the rows that it asked and which units are equal."""

    finds_pairs = False  # so that many sources are not explained from coarse to fine

    def __init__(self, name: str, sampler: Any) -> None:
        super().__init__(name, sampler)
        object.__setattr__(self, "asked", [])

    def explain(self, context: Any) -> Any:
        self.asked.append(context.plan.keep)
        object.__setattr__(self, "kinds", context.units.shared.type_of_unit)
        return super().explain(context)


def _names(budgets: tuple[int, ...]) -> Iterator[str]:
    yield from (f"mixed {budget}" for budget in budgets)
    yield from POOLS[1:]
    yield from (f"test {name}" for name in TESTS)


def _fresh(name: str, n: int, rng: np.random.Generator, seen: set[bytes]) -> Iterator[Keep]:
    """Yield different test rows of a kind that are not among those seen."""
    number = TESTS[name]
    for tried in range(_TRIES * number):
        if name == "near":
            row = _sized(n, n - 1 - tried % min(_NEAR, n - 1), rng)
        elif name == "far":
            row = _sized(n, int(rng.integers(1, n)), rng)
        else:
            row = _half(n, rng)
        if row.tobytes() not in seen:
            seen.add(row.tobytes())
            number -= 1
            yield row
        if not number:
            return


def _sized(n: int, kept: int, rng: np.random.Generator) -> Keep:
    """Return a row that keeps so many units."""
    row = np.zeros(n, dtype=bool)
    row[rng.permutation(n)[:kept]] = True
    return row


def _half(n: int, rng: np.random.Generator) -> Keep:
    """Return a row that keeps each unit with probability 1/2, at least one: not every model takes an empty text."""
    while not (row := rng.random(n) < 0.5).any():
        pass
    return row
