"""Records of several fields over real HTTP: they are explained as the library explains them, and errors name the field."""

import json

import numpy as np
import pandas as pd
import pytest

from slalom import Explainer, Lexicon
from slalom.models import Prompted
from slalom.render.page.content import content
from slalom.result import Explanation
from tests.cases import cases
from tests.models.tiny import classifier
from tests.models.tiny_lm import language_model, tokenizer
from tests.web.reviews import FRAME, explainers, pipeline
from tests.web.serving import answers, rounds, serving

REVIEW = {"title": "good but dull fun", "stars": 4}
TOPIC = {"title": "a good film", "body": "the plot was thin"}
PAIR = ["where is my card", "the card is lost"]


@pytest.fixture(scope="module")
def served():
    words = tokenizer("gpt2")
    prompted = Prompted(language_model("gpt2", len(words)), words, "{title}: {body}. It is", ["good", "bad"])
    of_text = Explainer(answers, output="log_odds", progress=False)
    return explainers() | {"topics": Explainer(prompted, progress=False), "texts": of_text}


@pytest.fixture(scope="module")
def client(served):
    with serving(served, characters=200) as started:
        yield started


def test_the_server_says_which_fields_a_model_takes(client):
    named = {model["id"]: (model["records"], model["fields"]) for model in client.get("/api/info").json["models"]}
    assert named == {
        "reviews": (True, [{"name": "title", "number": False}, {"name": "stars", "number": True}]),
        "topics": (True, [{"name": "title", "number": False}, {"name": "body", "number": False}]),
        "pairs": (True, []),
        "texts": (False, []),
    }


@cases(("model", "given"), [("reviews", REVIEW), ("topics", TOPIC), ("pairs", PAIR)])
def test_a_record_is_explained_as_the_library_does(client, served, model, given):
    subject = {"text": given, "model": model, "unit": "word", "queries": 60}
    answer = client.post("/api/explain", subject)
    assert answer.status == 200, answer.json
    e = served[model](tuple(given) if isinstance(given, list) else given, unit="word", queries=60)
    explained, shown = answer.json["explanation"], json.loads(json.dumps(content(e)))
    assert explained["units"] == list(e.units)
    assert Explanation.from_dict(explained).removal.tolist() == e.removal.tolist()
    assert answer.json["content"]["fields"] == shown["fields"]
    events = client.stream(subject)
    assert rounds(events) == ["queued", "explanation", "done"], "it was kept under its fields"


def test_the_fewest_words_that_flip_a_record(client, served):
    flip = client.post("/api/flip", {"text": REVIEW, "model": "reviews", "queries": 60}).json["flip"]
    found = served["reviews"].flip(served["reviews"](REVIEW, queries=60))
    assert flip["units"] == list(found.units)
    assert flip["confirmed"]


def test_parts_of_records_and_other_records_are_asked(client, served):
    subject = {"text": REVIEW, "model": "reviews", "queries": 60}
    estimator, whole = pipeline(), pd.DataFrame([REVIEW])
    asked = client.post("/api/ask", {**subject, "keep": [[1, 1, 1, 1, 1], [1, 1, 0, 1, 1], [1, 1, 1, 1, 0]]}).json["scores"]
    no_stars = [estimator.decision_function(whole.assign(stars=stars))[0] for stars in FRAME["stars"].head(4)]
    expected = [estimator.decision_function(whole)[0], estimator.decision_function(whole.assign(title="good but fun"))[0]]
    assert asked == pytest.approx([*expected, np.mean(no_stars)], abs=1e-6)
    others = [REVIEW, {"stars": 1, "title": "dull"}]
    answer = client.post("/api/ask", {"texts": others, "model": "reviews"}).json
    assert answer["scores"] == pytest.approx(estimator.decision_function(pd.DataFrame(others)))
    assert client.post("/api/ask", {"texts": [PAIR], "model": "pairs"}).json["scores"] == [2.0]


def test_records_that_read_alike_are_told_apart(client):
    """As strings they are the same."""
    subject = {"model": "topics", "unit": "word", "queries": 30}
    assert client.post("/api/explain", {**subject, "text": TOPIC}).status == 200
    assert client.post("/api/explain", {**subject, "text": "title: a good film\nbody: the plot was thin"}).status == 400
    assert client.post("/api/explain", {**subject, "text": {"title": "a good film\nbody: the plot was thin"}}).status == 400


def test_files_of_a_record(client, served):
    subject = {"model": "reviews", "unit": "word", "queries": 60, "text": REVIEW}
    code = client.post("/api/download", {**subject, "format": "python"}).body.decode()
    assert f"text = {REVIEW!r}\n" in code
    assert (
        f"text = {tuple(PAIR)!r}\n"
        in client.post("/api/download", {**subject, "text": PAIR, "model": "pairs", "format": "python"}).body.decode()
    )
    table = client.post("/api/download", {**subject, "format": "csv"}).body.decode()
    assert table.count("\n") == 1 + len(served["reviews"](REVIEW, unit="word", queries=60))


@cases(
    ("model", "given", "status", "reason"),
    [
        ("reviews", {"title": "good"}, 400, "the field 'stars' is missing"),
        ("reviews", {**REVIEW, "star": 1}, 400, "does not know the field 'star'; did you mean 'stars'?"),
        ("reviews", {**REVIEW, "title": 4}, 400, "the field 'title' of Pipeline must be a text; got 4"),
        ("reviews", {**REVIEW, "title": " "}, 400, "the field 'title' must not be empty"),
        ("reviews", {**REVIEW, "title": ["good"]}, 400, "text: the field 'title' must be a string or a number; got list"),
        ("reviews", {**REVIEW, "title": "\ud800"}, 400, "text: a text must be valid Unicode"),
        ("reviews", "good", 400, "Pipeline reads the fields 'title', 'stars'; got a text"),
        ("topics", {"title": "good"}, 400, "the template has the places title, body; got the fields title"),
        ("topics", {**TOPIC, "body": None}, 400, "the field 'body' of"),
        ("texts", TOPIC, 400, "answers answers strings, so it takes one text; got the fields 'title', 'body'"),
        ("pairs", {"a": "x", "b": "y"}, 400, "same_words takes tuples; got the fields 'a', 'b'"),
        ("pairs", ["x"], 400, "text: must be a text, an object of fields, or two texts; got a list"),
        ("pairs", ["x", 5], 400, "text: must be a text, an object of fields, or two texts; got a list"),
        ("pairs", {}, 400, "text: a record must have at least one field; got none"),
        ("texts", {str(i): "a" for i in range(101)}, 400, "text: must have at most 100 fields; got 101"),
        ("topics", {**TOPIC, "body": "x" * 200}, 413, "at most 200 characters; got"),
    ],
)
def test_wrong_fields_are_named_in_one_line(client, model, given, status, reason):
    answer = client.post("/api/explain", {"text": given, "model": model})
    assert answer.status == status, answer.json
    assert reason in answer.json["error"]
    assert "\n" not in answer.json["error"]
    if "empty" not in reason:  # the model may be asked about a field without a text
        asked = client.post("/api/ask", {"texts": [given], "model": model})
        assert (asked.status, asked.json["error"].removeprefix("texts.0")) == (
            status,
            answer.json["error"].removeprefix("text"),
        )


def test_a_pair_is_explained_without_the_lexicon_which_has_words_of_single_texts():
    plain = Explainer(*classifier("bert"), progress=False)
    learnt = Lexicon.learn(plain, ["a good film", "the plot was thin"] * 5, queries=20)
    with serving(plain.with_prior(learnt)) as client:
        answer = client.post("/api/explain", {"text": ["a good film", "the plot was thin"], "queries": 60})
    assert answer.status == 200, answer.json
    found = Explanation.from_dict(answer.json["explanation"])
    assert found.removal.tolist() == plain(("a good film", "the plot was thin"), queries=60).removal.tolist()
