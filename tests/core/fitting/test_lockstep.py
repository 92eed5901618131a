"""Many problems at once: each has the fit that it has alone, whatever the others are."""

import re
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from slalom import Explainer, SurrogateMethod
from slalom.core import Fitter, Joint, Sgd, Slalom, fit, fit_many
from slalom.core.fitting import _lockstep
from slalom.core.fitting._lbfgs import two_loop
from slalom.core.fitting._minibatches import StandardisedData
from slalom.core.fitting.problem import FALLBACK, Problem
from slalom.errors import InputError
from slalom.text import Pairs
from tests.factories import benchmark, pairs, planted

ROOT = Path(__file__).parents[3]
hostile = benchmark("hostile")


@dataclass(frozen=True)
class Recorder(Fitter):
    """Keeps the problems that it is given."""

    problems: list[Problem]

    def solve(self, problem):
        self.problems.append(problem)
        return problem.constant()


@pytest.fixture(scope="module")
def real():
    """The problems of 300 passages of the documentation, scored by the bundled classifier."""
    prose = " ".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md")))
    words = re.findall(r"[A-Za-z]+", prose)
    rng = np.random.default_rng(0)
    starts = rng.choice(len(words) - 60, 300, replace=False)
    texts = [" ".join(words[start : start + length]) for start, length in zip(starts, rng.integers(16, 60, 300), strict=True)]
    problems = []
    Explainer(method=SurrogateMethod("recorded", Pairs(), Recorder(problems), unit="type"), queries=40, check=0)(texts)
    return problems


def same(one, other):
    """Whether two fits are equal bit by bit."""
    return (
        np.array_equal(one.model.values, other.model.values)
        and np.array_equal(one.model.importances, other.model.importances)
        and (one.loss, one.r2, one.iterations, one.converged, one.diagnosis)
        == (other.loss, other.r2, other.iterations, other.converged, other.diagnosis)
    )


def test_real_problems_have_the_fits_that_they_have_alone(real):
    fitter = Sgd(max_steps=200)
    alone, many = [fitter.solve(problem) for problem in real], fitter.solve_many(real)
    assert len(many) == 300
    assert all(map(same, many, alone))
    assert len({found.iterations for found in many}) > 20
    assert {found.converged for found in many} == {True, False}
    backwards = fitter.solve_many(real[::-3])
    assert all(map(same, backwards, alone[::-3]))


def plain(data, start, fitter):
    """L-BFGS of one problem as the module says, written for one problem: its parameters, and the number of steps."""
    now, (loss, slope), steps = start.parameters, data.slope(start.parameters), start.steps
    floor, losses, memory = 0.003 if data.loose else fitter.tolerance, [], deque(maxlen=5)

    def scaled(vector):
        return vector * (memory[-1][2] / np.vdot(memory[-1][1], memory[-1][1]) if memory else 1.0)

    while loss > floor and steps < fitter.max_steps:
        direction = two_loop(memory, slope, scaled, lambda a, b, c: np.vdot(a, b) / c, lambda a, b, factor: a + factor * b)
        fall, size = np.vdot(slope, direction), 1.0 if memory else 1.0 / np.linalg.norm(slope)
        while not ((new := data.slope(trial := now - size * direction))[0] <= loss - 1e-4 * size * fall) and size > 1e-10:
            size *= np.clip(0.5 * size * fall / (new[0] - loss + size * fall), 0.1, 0.5) if np.isfinite(new[0]) else 0.1
        if not size > 1e-10:
            break
        step, change = trial - now, new[1] - slope
        if np.vdot(step, change) > 1e-10 * np.vdot(change, change):
            memory.append((step, change, np.vdot(step, change)))
        now, (loss, slope), steps = trial, new, steps + 1
        losses.append(loss)
        back = 4 if not data.small and (data.loose or 0.003 <= loss < 0.2) else 16
        if len(losses) > back and loss > (0.9999 if data.small else 0.98) * losses[-1 - back]:
            break
    return now, steps


def test_real_problems_take_the_steps_of_plain_lbfgs(real):
    """The same decisions, and values to 1e-6, as in an implementation for one problem, whose sums have another order.

    Longer descents are left out: rounding grows from step to step, in any implementation.
    """
    fitter, compared = Sgd(max_steps=200), 0
    for problem, found in zip(real, fitter.solve_many(real), strict=True):
        data = StandardisedData.of(problem)
        start, done = fitter._minibatches(data)
        if done or found.iterations > 50:
            continue
        parameters, steps = plain(data, start, fitter)
        expected = Slalom(parameters[0] * data.scale + data.mean[0], parameters[1])
        assert found.iterations == steps
        np.testing.assert_allclose(found.model.values, expected.values, rtol=1e-6, atol=1e-6 * np.ptp(expected.values))
        np.testing.assert_allclose(found.model.importances, expected.importances, rtol=1e-6, atol=1e-6)
        compared += 1
    assert compared > 150


def kinds():
    """Problems of every kind, by name: counts, scores and weights."""
    rng = np.random.default_rng(1)
    data = {}
    for score, draw_scores in hostile.SCORES.items():
        for weight, draw_weights in hostile.WEIGHTS.items():
            n, m, classes = int(rng.integers(16, 40)), int(rng.integers(10, 80)), [None, 3][rng.integers(2)]
            counts, truth = pairs(rng, m, n), planted(rng, n, classes)
            scores = draw_scores(truth(counts), rng)
            data[f"pairs, scores {score}, weights {weight}, classes {classes}"] = counts, scores, draw_weights(m, rng)
    triples = np.zeros((90, 40))
    for row in triples:
        row[rng.choice(40, rng.integers(1, 4), replace=False)] = rng.integers(1, 4)
    twice = np.repeat(pairs(rng, 30, 20), 2, axis=0)
    giant = Slalom(rng.normal(size=30), np.where(np.arange(30) == 4, 900.0, 0.0))
    y = rng.normal(size=600)
    data |= {
        "one to three units, repeated": (triples, y[:90], None),
        "rows that repeat, scores that differ": (twice, y[:60], None),
        "rows that repeat with opposite scores": (np.repeat(np.eye(16), 2, axis=0), np.tile([1.0, -1.0], 16), None),
        "rows of half the units": ((rng.random((60, 12)) < 0.5) + np.eye(12)[0], y[:60], None),
        "a sparse array": (csr_array(pairs(rng, 100, 60)), y[:100], rng.random(100)),
        "more rows than a batch": (pairs(rng, 500, 40), y[:500], rng.random(500)),
        "one unit": (np.ones((5, 1)), y[:5], None),
        "one row": (pairs(rng, 1, 20), y[:1], None),
        "one row of three classes": (pairs(rng, 1, 20), y[None, :3], None),
        "counts without an inverse": (1e-309 * pairs(rng, 60, 16), y[:60], None),
        "a unit of infinite importance": (counts := pairs(rng, 600, 30), giant(counts), None),
        "a saddle at the start": (pairs(rng, 100, 20), np.where(y[:100] > 0, 1.0, -1.0), None),
    }
    return data


@pytest.mark.parametrize(
    "fitter", [Sgd(max_steps=100), Sgd(max_steps=12, optimizer="sgd"), Sgd(learning_rate=1e200, max_steps=50)], ids=str
)
def test_problems_of_every_kind_have_the_fits_that_they_have_alone(fitter):
    data = kinds()
    many = dict(zip(data, fit_many(data.values(), fitter), strict=True))
    alone = {name: fit(counts, scores, fitter, weights) for name, (counts, scores, weights) in data.items()}
    assert [name for name in data if not same(many[name], alone[name])] == []
    assert {found.converged for found in many.values()} == {True, False}
    assert any(FALLBACK in found.diagnosis for found in many.values())


def test_a_problem_that_cannot_be_solved_leaves_the_others_as_they_are(real):
    empty = Problem.of([[1, 0], [0, 0]], [1.0, 2.0], None)
    found = Sgd().solve_many([*real[:5], empty, *real[5:10]])
    assert found[5] is None
    assert all(map(same, found[:5] + found[6:], Sgd().solve_many(real[:10])))


def test_a_fit_worse_than_the_mean_is_none_and_falls_back(real, monkeypatch):
    """One of ten descents ends far from its data."""
    ends = _lockstep.finish

    def astray(data, starts, *limits):
        found = ends(data, starts, *limits)
        worst = max(range(len(data)), key=lambda i: data[i].n_units)
        found[worst] = found[worst]._replace(loss=2.0)
        return found

    monkeypatch.setattr("slalom.core.fitting.sgd.finish", astray)
    found = Sgd().solve_many(real[:10])
    (failed,) = (i for i, result in enumerate(found) if result is None)
    data = [(problem.table, problem.scores, problem.weights) for problem in real[:10]]
    assert [FALLBACK in result.diagnosis for result in fit_many(data, Sgd())] == [i == failed for i in range(10)]


def test_wrong_data_are_named():
    good = [[1, 0], [0, 1]], [1.0, 2.0], None
    with pytest.raises(InputError, match="drop the empty rows"):
        fit_many([good, ([[1, 0], [0, 0]], [1.0, 2.0], None)], Sgd())
    with pytest.raises(InputError, match="scores must be finite"):
        fit_many([good, ([[1, 0], [0, 1]], [1.0, np.nan], None)], Sgd())


def test_fitters_without_a_way_of_their_own_solve_one_by_one():
    rng = np.random.default_rng(3)
    data = [(counts := pairs(rng, 40, 8), planted(rng, 8)(counts), None) for _ in range(3)]
    many, alone = fit_many(data), [fit(*part[:2]) for part in data]
    assert not Joint().together
    assert all(map(same, many, alone))
    empty = Problem.of([[0, 0], [0, 1]], [1.0, 2.0], None)
    assert Joint(background=False).solve_many([empty, Problem.of(*data[0])])[0] is None
    assert fit_many([]) == Sgd().solve_many([]) == []


def test_groups_are_of_one_shape_and_bounded(real, monkeypatch):
    data = [StandardisedData.of(problem) for problem in real[:40]]
    monkeypatch.setattr(_lockstep, "_TOGETHER", 500)
    groups = _lockstep._groups(data)
    assert sorted(i for group in groups for i in group) == list(range(40))
    assert max(sum(2 * data[i].n_units for i in group) for group in groups) <= 500
    assert len(groups) < 20


@pytest.mark.parametrize("others", [0, 2])
def test_the_memory_of_steps_is_the_inverse_curvature_of_bfgs(others):
    """The two loops against the updates of the matrix itself, begun at the scale of the last step."""
    rng = np.random.default_rng(24)
    problems = [Problem.of(pairs(rng, 40, 16), rng.normal(size=40), None) for _ in range(1 + others)]
    joined = _lockstep._Joined([StandardisedData.of(problem) for problem in problems])
    memory, slope = _lockstep._Memory(joined), rng.normal(size=32 * len(problems))
    np.testing.assert_array_equal(memory.quasi_newton(joined, slope), slope)
    matrices, pairs_of_all = [], []
    for _ in problems:
        root = rng.normal(size=(32, 32))
        steps = rng.normal(size=(7, 32))
        pairs_of_all.append((steps, steps @ (root @ root.T + np.eye(32))))
    for k in range(7):  # the second problem does not move in every round
        step, change = (np.concatenate([pair[part][k] for pair in pairs_of_all]) for part in (0, 1))
        memory.add(joined, np.array([True, k % 3 != 1, True][: len(problems)]), step, change)
    for p, (steps, changes) in enumerate(pairs_of_all):
        used = [k for k in range(7) if p != 1 or k % 3 != 1][-5:]
        matrix = np.eye(32) * (steps[used[-1]] @ changes[used[-1]]) / (changes[used[-1]] @ changes[used[-1]])
        for k in used:
            away = np.eye(32) - np.outer(steps[k], changes[k]) / (steps[k] @ changes[k])
            matrix = away @ matrix @ away.T + np.outer(steps[k], steps[k]) / (steps[k] @ changes[k])
        matrices.append(matrix)
    expected = np.concatenate([matrix @ part for matrix, part in zip(matrices, slope.reshape(-1, 32), strict=True)])
    np.testing.assert_allclose(memory.quasi_newton(joined, slope), expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("classes", [None, 3])
def test_joined_slopes_are_those_of_the_problems(classes):
    rng = np.random.default_rng(5)
    data = []
    for n in (16, 30, 20):
        scores = rng.normal(size=40 if classes is None else (40, classes))
        data.append(StandardisedData.of(Problem.of(pairs(rng, 40, n), scores, rng.random(40) if n == 30 else None)))
    at = [rng.normal(size=(1 + (classes or 1), d.n_units)) for d in data]
    losses, slopes = _lockstep._Joined(data).slope(np.concatenate([part.ravel() for part in at]))
    expected = [d.slope(part) for d, part in zip(data, at, strict=True)]
    np.testing.assert_allclose(losses, [loss for loss, _ in expected], rtol=1e-12)
    np.testing.assert_allclose(slopes, np.concatenate([slope.ravel() for _, slope in expected]), rtol=1e-12, atol=1e-15)
