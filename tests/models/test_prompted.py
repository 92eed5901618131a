"""Language models with a template as classifiers: every answer equals that of a plain pass over the whole prompt."""

import copy

import numpy as np
import pytest
import torch

from slalom import Explainer
from slalom.errors import InputError, ModelError
from slalom.models import Engine, Queries
from slalom.models.huggingface.causal import LocalLanguageModel
from slalom.models.prompted import Prompted
from slalom.models.prompts import label_set
from tests.cases import cases
from tests.models.tiny import QUICK
from tests.models.tiny_lm import LANGUAGE_MODELS, language_model, tokenizer

TEMPLATE = "Review: the plot was thin.\nSentiment: negative\n\nReview: {text}\nSentiment:"
TEXT = "A good film with a bad end, and a very good cast!"
LABELS = ["negative", "positive"]


def plain(network, ids, path):
    """Return log p(path | ids) by one forward pass over both."""
    with torch.no_grad():
        logits = network(torch.tensor([[*ids, *path]])).logits[0].double()
    steps = torch.log_softmax(logits, dim=-1)
    return sum(float(steps[len(ids) - 1 + j, token]) for j, token in enumerate(path))


def direct(network, words, prompt, labels):
    """Return log p(label | prompt) for strings, tokenised as they are."""
    ids = words(prompt)["input_ids"]
    return [plain(network, ids, words(prompt + label)["input_ids"][len(ids) :]) for label in labels]


def made(name, labels=LABELS, template=TEMPLATE, kind="gpt2", settings=None, **options):
    words = tokenizer(kind)
    return Prompted(language_model(name, len(words), **settings or {}), words, template, labels, **options)


def subsets(n, m, seed=0):
    rng = np.random.default_rng(seed)
    keep = rng.random((m, n)) < rng.random((m, 1))
    keep[0] = True
    return keep


def expected(prompted, reading, keep):
    """Return the outputs by one plain pass per row and label, with the formula of exclusive labels."""
    rows = []
    for row in keep:
        ids = [*reading.before[0], *reading.planes[0][row], *reading.after[0]]
        paths = prompted.continuations.paths
        logs = {path: plain(prompted.model, ids, path) for path in paths}
        alone = {}
        for path in paths:
            longer = [p for p in paths if len(p) > len(path) and p[: len(path)] == path]
            nearest = [p for p in longer if not any(q != p and p[: len(q)] == q for q in longer)]
            alone[path] = np.exp(logs[path]) - sum(np.exp(logs[p]) for p in nearest)
        owners = prompted.continuations.owners
        rows.append(
            [np.log(sum(alone[p] for p, o in zip(paths, owners, strict=True) if o == k)) for k in range(max(owners) + 1)]
        )
    return np.array(rows)


@cases(
    ("name", "settings"),
    [
        *((name, {}) for name in (*LANGUAGE_MODELS, "mamba")),
        ("mistral", {"sliding_window": 7}),
        ("mistral", {"sliding_window": 128}),
    ],
)
def test_answers_equal_plain_passes_for_every_architecture(name, settings):
    labels = {"a": [" negative", "a"], "b": [" positive film", " positive"], "c": " positive film with"}
    for packs in (None, False) if name == "llama" else (None,):
        prompted = made(name, labels, settings=settings)
        prompted.lm.packs = packs
        reading = prompted.read(TEXT, "cut", None)
        keep = subsets(len(reading.names), 20)
        (answers,) = Engine(prompted)([Queries(reading, keep)])
        np.testing.assert_allclose(answers.outputs[::7], expected(prompted, reading, keep[::7]), atol=1e-4)
        # the positions of bloom follow from the mask, mamba has no attention, and 7 tokens are less than a prompt
        packed = packs is None and name not in ("bloom", "mamba") and settings.get("sliding_window") != 7
        share = prompted.lm.computed / prompted.asked
        assert share < 0.7 if packed else share >= 1.0


def test_tokens_are_counted_as_they_go_through_the_network_and_texts_share_batches():
    prompted = made("llama", [" positive film", "negative"])
    texts = [TEXT, "A very good cast, but the plot was thin.", "a bad film"]
    readings = [prompted.read(text, "cut", None) for text in texts]
    keeps = [subsets(len(reading.names), 40, seed) for seed, reading in enumerate(readings)]
    computed = []
    hook = prompted.model.register_forward_pre_hook(
        lambda _, inputs, named: computed.append((named.get("input_ids") if "input_ids" in named else inputs[0]).numel()),
        with_kwargs=True,
    )
    engine = Engine(prompted)
    answers = engine([Queries(reading, keep) for reading, keep in zip(readings, keeps, strict=True)])
    hook.remove()
    assert prompted.asked == engine.cost.tokens
    assert prompted.lm.computed == sum(computed) < 0.5 * engine.cost.tokens
    for reading, keep, answer in zip(readings, keeps, answers, strict=True):
        np.testing.assert_allclose(answer.outputs[::7], expected(prompted, reading, keep[::7]), atol=1e-4)


@cases("kind", ["gpt2", "llama", "chat", "merging"])
@cases("text", [TEXT, " two  blanks ", "naïve 👍🏽", "x", "film.\nSentiment"])
def test_the_whole_prompt_is_tokenised_as_one_string(kind, text):
    words = tokenizer(kind)
    prompted = made("llama", kind=kind)
    reading = prompted.read(text, "cut", None)
    whole = words(TEMPLATE.replace("{text}", text))["input_ids"]
    whole = [words.bos_token_id, *whole] if kind == "chat" else whole  # its chat template demands it
    assert [*reading.before[0], *reading.planes[0], *reading.after[0]] == whole
    assert all(0 <= a <= b <= len(text) for a, b in reading.spans)
    assert all(
        text[a:b].strip() in (name, "") or "�" in name for (a, b), name in zip(reading.spans, reading.names, strict=True)
    )


def test_a_token_across_the_border_belongs_to_the_text_where_the_template_has_only_spaces_in_it():
    words, template = tokenizer("merging"), "Review: {text}\nSentiment:"
    reading = made("llama", kind="merging", template=template).read("the plot was thin.", "cut", None)
    assert words.decode(reading.after[0, :1]) == ".\nSen", "a token with the text's last character and a line of the template"
    assert reading.names == ("the plot was thin",)
    assert reading.spans.tolist() == [[0, 17]]
    words = tokenizer("gpt2")
    reading = made("llama", template=template).read("good film", "cut", None)
    assert [words.decode([token]) for token in reading.planes[0]] == [" good", " film"], "the first has the template's space"
    assert reading.names == ("good", "film")
    assert reading.spans[0].tolist() == [0, 4]
    assert words.decode(reading.before[0]) == "Review:"


def test_the_bos_token_is_there_once_where_tokenizer_or_chat_template_want_it():
    for kind, begins in (("gpt2", False), ("llama", True), ("chat", True)):
        words = tokenizer(kind)
        for template in (TEMPLATE, words.bos_token + TEMPLATE):
            ids = made("llama", kind=kind, template=template).read("x", "cut", None).before[0].tolist()
            assert ids.count(words.bos_token_id) == int(begins or template != TEMPLATE)


def test_chats_are_formatted_by_the_tokenizer_as_it_is_now():
    words = copy.deepcopy(tokenizer("chat"))
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Review: {text}"}]
    prompted = Prompted(language_model("llama", len(words)), words, messages, LABELS)
    for text, day in ((TEXT, ""), ("ends with blanks  \n", ""), (TEXT, "30 June\n"), ("x", "1 July\n")):
        words.chat_template = tokenizer("chat").chat_template.replace("{{ bos_token }}", "{{ bos_token }}" + day)
        reading = prompted.read(text, "cut", None)
        filled = [messages[0], {"role": "user", "content": f"Review: {text}"}]
        string = words.apply_chat_template(filled, tokenize=False, add_generation_prompt=True)
        assert [*reading.before[0], *reading.planes[0], *reading.after[0]] == words(string, add_special_tokens=False)[
            "input_ids"
        ]
        assert reading.spans[-1, 1] <= len(text.rstrip())
    assert prompted.labels.continuations == (("negative",), ("positive",)), "no space after the end of a turn"


def test_labels_are_joined_to_the_assistants_words_as_they_would_be_written():
    """The tokens that go into the network, and those whose log-probabilities are taken, decoded."""
    for begun, said in (("It is", "is negative"), ("It is ", "is negative"), ("It is:\n", "is:\nnegative")):
        template = [{"role": "user", "content": "Review: {text}"}, {"role": "assistant", "content": begun}]
        prompted = made("llama", kind="chat", template=template)
        reading = prompted.read(TEXT, "cut", None)
        ids = [*reading.before[0], *reading.planes[0], *reading.after[0], *prompted.continuations.paths[0]]
        assert prompted.tokenizer.decode(ids).endswith(f"assistant\nIt {said}")


def test_templates_that_cannot_be_used_are_refused_in_one_line():
    words = tokenizer("gpt2")
    network = language_model("llama", len(words))
    messages = [{"role": "user", "content": "{text}"}]
    for template, labels, message in (
        (messages, LABELS, "needs a tokenizer with a chat template"),
        ("no place", LABELS, "must contain {text} once"),
        (TEMPLATE, ["one"], "at least two different strings"),
        (TEMPLATE, {"a": " x", "b": " x"}, "in common"),
        (TEMPLATE, {"a": 1, "b": "x"}, "the label 'a' must have continuations that are strings"),
        (TEMPLATE, {"a": [1], "b": "x"}, "the label 'a' must have continuations that are strings"),
        ("word " * 300 + "{text}", LABELS, "has room for 256 tokens, which the template and the labels fill"),
    ):
        with pytest.raises(InputError, match=message) as refusal:
            Prompted(network, words, template, labels)
        assert "\n" not in str(refusal.value)
    for name, wrong in {"max_length": "x", "chat_options": [1]}.items():
        with pytest.raises(InputError, match=f"{name} must be"):
            Prompted(network, words, TEMPLATE, LABELS, **{name: wrong})
    with pytest.raises(InputError, match="causal language model"):
        Prompted("a path", words, TEMPLATE, LABELS)
    with pytest.raises(InputError, match="needs its tokenizer"):
        Prompted(network, None, TEMPLATE, LABELS)
    with pytest.raises(ModelError, match="AutoModelForCausalLM"):
        Prompted(network.model, words, TEMPLATE, LABELS)


def test_the_label_share_is_the_mean_over_queries_and_a_low_one_is_said():
    prompted = made("llama")
    e = Explainer(prompted, **QUICK, progress=False)(TEXT)
    reading = prompted.read(TEXT, "cut", None)
    whole = np.exp(
        direct(prompted.model, prompted.tokenizer, TEMPLATE.replace("{text}", TEXT), [" negative", " positive"])
    ).sum()
    assert e.figures["label share of the whole text"] == pytest.approx(whole, rel=1e-3)
    outputs = np.log([[0.2, 0.1], [0.5, 0.3], [0.1, 0.0001]])
    report = prompted.report(outputs)
    assert report.figures["label share"] == pytest.approx(np.exp(outputs).sum() / 3)
    assert report.figures["label share of the whole text"] == pytest.approx(0.3)
    assert "The labels get 40% of the probability on average (30% for the whole text)" in report.notes[0]
    assert not prompted.report(np.log([[0.6, 0.3]])).notes
    assert len(reading.names) == len(e)
    assert any("of the probability" in note for note in e.notes)


def test_long_texts_are_cut_or_read_in_windows_and_the_template_stays():
    words, text = tokenizer("gpt2"), TEXT * 4
    prompted = made("llama", [" positive film", "negative"], max_length=60)
    whole = made("llama").read(text, "cut", None)
    before, after = whole.before.shape[1], whole.after.shape[1]
    room = 60 - before - after - prompted.continuations.longest
    assert prompted.continuations.longest > 0
    with pytest.warns(UserWarning, match="do not fit into LlamaForCausalLM and were cut"):
        e = Explainer(prompted, **QUICK, progress=False)(text)
    assert (len(e), e.cut) == (room, len(whole.names) - room)
    reading = prompted.read(text, "cut", None)
    assert words.decode(reading.after[0]) == "\nSentiment:"
    windows = prompted.read(text, "window", None)
    assert windows.cut == 0
    keep = np.ones((1, len(whole.names)), dtype=bool)
    (answers,) = Engine(prompted)([Queries(windows, keep)])
    each = [expected(prompted, _window(windows, a, b), keep[:, a:b])[0] for a, b in windows.windows]
    np.testing.assert_allclose(answers.outputs[0], np.mean(each, axis=0), atol=1e-4)


def _window(reading, a, b):
    part = type("Window", (), {})()
    part.before, part.planes, part.after = reading.before, reading.planes[:, a:b], reading.after
    return part


def test_the_model_is_left_as_it_was_and_identified_by_everything_that_matters(tmp_path):
    prompted = made("gpt2")
    network = prompted.model.train()
    config, weights = network.config.to_dict(), {k: v.clone() for k, v in network.state_dict().items()}
    identity = prompted.identity()
    explainer = Explainer(prompted, **QUICK, progress=False, cache=tmp_path / "answers")
    e = explainer(TEXT)
    assert all(module.training for module in network.modules())
    assert network.config.to_dict() == config
    assert all(torch.equal(v, weights[k]) for k, v in network.state_dict().items())
    assert not [hook for module in network.modules() for hook in module._forward_pre_hooks.values()]
    assert prompted.identity() == identity == made("gpt2").identity()
    again = Explainer(made("gpt2"), **QUICK, progress=False, cache=tmp_path / "answers")
    assert again(TEXT).score == e.score
    assert again.engine.cost.inputs == 0
    others = [made("gpt2", spellings=True), made("gpt2", template="{text}\nSentiment:"), made("gpt2", ["negative", "good"])]
    with torch.no_grad():
        next(network.parameters()).view(-1)[0] += 0.5
    assert len({identity, prompted.identity(), *(other.identity() for other in others)}) == 5


@cases(("name", "settings"), [*((n, {}) for n in ("llama", "bloom", "gemma2", "mamba")), ("mistral", {"sliding_window": 5})])
def test_log_probabilities_of_continuations_in_batches_equal_those_one_by_one(name, settings):
    words = tokenizer("gpt2")
    lm = LocalLanguageModel(language_model(name, len(words), **settings), words)
    rng = np.random.default_rng(0)
    prompts = [rng.integers(1, len(words), n).tolist() for n in (1, 9, 4, 30, 2)]
    answers = [rng.integers(1, len(words), n).tolist() for n in (3, 1, 0, 5, 12)]
    each = [plain(lm.model, *pair) if pair[1] else 0.0 for pair in zip(prompts, answers, strict=True)]
    for batch_tokens in (4096, 1, 60):
        with torch.inference_mode():
            logs = lm.token_log_probs(prompts, answers, batch_tokens)
        sums = [part.sum() for part in np.split(logs.numpy(), np.cumsum([3, 1, 0, 5]))]
        np.testing.assert_allclose(sums, each, atol=1e-4)


def test_an_answer_is_generated_greedily_and_ends_before_the_end_of_text():
    words = tokenizer("gpt2")
    network = language_model("llama", len(words))
    prompt, ids = "Review: a good", words("Review: a good")["input_ids"]
    n = len(ids)
    with torch.no_grad():
        for _ in range(8):
            ids.append(int(network(torch.tensor([ids])).logits[0, -1].argmax()))
    for stop in (None, ids[n + 3]):
        network.generation_config.eos_token_id = stop
        end = len(ids) if stop is None else n + ids[n:].index(stop)
        text = words.decode(ids[n:end], skip_special_tokens=True).rstrip("\ufffd").strip().partition("\n")[0].strip()
        assert LocalLanguageModel(network, words).generate(prompt, 8) == text


@cases("wrong", [None, 0.5, True, ("a", "b")])
def test_labels_that_are_no_strings_are_refused(wrong):
    with pytest.raises(InputError, match="labels must be strings; got"):
        label_set(["good", wrong], " ")
    assert label_set([1, 2], " ").continuations == ((" 1",), (" 2",))


def test_a_label_with_a_blank_of_its_own_gets_no_second_one():
    plain, spaced = (label_set([f"{blank}good", f"{blank}bad"], " ") for blank in ("", " "))
    assert spaced.continuations == plain.continuations == ((" good",), (" bad",))
    spelled = (label_set([f"{blank}good", f"{blank}bad"], " ", spellings=True) for blank in ("", " "))
    assert len({labels.continuations for labels in spelled}) == 1
    with pytest.raises(InputError, match="'good' and ' good' have the continuation ' good' in common"):
        label_set(["good", " good"], " ")
