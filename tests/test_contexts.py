"""Which source made it say this: scores against plain forward passes, and models of sources whose effects are known."""

import copy
import io
import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console
from sklearn.linear_model import Lasso
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tokenizers import processors

import slalom
from slalom.contexts import sources_of
from slalom.errors import InputError, ModelError
from slalom.models.continuation import LanguageModel
from slalom.models.huggingface import causal
from slalom.models.huggingface.causal import LocalLanguageModel
from slalom.render.notebook import notebook
from slalom.render.terminal import show
from tests.cases import cases
from tests.models.tiny_lm import language_model, tokenizer

QUESTION, ANSWER = "Was the film good?", "the film was good. the plot was thin."
TEXT = "A good film. The plot was thin! Nobody liked it."
PLAIN = "{context}\n\nQuestion: {question}\nAnswer:"


def tiny(kind="gpt2"):
    words = tokenizer(kind)
    return language_model("llama", len(words)), words


def subsets(n):
    return (np.arange(2**n)[:, None] >> np.arange(n)) % 2 == 1


def plain_score(model, words, prompt, answer, special=True):
    """The log probability of an answer by one forward pass over everything."""
    before = words(prompt, add_special_tokens=special)["input_ids"]
    after = words(answer, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        logs = torch.log_softmax(model(torch.tensor([before + after])).logits[0].double(), dim=-1)
    return sum(float(logs[len(before) - 1 + t, token]) for t, token in enumerate(after))


@pytest.fixture(scope="module")
def explained():
    explainer = slalom.ContextExplainer(*tiny(), TEXT, check=0)
    return explainer, explainer(QUESTION, ANSWER)


def test_the_score_is_that_of_a_plain_forward_pass(explained):
    _, e = explained
    prompt = PLAIN.format(context=TEXT, question=QUESTION)
    assert e.score == pytest.approx(plain_score(*tiny(), prompt, " " + ANSWER), abs=1e-4)
    assert (e.scale, e.target, e.unit) == ("log probability", "answer", "sentence")
    assert e.units == ("A good film.", "The plot was thin!", "Nobody liked it.")
    assert e.answer.part == ANSWER
    assert not e.answer.generated
    tokens = len(tokenizer("gpt2")(" " + ANSWER)["input_ids"])
    assert e.figures["answer tokens"] == tokens
    assert e.figures["log probability per token"] == pytest.approx(e.score / tokens)


def test_asking_removes_sentences_with_the_space_after_them(explained):
    explainer, e = explained
    contexts = {(0, 0, 0): "", (1, 0, 0): "A good film.", (1, 0, 1): "A good film. Nobody liked it.", (1, 1, 1): TEXT}
    for keep, context in contexts.items():
        prompt = PLAIN.format(context=context, question=QUESTION)
        assert explainer.ask(e, keep) == pytest.approx(plain_score(*tiny(), prompt, " " + ANSWER), abs=1e-4)


@cases("name, packs", [("llama", True), ("qwen2", True), ("gpt2", True), ("bloom", False), ("mamba", False)])
def test_beginnings_that_prompts_share_are_computed_once_and_change_nothing(name, packs):
    words = tokenizer("gpt2")
    model = language_model(name, len(words))
    lm, sizes = LocalLanguageModel(model, words), []
    prompts = [PLAIN.format(context=context, question=QUESTION) for context in (TEXT, TEXT[:12], TEXT[:31], TEXT[:12])]
    lm.log_probs(prompts, ANSWER, " ")  # finds out whether the model can

    def count(_, inputs, options):
        sizes.append((options["input_ids"] if "input_ids" in options else inputs[0]).numel())

    hook = model.register_forward_pre_hook(count, with_kwargs=True)
    logs = lm.log_probs(prompts, ANSWER, " ")
    hook.remove()
    np.testing.assert_allclose(
        logs.sum(axis=1), [plain_score(model, words, prompt, " " + ANSWER) for prompt in prompts], atol=1e-3
    )
    read = [tuple(words(prompt + " " + ANSWER)["input_ids"][:-1]) for prompt in prompts]
    different = len({row[: i + 1] for row in read for i in range(len(row))})
    assert sizes == [different if packs else 3 * max(map(len, read))], "the second of two equal prompts is not computed"


def test_long_prompts_without_a_common_beginning_are_plain_passes(monkeypatch):
    words = tokenizer("gpt2")
    model, prompts = language_model("llama", len(words)), [f"{first} {TEXT * 3}" for first in ("Once", "Then", "Now")]
    asked, shapes = LocalLanguageModel(model, words), []
    packed = asked.log_probs(prompts, ANSWER, " ")
    monkeypatch.setattr(causal, "_PACK", 8)
    hook = model.register_forward_pre_hook(lambda _, __, given: shapes.append(given["input_ids"].shape), with_kwargs=True)
    np.testing.assert_allclose(asked.log_probs(prompts, ANSWER, " "), packed, atol=1e-4)
    assert [rows for rows, _ in shapes] == [3], "one batch, no beginning first"
    shapes.clear()
    together = [f"{TEXT * 3} {last}" for last in ("Once", "Then", "Now")]
    asked.log_probs(together, ANSWER, " ")
    hook.remove()
    assert len(shapes) > 1, "what they have in common comes first"


def test_a_chat_template_makes_the_prompt():
    model, words = tiny("chat")
    e = slalom.context(model, words, TEXT, QUESTION, ANSWER, check=0, queries=8)
    message = {"role": "user", "content": f"Context: {TEXT}\n\nQuestion: {QUESTION}"}
    prompt = words.apply_chat_template([message], tokenize=False, add_generation_prompt=True)
    assert e.score == pytest.approx(plain_score(model, words, prompt, ANSWER, special=False), abs=1e-4)


def test_chat_options_reach_the_template_and_the_cache(tmp_path):
    model, words = language_model("llama", len(tokenizer("chat"))), copy.deepcopy(tokenizer("chat"))
    words.chat_template += "{% if enable_thinking is not defined or enable_thinking %}good{% else %}bad{% endif %}"
    prompt = words.apply_chat_template(
        [{"role": "user", "content": f"Context: {TEXT}\n\nQuestion: {QUESTION}"}], tokenize=False
    )
    prompt = prompt.removesuffix("good") + "<start>assistant\n"
    for options, end in ((None, "good"), ({"enable_thinking": False}, "bad")):
        said = {"chat_options": options, "cache": tmp_path / "answers", "check": 0, "queries": 8}
        e = slalom.context(model, words, TEXT, QUESTION, ANSWER, **said)
        assert e.score == pytest.approx(plain_score(model, words, prompt + end, ANSWER, special=False), abs=1e-4)
    with pytest.raises(InputError, match="chat_options must be a mapping; got list"):
        slalom.context(model, words, TEXT, QUESTION, ANSWER, chat_options=[1])


def test_the_estimate_of_a_local_model_asks_nothing_and_knows_the_cache(tmp_path):
    class Counting(Planted):
        asked, written = 0, 0

        def log_probs(self, prompts, answer, lead):
            self.asked += len(prompts)
            return super().log_probs(prompts, answer, lead)

        def generate(self, prompt, most):
            self.written += 1
            return super().generate(prompt, most)

    def made(**options):
        lm = Counting(NAMES[:3], lambda keep: -1.0 - keep.sum(axis=1))
        sources = [f"A {name}." for name in NAMES[:3]]
        return lm, slalom.ContextExplainer(
            lm, context=sources, prices={"input": 1, "output": 2}, cache=tmp_path / "c", **options
        )

    lm, explainer = made(max_cost=1.0)
    estimate, written = explainer.estimate("why?", "so it is"), explainer.estimate("why?")
    assert (lm.asked, lm.written) == (0, 0)
    explainer("why?", "so it is")
    assert (estimate.queries, estimate.cached, lm.asked) == (8, 0, 8)
    assert explainer.spending.spent == pytest.approx(estimate.cost)
    assert written.queries == 8
    assert written.output_tokens == 64
    assert explainer.estimate("why?", "so it is").cached == made()[1].estimate("why?", "so it is").cached == 8
    lm, explainer = made(max_cost=estimate.cost / 2)
    assert explainer("why?", "so it is").queries == 8, "known answers are free"
    with pytest.raises(InputError, match=r"this call \(8 queries, .* would cost .* raise max_cost"):
        explainer("why?", "so it is not")
    with pytest.raises(InputError, match="writing the answer would cost"):
        made(max_cost=1e-5)[1]("why?")
    assert (lm.asked, lm.written) == (0, 0)


def test_parts_of_an_answer_add_up_and_need_no_further_query(explained):
    explainer, e = explained
    engine = explainer._explainer(QUESTION, ANSWER)[0].engine
    before = engine.cost.inputs
    first, second = explainer(QUESTION, ANSWER, part=1), explainer(QUESTION, ANSWER, part="sentence 2")
    assert first.score + second.score == pytest.approx(e.score)
    assert engine.cost.inputs == before
    assert (first.answer.part, second.answer.part) == ("the film was good.", "the plot was thin.")
    assert second.target == "sentence 2"
    keep = subsets(3)
    assert np.allclose(explainer.ask(first, keep) + explainer.ask(second, keep), explainer.ask(e, keep))


def test_a_span_takes_the_tokens_that_overlap_it(explained):
    explainer, _ = explained
    model, words = tiny()
    start = ANSWER.index("good")
    e = explainer(QUESTION, ANSWER, span=(start + 1, start + 2))
    ids, offsets = (words(" " + ANSWER, return_offsets_mapping=True)[name] for name in ("input_ids", "offset_mapping"))
    chosen = [t for t, (a, b) in enumerate(offsets) if a < start + 3 and b > start + 2]  # one character later, for the space
    prompt = words(PLAIN.format(context=TEXT, question=QUESTION))["input_ids"]
    with torch.no_grad():
        logs = torch.log_softmax(model(torch.tensor([prompt + ids])).logits[0].double(), dim=-1)
    assert e.score == pytest.approx(sum(float(logs[len(prompt) - 1 + t, ids[t]]) for t in chosen), abs=1e-4)
    assert e.answer.tokens == len(chosen)


def test_an_answer_that_is_not_given_is_the_greedy_one():
    model, words = tiny()
    explainer = slalom.ContextExplainer(model, words, TEXT, max_answer_tokens=6, check=0, queries=8)
    ids = words(PLAIN.format(context=TEXT, question=QUESTION))["input_ids"]
    with torch.no_grad():
        for _ in range(6):
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    text = words.decode(ids[-6:], skip_special_tokens=True).strip().partition("\n")[0].strip()
    assert explainer.answer(QUESTION) == text
    assert explainer(QUESTION).answer[1::3] == (text, True)


@cases(
    ("context", "unit", "names"),
    [
        ("One. Two.\n\nThree.", None, ("One.", "Two.", "Three.")),
        ("One. Two.\n\nThree.", "paragraph", ("One. Two.", "Three.")),
        (["One. Two.", " Three. "], None, ("One. Two.", "Three.")),
        (["One. Two.", "Three"], "sentence", ("One.", "Two.", "Three")),
        ("One. Two.", "document", ("One. Two.",)),
        (["One, two.", "Three"], lambda text: [(0, 3), (4, 9)] if "," in text else [(0, 5)], ("One,", "two.", "Three")),
    ],
)
def test_units(context, unit, names):
    sources = sources_of(context, unit)
    assert tuple(sources.text[a:b] for a, b in sources.spans) == names


def test_turns_of_a_chat_are_removed_and_the_system_message_stays():
    model, words = tiny("chat")
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "A good film."},
        {"role": "assistant", "content": "The plot was thin."},
        {"role": "user", "content": QUESTION},
    ]
    explainer = slalom.ContextExplainer(model, words, chat, check=0)
    e = explainer(answer=ANSWER)
    assert e.units == ("user: A good film.", "assistant: The plot was thin.")
    assert (e.unit, e.answer.question) == ("turn", QUESTION)
    for keep, kept in (((1, 1), chat), ((0, 1), [chat[0], *chat[2:]]), ((0, 0), [chat[0], chat[3]])):
        prompt = words.apply_chat_template(kept, tokenize=False, add_generation_prompt=True)
        assert explainer.ask(e, keep) == pytest.approx(plain_score(model, words, prompt, ANSWER, special=False), abs=1e-4)


class Planted(LanguageModel):
    """A language model whose log probability of any answer is a function of which words its prompt contains."""

    name, chats = "planted", False

    def __init__(self, words, score, tokens=3):
        self.words, self.score, self.n = words, score, tokens

    def tokens(self, answer, lead):
        cuts = np.linspace(0, len(answer), self.n + 1).astype(int)
        return np.stack([cuts[:-1], cuts[1:]], axis=1)

    def log_probs(self, prompts, answer, lead):
        keep = np.array([[word in prompt for word in self.words] for prompt in prompts], dtype=float)
        return np.repeat(self.score(keep)[:, None] / self.n, self.n, axis=1)

    def generate(self, prompt, most):
        return "something"

    def identity(self):
        return "planted"


NAMES = [f"word{i}x" for i in range(8)]


def planted(score, **options):
    sources = [f"This is {name}." for name in NAMES]
    return slalom.ContextExplainer(Planted(NAMES, score), context=sources, progress=False, **options)


def test_the_source_of_the_answer_is_found():
    e = planted(lambda keep: -9.0 + 6.0 * keep[:, 5] - 1.0 * keep[:, 2])("why?", "so it is")
    assert e.strongest(2) == [5, 2]
    assert e.removal == pytest.approx([0, 0, -1, 0, 0, 6, 0, 0], abs=0.05)
    assert e.queries <= 64 + 20 + 1


def test_a_fact_that_is_stated_twice_is_a_pair_with_a_negative_effect():
    explainer = planted(lambda keep: -9.0 + 6.0 * np.maximum(keep[:, 1], keep[:, 4]), queries=200)
    e = explainer("why?", "so it is")
    both, one, none = np.ones(8), np.ones(8), np.ones(8)
    one[1] = none[1] = none[4] = 0
    predicted = e.predict([both, one, none])
    assert predicted == pytest.approx([-3.0, -3.0, -9.0], abs=0.5)
    assert (predicted[0] - predicted[1]) - (predicted[1] - predicted[2]) < -5.0  # together less than each alone
    pair = e.interactions(1)[0]
    assert pair.units == (1, 4)
    assert pair.effect == pytest.approx(predicted[0] - 2 * predicted[1] + predicted[2], abs=0.2)
    assert pair.effect < -5.0
    (sentence,) = e.sentences
    assert set(sentence.sources) == {1, 4}
    assert sentence.groups == (sentence.sources,)
    flip = explainer.flip(e, threshold=-6.0)
    assert flip.units == (1, 4)
    assert flip.confirmed
    assert flip.asked == pytest.approx(-9.0)


def test_context_cite_is_the_lasso_of_its_authors():
    def score(keep):
        return -9.0 + 6.0 * keep[:, 5] - keep[:, 2] + 0.5 * keep[:, 0] * keep[:, 1]

    e = planted(score, method="context-cite", queries=64, check=0)("why?", "so it is", seed=3)
    plan = slalom.list_methods()["context-cite"].plan(
        slalom.text.Units(e.units, e.spans, np.arange(8), np.arange(8)), 64, np.random.default_rng(3), empty=True
    )
    assert len(np.unique(plan.keep, axis=0)) == 64
    assert abs(plan.keep.mean() - 0.5) < 0.07
    peer = make_pipeline(StandardScaler(), Lasso(0.01, random_state=0)).fit(plan.keep, score(plan.keep.astype(float)) / 3)
    assert e.predict(subsets(8)) == pytest.approx(3 * peer.predict(subsets(8)), abs=1e-6)
    assert e.additive
    assert "context-cite" in slalom.list_methods()


def test_it_is_saved_and_shown(explained, tmp_path):
    _, e = explained
    e = replace(e, answer=e.answer._replace(start=4, stop=8), details=())
    e.save(tmp_path / "e.json")
    again = slalom.load(tmp_path / "e.json")
    assert again.answer == e.answer
    assert again.to_dict() == e.to_dict()
    screen = Console(file=io.StringIO(), width=160)
    show(e, screen, 5)
    printed = screen.file.getvalue()
    assert f"question: {QUESTION}" in printed
    assert f"answer:   {ANSWER}" in printed
    assert f"log probability of answer: {e.score:+.2f}" in printed
    assert "<u>film</u>" in notebook(e)
    page = e.to_html()
    data = json.loads(page.split('class="content">')[1].split("</script>")[0])
    assert data["answer"] == {
        "question": QUESTION,
        "pieces": [["the ", None], ["film", 0], [ANSWER[8:], None]],
        "generated": False,
    }
    old = {name: part for name, part in e.to_dict().items() if name != "answer"}
    assert slalom.Explanation.from_dict(old).answer is None
    with pytest.raises(InputError, match="merge makes larger units"):
        e.merge("sentence")


def call(*, question="why?", answer="so", **options):
    options = {"context": TEXT, **options}
    return slalom.context(Planted(NAMES, lambda keep: -keep.sum(axis=1) - 1.0), question=question, answer=answer, **options)


CHAT = [{"role": "assistant", "content": "a"}]


@cases(
    ("options", "message"),
    [
        ({"context": ""}, "not empty"),
        ({"context": 3}, "got int"),
        ({"context": ["a", 3]}, "list of texts"),
        ({"unit": "line"}, "'document', 'paragraph', 'sentence', 'word', 'turn'; got 'line'"),
        ({"unit": "turn"}, "turns are those of a chat"),
        ({"context": CHAT, "unit": "sentence"}, "its turns"),
        ({"context": CHAT}, "no chat template"),
        ({"context": [{"role": "user", "content": "a"}]}, "at least one turn before the question"),
        ({"question": ""}, "a question is missing"),
        ({"template": "{context}"}, "no place for a question"),
        ({"template": "{question}"}, "must contain {context} once"),
        ({"answer": " "}, "an answer must not be empty"),
        ({"answer": 3}, "an answer must be a string"),
        ({"answer": ["so"], "prices": {"input": 1}, "max_cost": 1}, "an answer must be a string; got list"),
        ({"answer": "", "prices": {"input": 1}, "max_cost": 1}, "an answer must not be empty"),
        ({"max_cost": 1}, "max_cost needs prices"),
        ({"chat_options": {}}, "leave them out"),
        ({"part": 2}, "part must be one of 'answer'"),
        ({"span": (1, 9)}, "0 <= start < stop <= 2; got 1 and 9"),
        ({"span": (0.7, 1.2)}, "span must be a whole number"),
        ({"context": [*CHAT, "ab"]}, "a context must be a string or a list of messages"),
        ({"span": (0, 1), "part": 1}, "not both"),
        ({"tokenizer": "x"}, "leave them out"),
        ({"queries": 1}, "queries must be"),
    ],
)
def test_wrong_arguments_get_one_line(options, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(").replace("{", r"\{")) as caught:
        call(**options)
    assert "\n" not in str(caught.value)


@cases("options", [{"context": ["a \ud800"]}, {"question": "\ud800"}, {"answer": "\ud800"}])
def test_strings_that_are_not_unicode_get_one_line(options):
    options = {"context": TEXT, "question": QUESTION, "answer": ANSWER} | options
    with pytest.raises(InputError, match="must be valid Unicode") as caught:
        slalom.context(*tiny(), **options, check=0, queries=4)
    assert "\n" not in str(caught.value)


def test_answers_are_kept_for_one_tokenizer_only(tmp_path):
    model, words = tiny()
    other = copy.deepcopy(words)
    other.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", words.bos_token_id)]
    )
    scores = [slalom.context(model, w, TEXT, QUESTION, ANSWER, check=0, cache=tmp_path / "c").score for w in (words, other)]
    prompt = PLAIN.format(context=TEXT, question=QUESTION)
    for score, w in zip(scores, (words, other), strict=True):
        assert score == pytest.approx(plain_score(model, w, prompt, " " + ANSWER), abs=1e-4)
    assert abs(scores[0] - scores[1]) > 1e-3


def test_prompts_that_do_not_fit_are_refused():
    model, words = tiny()
    with pytest.raises(InputError, match=r"prompt and answer have \d+ tokens"):
        slalom.context(model, words, TEXT * 40, QUESTION, ANSWER)


def out_of_memory(model, most):
    """Let a model fail as on a full GPU where a batch has more than so many rows."""

    def refuse(_, inputs, options):
        rows = len(options["input_ids"] if "input_ids" in options else inputs[0])
        if rows > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    return model.register_forward_pre_hook(refuse, with_kwargs=True)


def test_batches_are_halved_where_memory_runs_out(explained):
    model, words = tiny()
    hook = out_of_memory(model, 3)
    e = slalom.context(model, words, TEXT, QUESTION, ANSWER, check=0)
    assert e.score == pytest.approx(explained[1].score, abs=1e-4)
    np.testing.assert_allclose(e.removal, explained[1].removal, atol=1e-3)
    hook.remove()
    out_of_memory(model, 0)
    with pytest.raises(
        ModelError, match=r"one input of \d+ tokens does not fit into the memory of LlamaForCausalLM; use a larger"
    ):
        slalom.context(model, words, TEXT, QUESTION, ANSWER, check=0)
    with pytest.raises(ModelError, match=r"a prompt of \d+ tokens and its answer do not fit into the memory"):
        slalom.context(model, words, TEXT, QUESTION, check=0)


def test_threads_that_share_a_network_get_their_own_answers():
    """Passes of equal shape are slow enough to overlap; the places of an answer differ between them."""
    network, words = tiny()
    model = LocalLanguageModel(network, words)
    prompts = [("A good film.", ANSWER), ("A good film. The plot was", "the plot was thin. so")]
    longest = max(len(words(" ".join(pair))["input_ids"]) for pair in prompts)
    pairs = [
        (prompt + " was" * (longest - len(words(f"{prompt} {answer}")["input_ids"])), answer) for prompt, answer in prompts
    ]

    def asked(pair):
        return [model.log_probs([pair[0]], pair[1], " ")[0] for _ in range(6)]

    alone = [asked(pair) for pair in pairs]
    slow = network.get_output_embeddings().register_forward_pre_hook(lambda *_: time.sleep(0.02))
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(asked, pairs))
    slow.remove()
    for one, other in zip(alone, together, strict=True):
        assert np.allclose(one, other, atol=1e-5)
