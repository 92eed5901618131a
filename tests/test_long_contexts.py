"""Long contexts, from coarse to fine: language models whose answers to every subset of many sources are known by a rule."""

import io
import re
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from rich.console import Console

import slalom
from slalom.contexts import sources_of
from slalom.contexts.zoom import _parts
from slalom.errors import InputError
from slalom.models.continuation import LanguageModel
from slalom.render.page.content import content
from slalom.render.terminal import show
from tests.cases import cases

N, PLANTED = 150, (37, 112)
SOURCES = [f"s{i}" for i in range(N)]
EFFECTS = 0.1 * np.random.default_rng(0).normal(size=N) / np.sqrt(N)
ONE, TWO = "It is so.", "It is so. It is not."
RULES = {
    "single": lambda kept: PLANTED[0] in kept,
    "either": lambda kept: not kept.isdisjoint(PLANTED),
    "both": lambda kept: kept.issuperset(PLANTED),
    "none": lambda kept: False,
}


class Rule(LanguageModel):
    """Says every sentence of an answer with -8 nats, or with -2 where its rule holds; all sources have small effects."""

    name, chats = "rule", False

    def __init__(self, *rules, fails_after=None):
        self.rules, self.prompts, self.fails_after = rules, [], fails_after

    def tokens(self, answer, lead):
        ends = [i + 1 for i, letter in enumerate(answer) if letter == "."]
        return np.array([*zip([0, *ends], ends, strict=False)])

    def log_probs(self, prompts, answer, lead):
        if self.fails_after is not None and len(self.prompts) > self.fails_after:
            raise KeyboardInterrupt
        self.prompts += prompts
        kept = [{int(source[1:]) for source in prompt.split("\n\n")[1:] if source} for prompt in prompts]
        return np.array([[self.score(rule, numbers) for rule in self.rules] for numbers in kept])

    @staticmethod
    def score(rule, kept):
        return -2.0 - 6.0 * (not RULES[rule](kept)) + float(EFFECTS[list(kept)].sum())

    def generate(self, prompt, most):
        return ONE

    def identity(self):
        return "rule"


def explainer_of(model, context=SOURCES, **options):
    return slalom.ContextExplainer(model, context=context, template="{question}\n\n{context}", **options)


@cache
def explained(*rules, queries=None):
    model = Rule(*rules)
    explainer = explainer_of(model, queries=queries)
    return model, explainer, explainer("Which?", ONE if len(rules) == 1 else TWO)


def sources_in(e):
    """The sources of each unit."""
    ends = np.cumsum(e.sizes)
    return [range(end - size, end) for end, size in zip(ends.tolist(), e.sizes.tolist(), strict=True)]


@cases("rule, planted", [("single", PLANTED[:1]), ("either", PLANTED), ("both", PLANTED)])
def test_planted_sources_are_the_strongest_units(rule, planted):
    _, _, e = explained(rule)
    strongest = [sources_in(e)[i] for i in e.strongest(len(planted))]
    assert sorted(strongest, key=min) == [range(i, i + 1) for i in planted]
    share = 6.0 / len(planted)
    np.testing.assert_allclose(e.shapley()[e.strongest(len(planted))], share, atol=0.15 * share)
    assert len(e) < 2 * N / 3, "what does not matter stays in runs"


def test_units_are_a_partition_with_names_and_the_answers_are_those_of_the_model():
    _, explainer, e = explained("both")
    assert e.sizes.sum() == N
    assert e.unit == "document"
    for numbers, name, (start, stop) in zip(sources_in(e), e.units, e.spans.tolist(), strict=True):
        assert e.text[start:stop] == "\n\n".join(SOURCES[i] for i in numbers)
        assert name == (SOURCES[numbers[0]] if len(numbers) == 1 else f"documents {numbers[0] + 1} to {numbers[-1] + 1}")
    keep = np.random.default_rng(0).random((20, len(e))) < 0.7
    truth = [Rule.score("both", {i for i in np.flatnonzero(row) for i in sources_in(e)[i]}) for row in keep]
    np.testing.assert_allclose(explainer.ask(e, keep), truth)
    assert e.fidelity.far.r2 > 0.9
    asked = ~np.isnan(e.measured["removal"])
    alone = [Rule.score("both", set(range(N))) - Rule.score("both", set(range(N)) - set(numbers)) for numbers in sources_in(e)]
    np.testing.assert_allclose(e.measured["removal"][asked], np.array(alone)[asked], atol=1e-9)
    assert asked.sum() >= 10


@cases("queries, most", [(None, 256 + 25 + 12), (120, 120 + 20 + 12)])
def test_the_budget_is_kept_and_no_query_is_asked_twice(queries, most):
    model, _, e = explained("either", queries=queries)
    assert len(set(model.prompts[: e.queries])) == e.queries <= most
    fresh = explainer_of(model := Rule("either"), queries=queries)
    estimate = fresh.estimate("Which?", ONE)
    assert not model.prompts
    assert e.queries - 2 <= estimate.queries + estimate.further <= most


def test_the_same_seed_gives_the_same_explanation():
    plain = {"seconds", "versions"}
    _, _, e = explained("either", queries=120)
    again = explainer_of(Rule("either"), queries=120)("Which?", ONE)
    assert {k: v for k, v in again.to_dict().items() if k not in plain} == {
        k: v for k, v in e.to_dict().items() if k not in plain
    }


def test_after_an_interruption_only_the_rest_is_asked(tmp_path):
    _, _, e = explained("either", queries=120)
    first, second = Rule("either", fails_after=60), Rule("either")
    with pytest.raises(KeyboardInterrupt):
        explainer_of(first, queries=120, cache=tmp_path / "answers")("Which?", ONE)
    again = explainer_of(second, queries=120, cache=tmp_path / "answers")("Which?", ONE)
    assert 0 < len(second.prompts) < e.queries - 50
    assert len(first.prompts) + len(second.prompts) == e.queries
    np.testing.assert_array_equal(again.removal, e.removal)


def test_both_sentences_of_an_answer_are_searched_and_parts_ask_little_more():
    model, explainer, e = explained("single", "either", queries=160)
    single = {numbers[0] for numbers in sources_in(e) if len(numbers) == 1}
    assert single >= set(PLANTED)
    assert [sources_in(e)[i][0] for i in e.sentences[0].sources] == [PLANTED[0]]
    assert {sources_in(e)[i][0] for i in e.sentences[1].sources} == set(PLANTED)
    before = len(model.prompts)
    second = explainer("Which?", TWO, part=2)
    assert second.units == e.units
    assert len(model.prompts) - before <= 40, "the removals and pairs of its own strongest sources"


def test_a_context_that_does_not_matter_is_not_split():
    class Constant(Rule):
        def log_probs(self, prompts, answer, lead):
            return np.full((len(prompts), 1), -3.0)

    e = explainer_of(Constant("none"))("Which?", ONE)
    assert len(e) == 8
    assert not e.removal.any()
    _, _, e = explained("none", queries=120)
    np.testing.assert_allclose(e.removal, [EFFECTS[list(numbers)].sum() for numbers in sources_in(e)], atol=0.02)


def test_one_source_is_explained_as_ever():
    e = explainer_of(Rule("single"), ["s37"])("Which?", ONE)
    assert e.units == ("s37",)
    assert float(e.removal[0]) == pytest.approx(6.0 + EFFECTS[37])


def test_it_is_shown_saved_and_flipped(tmp_path):
    _, explainer, e = explained("either")
    e.save(tmp_path / "e.json")
    loaded = slalom.load(tmp_path / "e.json")
    assert (loaded.units, loaded.sizes.tolist()) == (e.units, e.sizes.tolist())
    flip = explainer.flip(loaded, threshold=-7.0)
    assert [sources_in(e)[i][0] for i in flip.units] == list(PLANTED)
    assert loaded.sentences[0].groups == (loaded.sentences[0].sources,)
    screen = Console(file=io.StringIO(), width=120)
    show(e, screen, 5)
    shown = screen.file.getvalue()
    assert "s37" in shown
    first = next(i for i, size in enumerate(e.sizes) if size > 1)
    assert f"[{e.units[first]}]" in shown
    assert all(f"s{i}\n" not in shown for i in sources_in(e)[first]), "runs are folded"
    page = e.to_html()
    assert "s112" in page


def test_words_are_reached_through_documents_and_sentences():
    documents = [" ".join(f"Word{i}a word{i}b here." for i in range(10 * k, 10 * k + 10)) for k in range(5)]
    sources = sources_of(documents, "word")
    words = [sources.text[a:b] for a, b in sources.spans.tolist()]
    assert len(words) == 200
    assert [level.tolist() for level in sources.levels] == [[0, 40, 80, 120, 160]] * 2 + [list(range(0, 200, 4))]

    class Reads(Rule):
        def log_probs(self, prompts, answer, lead):
            return np.array([[-1.0 if "word23b" in prompt else -5.0] for prompt in prompts])

    e = explainer_of(Reads("none"), documents, unit="word", queries=150)("Which?", ONE)
    assert e.unit == "word"
    assert e.units[e.strongest(1)[0]] == "word23b"


def test_parts_of_a_cell_are_those_of_the_text_or_balanced_runs_of_them():
    every = np.arange(1000)
    assert _parts(0, 1000, [np.array([0, 100, 300, 500, 900]), every]).tolist() == [0, 100, 300, 500, 900]
    assert _parts(300, 500, [np.array([0, 100, 300, 500, 900]), every]).tolist() == list(range(300, 500, 25))
    assert _parts(10, 13, [np.array([0]), every]).tolist() == [10, 11, 12]
    tens = np.arange(0, 1000, 10)
    parts = _parts(0, 1000, [np.array([0]), tens, every])
    assert np.isin(parts, tens).all()
    assert len(parts) == 8
    assert np.ptp(np.diff([*parts, 1000])) <= 20


def test_too_small_a_limit_is_an_error_before_any_query():
    model = Rule("single")
    with pytest.raises(InputError, match="this context needs 281 queries"):
        explainer_of(model, max_queries=200)("Which?", ONE)
    assert not model.prompts


@cases("seconds", [None, 0.001])
def test_steps_of_a_long_context_end_as_a_call_does(seconds):
    call, _, e = explained("single", "either", queries=90)
    steps = [*explainer_of(model := Rule("single", "either"), queries=90).steps("Which?", TWO, seconds=seconds)]
    assert [step.final for step in steps] == [False] * (len(steps) - 1) + [True]
    last, expected = (one.to_dict() | {"seconds": 0} for one in (steps[-1].explanation, e))
    for part in (*last["details"], *expected["details"]):
        del part["seconds"]
    assert last == expected
    assert sorted(model.prompts) == sorted(call.prompts)
    asked = [step.queries for step in steps]
    assert asked == sorted(asked)
    assert all(step.queries <= step.of == 90 + 20 for step in steps)
    assert asked[0] == 1
    lots = np.diff(asked)
    assert lots.max() <= 12 if seconds else lots.max() > 15  # at the end it asks about pairs at once


def test_a_call_after_steps_is_not_asked_in_turns():
    explainer = explainer_of(model := Rule("single"), SOURCES[:20])
    assert [*explainer.steps("Which?", ONE, seconds=1e-9)][-1].final
    explainer("Which?", ONE, seed=1)
    assert explainer._explainer("Which?", ONE)[0].engine.turn_seconds is None
    assert model.prompts


def test_rounds_of_a_long_context_explain_what_their_queries_are_about():
    steps = [step for step in explainer_of(Rule("single", "both")).steps("Which?", TWO) if step.explanation is not None]
    assert [step.round for step in steps] == [*range(1, len(steps) + 1)]
    rounds = [step.explanation for step in steps]
    assert [e.queries for e in rounds[:-1]] == [step.queries for step in steps[:-1]]
    assert len(rounds[0]) == 8
    for before, after in pairwise(rounds):
        assert set(np.cumsum(before.sizes)) <= set(np.cumsum(after.sizes)), "units are parts of those before"
    for e in rounds:
        assert e.sizes.sum() == N
        assert [s.text for s in e.sentences] == ["It is so.", "It is not."]
        holds = {i for i, numbers in enumerate(sources_in(e)) if not set(numbers).isdisjoint(PLANTED)}
        assert set(e.strongest(2)) == holds, "runs with the planted sources"
        assert e.score == pytest.approx(Rule.score("single", {*range(N)}) + Rule.score("both", {*range(N)}))


def test_sources_keep_their_numbers():
    _, _, e = explained("either")
    screen = Console(file=io.StringIO(), width=200)
    show(e, screen, 5)
    text = screen.file.getvalue()
    assert re.search(r"rests on: \[38\] or \[113\] \d", text)
    assert "[38] s37\n" in text
    assert re.search(r"^\[documents \d+ to \d+\]$", text, re.MULTILINE)
    shown = content(e)
    assert [f"[{number}]" in name for number, name, n in zip(shown["numbers"], shown["units"], e.sizes, strict=True)] == [
        n == 1 for n in e.sizes.tolist()
    ]
    assert [shown["numbers"][i] for i in shown["sentences"][0]["groups"][0][0]] == ["38", "113"]
