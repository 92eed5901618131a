"""`slalom corpus summary` and `slalom corpus compare`: what they print and write."""

import csv
import json

import pytest

from tests.commands import invoke
from tests.corpus.tables import row, write

EFFECTS = {"good": 1.0, "bad": -1.0, "xyzzy": 3.0}


def rows(effects):
    found = []
    for i in range(60):
        text = " ".join(["good film" if i % 2 else "bad film", *(["xyzzy"] if i % 3 == 0 else []), "the end"])
        score = sum(effects.get(word, 0.0) for word in text.split())
        part = ("web", "mail")[i % 3 == 0]
        given = {"gold": ("neg", "pos")[i % 2], "part": part}
        found.append(row(i, text, effects, label="pos" if score > 0 else "neg", score=score, **given))
    return found


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("corpora")
    return [
        str(write(place / name, rows(effects), unit="word", keep=("gold", "part"), model=f"model {name}"))
        for name, effects in (("one", EFFECTS), ("two", {**EFFECTS, "xyzzy": 0.0}))
    ]


def run(*arguments):
    result = invoke(["corpus", *arguments], 80)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_tables_fit_into_eighty_columns(folders):
    said = run("summary", folders[0], "--gold", "gold", "--slice", "part", "--by", "all")
    notes = ("model", "top:", "score:", "Effect:")  # a terminal wraps them
    assert max(len(line) for line in said.splitlines() if not line.startswith(notes)) <= 80
    assert "model one on 60 texts, accuracy 83.3%; effects on the score of “pos”" in said
    assert "xyzzy     20   +3.00  +3.00 to +3.00" in said
    assert "effect +3.00, labels say +0.00" in said
    assert "100% of its texts in mail" in " ".join(said.split())


def test_poorly_explained_texts_are_said(tmp_path):
    made = [one | {"near_r2": -0.5 if i < 6 else 0.9, "near_mse": 1.0} for i, one in enumerate(rows(EFFECTS))]
    folder = str(write(tmp_path / "out", made, unit="word", keep=("gold", "part")))
    said = run("summary", folder)
    assert "a model on 54 texts" in said
    assert "6 of 60 texts poorly explained (held-out R2 near the text below 0): left out; explain with more queries" in said
    assert "Order: the end of the interval on zero's side." in said
    said = run("summary", folder, "--include-poor")
    assert "a model on 60 texts" in said
    assert "6 of 60 texts poorly explained (held-out R2 near the text below 0): included" in said


def test_files_and_json(folders, tmp_path):
    table, page = tmp_path / "words.csv", tmp_path / "page.html"
    found = json.loads(run("summary", folders[0], "--gold", "gold", "--json", "--csv", str(table), "--html", str(page)))
    words = {word["name"]: word for word in found["words"] if word["kind"] == "word"}
    assert (words["bad"]["mean"], words["bad"]["texts"]) == (-1.0, 30)
    assert found["shortcuts"][0]["name"] == "xyzzy"
    with table.open() as lines:
        listed = {line["name"]: line for line in csv.DictReader(lines)}
    assert (listed["xyzzy"]["texts"], float(listed["xyzzy"]["mean"]), listed["xyzzy"]["gold=pos texts"]) == ("20", 3.0, "10")
    assert "<script>" in page.read_text(encoding="utf-8")


def test_what_changed_and_what_flipped(folders):
    said = run("compare", *folders, "--gold", "gold", "--top", "3")
    assert "before: model one, after: model two; 60 shared texts" in said
    assert "accuracy 83.3% before, 100.0% after" in said
    assert "xyzzy     20   +3.00  +0.00   -3.00" in said
    assert "10 predictions flipped (16.7%): 10 from pos to neg" in said
    assert "id0: pos -> neg, truly neg, score -3.00" in said
    found = json.loads(run("compare", *folders, "--json"))
    assert found["about"]["flipped"] == len(found["flips"]) == 10
    assert found["flips"][0]["words"] == [{"word": "xyzzy", "before": 3.0, "after": 0.0}]


def test_errors_are_one_line(folders, tmp_path):
    result = invoke(["corpus", "summary", str(tmp_path)])
    assert result.exit_code == 1
    assert "must be a folder that slalom corpus run has written" in result.stderr
