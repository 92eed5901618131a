"""`slalom explain --lm` and `--api`: with a small model and against a small server, as a user types it."""

import json
import signal
import threading
import time

import pytest

import slalom
from slalom import Explainer
from slalom.cli.language_models import LanguageModel
from slalom.models import Prompted
from slalom.models.api.probe import TEXT as PROBE
from tests.cases import cases
from tests.cli.test_commands import run  # noqa: F401
from tests.cli.test_interruption import _slalom
from tests.models.test_api_client import odds, works
from tests.models.tiny_lm import language_model, tokenizer
from tests.servers import Served
from tests.waiting import DEADLINE, until

TEXT = "a good day and a bad one"


def test_a_text_is_explained_by_a_model_behind_an_api_and_resumed_from_the_cache(run, tmp_path):  # noqa: F811
    with Served(works) as server:
        asked = ["explain", TEXT, "--api", "m", "--base-url", server.url, "--template", "{text} ->", "--labels", "bad,good"]
        code, out, err = run(*asked, "--queries", 60, "--cache", "answers", "--json")
        assert code == 0, err
        explanation = json.loads(out)
        same = Explainer(lambda texts: [odds(text) for text in texts], output="log_odds", queries=60)(TEXT)
        assert explanation["score"] == pytest.approx(same.score)
        assert explanation["figures"]["label share"] == pytest.approx(0.8)
        n = len(server.asked)
        code, again, _ = run(*asked, "--queries", 60, "--cache", "answers", "--json")
        assert code == 0
        assert len(server.asked) == n, "nothing is asked twice"
        assert {**json.loads(again), "seconds": 0} == {**explanation, "seconds": 0}
        code, out, _ = run(*asked, "--queries", 60, "--cache", "answers", "--concurrency", 2)
        assert "The scores are log-probabilities, 20 per token." in out


def test_spellings_reach_a_model_behind_an_api():
    options = {"api": "m", "base_url": "http://127.0.0.1:1/v1", "template": "{text} ->", "labels": "bad,good", "mode": "auto"}
    plain, spelled = (LanguageModel(**options, spellings=s).load() for s in (False, True))
    assert plain.labels.continuations == ((" bad",), (" good",))
    assert set(spelled.labels.continuations[1]) == {" good", "good", " Good", "Good"}


def test_ctrl_c_keeps_the_answers_and_the_same_command_goes_on(tmp_path):
    interrupted, ended = threading.Event(), threading.Event()

    def answer(handler, path, body):
        if len(server.asked) > 20 and not ended.is_set():
            interrupted.wait(DEADLINE)  # in flight at Ctrl-C
            time.sleep(0.5)  # no new request before the process has noticed it
        works(handler, path, body)

    with Served(answer) as server:
        options = ["--api", "m", "--base-url", server.url, "--template", "{text} ->", "--labels", "bad,good", "--json"]
        command = ["explain", TEXT, *options, "--queries", "100", "--cache", "answers"]
        first = _slalom(*command, "--concurrency", "2", cwd=tmp_path)
        until(lambda: len(server.asked) >= 22, process=first)
        time.sleep(0.5)  # until the answers before these are read, on a busy machine too
        first.send_signal(signal.SIGINT)
        interrupted.set()
        _, err = first.communicate(timeout=DEADLINE)
        ended.set()
        assert first.returncode == 130, err
        assert err.strip().endswith(
            "interrupted after 0 of 1 text; 'answers' has the model's answers so far; run the same command to continue"
        )
        before = [body["prompt"] for _, body in server.asked]
        assert len(before) < 60, "it stopped in the middle"
        out, err = _slalom(*command, cwd=tmp_path).communicate(timeout=DEADLINE)
        after = [body["prompt"] for _, body in server.asked[len(before) :] if PROBE not in body["prompt"]]
        assert json.loads(out)["queries"] == len(set(before + after) - {f"{PROBE} ->"})
        assert len(set(before) & set(after)) <= 2, "what was in flight at Ctrl-C"


def test_chat_messages_and_answers_of_labels_are_taken_from_options_and_files(run, tmp_path):  # noqa: F811
    (tmp_path / "prompt.json").write_text(json.dumps([{"role": "user", "content": "{text} ->"}]), encoding="utf-8")

    def answer(handler, path, body):
        assert path == "/v1/chat/completions"
        assert body["messages"][0]["content"].endswith(" ->")
        handler.send({"choices": [{"message": {"content": "A"}} for _ in range(body.get("n", 1))]})

    with Served(answer) as server:
        asked = ["--api", "m", "--base-url", server.url, "--labels", "spam=A,ham=B", "--queries", 10, "--json"]
        code, out, err = run("explain", "one two", "--template", "@prompt.json", *asked)
        assert code == 0, err
        assert json.loads(out)["label"] == "spam"


@cases(
    ("options", "message"),
    [
        (["--api", "m"], "--api needs --template and --labels"),
        (["--labels", "a,b"], "--labels is for a language model; name one with --lm MODEL or --api MODEL"),
        (["--api", "m", "--model", "x"], "give one of --model, --lm and --api; got --model and --api"),
        (["--lm", "m", "--api", "m"], "give one of --model, --lm and --api; got --lm and --api"),
        (["--lm", "m"], "--lm needs --template and --labels"),
        (["--spellings"], "--spellings is for a language model; name one with --lm MODEL or --api MODEL"),
        (["--chat"], "--chat is for a local language model; name one with --lm"),
        (["--mode", "sample"], "--mode is for a model behind an API; name one with --api MODEL"),
        (["--lm", "./none", "--template", "{text}", "--labels", "a,b"], "there is no folder or file './none'"),
        (["--lm", "none.gguf", "--template", "{text}", "--labels", "a,b"], "there is no folder or file 'none.gguf'"),
        (["--lm", __file__, "--template", "{text}", "--labels", "a,b"], "a language model is a folder or a .gguf file"),
        (["--lm", "./none", "--template", "text", "--labels", "a,b"], "must contain {text} once"),
        (["--lm", "./none", "--template", "{text}", "--labels", "a"], "labels must be at least two"),
        (["--lm", "./none", "--template", '[{"role": "user", "content": "{text}"}]', "--labels", "a,b", "--chat"], "already"),
        (["--base-url", "http://x"], "--base-url is for a model behind an API"),
        (["--api", "m", "--template", "x", "--labels", "a,b"], "must contain {text} once"),
        (["--api", "m", "--template", "{text}", "--labels", "a"], "labels must be at least two"),
        (["--api", "m", "--template", "[{", "--labels", "a,b"], "must be chat messages as JSON"),
        (["--api", "m", "--template", "{text}", "--labels", "a,b", "--base-url", "x"], "--base-url must begin with http"),
    ],
)
def test_options_that_do_not_fit_together_are_an_error_of_one_line(run, options, message):  # noqa: F811
    code, _, err = run("explain", "a text", *options)
    assert code in (1, 2)
    assert message in err
    assert err.count("\n") == 1


def test_a_text_is_explained_by_a_language_model_in_a_folder(run, tmp_path):  # noqa: F811
    words = tokenizer("chat")
    network = language_model("llama", len(words))
    network.save_pretrained(tmp_path / "lm")
    words.save_pretrained(tmp_path / "lm")
    (tmp_path / "prompt.txt").write_text("Review: {text}\nSentiment:", encoding="utf-8")
    asked = ["explain", TEXT, "--lm", "lm", "--labels", "negative,positive", "--queries", 30, "--json", "--device", "cpu"]
    code, out, err = run(*asked, "--template", "Review: {text}\\nSentiment:")
    assert code == 0, err
    same = Explainer(Prompted(network, words, "Review: {text}\nSentiment:", ["negative", "positive"]), queries=30)(TEXT)
    assert json.loads(out)["score"] == pytest.approx(same.score, abs=1e-5)
    assert json.loads(out)["model"] == "lm"
    assert json.loads(run(*asked, "--template", "@prompt.txt")[1])["score"] == pytest.approx(same.score, abs=1e-5)
    code, out, err = run(*asked, "--template", "Review: {text}", "--chat", "--spellings")
    assert code == 0, err
    chat = [{"role": "user", "content": "Review: {text}"}]
    same = Explainer(Prompted(network, words, chat, ["negative", "positive"], spellings=True), queries=30)(TEXT)
    assert json.loads(out)["score"] == pytest.approx(same.score, abs=1e-5)


def test_a_folder_without_a_language_model_is_an_error_of_one_line(run, tmp_path):  # noqa: F811
    (tmp_path / "lm").mkdir()
    code, _, err = run("explain", "a", "--lm", "./lm", "--template", "{text}", "--labels", "a,b")
    assert code == 1
    assert "no language model with its tokenizer could be loaded from './lm'" in err
    assert err.count("\n") == 1


def test_methods_are_compared_on_a_model_behind_an_api_and_nothing_is_asked_twice(run, tmp_path):  # noqa: F811
    (tmp_path / "texts.txt").write_text("a good day and a bad one\nno good news\n", encoding="utf-8")
    with Served(works) as server:
        asked = ["compare", "--file", "texts.txt", "--api", "m", "--base-url", server.url, "--template", "{text} ->"]
        asked += ["--labels", "bad,good", "--methods", "joint,ridge", "--queries", 30, "--json"]
        code, out, err = run(*asked, "--cache", "answers")
        assert code == 0, err
        compared, n = json.loads(out), len(server.asked)
        assert compared["about"]["model"] == "m"
        same = slalom.compare(
            lambda texts: [odds(text) for text in texts], ["a good day and a bad one", "no good news"],
            methods=["joint", "ridge"], queries=30, output="log_odds", progress=False,
        )  # fmt: skip
        ours, theirs = ([row["far"] for row in rows] for rows in (compared["records"], json.loads(same.to_json())["records"]))
        assert ours == pytest.approx(theirs, abs=1e-6)
        assert run(*asked, "--cache", "answers")[0] == 0
        again = [body["prompt"] for _, body in server.asked[n:]]
        assert all(PROBE in prompt for prompt in again), "only what the server can do is found out again"
        code, _, err = run(*asked[:5], "--template", "{text} ->")
        assert code == 2
        assert "--api needs --template and --labels" in err


def test_methods_are_compared_on_a_language_model_in_a_folder(run, tmp_path):  # noqa: F811
    words = tokenizer("chat")
    language_model("llama", len(words)).save_pretrained(tmp_path / "lm")
    words.save_pretrained(tmp_path / "lm")
    (tmp_path / "texts.txt").write_text(TEXT, encoding="utf-8")
    asked = ["compare", "--file", "texts.txt", "--lm", "lm", "--template", "Review: {text}\\nSentiment:", "--device", "cpu"]
    code, out, err = run(*asked, "--labels", "negative,positive", "--methods", "joint,gradient", "--queries", 20, "--json")
    assert code == 0, err
    compared = json.loads(out)
    assert compared["about"]["model"] == "lm"
    assert "nor is a language model with a prompt" in compared["skipped"]["gradient"]


def test_a_comparison_says_what_it_costs_and_stops_before_a_limit(run, tmp_path):  # noqa: F811
    (tmp_path / "texts.txt").write_text("a good day and a bad one\nno good news\n", encoding="utf-8")
    with Served(works) as server:
        asked = ["compare", "--file", "texts.txt", "--api", "m", "--base-url", server.url, "--template", "{text} ->"]
        asked += ["--labels", "bad,good", "--methods", "joint,ridge", "--queries", 30, "--prices", "1,2"]
        code, out, err = run(*asked, "--dry-run")
        assert code == 0, err
        assert "nothing was asked" in out
        estimate = json.loads(run(*asked, "--dry-run", "--json")[1])
        code, _, err = run(*asked, "--max-cost", estimate["cost"] / 2)
        assert code == 1
        assert "this comparison (" in err
        assert err.count("\n") == 1
        assert not server.asked
        code, _, err = run(*asked, "--max-cost", 0)
        assert code == 1
        assert "--max-cost must be a number above 0" in err
        code, _, err = run(*asked, "--max-cost", 1, "--json")
        assert code == 0, err
        queries = [body["prompt"] for _, body in server.asked if PROBE not in body["prompt"]]
        assert 0.8 * estimate["queries"] <= len(queries) <= estimate["queries"]
