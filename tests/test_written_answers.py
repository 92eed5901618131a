"""Answers as they are written: what is there so far, from local models and from servers, and how to stop it."""

import json
import threading
import time
from itertools import pairwise

import pytest

pytest.importorskip("openai", reason="openai is not installed")

import slalom
from slalom.errors import InputError, ModelError
from slalom.interrupt import Interrupted, interrupted_if
from slalom.models import AnswerServer
from slalom.models.huggingface.causal import LocalLanguageModel
from tests.cases import cases
from tests.models.tiny_lm import language_model, tokenizer
from tests.servers import Llama, Served
from tests.waiting import DEADLINE, until

PROMPT, CHAT = "Was the film good?", [{"role": "user", "content": "Was the film good?"}]
SOURCES, QUESTION = ["Bargor works as a dentist.", "Rovbar plays the harp."], "What does Bargor do?"


def saying(text, kind="gpt2", prompt=PROMPT):
    """A language model that says a text after a prompt, character by character, and then ends; and its passes."""
    words = tokenizer(kind)
    net = language_model("llama", len(words))
    lm = LocalLanguageModel(net, words)
    tokens = [words.convert_tokens_to_ids(words.tokenize(character)) for character in text]
    path = [lm._prompt(prompt, 1)[-1], *(token for part in tokens for token in part), words.eos_token_id]
    net.generation_config.sequence_bias = [[path[:n], 1e4 * n] for n in range(2, len(path) + 1)]
    net.generation_config.eos_token_id = words.eos_token_id
    passes = []
    net.register_forward_pre_hook(lambda *_: passes.append(1))
    return lm, passes


def test_what_is_written_so_far_grows_by_whole_characters():
    lm, passes = saying("é😀x ж.", "chat", CHAT)
    said = []
    assert lm.write(CHAT, 40, said.append) == "é😀x ж." == lm.generate(CHAT, 40)
    assert said == ["é", "é😀", "é😀x", "é😀x ж", "é😀x ж."]  # some of several tokens
    tokens = [len(lm.tokenizer.tokenize(character)) for character in "é😀x ж."]
    assert max(tokens) > 2
    assert len(passes) == 2 * (sum(tokens) + 1), "one pass per token, and one for the end"


def test_an_answer_that_is_cut_has_whole_characters():
    lm, _ = saying("é😀x", "chat", CHAT)
    tokens = [character for character in "é😀x" for _ in lm.tokenizer.tokenize(character)]  # of which character each is
    assert len(tokens) > 4
    for most in range(1, len(tokens) + 1):
        said, cut = [], "" if tokens[most : most + 1] != tokens[most - 1 : most] else tokens[most - 1]
        assert lm.write(CHAT, most, said.append) == "".join(dict.fromkeys(tokens[:most])).removesuffix(cut)


def test_after_a_string_an_answer_ends_with_its_line():
    lm, passes = saying("\n yes\tno\r!")
    said = []
    assert lm.write(PROMPT, 40, said.append) == "yes\tno\r!"
    lm, passes = saying(" yes\nThat")
    said = []
    assert lm.write(PROMPT, 40, said.append) == "yes"
    assert said == ["y", "ye", "yes"]
    assert len(passes) == 5, "nothing is written after the line"
    lm, _ = saying(" yes\nThat", "chat", CHAT)
    assert lm.generate(CHAT, 40) == "yes\nThat"


def test_beams_do_not_change_the_answer():
    lm, _ = saying("yes")
    lm.model.generation_config.num_beams = 3
    said = []
    assert lm.write(PROMPT, 40, said.append) == said[-1] == "yes"


def test_an_answer_that_nobody_waits_for_ends_at_the_next_token():
    lm, passes = saying("abcdefghij")
    said = []
    lm.model.train()
    with interrupted_if(lambda: len(said) >= 3), pytest.raises(Interrupted):
        lm.write(PROMPT, 40, said.append)
    assert len(passes) == 4
    assert said == ["a", "ab", "abc"]
    assert lm.model.training, "modes are restored"
    assert lm.generate(PROMPT, 40) == "abcdefghij"


def test_an_explainer_passes_on_what_is_written_and_keeps_the_answer():
    lm, passes = saying(" A dentist.", prompt="Answer:")
    explainer, said = slalom.ContextExplainer(lm, context=SOURCES, max_answer_tokens=6), []
    assert explainer.answer(QUESTION, said.append) == said[-1] == "A den"  # with the blank, six tokens
    assert said[:2] == ["A", "A d"]
    assert explainer.answer(QUESTION, said.clear) == "A den", "it is known, so nothing is written"
    assert len(passes) == 6
    assert slalom.ContextExplainer(lm, context=SOURCES, max_answer_tokens=6).answer(QUESTION) == "A den"
    with pytest.raises(InputError, match="on_text must be a function of what is written so far; got str"):
        explainer.answer(QUESTION, "A den")
    e = explainer(QUESTION, queries=8)
    assert (e.answer.text, e.answer.generated) == ("A den", True)


def test_llama_cpp_streams_what_it_answers_and_stops():
    with Llama() as llama:
        server, said = AnswerServer("smollm2", llama.url), []
        for prompt in (CHAT, "The sun rises in the"):
            said.clear()
            before = server.usage
            answer = server.write(prompt, 12, said.append)
            assert said[-1] == answer
            assert len(said) > 3
            assert all(after.startswith(text) for text, after in pairwise(said))
            streamed = server.usage
            assert server.generate(prompt, 12) == answer
            assert [a - b for a, b in zip(streamed, before, strict=True)] == [
                a - b for a, b in zip(server.usage, streamed, strict=True)
            ], "a stream costs what an answer in one piece costs"
        said.clear()
        with interrupted_if(lambda: len(said) >= 3), pytest.raises(Interrupted):
            server.write(CHAT, 800, said.append)
        assert len(said) < 100
        assert server.generate(CHAT, 2)


def part(text=None, finish=None, **more):
    return {"model": "x", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]} | more


USAGE = {"choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": 5}}
PARTS = [part(None), part("He is "), part("a dentist.\n"), part(None, "stop"), USAGE]


def events(handler, parts, end=b"data: [DONE]\n\n", cut=7):
    """Send parts as server-sent events, in pieces that cut characters and lines."""
    data = b"".join(
        b": hello\r\n"
        + (part if isinstance(part, bytes) else b"data: " + json.dumps(part, ensure_ascii=False).encode())
        + b"\n\n"
        for part in parts
    )
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream; charset=utf-8")
    handler.send_header("Connection", "close")
    handler.end_headers()
    for i in range(0, len(data + end), cut):
        handler.wfile.write((data + end)[i : i + cut])
    handler.close_connection = True


def whole(handler):
    handler.send({"model": "x", "choices": [{"message": {"content": " He is a dentist. "}}], "usage": USAGE["usage"]})


def in_turn(*answers):
    """Answer each request in its own way; the last way remains."""
    waiting = list(answers)

    def answer(handler, path, body):
        (waiting.pop(0) if len(waiting) > 1 else waiting[0])(handler)

    return answer


def refused(handler):
    handler.send({"error": {"message": "no streams here"}}, 400)


@cases(
    ("ways", "requests", "said"),
    [
        ([lambda handler: events(handler, PARTS)], 1, ["He is", "He is a dentist."]),
        ([lambda handler: events(handler, PARTS, end=b"")], 1, ["He is", "He is a dentist."]),
        ([lambda handler: events(handler, PARTS, cut=10**6)], 1, ["He is", "He is a dentist."]),
        ([lambda handler: events(handler, [*PARTS[:3], USAGE], end=b"data: [DONE]")], 1, ["He is", "He is a dentist."]),
        ([whole], 1, []),  # stream= is ignored
        ([refused, refused, whole], 3, []),  # of max_tokens and max_completion_tokens
        ([lambda handler: events(handler, PARTS[:2], end=b""), whole], 2, ["He is"]),  # cut off, and asked again
        ([lambda handler: events(handler, [*PARTS[:2], b"data: {so"]), whole], 2, ["He is"]),
        ([lambda handler: events(handler, [*PARTS[:2], part([1])]), whole], 2, ["He is"]),
        ([lambda handler: events(handler, [*PARTS[:2], b"data: [1]"]), whole], 2, ["He is"]),
        ([lambda handler: events(handler, [b"data:", *PARTS])], 1, ["He is", "He is a dentist."]),
    ],
)
def test_servers_that_stream_and_servers_that_do_not(ways, requests, said):
    heard = []
    with Served(in_turn(*ways)) as served:
        server = AnswerServer("x", served.url)
        assert server.write(CHAT, 9, heard.append) == "He is a dentist."
        assert heard == said
        assert len(served.asked) == requests == server.usage.requests
        assert server.usage[1:] == (30, 5)
        assert served.asked[0][1] == {
            "model": "x", "messages": CHAT, "temperature": 0.0, "max_tokens": 9,
            "stream": True, "stream_options": {"include_usage": True},
        }  # fmt: skip
        if ways[0] is refused:
            server.write(CHAT, 9, heard.append)
            assert "stream" not in served.asked[-1][1], "it is asked so no more"
            assert len(served.asked) == requests + 1


@cases(
    ("parts", "said"),
    [
        ([part("He is"), {"error": {"message": "out of memory"}}], "answered with an error: out of memory"),
        ([part("He is"), part("", "error", error={"message": "lost"})], "answered with an error: lost"),
        ([part("He is"), {"error": {"message": "late"}}, part(" a dentist.", "stop")], "answered with an error: late"),
        ([part("a" * 600_000), part("a" * 600_000)], "more than 1 MB"),
        ([b"data: " + b"a" * 1_100_000], "more than 1 MB"),
        ([], "an answer without choices"),
    ],
)
def test_streams_that_fail_get_one_line(parts, said):
    with Served(lambda handler, *_: events(handler, parts, cut=2**16)) as served:
        with pytest.raises(ModelError, match=said) as caught:
            AnswerServer("x", served.url).write(CHAT, 9, lambda _: None)
        assert "\n" not in str(caught.value)
        assert len(served.asked) == 1


def test_halves_of_characters_are_not_passed_on():
    halves = [part("yes "), part("\ud83d"), part("\ude00"), part(None, "stop")]
    sent, heard = [b"data: " + json.dumps(half).encode() for half in halves], []
    with Served(lambda handler, *_: events(handler, sent)) as served:
        assert AnswerServer("x", served.url).write(CHAT, 9, heard.append) == "yes 😀"
    assert heard == ["yes", "yes 😀"]


def test_filtered_and_refused_answers_are_none():
    for last in (part(None, "content_filter"), {"choices": [{"delta": {"refusal": "No."}, "finish_reason": "stop"}]}):
        with Served(
            lambda handler, *_, last=last: events(
                handler, [part("He is"), last, part(None, last["choices"][0]["finish_reason"])]
            )
        ) as served:
            explainer = slalom.ContextExplainer(AnswerServer("x", served.url), context=SOURCES, mode="sample")
            with pytest.raises(InputError, match="x says nothing to this question"):
                explainer.answer(QUESTION)


PRICES = {"input": 1.0, "output": 2.0}


def explainer_of(served, **options):
    return slalom.ContextExplainer(AnswerServer("x", served.url), context=SOURCES, mode="sample", prices=PRICES, **options)


def test_a_streamed_answer_costs_what_the_server_counts():
    with Served(lambda handler, *_: events(handler, PARTS)) as served:
        explainer = explainer_of(served, max_cost=1.0)
        assert explainer.answer(QUESTION, print) == explainer.answer(QUESTION) == "He is a dentist."
        assert len(served.asked) == 1
        assert explainer.spending.spent == pytest.approx((30 * 1.0 + 5 * 2.0) / 1e6)
        with pytest.raises(InputError, match="writing the answer would cost"):
            explainer_of(served, max_cost=1e-9).answer(QUESTION)
        assert len(served.asked) == 1
    with Served(in_turn(refused)) as served:
        explainer = explainer_of(served)
        with pytest.raises(ModelError, match="no streams here"):
            explainer.answer(QUESTION)
        assert explainer.spending.spent == 0.0


def test_an_answer_that_is_stopped_ends_the_request_and_is_counted_about():
    gone = threading.Event()

    def endless(handler, path, body):
        if "stream" not in body:
            return whole(handler)
        try:
            events(handler, [part("word ")] * 4, end=b"", cut=10**6)
            while not gone.wait(0.01):
                handler.wfile.write(b": still here\n\n")
        except OSError:
            gone.set()
            raise
        return None

    with Served(endless) as served:
        explainer, said = explainer_of(served), []
        with interrupted_if(lambda: bool(said)), pytest.raises(Interrupted):
            explainer.answer(QUESTION, said.append)
        assert gone.wait(DEADLINE), "the connection is closed, so that the server stops"
        until(lambda: served.open == 0)
        read = -(-len(explainer._prompt(QUESTION)[0]["content"]) // 4)
        assert explainer.spending.spent == pytest.approx((read + 2.0 * 64) / 1e6), "as far as is known, it does not count"
        assert explainer.language_model.generate(CHAT, 9) == "He is a dentist."
        written = -(-len(said[-1]) // 4)
        assert explainer.spending.spent == pytest.approx((30 + read + 2.0 * (5 + written)) / 1e6)


@cases(
    "ask",
    [lambda server: server.sample([CHAT] * 20, 4, 1), lambda server: server.log_probs(["a b c"] * 20, "yes", "")],
)
def test_requests_that_nobody_waits_for_are_given_up(ask):
    given_up, release = threading.Event(), threading.Event()

    def slow(handler, path, body):
        if not release.is_set():
            given_up.set()
            assert release.wait(DEADLINE)
        whole(handler)

    with Served(slow) as served:
        server = AnswerServer("x", served.url, concurrency=2)
        server._limit, server._tokens["yes"] = "max_tokens", ([], ["yes"])
        with interrupted_if(given_up.is_set), pytest.raises(Interrupted):
            ask(server)
        release.set()
        until(lambda: served.open == 0)
        assert len(served.asked) <= 2, "those that wait for their turn are not sent"
        assert server.generate(CHAT, 9) == "He is a dentist."


def test_after_a_failure_no_further_requests_are_sent():
    def slowly(handler):
        time.sleep(0.3)  # longer than the failure takes to be heard of
        whole(handler)

    with Served(in_turn(refused, slowly)) as served:
        server = AnswerServer("x", served.url, concurrency=1)
        server._limit = "max_tokens"
        with pytest.raises(ModelError, match="no streams here"):
            server.sample([CHAT] * 20, 4, 1)
        assert server.generate(CHAT, 9) == "He is a dentist."
        assert len(served.asked) <= 3
