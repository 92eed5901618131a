"""Texts that are explained at the same time: the same results, in order, and nothing goes on that nobody waits for."""

import signal
import threading
from dataclasses import dataclass
from time import perf_counter, sleep

import numpy as np
import pytest

from slalom import Explainer
from slalom.core import Fitter
from slalom.core.fitting import joint, problem
from slalom.errors import InputError
from slalom.interrupt import Interrupted, check, interrupted_if
from slalom.methods import SurrogateMethod
from slalom.pipeline.side_by_side import SharedClock, side_by_side
from slalom.text import Scales
from tests.waiting import until

TEXTS = [" ".join(f"word{(i * k) % 17}" for i in range(10 + 3 * k)) for k in range(1, 6)]


def scores(texts):
    return [sum(hash_of(word) for word in text.split()) / (1 + len(text.split())) for text in texts]


def hash_of(word):
    return (len(word) + sum(map(ord, word)) * 37) % 11 - 5.0


def explainer():
    return Explainer(scores, output="log_odds", queries=80)


def running(seconds=60.0):
    """Work until it is given up."""
    began = perf_counter()
    while perf_counter() - began < seconds:
        check()
    raise AssertionError("was not given up")


@pytest.fixture(autouse=True)
def _cores(monkeypatch):
    monkeypatch.setenv("SLALOM_THREADS", "2")


def test_two_items_at_the_same_time_and_in_order():
    meeting, done = threading.Barrier(2, timeout=60), []

    def work(item):
        meeting.wait()
        done.append(item)

    assert list(side_by_side(work, [1, 2, 3, 4], 2)) == [1, 2, 3, 4]
    assert sorted(done) == [1, 2, 3, 4]


def test_an_error_is_raised_in_its_place_and_ends_the_others():
    seen, failed, others = [], threading.Event(), []

    def work(item):
        if item == 1:
            failed.set()
            raise ValueError("one")
        if item > 1:
            assert failed.wait(60)
            try:
                running()
            except Interrupted:
                others.append(item)
                raise

    with pytest.raises(ValueError, match="one"):
        seen.extend(side_by_side(work, [0, 1, 2, 3, 4, 5], 2))
    assert seen == [0]
    assert set(others) <= {2, 3}


def test_work_that_nobody_waits_for_is_given_up():
    ended = []

    def work(item):
        if item:
            try:
                running()
            except Interrupted:
                ended.append(item)
                raise

    items = side_by_side(work, [0, 1, 2, 3], 2)
    assert next(items) == 0
    items.close()
    assert set(ended) <= {1, 2}


def test_not_many_more_are_begun_than_are_asked_for():
    done = []
    items = side_by_side(done.append, list(range(100)), 2)
    for _ in range(3):
        next(items)
    until(lambda: len(done) >= 5)
    assert len(done) <= 7
    items.close()


def test_seconds_are_shared_by_those_that_work_at_the_same_time():
    clock, meeting, passed = SharedClock(), threading.Barrier(2, timeout=60), {}

    def work(item):
        with clock.running():
            meeting.wait()
            began = clock()
            sleep(0.2 * item)
            passed[item] = clock() - began

    began = perf_counter()
    list(side_by_side(work, [1, 2], 2))
    wall = perf_counter() - began
    assert 0.85 * wall <= sum(passed.values()) <= wall
    assert passed[1] < passed[2]


@dataclass(frozen=True)
class Mean(Fitter):
    """A fitter of someone else, who knows nothing of threads."""

    def solve(self, problem):
        fitted_in.append(threading.get_ident())
        return problem.constant("the mean score")


fitted_in = []


def test_fitters_of_others_stay_in_one_thread():
    fitted_in.clear()
    found = Explainer(scores, output="log_odds", queries=40, method=SurrogateMethod("mean", Scales(), Mean()))(TEXTS)
    assert len(found) == len(TEXTS)
    assert set(fitted_in) == {threading.get_ident()}


def test_the_test_of_the_calling_thread_holds():
    with interrupted_if(lambda: True), pytest.raises(Interrupted):
        list(side_by_side(lambda _: running(), [1, 2], 2))


def test_settings_of_numpy_hold_in_all_threads():
    with np.errstate(over="raise"):
        found = []
        list(side_by_side(lambda _: found.append(np.geterr()["over"]), [1, 2, 3], 2))
    assert found == ["raise"] * 3


def test_a_text_has_the_same_explanation_in_company(monkeypatch):
    used, alone = set(), [explainer()(text).to_dict() for text in TEXTS]
    fit = joint._Search.fit
    monkeypatch.setattr(joint._Search, "fit", lambda self, *args: used.add(threading.get_ident()) or fit(self, *args))
    began = perf_counter()
    found = explainer()(TEXTS)
    passed = perf_counter() - began
    assert threading.get_ident() not in used
    assert len(used) == 2
    assert sum(e.seconds for e in found) <= passed
    for one, other in zip(alone, found, strict=True):
        assert {**one, "seconds": 0.0} == {**other.to_dict(), "seconds": 0.0}


def test_long_fits_are_alone(monkeypatch):
    monkeypatch.setattr(problem, "_MUCH_WORK", 0.0)
    used, fit = set(), joint._Search.fit
    monkeypatch.setattr(joint._Search, "fit", lambda self, *args: used.add(threading.get_ident()) or fit(self, *args))
    assert len(explainer()(TEXTS)) == len(TEXTS)
    assert used == {threading.get_ident()}


def test_the_first_error_is_that_of_the_first_text(monkeypatch):
    fit = joint._Search.fit

    def failing(self, *args):
        if self.counts.shape[1] > 12:
            raise InputError(f"{self.counts.shape[1]} parameters")
        return fit(self, *args)

    monkeypatch.setattr(joint._Search, "fit", failing)
    types = [len(set(text.split())) for text in TEXTS]
    with pytest.raises(InputError, match=f"{next(n for n in types if n > 12)} parameters"):
        explainer()(TEXTS)
    found = explainer()(TEXTS, errors="keep")
    assert [failure.number for failure in found.failures] == [k for k, n in enumerate(types) if n > 12]


def test_a_keyboard_interrupt_ends_the_work(monkeypatch):
    pressed, ended = [], threading.Event()

    def endless(self, *args):
        if not pressed:
            pressed.append(True)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        try:
            running()
        except Interrupted:
            ended.set()
            raise

    monkeypatch.setattr(joint._Search, "fit", endless)
    with pytest.raises(KeyboardInterrupt):
        explainer()(TEXTS)
    assert ended.wait(30)
