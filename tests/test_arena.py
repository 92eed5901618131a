"""The arena: what is stored, what is counted, and that its table says what the scores say."""

from pathlib import Path

import numpy as np
import pytest

from arena import answers
from arena.answers import POOLS, Text, load
from arena.cases import BUDGETS, CASES, REPORT
from arena.methods import METHODS
from arena.page import brief, page
from arena.scoring import Table, errors
from slalom.methods import peers

from reviews import SHARED

TEXTS = [(case.name, i, text) for case in CASES for i, text in enumerate(load(case))]


def test_no_row_that_tests_is_among_the_rows_to_fit():
    assert len(TEXTS) > 120
    for name, number, text in TEXTS:
        given = {row.tobytes() for keep, _ in text.pools.values() for row in keep}
        for kind, (keep, scores) in text.tests.items():
            assert len(keep) == len(scores) == len({row.tobytes() for row in keep})
            assert given.isdisjoint(row.tobytes() for row in keep), (name, number, kind)
        removed = (~text.tests["near"][0]).sum(axis=1)
        assert removed.min() >= 1
        assert removed.max() <= 10


def test_every_pool_has_its_budget():
    for name, number, text in TEXTS:
        for pool in POOLS:
            for budget in text.budgets:
                keep, scores = text.pools[pool, budget]
                assert keep.shape == (len(scores), len(text.kinds))
                assert len(scores) == budget or (pool == "mixed" and len(scores) < budget), (name, number, pool)
                assert np.isfinite(scores).all()


@pytest.mark.parametrize("name", METHODS)
def test_a_method_finds_a_function_of_three_words(name, monkeypatch):
    """Every method is far better than the mean: where effects add up, the paper's where they are averaged."""
    if name.startswith(("trees", "proxyspex")):
        pytest.importorskip("lightgbm")
        monkeypatch.setattr(peers, "_ROUNDS", (50, 100))  # trees: enough for so simple a function
    rng, n = np.random.default_rng(0), 12
    effects = np.where(np.arange(n) < 3, [2.0, -1.5, 1.0] * 4, 0.0)
    keep = rng.random((200, n)) < rng.random((200, 1))
    keep[:, 0] |= ~keep.any(axis=1)  # no empty row

    def truth(rows):
        return rows @ effects / (np.maximum(rows.sum(axis=1), 1) if name == "slalom-eff" else 1.0)

    predict, other = METHODS[name].fit(keep, truth(keep), np.arange(n)), keep[:, ::-1]
    assert np.mean((predict(other) - truth(other)) ** 2) < 0.1 * np.var(truth(other))


def test_errors_are_those_of_their_definition():
    rng = np.random.default_rng(1)
    keep, scores = rng.random((40, 5)) < 0.5, rng.normal(size=40)
    text = Text(np.arange(5), 0.7, {}, {"near": (keep, scores), "far": (keep, scores)})
    found = errors(text, lambda rows: rows.sum(axis=1) * 0.1)
    guess = keep.sum(axis=1) * 0.1
    near = np.mean((guess - 0.5 - (scores - 0.7)) ** 2) / scores.var()
    assert found["near"] == pytest.approx(min(near, 2.0), abs=1e-4)
    assert found["far"] == pytest.approx(
        min(((guess - scores) ** 2).sum() / ((scores - scores.mean()) ** 2).sum(), 2.0), abs=1e-4
    )
    near_alone = np.mean((scores - 0.7) ** 2) / scores.var()
    falls, removed = 0.7 - scores, 5 - keep.sum(axis=1)
    groups = [falls[removed == k] for k in set(removed)]  # predictions are equal in each: the first row is chosen
    chosen, chance, largest = (sum(map(of, groups)) for of in (lambda group: group[0], np.mean, np.max))
    share = (chosen - chance) / (largest - chance)
    assert found["deletion"] == pytest.approx(share, abs=1e-4)
    known = errors(text, lambda rows: scores if len(rows) > 1 else np.array([0.7]))
    assert known["deletion"] == 1.0, "a method that knows the model finds the largest falls"
    assert errors(text, lambda rows: np.full(len(rows), 1e6)) == {
        "near": pytest.approx(near_alone, abs=1e-4),
        "deletion": pytest.approx(share, abs=1e-4),
        "far": 2.0,
        "LDS": 0.0,
    }


def test_units_alone_that_test_a_budget_are_in_none_of_its_rows():
    for name, number, text in TEXTS:
        for budget in text.budgets:
            keep, _ = text.alone(budget)
            given = {row.tobytes() for pool in POOLS for row in text.pools[pool, budget][0]}
            assert (keep.sum(axis=1) == 1).all()
            assert given.isdisjoint(row.tobytes() for row in keep), (name, number)


def test_stored_scores_are_those_of_the_method():
    """A cheap method, fitted again, has the numbers of the table."""
    table = Table()
    name, number, text = TEXTS[0]
    for budget in BUDGETS:
        again = errors(text, METHODS["ridge"].fit(*text.pools["even", budget], text.kinds))
        for column in ("near", "far", "deletion", "LDS"):
            assert table.values("ridge", budget, column, {name})[number] == pytest.approx(again[column], abs=3e-4)


def test_the_table_has_the_means_of_the_scores():
    table = Table()
    line = next(line for line in table.lines(200, REPORT) if line.startswith("| joint |"))
    mean = np.nanmean(table.values("joint", 200, "far", REPORT))
    assert f"{mean:.3f}" in line


def test_pages_have_the_numbers_of_the_scores():
    root = Path(__file__).parents[1]
    assert "\n".join(brief(Table())) in (root / "README.md").read_text(encoding="utf-8")
    assert (root / "results" / "arena.md").read_text(encoding="utf-8") == page()


def test_stored_answers_are_those_of_the_model(tmp_path, monkeypatch):
    case = next(case for case in CASES if case.name == "bundled-sentences")
    if not (SHARED / "data" / "sst2_dev.jsonl.gz").exists():
        pytest.skip(f"needs the sentences of SST-2 in {SHARED}; SLALOM_SHARED names the folder")
    stored = dict(np.load(answers.FOLDER / f"{case.name}.npz"))
    monkeypatch.setattr(answers, "FOLDER", tmp_path)
    answers.ask(case, tmp_path, "cpu", number=1)
    again = dict(np.load(tmp_path / f"{case.name}.npz"))
    assert set(again) == {name for name in stored if name.startswith("0 ")}
    for name, part in again.items():
        assert np.allclose(stored[name], part, atol=1e-4), name
