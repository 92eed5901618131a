"""A corpus behind the server, over real HTTP: its summary, its texts by search, word, slice and order, and one text."""

import time
from urllib.parse import urlencode

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from slalom import corpus
from slalom.corpus.folder import Folder, write_part
from slalom.corpus.table import GIVEN, encoded, table
from slalom.errors import InputError
from slalom.render.page.content import content
from slalom.text import simple_words
from slalom.web import corpus as web_corpus
from slalom.web.access import Limits
from slalom.web.corpus import ServedCorpus
from tests.cases import cases
from tests.corpus.tables import row, write
from tests.factories import MARKUP
from tests.waiting import until
from tests.web.serving import answers, explainer, score, serving

OPENINGS = ("a good film", "a bad film", "a great cast and a good end", "nothing of note", "bad , bad and not good")
GOLDS, ORIGINS = ("yes", "no", "yes", "no", "yes"), ("web", "paper", "mail")
SOURCE = [{"text": f"{OPENINGS[i % 5]} number{i}", "gold": GOLDS[i % 5], "origin": ORIGINS[i % 3]} for i in range(30)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """30 explained texts in parts of 8, one of them empty, with whole explanations."""
    out = tmp_path_factory.mktemp("corpus") / "reviews"
    source = [*SOURCE, {"text": "", "gold": "no", "origin": "web"}]
    corpus.run(source, out, explainer(unit="word", queries=50), keep=("gold", "origin"), full=True, part_size=16)
    return out


@pytest.fixture(scope="module")
def rows(folder):
    return [row for batch in corpus.open(folder).batches() for row in batch.to_pylist()]


@pytest.fixture(scope="module")
def client(folder):
    other = explainer(lambda texts: [0.0 for _ in texts])
    other.engine.given_identity = "another"
    with serving(other, answers, corpus=(folder, {"slices": "origin"})) as started:
        yield started


def texts(client, **query):
    answer = client.get(f"/api/corpus/texts?{urlencode(query)}")
    assert answer.status == 200, answer.json
    return answer.json


def numbers(client, **query):
    found = texts(client, limit=100, **query)
    assert found["matches"] == len(found["texts"])
    return [text["number"] for text in found["texts"]]


def ready(client, known="", there=lambda found: found["summary"], target=""):
    """The overview, once there is a summary."""

    def overview():
        time.sleep(0.04)  # a question costs the processor that makes the summary
        found = client.get(f"/api/corpus/summary?known={known}&target={target}").json
        return found if there(found) else None

    return until(overview)


# --- several classes


def two_classes(place):
    """A corpus of 30 texts that explain two classes: `ball` speaks for sport, and against politics."""
    rows = [
        row(i, "x ball", [0.5, (2.0, -1.0, -1.5)[i % 3]], target=("sport", "politics", "politics")[i % 3]) for i in range(30)
    ]
    return write(place / "out", rows, labels=("sport", "politics", "weather"))


@pytest.fixture(scope="module")
def topics(tmp_path_factory):
    with serving(answers, corpus=(two_classes(tmp_path_factory.mktemp("topics")), {})) as started:
        yield started


def test_words_and_their_texts_are_those_of_one_class(topics):
    def mean(target, name):
        found = ready(topics, target=target)["summary"]
        (word,) = (word for word in found["words"] if word["name"] == name)
        return found["about"]["target"], word["texts"], word["mean"]

    assert mean("", "ball") == ("politics", 20, pytest.approx(-1.25))
    assert mean("sport", "ball") == ("sport", 10, pytest.approx(2.0))
    listed = texts(topics, word="ball", target="sport", limit=100)["texts"]
    assert [text["number"] for text in listed] == list(range(0, 30, 3))
    assert {text["effect"] for text in listed} == {2.0}
    assert {text["target"] for text in listed} == {"sport"}
    assert len(numbers(topics, target="politics")) == 20
    assert len(numbers(topics, word="ball")) == 30
    assert numbers(topics, target="weather") == []
    refused = topics.get("/api/corpus/summary?target=cooking")
    assert (refused.status, "'sport', 'politics', 'weather'" in refused.json["error"]) == (400, True)


# --- the summary


def test_the_summary_is_that_of_the_library(client, folder):
    found = ready(client)
    expected = corpus.summary(folder, gold="gold", slices="origin")
    assert {(word["kind"], word["name"]) for word in found["summary"]["words"]} == {(w.kind, w.name) for w in expected.words}
    for word in found["summary"]["words"]:
        known = expected[word["name"]].effect
        assert word["texts"] == known.texts
        np.testing.assert_allclose([word["mean"], word["low"], word["high"]], [known.mean, known.low, known.high], rtol=1e-5)
    assert found["summary"]["about"]["accuracy"] == pytest.approx(expected.about["accuracy"], rel=1e-5)
    assert found["summary"]["about"]["folder"] == "reviews"  # no path of the server
    assert str(folder) not in client.get("/api/corpus/summary").body.decode()
    about = found["corpus"]
    assert (about["texts"], about["of"], about["parts"], about["running"]) == (31, 31, 2, False)
    assert about["statuses"] == {"explained": 30, "failed": 1}
    assert dict(map(tuple, about["columns"]["origin"])) == {"web": 11, "paper": 10, "mail": 10}
    assert about["served"] == {"model": "m1", "same": True}
    assert client.get("/api/info").json["corpus"] is True


def test_the_known_summary_is_not_sent_again(client):
    found = ready(client)
    again = client.get(f"/api/corpus/summary?known={found['version']}").json
    assert (again["summary"], again["version"], again["state"]["computing"]) == (None, found["version"], False)


# --- the texts


def test_pages_in_the_order_of_the_source(client, rows):
    first, second = texts(client, limit=20), texts(client, offset=20, limit=20)
    assert [t["number"] for t in first["texts"] + second["texts"]] == list(range(31))
    assert first["matches"] == second["matches"] == 31
    assert texts(client, offset=1000)["texts"] == []
    shown, known = first["texts"][4], rows[4]
    assert (shown["id"], shown["label"], shown["gold"], shown["wrong"]) == ("4", "no", "yes", True)
    assert shown["score"] == pytest.approx(score(SOURCE[4]["text"]))
    assert shown["given"] == {"gold": "yes", "origin": "paper"}
    top = int(np.argmax(np.abs(known["removal"])))
    assert shown["strongest"] == {"unit": "bad", "effect": pytest.approx(known["removal"][top], rel=1e-5)}
    assert "".join(text for text, _ in shown["preview"]) == SOURCE[4]["text"]
    strengths = {text: strength for text, strength in shown["preview"] if strength is not None}
    assert strengths["bad"] < -0.9 < 0 < strengths["good"]
    failed = second["texts"][-1]
    assert (failed["status"], failed["preview"]) == ("failed", [["", None]])
    assert failed["error"]


ORDERS = {
    "score": lambda r: -r["score"],
    "-score": lambda r: r["score"],
    "probability": lambda r: -r["probability"],
    "-probability": lambda r: r["probability"],
    "effect": lambda r: -max(map(abs, r["removal"])),
    "fidelity": lambda r: -(r["near_r2"] if r["near_r2"] is not None else -np.inf),
    "-fidelity": lambda r: r["near_r2"] if r["near_r2"] is not None else np.inf,
    "wrong": lambda r: (r[GIVEN + "gold"] == r["label"], -r["probability"]),
}


@cases("sort", ORDERS)
def test_orders(client, rows, sort):
    explained = [r for r in rows if r["status"] == "explained"]
    expected = [r["number"] for r in sorted(explained, key=lambda r: (ORDERS[sort](r), r["number"]))]
    assert numbers(client, sort=sort) == [*expected, 30]  # the one without an explanation comes last


def test_pages_of_a_search_in_an_order(client):
    every = numbers(client, search="GOOD", sort="score")
    assert sorted(every) == [i for i in range(30) if "good" in SOURCE[i]["text"]]
    parts = [texts(client, search="GOOD", sort="score", offset=at, limit=5) for at in range(0, 20, 5)]
    assert [t["number"] for part in parts for t in part["texts"]] == every
    assert {part["matches"] for part in parts} == {18}


def test_search_is_literal_and_finds_ids(client):
    assert numbers(client, search="number17") == [17]
    assert numbers(client, search="bad ,") == [i for i in range(30) if i % 5 == 4]
    assert numbers(client, search=".*") == []
    assert numbers(client, search="30") == [30]  # an id; this text is empty


def test_slices(client):
    assert numbers(client, slice="origin=mail") == [i for i in range(30) if i % 3 == 2]
    assert numbers(client, slice="origin=mail", search="great") == [i for i in range(30) if i % 3 == 2 and i % 5 == 2]
    assert numbers(client, slice="origin=nowhere") == []


def test_every_word_of_the_summary_finds_its_texts(client, folder):
    for word in corpus.summary(folder, gold="gold").words[::9]:
        found = texts(client, word=word.name, sort="effect", limit=100)
        assert found["matches"] == word.effect.texts, word.name
        effects = [text["effect"] for text in found["texts"]]
        assert np.mean(effects) == pytest.approx(word.effect.mean, rel=1e-5, abs=1e-7)
        assert effects == sorted(effects, key=abs, reverse=True)


def test_words_of_pieces_and_pieces_of_words(tmp_path):
    """Units smaller than words: a word, a phrase and a piece are found where the summary counts them."""
    text = "An undoable thing, so undoable!"
    spans = [[0, 2], [3, 5], [5, 11], [12, 17], [17, 18], [19, 21], [22, 24], [24, 30], [30, 31]]
    made = [row(i, text if i % 2 else text.replace("undoable", "unlively"), np.arange(9.0) + i, spans=spans) for i in range(12)]
    out = write(tmp_path / "out", made, part=5)
    with serving(corpus=(out, {})) as client:
        for word in corpus.summary(out, top=5).words[::2]:
            assert texts(client, word=word.name)["matches"] == word.effect.texts, word.name
        assert numbers(client, word="UNDOABLE thing") == [1, 3, 5, 7, 9, 11]
        assert numbers(client, word="un-") == list(range(12))
        assert numbers(client, word="doable") == []


def test_texts_that_were_not_kept(tmp_path):
    out = tmp_path / "out"
    corpus.run(SOURCE[:6], out, explainer(unit="word", queries=50), text=False)
    with serving(corpus=(out, {})) as client:
        shown = texts(client)["texts"][1]
        assert "".join(text for text, _ in shown["preview"]) == "a bad film number1"
        assert numbers(client, word="bad") == [1, 4]
        text = client.get("/api/corpus/text/1").json
        assert text["text"] is None
        assert text["effects"]["units"] == ["a", "bad", "film", "number1"]


@cases(
    ("query", "says"),
    [
        ("sort=size", "sort must be one of number, score"),
        ("slice=colour%3Dred", "slice must be COLUMN=VALUE with a kept column (gold, origin)"),
        ("slice=origin", "slice must be COLUMN=VALUE"),
        ("offset=-1", "offset: "),
        ("offset=x", "offset: "),
        ("limit=0", "limit: "),
        ("limit=101", "limit: "),
        ("offset=9990&sort=score", "offset must be at most 9,975"),
        (f"search={'x' * 201}", "search: "),
        ("colour=red", "colour: "),
    ],
)
def test_bad_parameters_are_one_line(client, query, says):
    answer = client.get(f"/api/corpus/texts?{query}")
    assert answer.status == 400
    assert list(answer.json) == ["error"]
    assert answer.json["error"].startswith(says)
    assert "\n" not in answer.json["error"]


# --- one text


def test_a_stored_explanation(client, folder):
    found = client.get("/api/corpus/text/4").json
    assert found["content"] == _plain(content(corpus.open(folder)[4]))
    assert (found["effects"], found["text"], found["wrong"]) == (None, SOURCE[4]["text"], True)


def test_a_corpus_of_another_model_without_explanations(tmp_path):
    made = row(0, "so bad a film", [0.5, -2.0, 0.0, 0.25], score=-1.0) | {"removal_se": [0.1, 0.2, 0.1, np.nan], "near_r2": 0.9}
    out = write(tmp_path / "out", [made, row(1, "bad " * 500, np.ones(500))])
    with serving(corpus=(out, {}), characters=100) as client:
        found, long = (client.get(f"/api/corpus/text/{number}").json for number in (0, 1))
        refused = client.get("/api/corpus/texts?sort=wrong")
        assert (refused.status, "; wrong needs a kept column with true labels (--gold)" in refused.json["error"]) == (400, True)
        assert ready(client)["corpus"]["served"] == {"model": "m0", "same": False}
    assert found["content"] is None
    effects = found["effects"]
    assert effects["removal"] == [0.5, -2.0, 0.0, 0.25]
    np.testing.assert_allclose(effects["within"][:3], [0.195996, 0.391993, 0.195996], rtol=1e-4)
    assert effects["within"][3] is None
    assert effects["pieces"] == [["so", 0], [" ", None], ["bad", 1], [" ", None], ["a", 2], [" ", None], ["film", 3]]
    assert (effects["full"], effects["fidelity"]) == (2.0, {"near": 0.9, "far": None})
    assert (len(long["text"]), long["cut"], long["effects"]["pieces"][-2:]) == (100, True, [["bad", 24], [" ", None]])


def test_a_failed_text(client):
    found = client.get("/api/corpus/text/30").json
    assert (found["status"], found["content"], found["effects"]) == ("failed", None, None)


@cases(("number", "status"), [("31", 404), ("-1", 404), (str(10**30), 404), ("x", 400), ("1.5", 400)])
def test_texts_that_are_not_there(client, number, status):
    answer = client.get(f"/api/corpus/text/{number}")
    assert (answer.status, list(answer.json)) == (status, ["error"])


# --- a corpus that grows, and one that is damaged


def test_a_corpus_while_it_grows(tmp_path, monkeypatch):
    monkeypatch.setattr(web_corpus, "_PAUSE", 0.0)
    monkeypatch.setattr(web_corpus, "_REST", 0.0)
    made = [row(i, f"so bad {i}", [0.0, float(i), 0.0], score=float(i)) for i in range(30)]
    out = write(tmp_path / "out", made[:10], part=10)
    place = Folder(out)
    with serving(corpus=(out, {})) as client:
        first = ready(client)
        assert (first["corpus"]["texts"], first["summary"]["about"]["explained"]) == (10, 10)
        assert numbers(client, search="bad", sort="score") == list(range(9, -1, -1))
        write_part(place, 2, encoded(table(made[20:]), "2"))  # of another worker: before part 1
        assert numbers(client, search="bad", sort="score") == [*range(29, 19, -1), *range(9, -1, -1)]
        assert numbers(client) == [*range(10), *range(20, 30)]
        assert client.get("/api/corpus/text/12").status == 404
        write_part(place, 1, encoded(table(made[10:20]), "1"))
        assert numbers(client, search="bad", sort="score") == list(range(29, -1, -1))
        assert client.get("/api/corpus/text/12").json["text"] == "so bad 12"
        grown = ready(client, there=lambda found: found["summary"] and found["summary"]["about"]["explained"] == 30)
        assert grown["corpus"]["texts"] == 30
        changed = [r | {"score": -r["score"]} for r in made[:10]]
        write_part(place, 0, encoded(table(changed), "0 again"))  # retry-failed writes parts again
        assert numbers(client, search="bad", sort="score") == [*range(29, 9, -1), *range(10)]


def test_a_damaged_part_is_named_and_the_rest_found(tmp_path):
    """A part in the place of another is readable, and so is one with another bit: only its digest tells."""
    out = write(tmp_path / "out", [row(i, f"so bad {i}", [0.0, 1.0, 0.0]) for i in range(9)], part=3)
    damaged = 2
    name, rest = f"parts/00000{damaged}.parquet", [i for i in range(9) if i // 3 != damaged]
    with serving(corpus=(out, {})) as client:
        assert numbers(client, search="bad") == list(range(9))  # verified once; then it is written again
        (out / name).write_bytes((out / "parts" / "000000.parquet").read_bytes())
        for query in ({"search": "bad"}, {}):
            found = texts(client, limit=100, **query)
            assert ([t["number"] for t in found["texts"]], found["damaged"]) == (rest, [name])
        answer = client.get(f"/api/corpus/text/{3 * damaged}")
        assert (answer.status, f"part {damaged} of the corpus is damaged" in answer.json["error"]) == (500, True)
        client.get("/api/corpus/summary")
        state = ready(client, there=lambda found: found["state"]["error"])["state"]
        assert f"{name}' is damaged (its bytes are not those that were written)" in state["error"]
        assert str(tmp_path) not in state["error"]


def test_a_corpus_without_parts(tmp_path):
    with serving(corpus=(write(tmp_path / "out", []), {})) as client:
        assert numbers(client) == []
        assert numbers(client, search="bad") == []
        assert ready(client, there=lambda found: found["corpus"]["texts"] == 0)["summary"] is None


# --- what comes from outside


def test_hostile_texts_come_back_as_they_are(tmp_path):
    words = [MARKUP, "</script><script>alert(1)</script>", "\u202eevil", "a\x00b", "\ud800".encode("utf-8", "replace").decode()]
    made = [row(i, f"x {text}", np.ones(len(simple_words(f"x {text}"))), origin=text) for i, text in enumerate(words)]
    out = write(tmp_path / "out", made, keep=("origin",))
    with serving(corpus=(out, {"slices": "origin"})) as client:
        for i, text in enumerate(words):
            found = texts(client, slice=f"origin={text}")
            assert [t["number"] for t in found["texts"]] == [i]
            assert client.get(f"/api/corpus/text/{i}").json["text"] == f"x {text}"
        answer = client.get("/api/corpus/texts")
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"


@cases("headers", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Sec_Fetch_Site": "cross-site"}])
def test_requests_of_other_sites_are_refused(client, headers):
    for path in ("texts?search=good", "summary", "text/1"):
        assert client.get(f"/api/corpus/{path}", **headers).status == 403
    assert client.get("/api/corpus/text/1", Origin=f"http://127.0.0.1:{client.port}").status == 200


def test_a_column_that_was_not_kept(folder):
    with pytest.raises(InputError, match="must be one that the corpus keeps"):
        ServedCorpus(folder, [], Limits(), gold="label")
    with pytest.raises(InputError, match=r"manifest\.json"):
        ServedCorpus(folder.parent, [], Limits())


def _plain(data):
    import json  # noqa: PLC0415

    return json.loads(json.dumps(data))
