"""Log probabilities of given answers from servers: llama.cpp with a real model, and one that echoes as vLLM does."""

import functools

import numpy as np
import pytest
import torch

pytest.importorskip("openai", reason="openai is not installed")

import slalom
from slalom.errors import InputError, ModelError
from slalom.models import AnswerServer, Prices
from tests.cases import cases
from tests.commands import invoke
from tests.models.tiny_lm import language_model, tokenizer
from tests.servers import Llama, Proxy, Served
from tests.smollm2 import loaded

TEMPLATE = "Question: {question}\nContext: {context}\nAnswer:"
SOURCES = ["Rovbar plays the harp.", "Bargor works as a dentist."]
QUESTION, ANSWER = "What does Bargor do?", "a dentist."
KEEP = [[0, 0], [1, 0], [0, 1], [1, 1]]


def test_llama_cpp_agrees_with_transformers_up_to_quantisation():
    options = {"context": SOURCES, "template": TEMPLATE, "check": 0, "progress": False, "max_answer_tokens": 3}
    local = slalom.ContextExplainer(*loaded(), **options)
    known = local(QUESTION, ANSWER)
    expected = local.ask(known, KEEP)
    with Llama() as llama:
        server = AnswerServer("smollm2", llama.url)
        explainer = slalom.ContextExplainer(server, **options)
        e = explainer(QUESTION, ANSWER)
        asked = explainer.ask(e, KEEP)
        assert server.mode == "grammar"
        assert explainer.answer(QUESTION)
    assert e.strongest(1) == known.strongest(1) == [1]
    assert asked == pytest.approx(expected, abs=0.7)  # activations of llama.cpp have 8 bits
    assert np.corrcoef(asked, expected)[0, 1] > 0.99
    assert e.answer.tokens == len(loaded()[1](" " + ANSWER)["input_ids"])


def echoing(handler, path, body, net, words):
    """Answer a completion as vLLM does: with echo, the prompt comes back with its log probabilities."""
    ids = words(body["prompt"])["input_ids"]
    with torch.no_grad():
        logs = torch.log_softmax(net(torch.tensor([ids])).logits[0].double(), dim=-1)
    new = int(logs[-1].argmax())
    shown = [words.decode([token]) for token in [*ids, new]]
    numbers = [None, *(float(logs[t, token]) for t, token in enumerate([*ids, new][1:]))]
    echo = slice(None) if body.get("echo") else slice(len(ids), None)
    found = {"tokens": shown[echo], "token_logprobs": numbers[echo]}
    choice = {"index": 0, "text": "".join(shown[echo]), "finish_reason": "length", "logprobs": found}
    handler.send(
        {"object": "text_completion", "choices": [choice], "usage": {"completion_tokens": 1, "prompt_tokens": len(ids)}}
    )


def test_an_echo_gives_what_the_model_gives():
    words = tokenizer("gpt2")
    net = language_model("llama", len(words))
    options = {"context": ["a good film.", "the plot was thin."], "template": TEMPLATE, "check": 0, "progress": False}
    local = slalom.ContextExplainer(net, words, **options)
    with Served(lambda *asked: echoing(*asked, net, words)) as served:
        server = AnswerServer("tiny", served.url)
        remote = slalom.ContextExplainer(server, **options)
        e, f = remote("good?", "a good plot."), local("good?", "a good plot.")
        assert server.mode == "echo"
        assert remote.ask(e, KEEP) == pytest.approx(local.ask(f, KEEP), abs=1e-3)
        assert e.answer == f.answer
        assert e.score == pytest.approx(f.score, abs=1e-3)


def test_a_server_costs_no_more_than_is_said_and_a_dry_run_asks_nothing(tmp_path):
    words = tokenizer("gpt2")
    net = language_model("llama", len(words))
    prices = {"input": 1.0, "output": 2.0}
    options = {"context": ["a good film.", "the plot was thin."], "template": TEMPLATE, "check": 0, "progress": False}
    (tmp_path / "a.txt").write_text("a good film. the plot was thin.", encoding="utf-8")
    with Served(lambda *asked: echoing(*asked, net, words)) as served:
        command = [
            "context",
            "--api",
            "tiny",
            "--base-url",
            served.url,
            "--context",
            str(tmp_path / "a.txt"),
            "--prices",
            "1,2",
        ]
        command += ["--question", "good?", "--template", TEMPLATE.replace("\n", "\\n")]
        shown = invoke([*command, "--dry-run"]).output
        assert shown.startswith("4 queries, about ")
        assert shown.endswith("; nothing was asked\n")
        explainer = slalom.ContextExplainer(AnswerServer("tiny", served.url), **options, prices=prices, max_cost=1e-5)
        estimate = explainer.estimate("good?", "a good plot.")
        with pytest.raises(InputError, match=r"this call \(4 queries, about .* would cost"):
            explainer("good?", "a good plot.")
        limited = invoke([*command, "--max-cost", "0.00001"])
        assert "this call (4 queries" in limited.stderr
        assert not served.asked
        explainer = slalom.ContextExplainer(AnswerServer("tiny", served.url), **options, prices=prices, max_cost=1.0)
        explainer("good?", "a good plot.")
        read = sum(len(words(body["prompt"])["input_ids"]) for _, body in served.asked)
        assert explainer.spending.spent == pytest.approx(Prices(**prices).cost(read, len(served.asked)))
        assert explainer.estimate("good?", "a good plot.").queries == 0, "all are known"
        assert estimate.queries == 4


def plain(handler, path, body, **choice):
    handler.send({"choices": [{"index": 0, "text": " west", "logprobs": None} | choice], "usage": {"completion_tokens": 1}})


def refused(handler, path, body):
    handler.send({"error": {"message": "no such model"}}, status=404)


def nonsense(handler, path, body):
    tokens = ["The", body.get("prompt", "")[3:], "x"]
    plain(handler, path, body, logprobs={"tokens": tokens, "token_logprobs": [None, 3.5, -1.0]})


def hostile_pieces(handler, path, body, piece):
    if path.endswith("tokenize"):
        handler.send({"tokens": [{"id": 1, "piece": piece}]})
    else:
        plain(handler, path, body)


def hostile_usage(handler, path, body):
    choice = {"index": 0, "text": "", "logprobs": {"tokens": [" west"], "token_logprobs": [-1.0]}}
    handler.send({"choices": [choice], "usage": {"completion_tokens": "many"}})


NO_LOGS = "gives no log probabilities of given words"


@cases(
    ("answer", "message"),
    [
        (plain, 'gives no log probabilities of given words; use mode="sample", or vLLM, llama.cpp or a local model'),
        (nonsense, "gives no log probabilities of given words"),
        (refused, "status 404"),
        (hostile_usage, NO_LOGS),
        *((functools.partial(hostile_pieces, piece=piece), NO_LOGS) for piece in (10**13, None, [300], ["a"], {"a": 1}, 0.5)),
    ],
)
def test_other_servers_get_one_line(answer, message):
    with Served(answer) as served, pytest.raises(ModelError, match=message) as caught:
        slalom.context(AnswerServer("x", served.url), context=SOURCES, question="?", answer="yes", template=TEMPLATE)
    assert "\n" not in str(caught.value)


def test_servers_take_strings():
    with pytest.raises(InputError, match="no chat template"):
        slalom.context(
            AnswerServer("x", "http://localhost:1/v1"), context=[{"role": "assistant", "content": "a"}], question="?"
        )
    with pytest.raises(InputError, match="name of a model"):
        AnswerServer(" ")
    with pytest.raises(InputError, match="name of a model"):
        AnswerServer(None)


MESSAGE = [
    {"role": "user", "content": "Context: Rovbar plays the harp. Bargor works as a dentist.\n\nQuestion: What does Bargor do?"}
]


def test_llama_cpp_is_sampled_by_messages():
    with Llama() as llama, Proxy(llama.url) as proxy:
        server = AnswerServer("smollm2", proxy.url)
        drawn = server.sample([MESSAGE, MESSAGE], 4, 3)
        assert [len(texts) for texts in drawn] == [3, 3]
        assert len({text for texts in drawn for text in texts}) > 1
        assert server.sample([MESSAGE], 3, 1, 0.0)[0][0] == server.generate(MESSAGE, 3)
        assert all(path == "/v1/chat/completions" and body["messages"] == MESSAGE for path, body in proxy.asked)
        assert len(server.sample(["The sun rises in the east and sets in the"], 2, 2)[0]) == 2, "strings are completed"
        e = slalom.context(
            server, context=SOURCES, question=QUESTION, answer="dentist", mode="sample", samples=2, max_answer_tokens=3
        )
        assert e.queries == 4
        assert e.interval("removal") is not None
        with pytest.raises(ModelError, match=r"status 400 .* exceeds the available context size") as caught:
            slalom.context(server, context=["word " * 3000], question="?", answer="a", mode="sample")
    assert "\n" not in str(caught.value)


def dentist(handler, path, body, refuses=(), most=99, status=400):
    """Answer a chat with as many samples as are asked for, where the server takes such requests."""
    if any(option in body for option in refuses):
        return handler.send({"error": {"message": "unsupported option"}}, status)
    said = "He is a dentist." if "dentist" in body["messages"][-1]["content"] else "I do not know."
    choices = [{"index": i, "message": {"content": said}} for i in range(min(body.get("n", 1), most))]
    read = sum(len(message["content"]) for message in body["messages"]) // 4
    return handler.send({"choices": choices, "usage": {"prompt_tokens": read, "completion_tokens": 4 * len(choices)}})


@cases(
    ("options", "requests", "last"),
    [
        ({}, 2, {"max_tokens": 9, "n": 5}),
        ({"refuses": ("max_tokens",)}, 1 + 2, {"max_completion_tokens": 9, "n": 5}),
        ({"refuses": ("n",), "status": 422}, 2 + 10, {"max_tokens": 9}),
        ({"most": 1}, 10, {"max_tokens": 9}),  # n= is ignored
        ({"most": 3}, (1 + 2) + (1 + 2), None),
    ],
)
def test_samples_are_asked_for_in_the_way_that_the_server_takes(options, requests, last):
    with Served(functools.partial(dentist, **options)) as served:
        server = AnswerServer("x", served.url)
        assert server.sample([MESSAGE, MESSAGE[:]], 9, 5) == [["He is a dentist."] * 5] * 2
        assert len(served.asked) == requests
        body = served.asked[-1][1]
        assert last is None or body == last | {"model": "x", "messages": MESSAGE, "temperature": 1.0}


def test_a_server_without_log_probabilities_is_explained_by_samples(tmp_path):
    prices = {"input": 1.0, "output": 2.0}
    options = {"context": SOURCES, "mode": "sample", "samples": 6, "max_answer_tokens": 9, "prices": prices, "progress": False}
    for source, name in zip(SOURCES, "ab", strict=True):
        (tmp_path / f"{name}.txt").write_text(source, encoding="utf-8")
    with Served(dentist) as served:
        command = [
            "context",
            "--api",
            "x",
            "--base-url",
            served.url,
            "--question",
            QUESTION,
            "--prices",
            "1,2",
            "--mode",
            "sample",
        ]
        command += ["--samples", "6", "--max-answer-tokens", "9"]
        command += [part for name in "ab" for part in ("--file", str(tmp_path / f"{name}.txt"))]
        dry = invoke([*command, "--answer", "a dentist", "--dry-run"]).output
        assert " and 216 to write: $" in dry, dry  # 4 queries, 6 samples, 9 tokens
        limited = invoke([*command, "--max-cost", "0.0001"])
        assert "would cost" in limited.stderr
        assert not served.asked
        explainer = slalom.ContextExplainer(AnswerServer("x", served.url), **options, max_cost=1.0)
        estimate = explainer.estimate(QUESTION)
        e = explainer(QUESTION)
        assert (e.answer.text, e.strongest(1), e.queries) == ("He is a dentist.", [1], 4)
        assert explainer.spending.spent <= estimate.cost
        assert len(served.asked) == 1 + 4, "the answer, and one request per query"
        shown = invoke([*command, "--score", "similarity", "--answer", "a dentist"]).output
        assert "similarity of answer: +" in shown, shown
        judged = invoke([*command, "--judge", "model", "--answer", "a dentist"])
        assert "With all sources 0 of 6 samples agree" in judged.output, judged.output  # it never says yes


def test_an_answer_about_the_content_filter_is_an_empty_sample():
    def filtered(handler, path, body):
        if "harp" in body["messages"][-1]["content"]:
            return handler.send({"error": {"message": "no", "code": "content_filter"}}, 400)
        return dentist(handler, path, body)

    with Served(filtered) as served:
        e = slalom.context(AnswerServer("x", served.url), context=SOURCES, question=QUESTION, answer="dentist", mode="sample")
    assert "16 of 32 samples are empty (refused, filtered or cut) and do not agree." in e.notes


def test_another_model_between_calls_gets_one_line():
    def changing(handler, path, body):
        handler.send({"model": f"x-{len(served.asked) > 2}", "choices": [{"message": {"content": "a"}}]})

    with Served(changing) as served, pytest.raises(ModelError, match="answered as the model 'x-False', and now as") as caught:
        slalom.context(AnswerServer("x", served.url), context=SOURCES, question=QUESTION, answer="a", mode="sample")
    assert "\n" not in str(caught.value)
