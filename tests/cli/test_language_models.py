"""`slalom explain --api`: against a small server, as a user types it."""

import json

import pytest

from slalom import Explainer
from tests.cli.test_commands import run  # noqa: F401
from tests.models.test_api_client import odds, works
from tests.servers import Served

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
        assert "the scores are log-probabilities of completions" in out


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--api", "m"], "--api needs --template and --labels"),
        (["--labels", "a,b"], "--labels is for a language model; name one with --api MODEL"),
        (["--api", "m", "--model", "x"], "give --model or --api; got both"),
        (["--api", "m", "--template", "x", "--labels", "a,b"], "must contain {text} once"),
        (["--api", "m", "--template", "{text}", "--labels", "a"], "labels must be at least two"),
        (["--api", "m", "--template", "[{", "--labels", "a,b"], "must be chat messages as JSON"),
        (["--api", "m", "--template", "{text}", "--labels", "a,b", "--base-url", "x"], "base_url must begin with http"),
    ],
)
def test_options_that_do_not_fit_together_are_an_error_of_one_line(run, options, message):  # noqa: F811
    code, _, err = run("explain", "a text", *options)
    assert code in (1, 2)
    assert message in err
    assert err.count("\n") == 1
