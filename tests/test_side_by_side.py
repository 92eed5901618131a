"""Texts that are explained at the same time: the same results, in order, and nothing goes on that nobody waits for."""

import signal
import threading
from dataclasses import dataclass
from time import perf_counter
from typing import ClassVar

import numpy as np
import pytest

from slalom import Explainer
from slalom.core import Linear, fit
from slalom.errors import InputError
from slalom.interrupt import Interrupted, check, interrupted_if
from slalom.methods import Method, MethodResult
from slalom.pipeline.side_by_side import side_by_side
from slalom.text import Scales

TEXTS = [" ".join(f"word{(i * k) % 17}" for i in range(10 + 3 * k)) for k in range(1, 6)]


def scores(texts):
    return [sum((len(word) + 37 * sum(map(ord, word))) % 11 - 5.0 for word in text.split()) for text in texts]


def running(seconds=60.0):
    """Work until it is given up."""
    began = perf_counter()
    while perf_counter() - began < seconds:
        check()
    raise AssertionError("was not given up")


@dataclass(frozen=True)
class Watched(Method):
    """Least squares that says in which threads it runs; at more units than `widest` it does something else."""

    name: str = "watched"
    together: bool = True
    widest: int = 1000
    instead: object = None
    used: ClassVar[list[int]] = []

    def separable(self, n, rows):
        return self.together

    def plan(self, units, budget, rng, empty):
        return Scales().draw(units.type_of_unit, budget, rng, empty)

    def explain(self, context):
        self.used.append(threading.get_ident())
        if len(context.units) > self.widest:
            self.instead(context)
        return MethodResult(fit(context.plan.keep.astype(float), context.scores, Linear()).model)


def explained(texts, method, **options):
    Watched.used.clear()
    return Explainer(scores, output="log_odds", queries=60, method=method)(texts, **options)


@pytest.fixture(autouse=True)
def _cores(monkeypatch):
    monkeypatch.setenv("SLALOM_THREADS", "2")


def test_two_items_at_the_same_time_and_in_order():
    meeting, done, modes = threading.Barrier(2, timeout=60), [], []

    def work(item):
        meeting.wait()
        done.append(item)
        modes.append(np.geterr()["over"])

    with np.errstate(over="raise"):  # settings of numpy hold in all threads
        assert list(side_by_side(work, [1, 2, 3, 4], 2)) == [1, 2, 3, 4]
    assert sorted(done) == [1, 2, 3, 4]
    assert modes == ["raise"] * 4


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
    items = side_by_side(lambda item: running() if item else None, [0, 1, 2, 3], 2)
    assert next(items) == 0
    items.close()
    with interrupted_if(lambda: True), pytest.raises(Interrupted):
        list(side_by_side(lambda _: running(), [1, 2], 2))


def test_a_text_has_the_same_explanation_in_company():
    alone = [explained(text, Watched()).to_dict() for text in TEXTS]
    together = explained(TEXTS, Watched())
    assert threading.get_ident() not in Watched.used
    for one, other in zip(alone, together, strict=True):
        assert {**one, "seconds": 0.0} == {**other.to_dict(), "seconds": 0.0}
        assert other.seconds > 0.0


def test_methods_of_others_stay_in_one_thread():
    assert len(explained(TEXTS, Watched(together=False))) == len(TEXTS)
    assert set(Watched.used) == {threading.get_ident()}


def test_the_first_error_is_that_of_the_first_text():
    def failing(context):
        raise InputError(f"{len(context.units)} parameters")

    sizes = [len(text.split()) for text in TEXTS]
    with pytest.raises(InputError, match=f"{sizes[2]} parameters"):
        explained(TEXTS, Watched(widest=sizes[1], instead=failing))
    assert [
        failure.number for failure in explained(TEXTS, Watched(widest=sizes[1], instead=failing), errors="keep").failures
    ] == [2, 3, 4]


def test_a_keyboard_interrupt_ends_the_work():
    pressed, ended = [], threading.Event()

    def endless(context):
        if not pressed:
            pressed.append(True)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        try:
            running()
        except Interrupted:
            ended.set()
            raise

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            explained(TEXTS, Watched(widest=0, instead=endless))
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.wait(30)
