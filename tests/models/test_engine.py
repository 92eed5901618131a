"""The engine asks everything once, in batches of one length, and loses nothing."""

import copy
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

from slalom.errors import InputError, ModelError
from slalom.interrupt import Interrupted, interrupted_if
from slalom.models import Engine, Function, Head, InputGroup, Model, Queries, Reading, StringReading
from slalom.text import words
from tests.cases import cases
from tests.oracle import Failing, Oracle
from tests.waiting import DEADLINE, until


class Atoms(Reading):
    """A text whose atoms are numbers; an input is the row of numbers that are kept."""

    def __init__(self, numbers):
        self.numbers = np.array(numbers)
        self.names = tuple(map(str, numbers))

    def groups(self, keep):
        groups = []
        for length in np.unique(keep.sum(axis=1)):
            rows = np.flatnonzero(keep.sum(axis=1) == length)
            inputs = np.array([self.numbers[keep[r]] for r in rows]).reshape(len(rows), length)
            groups.append(InputGroup(rows, int(length), lambda i=inputs: (i, [one.tobytes() for one in i])))
        return groups


class Summing(Model):
    """Answers with the sum and the length of an input; at most `room` numbers fit into its memory."""

    name, tokenized = "Summing", True
    head = Head("classes", ("sum", "length"))

    def __init__(self, budget=64, room=10**9):
        self.budget, self.room = budget, room
        self.batches, self.sessions, self.who = [], 0, "summing"

    def read(self, text, long, spans):
        raise NotImplementedError

    def identity(self):
        return self.who

    @contextmanager
    def session(self):
        self.sessions += 1
        yield

    def batch_rows(self, length):
        return max(self.budget // max(length, 1), 1)

    def shrink(self):
        self.budget //= 2

    def submit(self, inputs):
        if inputs.size > self.room:
            raise MemoryError("too much")
        self.batches.append(inputs)
        return inputs

    def collect(self, handle):
        return np.stack([handle.sum(axis=1), np.full(len(handle), handle.shape[1])], axis=1)


def subsets(n, m, seed=0):
    return np.random.default_rng(seed).random((m, n)) < 0.5


def expected(reading, keep):
    return np.stack([keep @ reading.numbers, keep.sum(axis=1)], axis=1)


def test_answers_are_those_of_the_model_in_the_order_of_the_questions():
    model, a, b = Summing(), Atoms([3, 1, 4, 1, 5]), Atoms([9, 2, 6])
    keeps = subsets(5, 40), subsets(3, 9)
    found = Engine(model)([Queries(a, keeps[0]), Queries(b, keeps[1])])
    assert (found[0].outputs == expected(a, keeps[0])).all()
    assert (found[1].outputs == expected(b, keeps[1])).all()
    assert model.sessions == 1


def test_duplicates_are_asked_once_across_texts_and_calls():
    model, engine = Summing(), None
    engine = Engine(model)
    a, b = Atoms([3, 1, 4]), Atoms([4, 3, 1])
    keep = np.array([[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]], dtype=bool)
    found = engine([Queries(a, keep), Queries(b, keep)])
    assert engine.cost.inputs == 3  # [3], [1], [4]
    assert len(found[0].lengths) == len(found[1].lengths) == 3
    assert (found[1].outputs == expected(b, keep)).all()
    engine([Queries(a, keep[::-1])])
    assert engine.cost.inputs == 3
    assert engine.cost.tokens == 3


def test_batches_have_one_length_and_stay_within_the_budget():
    model, reading, keep = Summing(budget=24), Atoms(list(range(10, 22))), subsets(12, 200)
    Engine(model)([Queries(reading, keep)])
    assert all(batch.size <= 24 for batch in model.batches)
    lengths = [batch.shape[1] for batch in model.batches]
    order = list(dict.fromkeys(lengths))
    assert lengths == sorted(lengths, key=order.index), "one length after the other"
    work = [length * np.count_nonzero(keep.sum(axis=1) == length) for length in order]
    assert work == sorted(work, reverse=True), "what takes longest comes first"
    for length in set(lengths):
        sizes = [len(b) for b in model.batches if b.shape[1] == length]
        assert all(size == 24 // max(length, 1) for size in sizes[:-1]), "only the last batch of a length may be smaller"


def test_running_out_of_memory_halves_the_batches_and_goes_on():
    model, reading = Summing(budget=1000, room=30), Atoms(list(range(10, 22)))
    keep = subsets(12, 200)
    found = Engine(model)([Queries(reading, keep)])
    assert (found[0].outputs == expected(reading, keep)).all()
    assert max(batch.size for batch in model.batches) <= 30


@pytest.mark.parametrize("limit", [1, 3, 50])
def test_so_many_batches_are_submitted_before_the_first_is_collected(limit, monkeypatch):
    model, reading, keep = Summing(budget=24), Atoms(list(range(10, 22))), subsets(12, 200)
    open_, most = 0, 0
    monkeypatch.setattr(Summing, "max_in_flight", limit)
    submit, collect = model.submit, model.collect

    def begun(inputs):
        nonlocal open_, most
        open_ += 1
        most = max(most, open_)
        return submit(inputs)

    def collected(handle):
        nonlocal open_
        open_ -= 1
        return collect(handle)

    model.submit, model.collect = begun, collected
    found = Engine(model)([Queries(reading, keep)])
    assert (found[0].outputs == expected(reading, keep)).all()
    assert (open_, most) == (0, min(limit, len(model.batches)))


def test_whichever_batch_is_ready_first_is_collected_first(monkeypatch):
    model, reading, keep = Summing(budget=24), Atoms(list(range(10, 22))), subsets(12, 200)
    monkeypatch.setattr(Summing, "max_in_flight", 4)
    collected = []
    collect = model.collect
    model.wait = lambda handles: len(handles) - 1  # the newest is always the first to be ready
    model.collect = lambda handle: collected.append(handle) or collect(handle)
    found = Engine(model)([Queries(reading, keep)])
    assert (found[0].outputs == expected(reading, keep)).all()
    order = [next(i for i, batch in enumerate(model.batches) if batch is handle) for handle in collected]
    assert sorted(order) == list(range(len(model.batches)))
    assert order[:4] == [3, 4, 5, 6], "three stay in flight while newer ones come and go"
    assert order[-3:] == [2, 1, 0]


def test_after_an_error_what_is_in_flight_is_cancelled_and_collected(monkeypatch):
    model, reading, keep = Summing(budget=24), Atoms(list(range(10, 22))), subsets(12, 200)
    monkeypatch.setattr(Summing, "max_in_flight", 4)
    told, collect = [], model.collect

    def fails(handle):
        if "cancel" not in told and len(model.batches) == 6:
            raise ModelError("no")
        told.append("collected")
        return collect(handle)

    model.collect = fails
    model.cancel = lambda _: told.append("cancel")
    engine = Engine(model)
    with pytest.raises(ModelError, match="no"):
        engine([Queries(reading, keep)])
    assert told[-6:] == ["cancel"] * 3 + ["collected"] * 3


def test_an_input_that_does_not_fit_alone_is_reported():
    with pytest.raises(ModelError, match="one input of 12 tokens does not fit into the memory of Summing"):
        Engine(Summing(room=5))([Queries(Atoms(list(range(12))), np.ones((1, 12), dtype=bool))])


def test_a_changed_model_is_asked_again():
    model = Summing()
    engine, question = Engine(model), Queries(Atoms([1, 2]), np.ones((1, 2), dtype=bool))
    engine([question])
    model.who = "another"
    engine([question])
    assert engine.cost.inputs == 2


@cases("changed", [False, True])
def test_a_fresh_memory_knows_nothing_and_the_old_one_comes_back(changed):
    model, reading, keep = Summing(), Atoms(range(6)), subsets(6, 20)
    engine = Engine(model, progress=False)
    engine([Queries(reading, keep)])
    asked = engine.cost.inputs
    with engine.fresh():
        model.who = "another" if changed else model.who
        engine([Queries(reading, keep)])
    assert engine.cost.inputs == 2 * asked
    engine([Queries(reading, keep)])
    assert engine.cost.inputs == (3 if changed else 2) * asked


class Costly(Summing):
    """Counts how often its identity is asked for, which may raise an error."""

    costly_identity = True

    def __init__(self, error=None):
        super().__init__()
        self.error, self.identities = error, 0

    def identity(self):
        self.identities += 1
        if self.error is not None:
            raise self.error
        return self.who


def test_a_costly_identity_is_asked_for_only_where_a_file_needs_it(tmp_path):
    one = Queries(Atoms([1, 2]), np.ones((1, 2), dtype=bool))
    model = Costly()
    engine = Engine(model)
    engine([one])
    engine([one])
    assert (engine.identify(), engine.model_id, engine.cost.inputs) == (None, None, 2), "as for a nameless model"
    named = Engine(model, identity="mine")
    named([one])
    named([one])
    assert named.cost.inputs == 1
    assert "mine" in named.model_id
    Engine(model, tmp_path / "given.sqlite", identity="mine")([one])
    assert model.identities == 0
    kept = Engine(model, tmp_path / "own.sqlite")
    kept([one])
    assert "summing" in kept.model_id
    model.who = "another"
    kept([one])
    assert kept.cost.inputs == 2, "a changed model is asked again"


@pytest.mark.parametrize("costly", [True, False])
def test_an_identity_that_fails_matters_only_to_a_file_and_can_be_given(tmp_path, costly):
    one = Queries(Atoms([1, 2]), np.ones((1, 2), dtype=bool))
    model = Costly(TypeError("cannot pickle\na generator"))
    model.costly_identity = costly
    said = r"the identity of Summing could not be computed \(TypeError: cannot pickle a generator\); pass identity="
    with pytest.raises(InputError, match=said):
        Engine(model, tmp_path / "answers.sqlite")
    Engine(model)([one])
    Engine(model, tmp_path / "answers.sqlite", identity="mine")([one])
    again = Engine(model, tmp_path / "answers.sqlite", identity="mine")
    again([one])
    assert again.cost.inputs == 0


TEXT = "a good film with a bad end"


def question(m=60):
    return Queries(StringReading(TEXT, words(TEXT), True), subsets(7, m, seed=3))


def oracle():
    return Oracle({"good": 3.0, "bad": -4.0}, {"good": 1.0, "bad": 0.5}, bias=0.2)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("network down")])
def test_an_interruption_loses_nothing(tmp_path, error):
    asked = oracle()
    failing = Failing(asked, after=22, error=error)
    engine = Engine(Function(failing, "log_odds", batch_size=10), cache=tmp_path / "answers.sqlite", identity="oracle")
    with pytest.raises((KeyboardInterrupt, ModelError)):
        engine([question()])
    failing.after = 10**9
    before = len(asked.received)
    assert before == 22  # Function's own two questions, two batches of ten
    for run in (engine, Engine(Function(oracle(), "log_odds"), cache=tmp_path / "answers.sqlite", identity="oracle")):
        found = run([question()])[0]
        fresh = Engine(Function(oracle(), "log_odds"))([question()])[0]
        assert (found.outputs == fresh.outputs).all()
        assert found.lengths == fresh.lengths
    assert len(asked.received[2:]) == len(set(asked.received[2:])), "nothing is asked twice"


def test_ctrl_c_while_an_answer_is_read_keeps_it():
    """It comes after the answer and before it is stored: the answer is read again, not lost."""

    class Interrupted(Summing):
        left = 1

        def collect(self, handle):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
            return super().collect(handle)

    engine = Engine(Interrupted())
    with pytest.raises(KeyboardInterrupt):
        engine([Queries(Atoms([1, 2, 3]), subsets(3, 8))])
    computed = engine.cost.inputs
    assert computed > 0
    (found,) = engine([Queries(Atoms([1, 2, 3]), subsets(3, 8))])
    assert engine.cost.inputs == len(found.lengths), "nothing is computed twice"


def test_the_file_answers_in_the_next_process(tmp_path):
    file, first, second = tmp_path / "answers.sqlite", oracle(), oracle()
    one = Engine(Function(first, "log_odds"), cache=file, identity="oracle")([question()])[0]
    engine = Engine(Function(second, "log_odds"), cache=file, identity="oracle")
    two = engine([question()])[0]
    assert (one.outputs == two.outputs).all()
    assert engine.cost.inputs == 0
    assert second.received == ["a", ""], "only what Function asks to know what it has"
    other = Engine(Function(oracle(), "log_odds"), cache=file, identity="another")
    other([question()])
    assert other.cost.inputs == len(one.lengths)
    with sqlite3.connect(file) as base:
        assert base.execute("SELECT count(DISTINCT model) FROM answers").fetchone() == (2,)


def test_a_cache_needs_a_name_for_the_model(tmp_path):
    with pytest.raises(InputError, match="pass identity="):
        Engine(Function(oracle(), "log_odds"), cache=tmp_path / "answers.sqlite")


def test_progress_is_shown_when_asked_for_and_only_then(capsys):
    for progress, shown in ((True, True), (False, False), (None, False)):
        Engine(Summing(), progress=progress)([Queries(Atoms([1, 2, 3]), subsets(3, 8))])
        assert ("asking" in capsys.readouterr().err) in (shown, False)


def test_answers_of_another_form_or_width_are_not_taken(tmp_path):
    file = tmp_path / "answers.sqlite"

    def two(texts):
        return [[0.2, 0.8] if "good" in text else [0.5, 0.5] for text in texts]

    given = [
        Engine(Function(f, output), cache=file, identity="same")([question()])[0].outputs
        for f, output in ((oracle(), "log_odds"), (two, "logits"), (two, "probabilities"))
    ]
    fresh = [
        Engine(Function(f, output))([question()])[0].outputs
        for f, output in ((oracle(), "log_odds"), (two, "logits"), (two, "probabilities"))
    ]
    assert all((a == b).all() for a, b in zip(given, fresh, strict=True))


def test_threads_may_share_an_engine():
    texts = [f"a good film number{i} with a bad end and more words" for i in range(12)]
    asked = [Queries(StringReading(t, words(t), True), subsets(10, 40, seed=i)) for i, t in enumerate(texts)]
    for identity in (None, "oracle"):
        engine = Engine(Function(oracle(), "log_odds"), identity=identity, progress=False)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda q: engine([q])[0].outputs, asked))  # noqa: B023
        alone = [Engine(Function(oracle(), "log_odds"))([q])[0].outputs for q in asked]
        assert all((a == b).all() for a, b in zip(found, alone, strict=True))
        assert copy.deepcopy(engine)([asked[0]])[0].lengths == engine([asked[0]])[0].lengths


def test_turns_change_no_answer_and_let_others_in():
    """A call in turns gives the bits of a whole one; a thread that asks meanwhile is answered after one turn."""
    texts = [f"a good film number{i} with a bad end and more words" for i in range(3)]
    asked = [Queries(StringReading(t, words(t), True), subsets(10, 60, seed=i)) for i, t in enumerate(texts)]
    whole = Engine(Function(oracle(), "log_odds"))(asked)
    began, waiting, order = threading.Event(), threading.Event(), []

    def model(received):
        if engine is not None:  # beyond the text that tells the shape of its answers
            order.extend(received)
            began.set()
            assert waiting.wait(DEADLINE)
        return oracle()(received)

    engine = None
    engine = Engine(Function(model, "log_odds"), progress=False)
    engine.turn_seconds = 1e-9
    with ThreadPoolExecutor(2) as pool:
        long = pool.submit(engine, asked)
        assert began.wait(DEADLINE)
        short = pool.submit(engine, [Queries(StringReading("other", words("other"), True), np.ones((1, 1), dtype=bool))])
        until(lambda: len(engine.lock._threads) == 2)
        waiting.set()
        short.result()
        found = long.result()
    assert 8 <= order.index("other") < 16, "after the first turn"
    for one, other in zip(whole, found, strict=True):
        assert one.outputs.tobytes() == other.outputs.tobytes()
        assert one.lengths == other.lengths
    empty = [Queries(asked[0].reading, asked[0].keep[:0]), asked[1]]
    assert [answer.outputs.shape[0] for answer in engine(empty)] == [0, 60]
    assert engine([]) == []


def test_a_cancelled_call_ends_at_its_next_turn():
    text, cancelled, received = "a good film with a bad end and more words", threading.Event(), []

    def model(texts):
        received.extend(texts)
        cancelled.set()
        return oracle()(texts)

    engine = Engine(Function(model, "log_odds"), progress=False)
    engine.turn_seconds = 1e-9
    received.clear()
    cancelled.clear()
    with interrupted_if(cancelled.is_set), pytest.raises(Interrupted):
        engine([Queries(StringReading(text, words(text), True), subsets(9, 100))])
    assert 0 < len(received) <= 8
