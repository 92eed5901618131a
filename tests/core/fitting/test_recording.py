"""Work played from a CUDA graph gives what the work itself gives; without a GPU, how arguments are taken apart."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from slalom.core import Joint, Slalom, fit
from slalom.core.fitting import joint, recording
from slalom.core.fitting.backend import TorchBackend
from slalom.core.fitting.recording import filled, recorded, taken

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass(frozen=True)
class Case:
    array: Any
    flag: bool


def tree(scale=1.0, flag=True):
    return (Pair(torch.arange(3.0) * scale, None), Case(torch.ones(2) * scale, flag), "word")


def form_of(given):
    return taken(given, [])


def test_arrays_are_found_in_tuples_and_dataclasses_and_put_back():
    found = []
    taken(tree(), found)
    assert [tuple(leaf.shape) for leaf in found] == [(3,), (2,)]
    other = filled(tree(), iter([leaf + 1 for leaf in found]))
    assert isinstance(other[0], Pair)
    assert (other[0].second, other[2]) == (None, "word")
    assert (other[1].flag, other[1].array.tolist()) == (True, [2.0, 2.0])
    with pytest.raises(StopIteration):
        filled(tree(), iter(found[:1]))


def test_a_tape_is_kept_by_shapes_and_by_all_that_is_no_array():
    assert form_of(tree()) == form_of(tree(scale=7.0))
    assert form_of(tree()) != form_of(tree(flag=False))
    assert form_of((torch.ones(2),)) != form_of((torch.ones(3),))
    assert form_of((torch.ones(2),)) != form_of((torch.ones(2, dtype=torch.float64),))
    assert hash(form_of(tree())) == hash(form_of(tree(scale=2.0)))


def test_a_device_that_cannot_record_does_the_work_itself(monkeypatch):
    shelf = recording._Shelf()
    monkeypatch.setattr(recording, "_SHELF", shelf)

    def no_tape(work, arguments, given, room):
        raise RuntimeError("this device cannot record")

    monkeypatch.setattr(recording, "Tape", no_tape)
    monkeypatch.setattr(recording, "Room", Rehearsal)
    double = recorded(lambda pair: Pair(2 * pair.first, pair.second))
    for scale in (1.0, 2.0, 3.0):
        assert double(Pair(torch.ones(2) * scale, None)).first.tolist() == [2 * scale] * 2
    assert not shelf.works


class Rehearsal(recording.Room):
    """A room without a GPU: work is done again on the arguments of its recording, its outputs put where the first ones lay."""

    recorded = 0

    def __init__(self, device):
        self.device, self.seats = device, {}

    def enter(self):
        return None

    def record(self, work, arguments):
        Rehearsal.recorded += 1
        inputs, first = [], []
        taken(arguments, inputs)
        outputs = work(*arguments)
        taken(outputs, first)

        def replay():
            again = []
            taken(work(*filled(arguments, iter(inputs))), again)  # filled: what a point has computed once it computes again
            for old, new in zip(first, again, strict=True):
                old.copy_(new)

        return replay, outputs


@pytest.mark.parametrize(("classes", "link"), [(None, None), (None, True), (3, None)])
def test_fits_that_share_tapes_are_those_without_any(monkeypatch, classes, link):
    """What is not an array is fixed when a tape is made: none of it may differ between fits of one shape."""
    monkeypatch.setattr(recording, "Room", Rehearsal)
    monkeypatch.setattr(recording, "_SHELF", recording._Shelf())
    monkeypatch.setattr(TorchBackend, "recorded", lambda self, work: recorded(work))
    monkeypatch.setattr(TorchBackend, "spare", lambda self, rows, units: (-rows % 64, -units % 8))
    shared = TorchBackend("cpu")
    rng = np.random.default_rng(0)
    before = Rehearsal.recorded
    for fits in range(6):
        n, m = (20, 150) if fits % 2 else (23, 190)  # both are filled up to 24 units and 192 rows
        shape = (n,) if classes is None else (n, classes)
        truth = Slalom(3 * rng.normal(size=shape), rng.normal(size=n), (0.3 if classes is None else np.zeros(classes), 1.0))
        counts = (rng.random((m, n)) < rng.random((m, 1))).astype(float)
        y = truth(counts)
        y = (np.tanh(y) if link else y) + 0.05 * rng.normal(size=y.shape)
        alone = fit(counts, y, Joint(link=link))
        with monkeypatch.context() as patch:
            patch.setattr(joint, "backend", lambda device: shared)
            played = fit(counts, y, Joint(link=link))
        assert played.iterations == alone.iterations
        np.testing.assert_allclose(played.model.values, alone.model.values, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(played.importances_se, alone.importances_se, rtol=1e-5)
        np.testing.assert_allclose(played.values_se, alone.values_se, rtol=1e-5)
        for one, other in zip(played.background_se, alone.background_se, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)
    assert Rehearsal.recorded > before


def test_graphs_share_the_seats_of_their_inputs():
    """Two arrays of one shape lie in two places; what another graph reads lies in the same ones."""
    room = Rehearsal(torch.device("cpu"))
    one, other = room.seated([torch.ones(3), torch.ones(3), torch.ones(2)]), room.seated([torch.ones(2), torch.ones(3)])
    assert len({id(seat.array) for seat in one}) == 3
    assert other[0] is one[2]
    assert other[1] is one[0]
    assert room.size == 4 * (3 + 3 + 2)


def test_with_too_many_seats_all_tapes_are_made_anew(monkeypatch):
    monkeypatch.setattr(recording, "Room", Rehearsal)
    monkeypatch.setattr(recording, "_SHELF", shelf := recording._Shelf())
    monkeypatch.setattr(recording, "_KEPT", 100)
    double = recorded(lambda pair: Pair(2 * pair.first, pair.second))
    for size in (2, 8, 16):
        for scale in (1.0, 2.0, 3.0):
            assert double(Pair(torch.ones(size) * scale, None)).first.tolist() == [2 * scale] * size
    (room,) = shelf.rooms.values()
    assert room.size <= 100
    assert len(shelf.tapes) == 1


def test_where_memory_runs_out_nothing_is_kept(monkeypatch):
    monkeypatch.setattr(recording, "Room", Rehearsal)
    monkeypatch.setattr(recording, "_SHELF", shelf := recording._Shelf())
    double = recorded(lambda pair: Pair(2 * pair.first, pair.second))
    for _ in range(3):
        double(Pair(torch.ones(2), None))
    (room,) = shelf.rooms.values()
    assert shelf.tapes
    assert room.seats

    def full(self, work, arguments):
        raise torch.cuda.OutOfMemoryError("full")

    monkeypatch.setattr(Rehearsal, "record", full)
    for _ in range(2):
        assert double(Pair(torch.ones(3), None)).first.tolist() == [2.0] * 3
    assert not room.seats
    assert not shelf.tapes
    assert shelf.works


def test_an_array_that_stays_is_copied_once_and_another_in_its_place_again(monkeypatch):
    monkeypatch.setattr(recording, "Room", Rehearsal)
    monkeypatch.setattr(recording, "_SHELF", shelf := recording._Shelf())
    plus = recorded(lambda pair: Pair(pair.first + pair.second, None))
    stays = torch.ones(2)
    for scale in (1.0, 2.0, 3.0, 4.0):
        assert plus(Pair(stays, torch.full((2,), scale))).first.tolist() == [1.0 + scale] * 2
    (room,) = shelf.rooms.values()
    guests = [seat.guest() for seat in room.seats.values()]
    assert [guest is stays for guest in guests] == [True, False]
    assert plus(Pair(torch.zeros(2), stays)).first.tolist() == [1.0, 1.0]
    del stays
    assert plus(Pair(torch.full((2,), 5.0), torch.full((2,), 6.0))).first.tolist() == [11.0, 11.0]


@GPU
def test_what_is_played_is_what_is_computed():
    def work(pair, power):
        return Pair(pair.first @ pair.second**power, pair.second), (pair.second**power).sum()

    play = recorded(work)
    for call in range(4):
        pair = Pair(*(torch.randn(5, 5, device="cuda", dtype=torch.float64) for _ in range(2)))
        (product, same), total = play(pair, 2)
        torch.testing.assert_close(product, pair.first @ pair.second**2)
        torch.testing.assert_close(total, (pair.second**2).sum())
        assert same is pair.second, call


@GPU
@pytest.mark.parametrize("classes", [None, 3])
def test_fits_on_a_gpu_are_those_of_the_cpu_again_and_again(classes):
    rng = np.random.default_rng(0)
    shape = (40,) if classes is None else (40, classes)
    counts = (rng.random((400, 40)) < rng.random((400, 1))).astype(float)
    for _ in range(3):
        truth = Slalom(rng.normal(size=shape), rng.normal(size=40), (0.3 if classes is None else np.zeros(classes), 1.0))
        y = truth(counts)
        y = y + 0.05 * rng.normal(size=y.shape)
        here, there = (fit(counts, y, Joint(device=device)) for device in ("cpu", "cuda"))
        assert here.iterations == there.iterations
        np.testing.assert_allclose(there.model.values, here.model.values, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(there.importances_se, here.importances_se, rtol=1e-5)
