"""`slalom corpus` as a user runs it."""

import json
import sys

import pytest
from tokenizers import processors

from slalom import cli, corpus, progress
from tests.cases import cases
from tests.models.tiny import classifier

FILMS = ["a wonderful film", "dull and far too long", "not bad at all", "the best of the year", "I fell asleep", ""]


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run a command in this process, in an empty folder; returns its exit code, output and complaints."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["slalom", "corpus", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        said = capsys.readouterr()
        return stop.value.code or 0, said.out, said.err

    return call


def write(path, films=FILMS):
    path.write_text("".join(json.dumps({"key": f"f{i}", "review": film, "gold": i % 2}) + "\n" for i, film in enumerate(films)))


OPTIONS = ["--column", "review", "--id-column", "key", "--keep", "gold", "--method", "ridge", "--queries", 30]


def test_a_corpus_is_run_continued_looked_at_and_opened(run, tmp_path):
    write(tmp_path / "films.jsonl")
    done = (
        "out: 6 of 6 texts (100.0%) in 3 parts\n5 explained, 1 failed, 0 killed\n"
        "complete; slalom corpus retry-failed out tries the failed ones again; the column error says why\n"
    )
    command = ["run", "films.jsonl", "out", *OPTIONS, "--part-size", 2, "--full", "--target", 0, "--unit", "word"]
    assert run(*command) == (0, done, "")
    assert run(*command) == (0, done, "")  # nothing is left to do
    assert run("status", "out") == (0, done, "")
    state = json.loads(run("status", "out", "--json")[1])
    assert (state["texts"], state["failed"], state["running"], state["complete"]) == (6, 1, False, True)
    opened = corpus.open("out")
    rows = [row for batch in opened.batches() for row in batch.to_pylist()]
    assert [(row["id"], row["given_gold"], row["target"]) for row in rows[:2]] == [
        ("f0", "0", "negative"),
        ("f1", "1", "negative"),
    ]
    assert opened[3].text == FILMS[3]
    assert opened[3].unit == "word"
    assert run("retry-failed", "out") == (0, "tried again: 0 explained, 1 failed, 0 killed\n", "")
    code, _, error = run(*command[:-5], "--no-text")
    assert code == 1
    assert "error: 'out' was begun otherwise: text was true, is false; full was true, is false" in error


def test_a_run_of_python_is_tried_again_in_python(run):
    corpus.run(["good"], "out", None)
    code, _, error = run("retry-failed", "out")
    assert (code, error) == (1, "error: 'out' was begun in Python; use slalom.corpus.retry_failed with its explainer\n")


@cases(
    ("arguments", "code", "said"),
    [
        (["run", "none.jsonl", "out"], 1, "there is no file or folder 'none.jsonl'"),
        (["run", "films.jsonl", "out"], 1, "must have a column 'text'; it has 'key', 'review', 'gold'"),
        (["run", "films.jsonl", "out", *OPTIONS, "--target", "all"], 1, "a corpus has one target per text"),
        (["run", "films.jsonl", "out", *OPTIONS, "--target", "happy"], 1, "happy"),
        (["run", "films.jsonl", "out", *OPTIONS, "--labels", "a,b"], 2, "--labels is for a language model"),
        (["run", "films.jsonl", "gopher://x", *OPTIONS], 1, "must name a file system of pyarrow or fsspec"),
        (["status", "nowhere"], 1, "must be a folder that slalom corpus run has written"),
        (["run", "films.jsonl", "out", "--part-size", "0"], 2, "part-size"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(run, tmp_path, arguments, code, said):
    write(tmp_path / "films.jsonl")
    found, _, error = run(*arguments)
    assert (found, error.count("\n")) == (code, 1)
    assert said in error


def test_a_run_that_explains_nothing_is_an_error(run, tmp_path):
    write(tmp_path / "films.jsonl", ["", ""])
    code, said, error = run("run", "films.jsonl", "out", *OPTIONS)
    assert (code, said.splitlines()[1]) == (1, "0 explained, 2 failed, 0 killed")
    assert error == "error: no text could be explained; the first one: a text must have at least one token; got ''\n"
    assert run("status", "out")[0] == 0


def test_pairs_are_run_continued_and_looked_at(run, tmp_path, monkeypatch):
    network, words = classifier("bert")
    special = [(name, words.convert_tokens_to_ids(name)) for name in ("[CLS]", "[SEP]")]
    words.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=special
    )
    words.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    network.save_pretrained("pair")
    words.save_pretrained("pair")
    rows = [{"a": "a good film", "b": f"the plot {word} thin"} for word in ("was", "and", "but", "with")] + [{"a": "good"}]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ["run", "pairs.jsonl", "out", "--model", "pair", "--method", "ridge", "--queries", 30, "--part-size", 2, "--full"]
    done = run(*command, "--pair", "a,b")
    assert done[:2] == (0, run("status", "out")[1])
    assert run(*command, "--pair", "a,b")[:2] == done[:2]
    assert 'text_column form was "tuple", is "dict"' in run(*command, "--column", "a", "--column", "b")[2]
    assert 'options removal was null, is "mask"' in run(*command, "--pair", "a,b", "--removal", "mask")[2]
    other = [*command[:2], "masked", *command[3:]]
    assert run(*other, "--pair", "a,b", "--removal", "mask")[0] == 0
    e = corpus.open("masked")[0]
    assert (e.record.example(), e.settings["removal"]) == (("a good film", "the plot was thin"), "mask")
    monkeypatch.setattr(progress, "_SECONDS", 0.0)  # a line for each step
    assert run("retry-failed", "out")[:2] == (0, "tried again: 0 explained, 1 failed, 0 killed\n")
    assert "effects on the score of" in run("summary", "out", "--include-poor", "--by", "all", "--min-texts", 2)[1]
    assert "4 shared texts" in run("compare", "out", "masked", "--min-texts", 2)[1]
    assert "[0, 0, 0, 1" in run("sql", "out", "SELECT unit_fields FROM texts LIMIT 1")[1]
    assert run(*other, "--numeric", "a")[2].startswith("error: --numeric is for columns beside those of texts")
    assert run(*other, "--pair", "a")[2].startswith(
        "error: --pair names the columns of two texts, as premise,hypothesis; got 'a'"
    )
