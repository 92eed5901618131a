"""Answers, sentence by sentence: sources that are known because a rule makes every log probability."""

import io
from functools import cache

import numpy as np
import pytest
from rich.console import Console

import slalom
from slalom.models.continuation import LanguageModel
from slalom.render.terminal import show

SOURCES = [
    "Ann is from Graz.",
    "Bob plays chess.",
    "Graz is where Ann was born.",
    "Bob met Cy in Rome.",
    "Cy sings.",
    "It rains.",
]
ANSWER = "Ann is from Graz. Bob met the singer Cy. Paris is in France."


def graz(kept):
    return -1.0 if {0, 2} & kept else -8.0  # either source


def singer(kept):
    return -2.0 if {3, 4} <= kept else -7.0  # both sources


def paris(kept):
    return -3.0 - 0.05 * len(kept)  # no source


RULES = (graz, singer, paris)


class Rules(LanguageModel):
    """Says each sentence of the answer with a log probability that a rule gives, spread over its words."""

    name, chats = "rules", False

    def __init__(self):
        self.asked = 0

    def tokens(self, answer, lead):
        ends = [i for i, character in enumerate(answer + " ") if character == " "]
        return np.array([[start, end] for start, end in zip([0, *(end + 1 for end in ends[:-1])], ends, strict=True)])

    def log_probs(self, prompts, answer, lead):
        self.asked += len(prompts)
        return np.array(
            [[p for rule, n in zip(RULES, (4, 5, 4), strict=True) for p in [self.score(q, rule) / n] * n] for q in prompts]
        )

    def score(self, prompt, rule):
        return rule({i for i, source in enumerate(SOURCES) if source in prompt})

    def generate(self, prompt, most):
        return ANSWER

    def identity(self):
        return "rules 1"


@cache
def explained():
    model = Rules()
    return model, slalom.ContextExplainer(model, context=SOURCES, queries=40)("What do you know?")


def test_each_sentence_has_the_sources_that_its_rule_names():
    _, e = explained()
    assert [s.text for s in e.sentences] == ["Ann is from Graz.", "Bob met the singer Cy.", "Paris is in France."]
    assert [e.answer.text[s.start : s.stop] for s in e.sentences] == [s.text for s in e.sentences]
    ann, bob, france = e.sentences
    assert set(ann.sources) == {0, 2}
    assert ann.groups == (ann.sources,)  # either of them
    assert set(bob.sources) == {3, 4}
    assert len(bob.groups) == 2  # both of them
    assert (france.sources, france.groups) == ((), ())
    assert [s.from_memory for s in e.sentences] == [False, False, True]


def test_numbers_of_a_sentence_are_those_of_its_rule():
    _, e = explained()
    whole = set(range(len(SOURCES)))
    for s, rule in zip(e.sentences, RULES, strict=True):
        assert s.score == pytest.approx(rule(whole))
        assert s.without == pytest.approx(rule(set()), abs=0.5)
        removed = [rule(whole) - rule(whole - {i}) for i in sorted(whole)]
        assert s.effects == pytest.approx(removed, abs=0.4)
        low, high = s.interval.T
        assert (low <= s.effects).all()
        assert (s.effects <= high).all()
        keep = [[1, 0, 0, 1, 1, 0], [0, 1, 0, 1, 0, 1]]
        asked = [rule({i for i, kept in enumerate(row) if kept}) for row in keep]
        assert s.predict(keep) == pytest.approx(asked, abs=1.0)
    assert sum(s.score for s in e.sentences) == pytest.approx(e.score)
    assert sum(s.tokens for s in e.sentences) == e.answer.tokens


def test_sentences_need_no_queries_of_their_own():
    model, e = explained()
    assert model.asked == e.queries


def test_a_saved_explanation_has_its_sentences(tmp_path):
    _, e = explained()
    e.save(tmp_path / "e.json")
    again = slalom.load(tmp_path / "e.json")
    for before, after in zip(e.sentences, again.sentences, strict=True):
        assert (before.text, before.sources, before.groups) == (after.text, after.sources, after.groups)
        assert np.array_equal(before.effects, after.effects)
        assert np.array_equal(before.interval, after.interval)
        assert str(before.fidelity) == str(after.fidelity)
    assert again.to_dict() == e.to_dict()


def test_a_part_and_an_answer_of_one_sentence_are_one_sentence():
    model = Rules()
    explainer = slalom.ContextExplainer(model, context=SOURCES, queries=40)
    part = explainer("What do you know?", ANSWER, part=2)
    assert [(s.text, set(s.sources)) for s in part.sentences] == [("Bob met the singer Cy.", {3, 4})]
    assert slalom.Explainer(lambda texts: [len(t) for t in texts], output="scores")("a b c").sentences == ()


def test_details_of_a_wrong_kind_are_refused(tmp_path):
    saved = explained()[1].to_dict()
    for wrong in ({}, [1], [{"values": "x"}]):
        with pytest.raises(slalom.errors.InputError, match="lacks a part or has one of a wrong kind"):
            slalom.Explanation.from_dict({**saved, "details": wrong})


def test_a_terminal_says_what_rests_on_nothing_as_a_sentence():
    screen = Console(file=io.StringIO(), width=200)
    show(slalom.ContextExplainer(Rules(), context=SOURCES, queries=40)("What do you know?", ANSWER, part=3), screen, 3)
    shown = screen.file.getvalue()
    assert "\nfrom the model's own memory\n" in shown
    assert "rests on" not in shown
