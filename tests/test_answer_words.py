"""The words of an answer: sources that are known because a table has the log probability of every token for every subset."""

import io
import pickle
import re
from functools import cache
from importlib.util import find_spec
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import slalom
from slalom.contexts import sources_of
from slalom.core.fitting.joint import Changes, fitted
from slalom.core.fitting.noise import Observed
from slalom.core.slalom import Slalom
from slalom.errors import InputError
from slalom.models.continuation import Continuation, LanguageModel
from slalom.models.sources import PLAIN, SourceTemplate
from slalom.render.terminal import show
from tests.cases import cases
from tests.models.tiny_lm import language_model, tokenizer

SOURCES = ["Ann is from Graz.", "Graz is where Ann was born.", "Bob met Cy in Rome.", "Cy has 21 cats.", "It rains."]
ANSWER = "Ann is from Graz. Bob met Cy, with 21 cats."
SUBSETS = np.array([[i in kept for i in range(5)] for k in range(6) for kept in combinations(range(5), k)])
TOKENS = (  # in order, each with its log probability for the sources that are kept
    ("Ann", lambda k: -3.0 + 2.5 * bool(k & {0, 1})),
    (" is", lambda k: -0.5),
    (" from", lambda k: -1.0),
    (" Gr", lambda k: -6.0 + 5.0 * bool(k & {0, 1})),
    ("az", lambda k: -0.2 - 0.1 * (4 in k)),
    (".", lambda k: -0.3),
    (" Bob", lambda k: -4.0 + 3.0 * (2 in k)),
    (" met", lambda k: -1.5),
    (" Cy", lambda k: -7.0 + 6.0 * (2 in k)),
    (", with", lambda k: -2.0),  # a token of two words: it belongs to the first that it reaches
    (" ", lambda k: -0.5),
    ("2", lambda k: -5.0 + 4.5 * (3 in k)),
    ("1", lambda k: -0.5 - 2.0 * (3 not in k)),
    (" cats", lambda k: -2.0 - 3.0 * (not {2, 3} <= k)),
    (".", lambda k: -0.1),
)
WORDS = {"Ann": (0, 1), "is": (1, 2), "from": (2, 3), "Graz.": (3, 6)}  # of the first sentence, and their tokens
WORDS |= {"Bob": (6, 7), "met": (7, 8), "Cy, with": (8, 10), "21": (10, 13), "cats.": (13, 15)}
RESTS = {"Ann": {0, 1}, "Graz.": {0, 1}, "Bob": {2}, "Cy, with": {2}, "21": {3}, "cats.": {2, 3}}


def says(word, kept):
    return sum(rule(set(kept)) for _, rule in TOKENS[slice(*WORDS[word])])


class Table(LanguageModel):
    """Gives every token of the answer the log probability of the table."""

    name, chats = "table", False

    def __init__(self, cuts=None):
        self.asked, self.cuts = 0, np.cumsum([0, *(len(token) for token, _ in TOKENS)]) if cuts is None else cuts

    def tokens(self, answer, lead):
        return np.stack([self.cuts[:-1], self.cuts[1:]], axis=1)

    def log_probs(self, prompts, answer, lead):
        self.asked += len(prompts)
        kept = [{i for i, source in enumerate(SOURCES) if source in prompt} for prompt in prompts]
        return np.array([[rule(k) for _, rule in TOKENS] for k in kept])

    def generate(self, prompt, most):
        return ANSWER

    def identity(self):
        return "table"


@cache
def explained(**options):
    model = Table()
    options = {"words": True, **options}
    return model, slalom.ContextExplainer(model, context=SOURCES, **options)("Who?", queries=24, seed=0)


def test_each_word_has_the_sources_that_its_tokens_name():
    _, e = explained()
    words = [word for s in e.sentences for word in s.words]
    assert [word.text for word in words] == list(WORDS)
    assert [e.answer.text[word.start : word.stop] for word in words] == list(WORDS)
    assert {word.text: set(word.sources) for word in words if word.sources} == RESTS
    groups = {word.text: len(word.groups) for word in words}
    assert (groups["Graz."], groups["cats."]) == (1, 2)  # either of two sources; both of them
    assert [[word.text for word in s.words] for s in e.sentences] == [list(WORDS)[:4], list(WORDS)[4:]]


def test_numbers_of_a_word_are_those_of_the_table():
    _, e = explained()
    for word in (word for s in e.sentences for word in s.words):
        truth = np.array([says(word.text, np.flatnonzero(row)) for row in SUBSETS])
        assert word.score == pytest.approx(says(word.text, range(5)))
        removed = np.array([word.score - says(word.text, set(range(5)) - {i}) for i in range(5)])
        assert word.effects == pytest.approx(removed, abs=1e-5)  # all removals were asked
        assert (word.interval is None) == (np.ptp(truth) == 0.0)  # a constant has no errors
        if word.interval is not None:
            assert ((word.interval[:, 0] <= removed + 1e-4) & (removed <= word.interval[:, 1] + 1e-4)).all()
        wrong = word.predict(SUBSETS) - truth
        far = 0.12 if word.text == "cats." else 0.001  # the competition is that of the sentence, where sources add up
        assert (wrong**2).mean() <= far * max(truth.var(), 0.05), word.text
        assert word.without == pytest.approx(says(word.text, ()), abs=0.7)


def test_words_add_up_to_their_sentence():
    _, e = explained()
    for s in e.sentences:
        assert sum(word.score for word in s.words) == pytest.approx(s.score, abs=1e-12)
        assert sum(word.tokens for word in s.words) == s.tokens
        together = np.sum([word.predict(SUBSETS) for word in s.words], axis=0)
        assert ((together - s.predict(SUBSETS)) ** 2).mean() < 0.01 * s.predict(SUBSETS).var()


@pytest.mark.skipif(find_spec("icu4py") is None, reason="words of Chinese need icu4py")
@given(
    st.sets(st.integers(1, 60)), st.sampled_from(["Ann  is (or was)\n\nfrom Graz. “Bob” met 3.5 Cys! 电影不。错", "a.", ANSWER])
)
def test_every_token_of_a_sentence_belongs_to_one_word(cuts, answer):
    cuts = np.array([0, *sorted(cut for cut in cuts if cut < len(answer)), len(answer)])
    sources = sources_of(SOURCES)
    model = Continuation(Table(cuts=cuts), sources, SourceTemplate(PLAIN), "Who?", answer)
    for number, (start, stop) in enumerate(slalom.text.sentences(answer).tolist(), 1):
        model.select(start, stop, f"sentence {number}")
    for label, names in model.select_words().items():
        sentence, words = model.parts[label], [model.parts[word] for word in names]
        assert (sum(word.tokens.astype(int) for word in words) == sentence.tokens).all()
        assert all(
            word.tokens.any() and answer[word.start : word.stop].strip() == answer[word.start : word.stop] for word in words
        )
        assert [sentence.start, sentence.stop] == [words[0].start, words[-1].stop]
        gaps = [answer[a.stop : b.start] for a, b in pairwise(words)]
        assert not "".join(gaps).strip()
    if len(cuts) == len(answer) + 1:  # a token per character
        texts = [answer[part.start : part.stop] for name, part in model.parts.items() if name.startswith("word")]
        assert " ".join(texts).split() == " ".join(texts).replace("电影不。错", "电影 不。 错").split()


@pytest.mark.parametrize("kind", ["gpt2", "llama", "merging"])
def test_scores_of_words_are_sums_of_what_a_language_model_says(kind):
    tokens = tokenizer(kind)
    answer = "a good film in 1984,  the plot (it was) thin. the film was good!"
    explainer = slalom.ContextExplainer(language_model("llama", len(tokens)), tokens, ["A good film."], words=True)
    e = explainer("Was it good?", answer)
    lm, prompt = explainer.language_model, "A good film.\n\nQuestion: Was it good?\nAnswer:"
    logs, spans = lm.log_probs([prompt], answer, " ")[0], lm.tokens(answer, " ")
    words = [word for s in e.sentences for word in s.words]
    assert len(words) > 4
    for s in e.sentences:
        inside = logs[(spans[:, 0] < s.stop) & (np.maximum(spans[:, 1], spans[:, 0] + 1) > s.start)]
        parts = np.split(inside, np.cumsum([word.tokens for word in s.words]))
        assert [word.score for word in s.words] == pytest.approx([part.sum() for part in parts[:-1]], abs=1e-4)
        assert not len(parts[-1])
    if kind != "merging":
        assert [word.text for word in words] == answer.split()


def test_words_need_no_queries_and_are_left_out_by_default():
    model, e = explained()
    assert model.asked == e.queries
    plain = slalom.context(Table(), context=SOURCES, question="Who?", queries=24, seed=0)
    assert [s.words for s in plain.sentences] == [(), ()]
    for with_words, without in zip((e, *(s.explanation for s in e.sentences)), (plain, *plain.details), strict=True):
        assert np.array_equal(with_words.predict(SUBSETS), without.predict(SUBSETS))


def test_a_part_and_an_answer_of_one_sentence_have_words():
    explainer = slalom.ContextExplainer(Table(), context=SOURCES, words=True)
    (part,) = explainer("Who?", ANSWER, part=2, queries=24).sentences
    assert [word.text for word in part.words] == list(WORDS)[4:]
    one = slalom.context(Table(), context=SOURCES, question="Who?", answer=ANSWER.replace(". B", "; B"), queries=24, words=True)
    (sentence,) = one.sentences
    assert {word.text.replace(";", "."): set(word.sources) for word in sentence.words if word.sources} == RESTS
    assert sum(word.score for word in sentence.words) == pytest.approx(one.score)


def test_words_of_another_method_are_fitted_on_their_own():
    _, e = explained(method="leave-one-out")
    for s in e.sentences:
        assert sum(word.effects for word in s.words) == pytest.approx(s.effects)


def test_a_word_can_have_a_fit_of_its_own():
    model = Table()
    explainer = slalom.ContextExplainer(model, context=SOURCES, words=True)
    cats = explainer("Who?", queries=24, seed=0).sentences[1].words[-1]
    asked = model.asked
    own = explainer("Who?", queries=24, seed=0, part=cats.explanation.target)
    assert (own.answer.part, own.score, model.asked) == ("cats.", cats.score, asked)
    truth = np.array([says("cats.", np.flatnonzero(row)) for row in SUBSETS])
    assert ((own.predict(SUBSETS) - truth) ** 2).mean() < 0.01 * ((cats.predict(SUBSETS) - truth) ** 2).mean()


def test_a_word_is_asked_about_by_its_tokens_though_an_explainer_has_no_words():
    _, e = explained()
    plain = slalom.ContextExplainer(Table(), context=SOURCES)
    for word in (word for s in e.sentences for word in s.words):  # "21" has a token of white space before it
        truth = [says(word.text, np.flatnonzero(row)) for row in SUBSETS]
        assert plain.ask(word.explanation, SUBSETS) == pytest.approx(truth)
    assert not any(s.words for s in plain("Who?", queries=24).sentences)


def test_the_first_part_of_one_sentence_is_the_answer():
    explainer = slalom.ContextExplainer(Table(), context=SOURCES, words=True)
    e = explainer("Who?", ANSWER.replace(". B", "; B"), part=1, queries=24)
    assert (e.target, len(e.sentences[0].words)) == ("answer", 9)


@cases(
    "answer",
    [
        'שלום (עולם) "טוב" בן-אדם.',
        "مرحبا (بالعالم)، كيف؟",
        "नमस्ते (दुनिया) है।",
        "한국어 (서울) 입니다",
        "ok (👩‍👩‍👧) 🇦🇹 e\u0301!",
    ],
)
def test_words_of_scripts_with_spaces_stand_between_these(answer):
    model = Continuation(Table(np.arange(len(answer) + 1)), sources_of(SOURCES), SourceTemplate(PLAIN), "Who?", answer)
    words = [model.parts[label] for label in model.select_words()["answer"]]
    assert [answer[word.start : word.stop] for word in words] == answer.split()


def test_an_explanation_with_words_can_be_copied():
    _, e = explained()
    assert pickle.loads(pickle.dumps(e)).to_dict() == e.to_dict()


def test_a_saved_explanation_has_its_words(tmp_path):
    for _, e in (explained(), explained(method="leave-one-out")):
        e.save(tmp_path / "e.json")
        again = slalom.load(tmp_path / "e.json")
        assert again.to_dict() == e.to_dict()
        for before, after in zip(e.sentences, again.sentences, strict=True):
            assert [(w.text, w.groups, w.score) for w in before.words] == [(w.text, w.groups, w.score) for w in after.words]
            for word, read in zip(before.words, after.words, strict=True):
                assert np.array_equal(word.predict(SUBSETS), read.predict(SUBSETS))
                assert np.array_equal(word.interval, read.interval) if word.interval is not None else read.interval is None
    part = explained()[1].sentences[1].explanation
    assert [w.text for w in slalom.Explanation.from_dict(part.to_dict()).sentences[0].words] == list(WORDS)[4:]


def test_words_of_a_wrong_kind_are_refused():
    saved = explained()[1].sentences[0].explanation.to_dict()
    for wrong in ({}, [1], [{"values": "x"}], [{"answer": None}]):
        with pytest.raises(InputError, match="lacks a part or has one of a wrong kind"):
            slalom.Explanation.from_dict({**saved, "words": wrong})


def test_samples_have_no_words():
    with pytest.raises(InputError, match="words= needs log probabilities"):
        slalom.ContextExplainer(Table(), context=SOURCES, mode="sample", words=True)


def test_a_terminal_shows_the_words_that_have_sources():
    screen = Console(file=io.StringIO(), width=200)
    show(explained()[1], screen, 3)
    shown = screen.file.getvalue()
    assert re.search(r"\n    Ann ← \[1\] or \[2\] 2\.\d\d; Graz\. ← \[1\] or \[2\] [45]\.\d\d\n", shown)
    assert re.search(r"\n    Bob ← \[3\] 3\.00; Cy, with ← \[3\] 6\.00; 21 ← \[4\] 6\.50; cats\. ← ", shown)


def test_fits_of_parts_are_linear():
    rng = np.random.default_rng(0)
    keep = rng.random((40, 5)) < 0.6
    truth = Slalom(rng.normal(size=5), rng.normal(size=5), competition=0.6)
    scores, profile = truth(keep.astype(float)) + 0.1 * rng.normal(size=40), np.ones(40)
    found = fitted(keep.astype(float), Observed(scores), profile)
    share = rng.normal(size=40) + scores
    first, second, whole = (found.part(part) for part in (share, scores - share, scores))
    rows = SUBSETS.astype(float)
    assert first.model(rows) + second.model(rows) == pytest.approx(whole.model(rows), abs=1e-9)
    assert found.part(2.0 * share + 3.0).model(rows) == pytest.approx(2.0 * first.model(rows) + 3.0, abs=1e-9)
    values = Changes.of_values(5)
    assert found.part(2.0 * share + 3.0).errors(values) == pytest.approx(2.0 * first.errors(values))
    # ridge: b and u minimise |y - b - X u|^2 / noise + |u|^2 / var_u + b^2 / var_b, of centred y
    search, (s, kappa) = found._search, (found.model.importances, found.model.competition)
    x = np.column_stack([*(Slalom(one, s, kappa)(keep.astype(float)) for one in np.eye(5)), np.ones(40)])
    prior = search.prior[[0, 1, 2, 3, 4, 10]]
    y = share - share.mean()
    solved = np.linalg.solve(x.T @ (x / search.noise[:, None]) + np.diag(1.0 / prior), x.T @ (y / search.noise))
    assert first.model.values == pytest.approx(solved[:5], rel=1e-6)
    assert first.model.bias == pytest.approx(solved[5] + share.mean(), rel=1e-6)
