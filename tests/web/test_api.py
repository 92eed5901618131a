"""Every route over real HTTP: what it answers, and that it is what the library says."""

import dataclasses
import io
import json
import re

import numpy as np
import pytest

import slalom
from slalom import Explainer
from slalom.render.page.content import content
from slalom.result import Explanation
from slalom.web.access import Limits
from slalom.web.served import Served
from tests.cases import cases
from tests.web.serving import TEXT, answers, explainer, rounds, score, serving

SUBJECT = {"text": TEXT, "queries": 120}


@pytest.fixture(scope="module")
def client():
    with serving(answers, lambda texts: [-x for x in answers(texts)]) as started:
        yield started


@pytest.fixture(scope="module")
def e():
    return explainer()(TEXT, queries=120)


def comparable(explanation):
    return {name: part for name, part in explanation.items() if name not in ("seconds",)}


def shown(part):
    """What the page shows, as JSON gives it, without the time."""
    plain = json.loads(json.dumps(part))
    return plain | {"facts": [fact for fact in plain["facts"] if fact[0] != "Time"]}


def test_the_page_and_its_files(client):
    page = client.get("/")
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert client.get("/assets/index.html").body == page.body
    assert client.get("/assets/report.css").headers["content-type"].startswith("text/css")
    assert client.get("/assets/surrogate.js").headers["content-type"].startswith("text/javascript")
    for name in ("nothing.js", "..%2fapp.py", "%2e%2e/app.py", "app.py", "..%5capp.py", "%00", ""):
        missing = client.get(f"/assets/{name}")
        assert missing.status == 404, name
        assert "error" in missing.json


def test_info(client):
    info = client.get("/api/info").json
    assert info["version"] == slalom.__version__
    assert [m["id"] for m in info["models"]] == ["m0", "m1"]
    assert info["models"][0]["labels"] == ["no", "yes"]
    assert info["models"][0]["scale"] == "log odds"
    assert info["models"][0]["remote"] is False
    assert info["limits"] == {"characters": 50_000, "queries": 5_000, "keep_rows": 1_000, "seconds": 300}
    assert "joint" in [m["name"] for m in info["methods"]]
    assert not {"gradient", "attention"} & {m["name"] for m in info["methods"]}, "a callable has no inside"
    assert {name for name, _ in info["units"]} == {"token", "type", "word", "sentence"}
    assert info["budgets"][0][0] is None
    assert all(client.post("/api/ask", {"texts": [text]}).status == 200 for text in info["examples"])
    assert client.get("/api/methods").json == info["methods"]
    assert info["corpus"] is False
    assert client.get("/api/corpus/summary").status == 404


def test_an_explanation_is_that_of_the_library(client, e):
    answer = client.post("/api/explain", SUBJECT)
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json["final"] is True
    expected = json.loads(e.to_json())
    assert comparable(answer.json["explanation"]) | {"model": ""} == comparable(expected) | {"model": ""}
    assert shown(answer.json["content"])["scores"] == shown(content(e))["scores"]
    assert Explanation.from_dict(answer.json["explanation"]).strongest(3) == e.strongest(3)


def test_a_stream_has_rounds_in_order_and_ends_with_the_same_explanation(client):
    subject = {"text": TEXT, "queries": 200, "seed": 3}
    events = client.stream(subject)
    assert rounds(events) == ["queued", *("progress", "explanation") * 3, "done"]
    assert events[0][1] == {"position": 0}
    explained = [data for name, data in events if name == "explanation"]
    assert [data["round"] for data in explained] == [1, 2, 3]
    assert [data["final"] for data in explained] == [False, False, True]
    asked = [data["queries"] for data in explained]
    assert asked == sorted(set(asked))
    progress = [data for name, data in events if name == "progress"]
    counts = [data["queries"] for data in progress]
    assert counts == sorted(counts)
    assert set(asked) <= set(counts)
    assert counts[-1] == asked[-1]
    assert {data["of"] for data in progress} == {asked[-1]}
    assert events[-1][1] == {}
    again = client.post("/api/explain", subject).json
    assert again["content"] == explained[-1]["content"], "bit by bit, the time included: it is the same explanation"
    fresh = shown(content(explainer()(TEXT, queries=200, seed=3)))
    assert [shown(explained[-1]["content"])[k] for k in ("scores", "surrogate", "score")] == [
        fresh[k] for k in ("scores", "surrogate", "score")
    ]


def test_a_known_explanation_is_streamed_at_once(client):
    client.post("/api/explain", SUBJECT)
    events = client.stream(SUBJECT)
    assert [name for name, _ in events] == ["queued", "explanation", "done"]
    assert events[1][1]["final"] is True


def test_parts_are_asked_and_predicted(client, e):
    keep = [[1] * 11, [1, 0] * 5 + [1], [0] * 11]
    answer = client.post("/api/ask", {**SUBJECT, "keep": keep})
    assert answer.status == 200, answer.json
    words = TEXT.split()
    said = [score(" ".join(w for w, k in zip(words, row, strict=True) if k)) for row in keep]
    assert answer.json["scores"] == pytest.approx(said)
    assert answer.json["predicted"] == pytest.approx(e.predict(keep).tolist())
    assert answer.json["labels"] == ["no", "yes"]
    assert answer.json["label"] == ["yes" if s > 0 else "no" for s in said]
    assert answer.json["probabilities"][0] == pytest.approx(e.probabilities.tolist())


def test_of_an_empty_text_a_surrogate_without_a_bias_predicts_zero(client):
    subject = {"text": TEXT, "method": "eff", "queries": 50}
    answer = client.post("/api/ask", {**subject, "keep": [[0] * 11, [1] * 11]})
    assert answer.status == 200, answer.json
    assert answer.json["scores"] == [-0.25, 0.25]
    e = explainer()(TEXT, method="eff", queries=50)
    assert answer.json["predicted"] == [0.0, pytest.approx(float(e.predict([1] * 11)))]


def test_whole_texts_are_asked(client):
    answer = client.post("/api/ask", {"texts": ["good", "bad", ""]}).json
    assert answer["scores"] == [1.75, -3.25, -0.25]
    assert answer["label"] == ["yes", "no", "no"]
    assert "predicted" not in answer, "nothing is explained"
    other = client.post("/api/ask", {"texts": ["good", "bad"], "model": "m1"}).json
    assert other["scores"] == [-1.75, 3.25]
    assert client.post("/api/ask", {"texts": ["good"], "target": "no"}).json["scores"] == [-1.75]
    assert client.post("/api/ask", {"texts": ["good"], "target": "0"}).json["scores"] == [-1.75]


def test_many_texts_have_scores_of_one_class():
    """By default that of the first text, also where they are asked in lots."""

    def topics(texts):
        return [[text.count("a"), text.count("b"), text.count("c")] for text in texts]

    three = Explainer(topics, output="logits", labels=["x", "y", "z"], progress=False)
    texts = ["b c b", *(letter * (1 + i % 7) for i, letter in enumerate("abc" * 30))]
    with serving(three) as client:
        answer = client.post("/api/ask", {"texts": texts}).json
    scores, decisions = three.decide(texts, "y")
    assert answer["scores"] == scores.tolist()
    assert answer["label"] == [decision.label for decision in decisions]
    np.testing.assert_array_equal(answer["probabilities"], [decision.probabilities for decision in decisions])


def test_two_models_are_explained_by_their_ids(client):
    first, second = (client.post("/api/explain", SUBJECT | {"model": m}).json["explanation"] for m in ("m0", "m1"))
    assert first["score"] == -second["score"]


def test_a_flip_is_confirmed_by_the_model(client):
    flip = client.post("/api/flip", SUBJECT).json["flip"]
    found = explainer().flip(explainer()(TEXT, queries=120))
    assert flip["units"] == list(found.units)
    assert flip["confirmed"] is True
    assert (flip["label_before"], flip["label_after"]) == ("yes", "no")
    assert flip["score_before"] == score(TEXT)
    left = " ".join(word for i, word in enumerate(TEXT.split()) if i not in flip["units"])
    assert flip["score_after"] == score(left) < 0


def test_scores_before_and_after_a_flip_are_of_one_class():
    """The label of a model need not be the class of the highest score, which is the one that a flip is about."""
    three = Explainer(
        lambda texts: [[2.0 * text.count("good"), text.count("bad"), 0.5] for text in texts],
        output="logits", labels=["a", "b", "c"], progress=False, target="all",
    )  # fmt: skip
    served = Served("m", three, Limits())
    e = dataclasses.replace(three("a good and bad film"), label="b")
    flip = json.loads(served.flip(e))["flip"]
    without = three.ask(e, [i not in flip["units"] for i in range(len(e))])
    assert (flip["score_before"], flip["score_after"]) == (e.score[0], without[0])
    served.queue.stop()


def test_a_row_of_keep_that_is_too_long_is_named(client):
    answer = client.post("/api/ask", SUBJECT | {"keep": [[1] * len(TEXT.split()), [1] * 30]})
    assert answer.status == 400
    assert answer.json["error"] == f"every row of keep must have {len(TEXT.split())} numbers, one per token; got 30"


def test_no_flip_is_null(client):
    assert client.post("/api/flip", {"text": "one two", "queries": 50}).json == {"flip": None}


def file(client, kind, **subject):
    answer = client.post("/api/download", {**SUBJECT, **subject, "format": kind})
    assert answer.status == 200, answer.body[:200]
    name = f"explanation-{subject['picture']}" if "picture" in subject else "explanation"
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}.{"py" if kind == "python" else kind}"'
    return answer


def test_downloads(client, e):
    assert file(client, "html").body.startswith(b"<!doctype html>")
    assert Explanation.from_dict(file(client, "json").json).removal.tolist() == e.removal.tolist()
    png = file(client, "png")
    assert png.body.startswith(b"\x89PNG")
    assert png.headers["content-type"] == "image/png"
    assert b"<svg" in file(client, "svg", picture="bar").body
    assert client.post("/api/download", {**SUBJECT, "format": "png", "picture": "map"}).status == 400


def test_a_csv_has_the_columns_of_pandas(client, e):
    pandas = pytest.importorskip("pandas")
    answer = file(client, "csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    expected = e.to_pandas()
    read = pandas.read_csv(io.BytesIO(answer.body))
    pandas.testing.assert_frame_equal(read, expected, check_dtype=False)


def test_the_code_makes_the_same_explanation(client, e):
    subject = {
        "queries": 40,
        "seed": 4,
        "unit": "word",
        "target": "no",
        "text": "a \"good\" film\nwith \\ and \u2028 'quotes'",
    }
    code = file(client, "python", **subject).body.decode()
    names = {"model": answers}
    made = code.replace("slalom.Explainer(model)", 'slalom.Explainer(model, output="log_odds", labels=["no", "yes"])')
    exec(made.replace("print(e)", ""), names)
    again = client.post("/api/explain", subject).json["explanation"]
    assert names["e"].text == subject["text"]
    assert names["e"].removal.tolist() == Explanation.from_dict(again).removal.tolist()


@cases(
    ("body", "status", "reason"),
    [
        ({}, 400, "text: must be given; see /api/docs"),
        ({"text": 5}, 400, "text: must be a valid string; got 5; see /api/docs"),
        ({"text": None}, 400, "text: must be a valid string; got None"),
        ({"text": ""}, 400, "at least one"),
        ({"text": "   "}, 400, "at least one"),
        ({"text": TEXT, "method": "nothing"}, 400, "method must be one of"),
        ({"text": TEXT, "unit": "page"}, 400, "unit must be one of"),
        ({"text": TEXT, "target": "maybe"}, 400, "not a class"),
        ({"text": TEXT, "target": "7"}, 400, "not a class"),
        ({"text": TEXT, "target": "7" * 6000}, 400, "target '777"),
        ({"text": TEXT, "queries": 1}, 400, "queries: must be greater than or equal to 2; got 1; see /api/docs"),
        ({"text": TEXT, "queries": 5001}, 400, "at most 5,000"),
        ({"text": TEXT, "queries": "auto"}, 400, "queries: must be a valid integer; got 'auto'"),
        ({"text": TEXT, "seed": -1}, 400, "seed: "),
        ({"text": TEXT, "seed": 10**30}, 400, "seed: "),
        ({"text": TEXT, "model": "/etc/passwd"}, 400, "model must be one of 'm0', 'm1'"),
        ({"text": TEXT, "extra": 1}, 400, "extra: is no field of this request; leave it out"),
        ({"text": TEXT, "method": "gradient"}, 400, "looks inside"),
        ({"text": "x" * 50_001}, 413, "at most 50,000 characters"),
        ([], 400, "the body"),
        (b"{", 400, "JSON"),
        (b'{"text": "\\ud800 bad", "queries": 50}', 400, "valid Unicode"),
    ],
)
def test_bad_requests_are_one_line(client, body, status, reason):
    answer = client.post("/api/explain", body)
    assert answer.status == status
    assert list(answer.json) == ["error"]
    assert reason in answer.json["error"]
    assert "\n" not in answer.json["error"]
    assert "Traceback" not in answer.json["error"]


@cases(
    ("body", "reason"),
    [
        ({**SUBJECT, "keep": [[1] * 9]}, "11 numbers"),
        ({**SUBJECT, "keep": [[1] * 11, [1]]}, "11 numbers"),
        ({**SUBJECT, "keep": []}, "1 to 1,000"),
        ({**SUBJECT, "keep": [[2] * 11]}, "keep"),
        ({**SUBJECT, "keep": [["1"] * 11]}, "keep"),
        ({**SUBJECT}, "needs text and keep, or texts"),
        ({**SUBJECT, "keep": [[1] * 11], "texts": ["x"]}, "needs text and keep, or texts"),
        ({"keep": [[1]]}, "needs text and keep, or texts"),
        ({"texts": []}, "1 to 1,000"),
        ({"texts": ["x"] * 1001}, "1 to 1,000"),
        ({"texts": [5]}, "texts"),
        ({"texts": ["x"], "target": "maybe"}, "not a class"),
    ],
)
def test_bad_questions_are_one_line(client, body, reason):
    answer = client.post("/api/ask", body)
    assert answer.status == 400
    assert reason in answer.json["error"]


def test_other_paths_and_verbs(client):
    assert client.get("/api/nothing").status == 404
    assert client.get("/nothing").json == {"error": "Not Found"}
    assert client.request("PUT", "/api/info").status == 405
    assert client.get("/api/explain").status == 405
    assert client.request("OPTIONS", "/api/explain").status == 405
    assert client.post("/api/download", {**SUBJECT, "format": "exe"}).status == 400


def test_the_documentation_lists_every_route_and_loads_nothing(client):
    openapi = client.get("/api/openapi.json").json
    assert set(openapi["paths"]) == {*("/api/info", "/api/methods", "/api/explain", "/api/ask", "/api/flip", "/api/download")}
    page = client.get("/api/docs")
    assert page.status == 200
    text = page.body.decode()
    for path in openapi["paths"]:
        assert path in text
    assert "<script" not in text
    assert "http://" not in text
    assert "https://" not in text
    assert client.get("/assets/docs.css").status == 200


def test_a_text_of_too_many_units_is_refused_before_it_is_fitted():
    with serving(units=20) as own:
        refused = own.post("/api/explain", {"text": "good " * 21, "queries": 50})
        assert refused.status == 400
        assert "at most 20 tokens; got 21" in refused.json["error"]
        assert own.post("/api/explain", {"text": "good " * 21, "queries": 50, "unit": "sentence"}).status == 200
        assert own.post("/api/explain", {"text": "good " * 20, "queries": 50}).status == 200
        assert own.post("/api/explain", {"text": "good " * 21, "unit": "page"}).status == 400


def test_a_text_whose_fit_takes_too_long_is_refused():
    many = " ".join(f"word{i}" for i in range(1000))
    with serving(seconds=5.0) as own:
        refused = own.post("/api/explain", {"text": many, "unit": "word"}, {"Accept": "text/event-stream"}).events
        assert refused[0][0] == "queued"
        assert refused[-1][1]["status"] == 400
        said = r"1,000 words would take about \d+ s, and requests end after 5 s; choose unit 'sentence'"
        assert re.search(said, refused[-1][1]["error"])
        events = own.stream({"text": many, "unit": "word", "method": "ridge", "queries": 50})
        assert events[1][0] == "progress", "a fit that is quick is not announced"
        assert events[-1][0] == "done"


def test_recent_explanations_are_bounded():
    with serving(kept=2) as own:
        for seed in range(4):
            assert own.post("/api/explain", {"text": TEXT, "queries": 50, "seed": seed}).status == 200
        (served,) = own.server.models
        assert len(served._recent) == 2


def test_a_text_that_does_not_fit_is_cut_with_a_remark():
    """The bundled classifier reads 510 tokens."""
    with serving(Explainer(progress=False)) as own:
        answer = own.post("/api/explain", {"text": "good film. " * 400, "queries": 50, "unit": "sentence"})
    assert answer.status == 200, answer.json
    assert answer.json["explanation"]["cut"] == 1200 - 510
    assert any("690 tokens" in warning for warning in answer.json["content"]["warnings"])
