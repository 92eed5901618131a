"""`slalom lexicon`, and `--prior` of other commands: what they print and write."""

import json
import re
from dataclasses import replace

import pytest

import slalom.corpus
from slalom import Lexicon
from tests.commands import invoke

WORDS = ["fine", "dull", "great", "sad", "bad", "long", "slow", "warm", "cold", "odd"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Texts, and a lexicon of the bundled classifier."""
    place = tmp_path_factory.mktemp("lexicon")
    texts = [
        f"a {WORDS[i % 10]} film with a {WORDS[(3 * i + 1) % 10]} story and {WORDS[(7 * i + 2) % 10]} music" for i in range(20)
    ]
    (place / "texts.txt").write_text("\n".join(texts))
    said = run("lexicon", "build", "--data", str(place / "texts.txt"), "--out", str(place / "l.parquet"), "--queries", "30")
    assert re.search(r"\d+ words of 20 texts", said)
    assert "Without a query, R2" in said
    assert "written:" in said
    return place


def run(*arguments, code=0):
    result = invoke(list(arguments), 100)
    assert result.exit_code == code, result.output
    return result.stdout


def test_its_words_are_shown(files):
    said = run("lexicon", "show", str(files / "l.parquet"), "--min-texts", "2", "--top", "5")
    assert "slalom-sentiment: what it says of" in said
    assert "scores are of “positive”" in said
    found = Lexicon.load(files / "l.parquet")
    for line in said.splitlines():
        if line.startswith("dull"):
            i = found.words.index("dull")
            assert f"{found.alone[i, 0]:+.2f}" in line
            assert str(found.texts[i]) in line
    assert max(map(len, said.splitlines()[:-1])) <= 100
    shown = json.loads(run("lexicon", "show", str(files / "l.parquet"), "--json", "--target", "negative", "--min-texts", "1"))
    assert len(shown["words"]) == len(found)
    dull = next(row for row in shown["words"] if row["word"] == "dull")
    assert dull["alone"] == pytest.approx(-found.alone[found.words.index("dull"), 0])


def test_files_are_written(files, tmp_path):
    run("lexicon", "show", str(files / "l.parquet"), "--csv", str(tmp_path / "w.csv"), "--html", str(tmp_path / "w.html"))
    assert (tmp_path / "w.csv").read_text().startswith("word,texts,alone,in_texts")
    assert "Content-Security-Policy" in (tmp_path / "w.html").read_text()


def test_two_are_compared(files):
    said = run("lexicon", "compare", str(files / "l.parquet"), str(files / "l.parquet"), "--min-texts", "1", "--top", "3")
    assert "slalom-sentiment against slalom-sentiment" in said
    assert re.search(r"[+-]0\.00 ± \d\.\d\d\s*$", said.splitlines()[3])


def test_an_explanation_without_a_query_about_the_text(files):
    e = json.loads(
        run("explain", "a dull film with warm music", "--prior", str(files / "l.parquet"), "--queries", "0", "--json")
    )
    assert e["queries"] == 1
    assert any("nothing tests this explanation" in note for note in e["notes"])
    said = run("explain", "a dull film with warm music", "--prior", str(files / "l.parquet"), "--queries", "0")
    assert "Begins with a lexicon of 20 texts" in said
    assert "not tested: no query was asked about parts of this text; 1 query" in said


def test_a_corpus_without_a_query_about_its_texts(files, tmp_path):
    prior, out = ("--queries", "0", "--prior", str(files / "l.parquet"), "--limit", "2"), str(tmp_path / "out")
    run("corpus", "run", str(files / "texts.txt"), out, *prior)
    rows = [row for batch in slalom.corpus.open(out).batches(["queries"]) for row in batch.to_pylist()]
    assert [row["queries"] for row in rows] == [1, 1]


def test_what_was_learnt_is_json(files, tmp_path):
    texts = ("--data", str(files / "texts.txt"), "--limit", "10", "--queries", "20")
    said = json.loads(run("lexicon", "build", *texts, "--out", str(tmp_path / "l.parquet"), "--json"))
    assert (said["words"], said["texts"]) == (len(Lexicon.load(tmp_path / "l.parquet")), 10)


def test_costs_are_known_before(files, tmp_path):
    said = run("lexicon", "build", "--data", str(files / "texts.txt"), "--out", str(tmp_path / "l.parquet"), "--dry-run")
    assert re.search(r"[\d,]+ queries.*nothing was asked", said)
    assert not (tmp_path / "l.parquet").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["explain", "a film", "--prior", "absent.parquet"],
            "there is no file 'absent.parquet'; slalom lexicon build writes one",
        ),
        (["explain", "a film", "--queries", "0"], "--queries must be"),
        (["lexicon", "show", __file__], "must be a file that slalom lexicon build wrote"),
        (["lexicon", "build", "--data", "absent.txt", "--out", "l.parquet"], "absent.txt"),
        (
            ["lexicon", "build", "--data", "a.csv", "--column", "a", "--column", "b", "--out", "l"],
            "one column of texts; got a, b",
        ),
        (
            ["explain", "a film", "--prior", "bundled", "--removal", "mask"],
            "a lexicon needs --removal='drop'; got --removal='mask'",
        ),
    ],
)
def test_bad_input_is_one_line(arguments, message):
    result = invoke(arguments, 200)
    assert result.exit_code in (1, 2)
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_lexicon_of_another_model_is_refused(files):
    result = invoke(["explain", "a film", "--prior", str(files / "l.parquet"), "--method", "ridge"], 200)
    assert result.exit_code == 1
    assert "a lexicon needs --method=joint; got --method=ridge" in result.stderr


def test_files_of_others_do_not_steer_the_terminal(files, tmp_path):
    found = Lexicon.load(files / "l.parquet")
    replace(found, about={**found.about, "model": "\x1b[31mred"}, words=("\x1b[31mx", *found.words[1:])).save(
        tmp_path / "l.parquet"
    )
    assert "\x1b" not in run("lexicon", "show", str(tmp_path / "l.parquet"), "--min-texts", "1", "--top", "500")


def test_the_bundled_one_is_shown():
    assert "of 6969 words" in run("lexicon", "show", "bundled", "--top", "1")
