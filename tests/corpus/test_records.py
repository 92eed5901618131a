"""Corpora of records: every input and executor, what the table holds, and errors of rows."""

import csv
import json
from functools import partial
from tempfile import mkdtemp

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slalom import corpus
from slalom.errors import InputError
from slalom.text import Record
from tests.cases import cases
from tests.corpus.models import explainer, films, pairs, rows, score

FILMS = [
    {"title": "a good film", "body": "and not too long", "stars": 4, "gold": "good"},
    {"title": "bad parts", "body": "in a good film", "stars": 1, "gold": "bad"},
    {"title": "a film", "body": "very long, very good", "stars": 2.5, "gold": "good"},
    {"title": "rather bad", "body": "a long film", "stars": 3, "gold": "bad"},
] * 2
FIELDS = {"text_column": ["title", "body"], "numeric": ["stars"]}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    corpus.run(FILMS, out, explainer(films), part_size=3, full=True, keep=["gold"], **FIELDS)
    return out


def test_a_record_is_explained_as_the_explainer_does_and_comes_back(undisturbed):
    table, given = rows(undisturbed), [{name: film[name] for name in ("title", "body", "stars")} for film in FILMS]
    for row, fields, e in zip(table, given, explainer(films)(given), strict=True):
        record = Record(json.loads(row["fields"]))
        assert (record.example(), str(record)) == (fields, row["text"])
        np.testing.assert_allclose(row["removal"], e.removal, rtol=1e-5, atol=1e-6)
        spans = np.stack([row["starts"], row["ends"]], axis=1)
        assert row["unit_fields"] == record.field_of(spans).tolist() == e.record.field_of(e.spans).tolist()
    e = corpus.open(undisturbed)[2]
    assert (e.record.form, e.record.example()) == ("dict", given[2])
    assert [field.name for field in e.fields] == ["title", "body", "stars"]


def test_every_input_and_workers_make_the_same_table(tmp_path, undisturbed):
    names = list(FILMS[0])
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(film) + "\n" for film in FILMS))
    with (tmp_path / "a.csv").open("w", newline="") as file:
        csv.writer(file).writerows([names, *([film[name] for name in names] for film in FILMS)])
    pq.write_table(pa.Table.from_pylist([{**film, "stars": float(film["stars"])} for film in FILMS]), tmp_path / "a.parquet")
    fsspec.filesystem("memory").pipe("/records/a.jsonl", (tmp_path / "a.jsonl").read_bytes())
    of_full = ("explanation", "shapley", "shapley_se")
    expected = rows(undisturbed, *of_full)
    for number, source in enumerate((*(tmp_path / f"a.{kind}" for kind in ("jsonl", "csv", "parquet")), "memory://records")):
        out = tmp_path / f"out{number}"
        corpus.run(source, out, partial(explainer, films), part_size=3, keep=["gold"], workers=int(number == 1), **FIELDS)
        assert rows(out, *of_full) == expected, source


@cases(
    ("changes", "message"),
    [
        ({"body": None}, "the column 'body' must hold a string; it holds no text (a missing value)"),
        ({"body": 7}, "the column 'body' must hold a string; it holds int"),
        ({"stars": "many"}, "the column 'stars' must hold a number; it holds 'many'"),
        ({"stars": float("inf")}, "the column 'stars' must hold a number; it holds inf"),
        ({"stars": [4]}, "the column 'stars' must hold a number; it holds [4]"),
        ({"title": " "}, "the field 'title' must not be empty; give it a text"),
    ],
)
def test_a_bad_record_is_a_row_with_its_error(tmp_path, changes, message):
    bad = {name: value for name, value in (FILMS[0] | changes).items() if value is not None}
    out = mkdtemp(dir=tmp_path)
    corpus.run([FILMS[0], bad], out, explainer(films), **FIELDS)
    first, second = rows(out)
    assert (first["status"], second["status"], second["error"]) == ("explained", "failed", message)
    assert (second["fields"] is None) == ("title" not in changes)


def test_a_number_that_is_missing_stays_missing(tmp_path):
    made = corpus.run([FILMS[0] | {"stars": ""}], tmp_path / "out", explainer(films), full=True, **FIELDS)
    (row,) = rows(tmp_path / "out")
    assert json.loads(row["fields"])["stars"] is None
    assert np.isnan(made[0].record.fields[2].value)
    assert row["text"].endswith("stars: missing")


def test_a_run_goes_on_with_the_same_columns_only(tmp_path, undisturbed):
    def run(**options):
        return corpus.run(FILMS, undisturbed, explainer(films), part_size=3, full=True, keep=["gold"], **{**FIELDS, **options})

    before = rows(undisturbed, "explanation")
    run()
    assert rows(undisturbed, "explanation") == before
    (undisturbed / "parts" / "000001.parquet").unlink()
    for changes, what in (
        ({"text_column": ["body", "title"]}, 'text_column columns was \\["title", "body"\\], is \\["body", "title"\\]'),
        ({"numeric": []}, r'text_column numeric was \["stars"\], is \[\]'),
        ({"form": "table"}, 'text_column form was "dict", is "table"'),
        ({"text_column": "title", "numeric": []}, 'text_column was {"columns": .*}, is "title"'),
    ):
        with pytest.raises(InputError, match=what):
            run(**changes)
    run()
    assert rows(undisturbed, "explanation") == before
    assert corpus.retry_failed(undisturbed, explainer(films), source=FILMS) == {}
    stars = [film | {"stars": film["stars"] + 1e-9} for film in FILMS]
    with pytest.raises(InputError, match="was made from other texts: rows 0 to 2 differ"):
        corpus.run(stars, undisturbed, explainer(films), part_size=3, full=True, keep=["gold"], **FIELDS)


@cases(
    ("options", "message"),
    [
        (
            {"text_column": ["title", "boby"]},
            "must have a column 'boby'; .* --column, --numeric or --pair; did you mean 'body'",
        ),
        ({"text_column": ["title", "title"]}, r"different fields; got \['title', 'title'\]"),
        ({"text_column": [], "numeric": "stars"}, "must name a column of texts"),
        ({"text_column": []}, "must name a column of texts"),
        ({"text_column": ["title", "body"], "form": "list"}, "form must be one of 'tuple', 'dict', 'table'; got 'list'"),
    ],
)
def test_wrong_columns_are_named(tmp_path, options, message):
    (tmp_path / "films.jsonl").write_text(json.dumps(FILMS[0]))
    with pytest.raises(InputError, match=message):
        corpus.run(tmp_path / "films.jsonl", tmp_path / "out", explainer(films), **options)
    assert not (tmp_path / "out").exists()


def test_pairs_are_tuples_and_texts_need_not_be_kept(tmp_path):
    given = [{"a": "a man sleeps", "b": "nobody is awake"}, {"a": "a man runs", "b": "he is awake"}]
    made = corpus.run(given, tmp_path / "out", explainer(pairs), text_column=["a", "b"], form="tuple", text=False, full=True)
    assert made[0].record.example() == ("a man sleeps", "nobody is awake")
    for row in rows(tmp_path / "out"):
        assert (row["text"], row["fields"], row["unit_fields"][:4]) == (None, None, [0, 0, 0, 1])
    one = corpus.run(["a good film"], tmp_path / "one", explainer(score), text_column=["text"])
    assert one.manifest["text_column"] == "text"
    assert not {"fields", "unit_fields"}.intersection(one.columns)


def test_records_are_summarised_compared_and_asked_about(undisturbed, tmp_path):
    made = corpus.summary(undisturbed, gold="gold", min_texts=2)
    words = {word.name: word.effect for word in made.words}
    assert (words["long"].texts, words["good"].texts) == (6, 6), "a word of another field is the same word"
    corpus.run(FILMS, tmp_path / "out", explainer(lambda rows: [-x for x in films(rows)]), keep=["gold"], **FIELDS)
    compared = corpus.compare(undisturbed, tmp_path / "out", gold="gold", min_texts=2)
    assert compared.about["shared"] == len(FILMS)
    query = "SELECT count(*) FROM texts WHERE json_extract(fields, '$.stars')::DOUBLE > 2"
    assert corpus.open(undisturbed).sql(query).fetchall() == [(6,)]
