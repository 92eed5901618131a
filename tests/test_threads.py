"""Threads of BLAS: one in a block, as many as before when the last block has ended."""

import os
import threading

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from slalom import Explainer, threads
from slalom.core.fitting import joint, problem
from slalom.methods import surrogate
from slalom.pipeline import explaining
from slalom.text import TwoScales
from slalom.threads import cores_here, many_blas_threads, one_blas_thread
from tests.cases import cases


def blas_threads():
    libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
    return {library["num_threads"] for library in libraries if library.get("threading_layer") != "openmp"}


@pytest.fixture(autouse=True)
def three():
    with threadpool_limits(3, "blas"):
        yield


def test_one_thread_in_a_block():
    assert blas_threads() == {3}
    with one_blas_thread():
        assert blas_threads() == {1}
        with one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == {3}


def test_many_threads_within_a_block():
    with many_blas_threads():
        assert blas_threads() == {3}
    with one_blas_thread(), one_blas_thread():
        with many_blas_threads():
            assert blas_threads() == {3}
            with one_blas_thread():
                assert blas_threads() == {1}
        assert blas_threads() == {1}
        with many_blas_threads(large=False):
            assert blas_threads() == {1}
        with pytest.raises(ValueError, match="no"), many_blas_threads():
            raise ValueError("no")
        assert blas_threads() == {1}
    assert blas_threads() == {3}


def test_blocks_of_several_threads_may_overlap_in_any_order():
    begun, end, ended = threading.Event(), threading.Event(), threading.Event()

    def other():
        with one_blas_thread():
            begun.set()
            end.wait(60)
        ended.set()

    with one_blas_thread():
        thread = threading.Thread(target=other)
        thread.start()
        assert begun.wait(60)
        with many_blas_threads():
            assert blas_threads() == {1}, "the other thread is in a block"
    assert blas_threads() == {1}, "the other block has not ended"
    end.set()
    assert ended.wait(60)
    thread.join(60)
    assert blas_threads() == {3}


def test_an_error_in_a_block_ends_it():
    with pytest.raises(ValueError, match="no"), one_blas_thread():
        raise ValueError("no")
    assert blas_threads() == {3}


@pytest.mark.parametrize(("much", "expected"), [(1e8, {1}), (0.0, {3})])
def test_fits_use_one_thread_and_only_large_ones_more(monkeypatch, much, expected):
    seen, asked = {}, []

    def watched(owner, name, call):
        monkeypatch.setattr(owner, name, lambda *args: seen.setdefault(name, []).append(blas_threads()) or call(*args))

    monkeypatch.setattr(problem, "_MUCH_WORK", much)
    for owner, name in ((joint._Search, "fit"), (TwoScales, "draw"), (surrogate, "fit_near"), (explaining, "_fidelity")):
        watched(owner, name, getattr(owner, name))

    def scores(texts):
        asked.append(blas_threads())
        return [float("good" in text) - 0.1 * len(text.split()) for text in texts]

    text = "a good film that was seen by all of us in the old house"
    Explainer(scores, output="log_odds", queries=60)(text, pairs=False)
    assert set(seen) == {"fit", "draw", "fit_near", "_fidelity"}
    assert all(threads == {1} for name in ("draw", "fit_near", "_fidelity") for threads in seen[name])
    assert all(threads == expected for threads in seen["fit"])
    assert all(threads == {3} for threads in asked)
    assert blas_threads() == {3}


def test_a_model_that_a_method_asks_has_all_threads():
    asked = []

    def scores(texts):
        asked.append(blas_threads())
        return [float("good" in text) for text in texts]

    Explainer(scores, output="log_odds", queries=30)("a good film", method="lime")
    assert asked
    assert all(threads == {3} for threads in asked)


@cases(
    ("files", "cores"),
    [
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "10000 100000\n"}, 1),
        ({"cpu.max": "max 100000\n"}, 8),
        ({"cpu.max": "9900000 100000\n"}, 8),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8),
        ({"cpu.max": ""}, 8),
        ({}, 8),
    ],
)
def test_a_container_may_have_fewer_cores_than_its_machine(monkeypatch, tmp_path_factory, files, cores):
    folder = tmp_path_factory.mktemp("groups")
    (folder / "cpu").mkdir()
    for name, content in files.items():
        (folder / name).write_text(content)
    monkeypatch.setattr(threads, "_GROUPS", folder)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert cores_here() == cores
