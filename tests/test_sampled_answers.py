"""Answers without log probabilities: language models whose samples have known probabilities, real ones, and servers."""

import copy
import io
import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console
from scipy.special import expit

import slalom
from slalom.errors import InputError, ModelError
from slalom.models.continuation import LanguageModel
from slalom.models.huggingface.causal import LocalLanguageModel
from slalom.models.judges import judge_of
from slalom.render.terminal import show
from tests.cases import cases
from tests.models.tiny_lm import language_model, tokenizer

NAMES = [f"word{i}x" for i in range(8)]
SOURCES = [f"This is {name}." for name in NAMES]
OTHER = "Nobody knows."


class Known(LanguageModel):
    """Says each sentence of an answer with a known probability: its log odds are a function of the sources that are kept.

    As a judge it compares the answers that it is asked about.
    """

    name, chats = "known", False

    def __init__(self, *log_odds, said=("It is so.", "They say it."), seed=0):
        self.log_odds, self.said, self.asked = log_odds, said, 0
        self.rng = np.random.default_rng(seed)

    def sample(self, prompts, most, count, temperature=1.0, seed=0):
        self.asked += len(prompts) * count
        if "Verdict:" in prompts[0]:
            pairs = [[line[10:] for line in prompt.splitlines() if line.startswith("Answer ")] for prompt in prompts]
            return [["Yes, it does" if said in sample else "no"] for said, sample in pairs]
        return [[self.one(prompt) for _ in range(count)] for prompt in prompts]

    def one(self, prompt):
        keep = np.array([name in prompt for name in NAMES], dtype=float)
        says = [self.rng.random() < expit(log_odds(keep)) for log_odds in self.log_odds]
        return " ".join(said if yes else OTHER for yes, said in zip(says, self.said, strict=False))

    def generate(self, prompt, most):
        return " ".join(self.said[: len(self.log_odds)])

    def identity(self):
        return "known"


def one_source(keep):
    return -1.5 + 3.0 * keep[5]


def explain(lm, answer=None, **options):
    explainer = slalom.ContextExplainer(lm, context=SOURCES, mode="sample", progress=False, **options)
    return explainer, explainer("why?", answer)


def test_the_source_of_a_sampled_answer_is_found():
    lm = Known(one_source)
    explainer, e = explain(lm, samples=16)
    assert e.strongest(1) == [5]
    assert e.removal == pytest.approx([0, 0, 0, 0, 0, 3, 0, 0], abs=0.8)
    assert (e.scale, e.target, e.answer.text, e.answer.generated) == ("log odds", "answer", "It is so.", True)
    assert lm.asked == 16 * e.queries
    assert e.figures["samples per query"] == 16
    hits = round(17 * expit(e.score) + expit(e.score) - 1)  # log((k + 1) / (m - k + 1))
    assert f"With all sources {hits} of 16 samples agree with the answer." in e.notes
    (asked,) = explainer.ask(e, np.eye(8)[5:6])
    assert asked == pytest.approx(1.5, abs=1.5)
    screen = Console(file=io.StringIO(), width=120)
    show(e, screen, 3)
    assert "log odds of answer: " in screen.file.getvalue()
    assert slalom.Explanation.from_dict(json.loads(e.to_json())).to_dict() == e.to_dict()


def test_intervals_hold_the_true_log_odds():
    held, errors = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        effects = np.zeros(8)
        effects[rng.permutation(8)[:3]] = rng.normal(0.0, 1.5, 3)
        level, together = rng.normal(0.0, 0.7) - effects.sum() / 2, -0.8 * (seed % 2)
        first, second = np.argsort(-np.abs(effects))[:2]

        def log_odds(keep, effects=effects, level=level, together=together, pair=(first, second)):
            return level + keep @ effects + together * keep[pair[0]] * keep[pair[1]]

        e = explain(Known(log_odds, seed=seed), pairs=False)[1]
        whole = np.ones(8)
        true = log_odds(whole) - np.array([log_odds(row) for row in 1 - np.eye(8)])
        interval = e.interval("removal")
        held += ((interval[:, 0] <= true) & (true <= interval[:, 1])).tolist()
        errors += (e.removal - true).tolist()
    assert 0.92 <= np.mean(held) <= 0.995
    assert np.sqrt(np.mean(np.square(errors))) < 0.4


def test_sentences_are_explained_from_the_same_samples():
    lm = Known(one_source, lambda keep: -1.5 + 3.0 * keep[2])
    explainer, e = explain(lm, samples=16)
    first, second = e.sentences
    assert (first.text, second.text) == ("It is so.", "They say it.")
    assert (first.sources, second.sources) == ((5,), (2,))
    assert sorted(e.strongest(2)) == [2, 5], "the whole answer agrees where both sentences do"
    asked = lm.asked
    again = explainer("why?", part=2)
    assert again.removal == pytest.approx(second.effects)
    assert lm.asked == asked
    with pytest.raises(InputError, match=r"samples are compared with the answer and its sentences; use part="):
        explainer("why?", span=(0, 2))


def test_similarity_has_the_mean_and_the_noise_of_samples():
    lm = Known(one_source)
    explainer, e = explain(lm, samples=32, score="similarity")
    assert e.scale == "similarity"
    assert e.removal == pytest.approx([0, 0, 0, 0, 0, expit(1.5) - expit(-1.5), 0, 0], abs=0.15)  # OTHER has no word in common
    assert (e.strongest(1), e.sentences[0].sources) == ([5], (5,))
    model = explainer._explainer("why?", e.answer.text)[1]
    samples = [["It is so.", "Nobody knows."] * 16, ["It is so."] * 31 + ["Nobody knows."]]
    lm.sample = lambda *asked: samples
    observed = model.observe(model.submit(["a", "b"]), 0)
    spread = np.array([[text == "It is so." for text in texts] for texts in samples]).var(axis=1, ddof=1)
    expected = (31 * spread + 4 * spread.mean()) / 35 / 32  # the mean variance counts as four samples
    assert observed.scores == pytest.approx([1 / 2, 31 / 32])
    assert observed.variance == pytest.approx(expected)


class Letters:
    """A sentence encoder: how often a text has each of the letters."""

    def encode(self, texts):
        return np.array([[text.casefold().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts])


def test_judges_give_numbers_to_pairs():
    pairs = [("In Graz.", "She lives in Graz"), ("In Graz.", "in grazing"), ("In Graz. Yes!", "Yes, in Graz."), ("3.5", "3,5")]
    assert judge_of(None, "agree", None, "")(pairs).tolist() == [1, 0, 1, 1]
    overlap = judge_of(None, "similarity", None, "")(pairs[:2])
    assert overlap == pytest.approx([2 * 2 / (2 + 4), 2 * 1 / (2 + 2)])
    one, other = Letters().encode(["In Graz.", "in grazing"])
    cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    assert judge_of(Letters(), "similarity", None, "")(pairs[1:2]) == pytest.approx([cosine])
    assert judge_of(Letters(), "agree", None, "")(pairs[:2]).tolist() == [0, cosine >= 0.8]
    assert judge_of(lambda a, b: len(b) / 20, "agree", None, "")(pairs[:2]).tolist() == [1, 1]
    assert judge_of(lambda a, b: len(b) / 20, "similarity", None, "")(pairs[:2]).tolist() == [17 / 20, 0.5]
    assert judge_of("model", "agree", Known(), "Where?")([("a", "abc"), ("b", "c")]).tolist() == [1, 0]
    for wrong in (lambda a, b: None, lambda a, b: [1, 2], lambda a, b: 1 / 0, lambda a, b: float("nan")):
        with pytest.raises((InputError, ModelError), match=r"judge=.*lambda") as caught:
            judge_of(wrong, "agree", None, "")(pairs)
        assert "\n" not in str(caught.value)


@cases("judge", [lambda answer, sample: answer in sample, Letters(), "model"])
def test_judges_find_the_source(judge):
    lm = Known(one_source)
    e = explain(lm, "It is so.", samples=16, judge=judge)[1]
    assert e.strongest(1) == [5]
    assert lm.asked <= (16 if judge != "model" else 16 + 2) * e.queries, "equal samples are judged once"


def test_an_answer_that_the_model_does_not_give_is_a_note():
    e = explain(Known(one_source), "Something else.")[1]
    noise = 1.96 * np.sqrt(2 * (1 / 1 + 1 / 9))  # of the difference of two counts of 0 of 8
    assert e.interval("removal") == pytest.approx(np.tile([-noise, noise], (8, 1)), rel=1e-3), "they may be equal by chance"
    notes = e.notes
    assert any("It agrees alike in all queries, which tells no effect; use more samples=" in note for note in notes)
    notes = explain(Known(lambda keep: -2.5 + keep[0]))[1].notes
    assert any("The model seldom gives this answer" in note for note in notes)
    notes = explain(Known(one_source, said=("",)), "It is so.", check=0, pairs=False)[1].notes
    assert any("samples are empty (refused, filtered or cut) and do not agree" in note for note in notes)


def test_answers_that_vary_no_more_than_their_noise_do_not_blame_the_explanation():
    e = explain(Known(lambda keep: 0.0))[1]
    assert all(part.r2 < 0 and part.ceiling < 0.1 for part in e.fidelity)
    assert not any("worse than a constant" in remark for remark in e.remarks)
    wrong = [part._replace(r2=-3.0, ceiling=0.1, mse=3.0) for part in e.fidelity]
    assert any("worse than a constant" in remark for remark in replace(e, fidelity=type(e.fidelity)(*wrong)).remarks)


def test_costs_count_all_samples_and_the_cache_keeps_them(tmp_path):
    def made(**options):
        lm = Known(one_source)
        return lm, slalom.ContextExplainer(
            lm, context=SOURCES[:3], mode="sample", samples=5, prices={"input": 1.0, "output": 2.0}, max_answer_tokens=7,
            cache=tmp_path / "c", progress=False, **options,
        )  # fmt: skip

    lm, explainer = made(max_cost=1.0)
    estimate, judged = explainer.estimate("why?", "It is so."), made(judge="model")[1].estimate("why?", "It is so.")
    assert not lm.asked
    assert (estimate.queries, estimate.output_tokens) == (8, 8 * 5 * 7)
    assert judged.output_tokens == 8 * 5 * (7 + 4)
    assert estimate.cost == pytest.approx((estimate.tokens + 2 * estimate.output_tokens) / 1e6)
    e = explainer("why?", "It is so.")
    assert lm.asked == 8 * 5
    assert explainer.spending.spent == pytest.approx(estimate.cost)
    other, known = made(max_cost=estimate.cost / 1000)
    assert known("why?", "It is so.").removal == pytest.approx(e.removal)
    assert not other.asked
    with pytest.raises(InputError, match=r"this call \(8 queries, .* would cost .* raise max_cost"):
        known("why?", "It is not so.")
    long = "It is so and so and so. " * 20
    assert explainer.estimate("why?", long).output_tokens == 8 * 5 * 2 * -(-len(long) // 4), "samples may be as long as it"


def tiny(kind="gpt2"):
    words = tokenizer(kind)
    return LocalLanguageModel(language_model("llama", len(words)), words), words


def test_samples_of_a_local_model_have_its_probabilities():
    lm, words = tiny()
    prompt = "Review: a good"
    with torch.no_grad():
        logits = lm.model(torch.tensor([words(prompt)["input_ids"]])).logits[0, -1].double()
    for temperature in (1.0, 0.5):
        expected = Counter()
        for token, p in enumerate(torch.softmax(logits / temperature, dim=-1).tolist()):
            if token != words.eos_token_id:
                said = words.decode([token], skip_special_tokens=True).rstrip("\ufffd")  # a part of a character is left out
                expected[said.strip().partition("\n")[0].strip()] += p
            else:
                expected[""] += p
        drawn = Counter(lm.sample([prompt], 1, 3000, temperature)[0])
        for text, p in expected.most_common(20):
            assert drawn[text] / 3000 == pytest.approx(p, abs=4.5 * np.sqrt(p * (1 - p) / 3000) + 1e-3)


def test_samples_of_a_local_model_depend_on_the_seed_only():
    lm, _ = tiny("chat")
    prompts = ["a good", [{"role": "user", "content": "a good film"}]]
    torch.manual_seed(1)
    together = lm.sample(prompts, 5, 6, seed=3)
    after = torch.rand(1)
    torch.manual_seed(1)
    assert torch.rand(1) == after, "the generator of the user is left alone"
    assert [lm.sample([prompt], 5, 6, seed=3)[0] for prompt in reversed(prompts)] == together[::-1]
    assert lm.sample(prompts, 5, 6, seed=4) != together
    assert len(set(together[0])) > 1
    assert lm.sample(prompts, 5, 3, temperature=0.0) == [[lm.generate(prompt, 5)] * 3 for prompt in prompts]
    e, f = (
        slalom.context(lm, context=SOURCES[:3], question="?", mode="sample", samples=3, seed=1, max_answer_tokens=3, check=0)
        for _ in "ab"
    )
    assert e.removal.tolist() == f.removal.tolist()
    with pytest.raises(InputError, match=r"prompt and answer have \d+ tokens"):
        slalom.context(lm, context=["good film " * 300], question="?", answer="good", mode="sample")


CALL = {"id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Graz"}'}}
CHAT = [
    {"role": "system", "content": "Be brief."},
    {
        "role": "user",
        "content": [{"type": "text", "text": "I am Ada."}, {"type": "text", "text": "I live in Graz."}],
        "name": "ada",
    },
    {"role": "assistant", "content": "Hello."},
    {"role": "user", "content": "How is the weather?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "1", "content": "It rains."},
]


class Chats(LanguageModel):
    """Keeps what it is asked; says that it rains where it has read so."""

    name, chats = "chats", True

    def __init__(self):
        self.prompts = []

    def sample(self, prompts, most, count, temperature=1.0, seed=0):
        self.prompts += prompts
        return [["It rains." if "rains" in str(prompt) else "No idea."] * count for prompt in prompts]

    def generate(self, prompt, most):
        return "It rains."

    def identity(self):
        return "chats"


def test_calls_of_tools_go_with_their_answers_and_messages_stay_as_they_came():
    lm = Chats()
    e = slalom.context(lm, context=CHAT, mode="sample", progress=False)
    assert e.units == (
        "user: I am Ada.\nI live in Graz.",
        "assistant: Hello.",
        'assistant: weather({"city": "Graz"})\ntool: It rains.',
    )
    assert e.answer.question == "How is the weather?", "the last message of the user, as the chat ends with a tool"
    assert e.strongest(1) == [2]
    assert sorted(map(json.dumps, lm.prompts)) == sorted(
        json.dumps([CHAT[0], *(CHAT[1:2] * a), *(CHAT[2:3] * b), CHAT[3], *(CHAT[4:] * c)])
        for a in (0, 1)
        for b in (0, 1)
        for c in (0, 1)
    )


def test_text_parts_are_strings_for_chat_templates():
    lm, words = tiny("chat")
    said = [{"role": "user", "content": "a good film"}, {"role": "user", "content": "good?"}]
    parts = [said[0] | {"content": [{"type": "text", "text": "a good film"}]}, said[1]]
    assert lm.chat(parts) == lm.chat(said) == words.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
    strict = copy.deepcopy(words)
    strict.chat_template += "{% if messages[-2]['tool_calls'] %}{{ raise_exception('no tools') }}{% endif %}"
    calls = [*said, *CHAT[4:]]
    with pytest.raises(InputError, match="chat template refuses these messages: no tools"):
        LocalLanguageModel(lm.model, strict).chat(calls)


IMAGE = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]


@cases(
    ("options", "message"),
    [
        ({"mode": "samples"}, "mode must be 'logprobs' or 'sample'; got 'samples'"),
        ({"samples": 4, "mode": "logprobs"}, 'are for mode="sample"; leave them out'),
        ({"samples": 0}, "samples must be a whole number of at least 1; got 0"),
        ({"samples": 1, "score": "similarity"}, "samples must be a whole number of at least 2; got 1"),
        ({"score": "same"}, "score must be 'agree' or 'similarity'; got 'same'"),
        ({"judge": 3}, 'or "model"; got 3'),
        ({"temperature": 0}, "temperature must be a number above 0; got 0"),
        ({"mode": "logprobs"}, 'known gives no log probabilities; use mode="sample"'),
        ({"context": IMAGE}, "a part of a message must be .*; got 'image_url'; leave it out"),
        ({"context": [{"role": "assistant", "tool_calls": [{"id": 1}]}, *CHAT[:2]]}, "calls of tools such as"),
        ({"context": [{"role": "user", "content": "a", "of": {1}}, *CHAT[:2]]}, "messages of a chat must be JSON"),
        ({"context": [{"role": "user", "content": 3}]}, "a context must be a string or a list of messages"),
    ],
)  # fmt: skip
def test_wrong_arguments_get_one_line(options, message):
    options = {"context": SOURCES[:2], "question": "why?", "answer": "so", "mode": "sample"} | options
    with pytest.raises((InputError, ModelError), match=message) as caught:
        slalom.context(Known(one_source), **options)
    assert "\n" not in str(caught.value)


def test_models_that_give_too_few_samples_get_one_line():
    lm = Known(one_source)
    lm.sample = lambda prompts, *_: [["so"]] * len(prompts)
    with pytest.raises(ModelError, match="known must give 8 samples for each of"):
        explain(lm, "so")
