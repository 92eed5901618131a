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
from tests.servers import Llama, Served
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
        (plain, "gives no log probabilities of given words; an answer can be explained with vLLM, llama.cpp or a local model"),
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
