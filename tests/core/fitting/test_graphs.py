"""A function replayed from a CUDA graph gives what the function itself gives; without a GPU, how arguments are flattened."""

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from slalom.core import Joint, Slalom, fit
from slalom.core.fitting import joint, release_memory
from slalom.core.fitting._arrays import backend, graphs
from slalom.core.fitting._arrays.backend import NumpyBackend, TorchBackend
from slalom.core.fitting._arrays.graphs import GraphCache, captured, flatten, unflatten
from slalom.core.fitting._arrays.shapes import ProblemArrays
from tests.cases import cases

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass(frozen=True)
class Case:
    array: Any
    flag: bool


class RehearsedPool(graphs.GraphPool):
    """A pool without a GPU: a replay calls the function again and copies its outputs to where the first ones lie."""

    captures = 0

    def __init__(self, device):
        self.device, self.buffers = device, {}

    def enter(self):
        return None

    def capture(self, function, arguments):
        RehearsedPool.captures += 1
        inputs, first = [], []
        flatten(arguments, inputs)
        outputs = function(*arguments)
        flatten(outputs, first)

        def replay():
            again = []
            flatten(function(*unflatten(arguments, iter(inputs))), again)  # unflatten: drops the cached properties of a point
            for old, new in zip(first, again, strict=True):
                old.copy_(new)

        return replay, outputs


@pytest.fixture
def cache(monkeypatch):
    """An empty cache of graphs that are rehearsed."""
    monkeypatch.setattr(graphs, "GraphPool", RehearsedPool)
    monkeypatch.setattr(graphs, "_CACHE", cache := GraphCache())
    return cache


def tree(scale=1.0, flag=True):
    return (Pair(torch.arange(3.0) * scale, None), Case(torch.ones(2) * scale, flag), "word")


def key_of(arguments):
    return flatten(arguments, [])


def doubled():
    return captured(lambda pair: Pair(2 * pair.first, pair.second))


def warmed_up(cache):
    """A function whose graph is captured, and the pool that holds it."""
    double = doubled()
    for _ in range(3):
        double(Pair(torch.ones(2), None))
    (pool,) = cache.pools.values()
    assert cache.graphs
    assert pool.buffers
    return double, pool


def test_arrays_are_found_in_tuples_and_dataclasses_and_put_back():
    found = []
    flatten(tree(), found)
    assert [tuple(leaf.shape) for leaf in found] == [(3,), (2,)]
    other = unflatten(tree(), iter([leaf + 1 for leaf in found]))
    assert isinstance(other[0], Pair)
    assert (other[0].second, other[2]) == (None, "word")
    assert (other[1].flag, other[1].array.tolist()) == (True, [2.0, 2.0])
    with pytest.raises(StopIteration):
        unflatten(tree(), iter(found[:1]))


def test_a_graph_is_cached_by_shapes_and_by_everything_that_is_no_array():
    assert key_of(tree()) == key_of(tree(scale=7.0))
    assert key_of(tree()) != key_of(tree(flag=False))
    assert key_of((torch.ones(2),)) != key_of((torch.ones(3),))
    assert key_of((torch.ones(2),)) != key_of((torch.ones(2, dtype=torch.float64),))
    assert hash(key_of(tree())) == hash(key_of(tree(scale=2.0)))


def test_a_device_that_cannot_capture_calls_the_function_and_says_so_once(monkeypatch, cache, caplog):
    def no_capture(self, function, arguments):
        raise RuntimeError("this device cannot capture\nand more")

    monkeypatch.setattr(RehearsedPool, "capture", no_capture)
    double = doubled()
    with caplog.at_level(logging.WARNING, logger="slalom"):
        for scale in (1.0, 2.0, 3.0, 4.0):
            assert double(Pair(torch.ones(2) * scale, None)).first.tolist() == [2 * scale] * 2
    assert not cache.works
    assert caplog.messages == [
        "CUDA graphs do not work on cpu (this device cannot capture); fits run without them, more slowly."
    ]


@cases(("classes", "link"), [(None, None), (None, True), (3, None)])
def test_fits_that_share_graphs_are_those_without_any(monkeypatch, cache, classes, link):
    """Arguments that are no arrays are constants of a graph: none of them may differ between fits of one shape."""
    monkeypatch.setattr(TorchBackend, "compiled", lambda self, function: captured(function))
    monkeypatch.setattr(TorchBackend, "padding", lambda self, rows, units: (-rows % 64, -units % 8))
    shared = TorchBackend("cpu")
    rng = np.random.default_rng(0)
    before = RehearsedPool.captures
    for fits in range(6):
        n, m = (20, 150) if fits % 2 else (23, 190)  # both are padded to 24 units and 192 rows
        shape = (n,) if classes is None else (n, classes)
        truth = Slalom(3 * rng.normal(size=shape), rng.normal(size=n), (0.3 if classes is None else np.zeros(classes), 1.0))
        counts = (rng.random((m, n)) < rng.random((m, 1))).astype(float)
        y = truth(counts)
        y = (np.tanh(y) if link else y) + 0.05 * rng.normal(size=y.shape)
        plain = fit(counts, y, Joint(link=link))
        with monkeypatch.context() as patch:
            patch.setattr(joint, "backend_for", lambda device: shared)
            replayed = fit(counts, y, Joint(link=link))
        assert replayed.iterations == plain.iterations
        np.testing.assert_allclose(replayed.model.values, plain.model.values, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(replayed.importances_se, plain.importances_se, rtol=1e-5)
        np.testing.assert_allclose(replayed.values_se, plain.values_se, rtol=1e-5)
        for left, right in zip(replayed.background_se, plain.background_se, strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-5)
    assert RehearsedPool.captures > before
    assert len([graph for graph in cache.graphs.values() if graph]) == RehearsedPool.captures - before


def test_graphs_share_their_input_buffers():
    """Two arrays of one shape have two buffers; another graph reads from the same ones."""
    pool = RehearsedPool(torch.device("cpu"))
    three = pool.buffers_for([torch.ones(3), torch.ones(3), torch.ones(2)])
    two = pool.buffers_for([torch.ones(2), torch.ones(3)])
    assert len({id(buffer.array) for buffer in three}) == 3
    assert two[0] is three[2]
    assert two[1] is three[0]
    assert pool.size == 4 * (3 + 3 + 2)


def test_with_too_much_memory_in_buffers_all_graphs_are_dropped(monkeypatch, cache):
    monkeypatch.setattr(graphs, "_MAX_KEPT_BYTES", 100)
    double = doubled()
    for size in (2, 8, 16):
        for scale in (1.0, 2.0, 3.0):
            assert double(Pair(torch.ones(size) * scale, None)).first.tolist() == [2 * scale] * size
    (pool,) = cache.pools.values()
    assert pool.size <= 100
    assert len(cache.graphs) == 1


def test_where_memory_runs_out_nothing_is_kept_and_it_is_said_once(monkeypatch, cache, caplog):
    double, pool = warmed_up(cache)

    def full(self, function, arguments):
        raise torch.cuda.OutOfMemoryError("full")

    monkeypatch.setattr(RehearsedPool, "capture", full)
    with caplog.at_level(logging.WARNING, logger="slalom"):
        for _ in range(4):
            assert double(Pair(torch.ones(3), None)).first.tolist() == [2.0] * 3
    assert not pool.buffers
    assert not cache.pools
    assert not cache.graphs
    assert cache.works
    assert len(caplog.messages) == 1
    assert "Too little memory on cpu" in caplog.text


def test_memory_can_be_released_and_graphs_are_captured_again(monkeypatch, cache):
    monkeypatch.setattr(backend, "_TORCH", {"cpu": TorchBackend("cpu")})
    double, pool = warmed_up(cache)
    assert release_memory() is None
    assert not cache.graphs
    assert not pool.buffers
    assert not cache.pools
    before = RehearsedPool.captures
    for scale in (1.0, 2.0, 3.0):
        assert double(Pair(torch.ones(2) * scale, None)).first.tolist() == [2 * scale] * 2
    assert RehearsedPool.captures == before + 1


def test_without_torch_there_is_nothing_to_release(monkeypatch, cache):
    monkeypatch.setattr(backend, "_TORCH", {})
    doubled()(Pair(torch.ones(2), None))
    release_memory()
    assert cache.graphs


def test_an_array_that_stays_is_copied_once_and_another_in_its_place_again(cache):
    plus = captured(lambda pair: Pair(pair.first + pair.second, None))
    stays = torch.ones(2)
    for scale in (1.0, 2.0, 3.0, 4.0):
        assert plus(Pair(stays, torch.full((2,), scale))).first.tolist() == [1.0 + scale] * 2
    (pool,) = cache.pools.values()
    sources = [buffer.source() for buffer in pool.buffers.values()]
    assert [source is stays for source in sources] == [True, False]
    assert plus(Pair(torch.zeros(2), stays)).first.tolist() == [1.0, 1.0]
    del stays
    assert plus(Pair(torch.full((2,), 5.0), torch.full((2,), 6.0))).first.tolist() == [11.0, 11.0]


@cases("axes", ["rows units", "units outputs", "rows", "other units", "units units"])
def test_arrays_come_back_from_a_padded_device_as_they_went(monkeypatch, axes):
    monkeypatch.setattr(TorchBackend, "padding", lambda self, rows, units: (3, 2))
    arrays = ProblemArrays(TorchBackend("cpu"), rows=5, units=4)
    own, padded = ({"rows": 5 + 3 * more, "units": 4 + 2 * more} for more in (0, 1))
    host = np.random.default_rng(0).normal(size=[own.get(axis, 7) for axis in axes.split()])
    device = arrays.to_device(host, axes)
    assert list(device.shape) == [padded.get(axis, 7) for axis in axes.split()]
    assert float(device.sum()) == pytest.approx(host.sum())
    np.testing.assert_array_equal(arrays.to_host(device, axes), host)
    np.testing.assert_array_equal(ProblemArrays(NumpyBackend(), 5, 4).to_host(host, axes), host)


def test_padding_is_cut_out_between_other_entries(monkeypatch):
    monkeypatch.setattr(TorchBackend, "padding", lambda self, rows, units: (0, 2))
    arrays = ProblemArrays(TorchBackend("cpu"), rows=5, units=3)
    row = torch.arange(8.0)
    assert arrays.to_host(row[:6], "1+units").tolist() == [0, 1, 2, 3]  # the level, three units, two zeros
    assert arrays.to_host(row, "units+extras").tolist() == [0, 1, 2, 5, 6, 7]
    square = arrays.to_host(row[:, None] * 10 + row[:6], "units+extras 1+units")
    assert square.tolist() == [[10 * i + j for j in range(4)] for i in (0, 1, 2, 5, 6, 7)]


@GPU
def test_a_replay_gives_what_the_function_gives():
    def function(pair, power):
        return Pair(pair.first @ pair.second**power, pair.second), (pair.second**power).sum()

    replay = captured(function)
    for call in range(4):
        pair = Pair(*(torch.randn(5, 5, device="cuda", dtype=torch.float64) for _ in range(2)))
        (product, same), total = replay(pair, 2)
        torch.testing.assert_close(product, pair.first @ pair.second**2)
        torch.testing.assert_close(total, (pair.second**2).sum())
        assert same is pair.second, call


@GPU
def test_a_thread_that_has_not_used_the_gpu_yet_can_capture(caplog):
    def function(matrix):
        factor = torch.linalg.cholesky_ex(matrix)[0]
        return torch.linalg.solve_triangular(factor, matrix @ matrix, upper=False)

    replay, matrix = captured(function), torch.eye(40, device="cuda", dtype=torch.float64) * 4.0
    results = [replay(matrix)]
    with ThreadPoolExecutor(1) as pool:
        results += [pool.submit(replay, matrix).result() for _ in range(3)]
    for result in results:
        torch.testing.assert_close(result, matrix * 2.0)
    assert "CUDA graphs do not work" not in caplog.text


@GPU
@cases(("rows", "units", "classes"), [(400, 40, None), (400, 40, 3), (120, 600, None)])
def test_fits_on_a_gpu_are_those_of_the_cpu_again_and_again(rows, units, classes, caplog):
    rng = np.random.default_rng(0)
    shape = (units,) if classes is None else (units, classes)
    counts = (rng.random((rows, units)) < rng.random((rows, 1))).astype(float)
    for _ in range(3):
        truth = Slalom(rng.normal(size=shape), rng.normal(size=units), (0.3 if classes is None else np.zeros(classes), 1.0))
        y = truth(counts)
        y = y + 0.05 * rng.normal(size=y.shape)
        here, there = (fit(counts, y, Joint(device=device)) for device in ("cpu", "cuda"))
        assert here.iterations == there.iterations
        np.testing.assert_allclose(there.model.values, here.model.values, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(there.importances_se, here.importances_se, rtol=1e-5)
    assert "CUDA graphs do not work" not in caplog.text


@GPU
def test_released_memory_goes_back_to_the_device():
    rng = np.random.default_rng(0)
    counts = (rng.random((2000, 100)) < rng.random((2000, 1))).astype(float)
    y = Slalom(rng.normal(size=100), rng.normal(size=100), (0.3, 1.0))(counts) + 0.05 * rng.normal(size=2000)
    for _ in range(3):
        fit(counts, y, Joint(device="cuda"))
    assert graphs._CACHE.graphs
    before = torch.cuda.memory_reserved()
    release_memory()
    assert not graphs._CACHE.graphs
    assert torch.cuda.memory_reserved() < before
    fit(counts, y, Joint(device="cuda"))
