"""A server whose explanations begin with a lexicon: the first comes without a query about the text."""

import pytest

from tests.lexicon.planted import Planted, explainer, lexicon, texts
from tests.web.serving import serving


@pytest.fixture(scope="module")
def client():
    with serving(explainer(Planted(), lexicon())) as found:
        yield found


def test_the_first_colours_need_no_query(client):
    text = texts(1, 5)[0]
    events = [data for name, data in client.stream({"text": text, "unit": "word", "queries": 150}) if name == "explanation"]
    assert [event["round"] for event in events] == list(range(1, len(events) + 1))
    assert events[0]["queries"] == 1
    assert any("nothing tests" in said for said in events[0]["content"]["warnings"])
    assert events[-1]["final"]
    assert len(events) >= 3
    again = client.post("/api/explain", {"text": text, "unit": "word", "queries": 150}).json
    assert again["explanation"]["settings"]["prior"] == lexicon().digest
    code = client.post("/api/download", {"text": text, "unit": "word", "queries": 150, "format": "python"}).body.decode()
    assert "with_prior(slalom.Lexicon.load('lexicon.parquet'))" in code


def test_other_units_classes_and_methods_do_without(client):
    text = texts(1, 6)[0]
    for options in ({"unit": "sentence"}, {"unit": "word", "target": "all"}, {"unit": "word", "method": "ridge"}):
        answer = client.post("/api/explain", {"text": text, "queries": 60, **options})
        assert answer.status == 200, answer.body
        assert "prior" not in answer.json["explanation"]["settings"]
