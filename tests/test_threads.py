"""Threads of BLAS: one in a block, as many as before when the last block has ended."""

import os
import threading

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from slalom import Explainer, threads
from slalom.methods import JointMethod
from slalom.threads import cores_here, one_blas_thread


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
    assert blas_threads() == {1}, "the other block has not ended"
    end.set()
    assert ended.wait(60)
    thread.join(60)
    assert blas_threads() == {3}


def test_an_error_in_a_block_ends_it():
    with pytest.raises(ValueError, match="no"), one_blas_thread():
        raise ValueError("no")
    assert blas_threads() == {3}


def test_explanations_use_one_thread_and_only_large_ones_more(monkeypatch):
    seen, explain = [], JointMethod.explain
    monkeypatch.setattr(JointMethod, "explain", lambda *args: seen.append(blas_threads()) or explain(*args))
    explainer = Explainer(lambda texts: [float("good" in text) for text in texts], output="log_odds", queries=60)
    explainer("a good film")
    monkeypatch.setattr(JointMethod, "seconds", lambda *_: 2.0)
    explainer("a good film")
    assert seen == [{1}, {3}]
    assert blas_threads() == {3}


def test_a_container_may_have_fewer_cores_than_its_machine(monkeypatch, tmp_path):
    monkeypatch.setattr(threads, "_LIMIT_FILE", tmp_path / "cpu.max")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert cores_here() == 8
    for content, cores in (("150000 100000", 2), ("10000 100000", 1), ("max 100000", 8), ("9900000 100000", 8), ("", 8)):
        (tmp_path / "cpu.max").write_text(f"{content}\n")
        assert cores_here() == cores, content
