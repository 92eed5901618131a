"""The commands as a user types them: what they print, where they write, and what they say when something is wrong."""

import functools
import gzip
import io
import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers", reason="transformers is not installed")

import slalom
from slalom import cli
from slalom.models import EMBEDDED
from slalom.models.huggingface import saved
from slalom.models.huggingface.saved import load_classifier
from slalom.pipeline import Pipeline
from tests.cases import cases
from tests.factories import short_sighted

OWN = ((str(EMBEDDED), None), (str(EMBEDDED), "cpu"))
SENTENCE = "The first half is dull. The second half is one of the best things I have seen in years."


@functools.cache
def bundled():
    """The bundled classifier in torch, loaded once for all commands."""
    return load_classifier(str(EMBEDDED), "cpu")


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run a command in this process, in an empty folder; returns its exit code, output and complaints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        saved,
        "load_classifier",
        lambda path, device, *rest: bundled() if (path, device) in OWN else load_classifier(path, device, *rest),
    )
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments, given=None):
        monkeypatch.setattr(sys, "argv", ["slalom", *map(str, arguments)])
        if given is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def asked_texts(monkeypatch):
    """A list that gets the texts about which the model is asked from now on."""
    asked, ask = [], Pipeline.ask
    monkeypatch.setattr(
        Pipeline, "ask", lambda self, runs, what: asked.extend(run.task.reading.text for run in runs) or ask(self, runs, what)
    )
    return asked


def test_a_sentence_is_explained_with_the_model_of_the_package(run):
    code, out, err = run("explain", SENTENCE)
    assert code == 0, err
    lines = out.splitlines()
    said = r"negative \d\d\.\d%\. Without “dull” it would be positive \(asked: \d\d%\)\."
    assert re.fullmatch(said + r"   log odds of positive: -\d\.\d\d", lines[0])
    assert lines[2] == SENTENCE
    assert re.match(r"token +removal +value +importance$", lines[4])
    assert re.match(r"dull +-\d\.\d+ +█+ +-\d\.\d\d +\+\d\.\d\d ± \d\.\d\d$", lines[5])
    assert lines[6].startswith("best ")
    assert "± is a 95% interval" in out
    tested = r"R2 0\.\d\d near the text and 0\.\d\d on parts of all sizes \(10 \+ 10 held-out queries\)"
    assert re.search(rf"predicts removals with {tested}; \d+ queries \+ 20 to test.* s\n", out)
    assert "; 3 queries + 20 to test, " in run("explain", SENTENCE, "--queries", 3)[1]
    assert "\x1b" not in out  # no colours in a pipe


def test_the_numbers_in_the_terminal_are_those_of_the_library(run):
    e = slalom.Explainer()(SENTENCE)
    _, out, _ = run("explain", SENTENCE, "--top", 3)
    shown = {line.split()[0]: float(line.split()[1]) for line in out.splitlines()[5:8]}
    assert shown == {e.units[i]: round(float(e.removal[i]), 3) for i in e.strongest(3)}
    _, printed, _ = run("explain", SENTENCE, "--json")
    given, mine = json.loads(printed), e.to_dict()
    for changing in ("seconds",):
        del given[changing], mine[changing]
    assert given == json.loads(json.dumps(mine))


def test_a_terminal_gets_colours_and_a_pipe_does_not(run, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-256color")
    _, out, _ = run("explain", SENTENCE)
    assert "48;2;160;76;13mdull\x1b[0m" in out  # the strongest, against: on dark orange
    assert re.search(r"38;2;62;131;198mbest\x1b\[0m", out)  # a third as strong, for: blue
    monkeypatch.setenv("NO_COLOR", "1")
    _, none, _ = run("explain", SENTENCE)
    assert "48;2" not in none


@cases("kind", ["lines", "gz", "stdin", "stdin jsonl"])
def test_texts_come_from_files_and_pipes(run, tmp_path, kind):
    texts = ["A good film.", "A bad, bad film 👍🏽\u2028.", 'She said: "fine".']
    rows = "\n".join(json.dumps({"text": text, "id": 3}, ensure_ascii=False) for text in texts)
    content = rows if kind in ("stdin jsonl", "gz") else "\r\n".join([texts[0], "", *texts[1:]])
    path = "-" if kind.startswith("stdin") else tmp_path / {"lines": "t.txt", "gz": "t.jsonl.gz"}[kind]
    if kind == "gz":
        path.write_bytes(gzip.compress(content.encode()))
    elif kind == "lines":
        path.write_text(f"\ufeff{content}", newline="")
    source = ["-"] if path == "-" else ["--file", path]
    code, out, err = run("explain", *source, "--json", "--queries", 20, "--method", "ridge", given=content)
    assert code == 0, err
    assert [json.loads(line)["text"] for line in out.strip().split("\n")] == texts


def test_options_reach_the_explainer(run):
    _, out, _ = run(
        "explain", "It was good. Then it was bad.", "--unit", "sentence", "--method", "local", "--target", "negative",
        "--seed", 4, "--queries", 50, "--json", "--device", "cpu",
    )  # fmt: skip
    given = json.loads(out)
    assert (given["unit"], given["method"], given["target"], given["seed"]) == ("sentence", "local", "negative", 4)
    assert given["units"] == ["It was good.", "Then it was bad."]


def test_pages_pictures_and_lines_are_written(run, tmp_path):
    (tmp_path / "t.txt").write_text(f"{SENTENCE}\nThis was an amazing movie!\n")
    written = ("--html", "r.html", "--png", "p.png", "--out", "e.jsonl")
    code, out, err = run("explain", "--file", "t.txt", "--queries", 30, *written)
    assert code == 0, err
    assert "text 1 of 2" in out
    assert "written: r.html\nwritten: p-1.png to p-2.png\nwritten: e.jsonl\n" in out
    assert SENTENCE.split()[3] in (tmp_path / "r.html").read_text(encoding="utf-8")
    for number in (1, 2):
        assert (tmp_path / f"p-{number}.png").read_bytes().startswith(b"\x89PNG")
    back = slalom.load("e.jsonl")
    assert [e.text for e in back] == [SENTENCE, "This was an amazing movie!"]


def test_a_file_that_was_begun_is_continued(run, tmp_path, monkeypatch):
    texts = [f"A good film number {i}." for i in range(5)]
    (tmp_path / "t.txt").write_text("\n".join(texts))
    (tmp_path / "t2.txt").write_text("\n".join(texts[:2]))
    assert run("explain", "--file", "t2.txt", "--out", "e.jsonl", "--queries", 20)[0] == 0
    begun = (tmp_path / "e.jsonl").read_text()
    (tmp_path / "e.jsonl").write_text(begun + begun[: len(begun) // 3])  # a line that was cut off
    asked = asked_texts(monkeypatch)
    code, out, err = run("explain", "--file", "t.txt", "--out", "e.jsonl", "--queries", 20)
    assert code == 0, err
    assert asked == texts[2:]
    assert "text 1 of 5" in out
    assert (tmp_path / "e.jsonl").read_text().startswith(begun)
    assert [e.text for e in slalom.load("e.jsonl")] == texts
    code, _, err = run("explain", "--file", "t.txt", "--out", "e.jsonl", "--queries", 20, "--seed", 3)
    assert code == 1
    assert "was started with another model or other options" in err
    (tmp_path / "o.txt").write_text("Other.\n")
    code, _, err = run("explain", "--file", "o.txt", "--out", "e.jsonl")
    assert code == 1
    assert "holds something other than explanations of these texts" in err


@cases(
    ("arguments", "code", "said"),
    [
        (["explain", ""], 1, "at least one token"),
        (["explain", "  "], 1, "at least one token"),
        (["explain"], 2, "give a TEXT, - for standard input, or --file FILE; got neither"),
        (["explain", "a", "--file", "b"], 2, "got both"),
        (["explain", "--file", "none.txt"], 1, "could not read 'none.txt': No such file"),
        (
            ["explain", "good", "--model", "./no-model"],
            1,
            "there is no folder or file './no-model'; name the folder of a saved",
        ),
        (["explain", "good", "--target", "happy"], 1, r"'happy' is not a class of this model; choose one of 0 \(negative\)"),
        (["explain", "good", "--target", "7"], 1, "7 is not a class of this model"),
        (["explain", "good", "--device", "cuda:77"], 1, "could not be put on device 'cuda:77'.*try device 'cpu'"),
        (["explain", "good", "--queries", "many"], 2, "must be a whole number of at least 2, or auto; got 'many'"),
        (["explain", "good", "--unit", "module.function"], 2, 'Choose from: "token", "type", "word", "sentence"'),
        (["explain", "good", "--method", "magic"], 1, "method must be one of 'joint', 'local'.*got 'magic'"),
        (["explain", "good", "--colour"], 2, "Unknown option: --colour. Did you mean --column"),
        (["explain", "good", "--html", "no/folder/r.html"], 1, "name a file in a folder that exists"),
        (["explain", "good", "--png", "p.doc"], 1, r"must be a \.png, \.svg or \.pdf file"),
        (["explain", "good", "--out", "e.json"], 1, r"--out must be a \.jsonl file"),
        (["explain", "--file", "d.csv", "--html", "d.csv"], 1, "is the file with the texts"),
        (["explain", "--file", "broken.jsonl"], 1, "line 1 of 'broken.jsonl' must be a JSON object"),
        (["explain", "--file", "broken.gz"], 1, "must be text in UTF-8, plain or compressed with gzip"),
        (
            ["explain", "--file", "other.jsonl"],
            1,
            "row 2 of other.jsonl must have a field \"text\"; it has 'words'; .* --column words",
        ),
        (
            ["explain", "--file", "d.csv", "--column", "review"],
            1,
            "have a field \"review\"; it has 'text', 'label'; .*--column text",
        ),
        (["explain", "--file", "n.txt", "--column", "review"], 1, "--column is for rows .*; n.txt has one text per line"),
        (["explain", "good", "--column", "review"], 2, "--pair are for the rows of a file or of standard input; got a TEXT"),
        (["explain", "good", "--seed", "9" * 30], 1, "seed must be below"),
        (["explain", "good", "--model", "d.csv"], 1, "'d.csv' is a file, not the folder of a Hugging Face classifier"),
        (["wander"], 2, 'Unknown command "wander"'),
    ],
)
def test_what_is_wrong_is_said_in_one_line(run, tmp_path, arguments, code, said):
    (tmp_path / "d.csv").write_text("text,label\ngood,1\nbad,0\n")
    (tmp_path / "t.csv").write_text("text,label\ngood,1\nbad,7\n")
    (tmp_path / "broken.jsonl").write_text('{"text": \n{"text": "good"}\n')
    (tmp_path / "n.txt").write_text("good\n")
    (tmp_path / "broken.gz").write_bytes(b"\x1f\x8b\x08\x00 no gzip")
    (tmp_path / "other.jsonl").write_text('{"text": "good"}\n{"words": "bad"}\n')
    found, out, err = run(*arguments)
    assert found == code
    assert re.search(said, err)
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in err
    assert out == ""


def test_a_mistyped_name_is_answered_with_the_likeliest_one(run, tmp_path):
    (tmp_path / "t.csv").write_text("id,title,review\n1,a,good\n")
    for arguments, meant in (
        (["explian", "good"], 'Did you mean "explain"?'),
        (["explain", "good", "--cach", "a.sqlite"], "Did you mean --cache? see"),
        (["explain", "good", "--unit", "wrod"], 'Did you mean "word"? see'),
        (["explain", "good", "--method", "kernelshap"], "got 'kernelshap'; did you mean 'kernel-shap'?\n"),
        (["explain", "good", "--target", "Postive"], "1 (positive); did you mean 'positive'?\n"),
        (["explain", "--file", "t.csv", "--column", "reviw"], "name the one with the texts: --column review\n"),
        (["corpus", "run", "t.csv", "out", "--column", "reviw"], "name another with --column; did you mean 'review'?\n"),
        (["compare", "--file", "t.csv", "--column", "review", "--methods", "jiont"], "got 'jiont'; did you mean 'joint'?\n"),
        (["compare", "--file", "t.csv", "--column", "review", "--metrics", "deletoin"], "did you mean 'deletion'?\n"),
    ):
        code, out, err = run(*arguments)
        assert (code > 0, out) == (True, ""), arguments
        assert meant in err, err
    assert "did you mean" not in run("explain", "good", "--method", "magic")[2]
    with pytest.raises(slalom.errors.InputError, match="did you mean 'sentence'"):
        slalom.Explainer(unit="sentences")


def test_a_file_of_somebody_else_is_never_touched(run, tmp_path):
    for content in ("precious notes", '{"text": "a film"}\n{"text": "more"}', "line\nline\n", "[" * 100_000 + "\n"):
        (tmp_path / "d.jsonl").write_text(content)
        code, _, err = run("explain", "A fine film.", "--out", "d.jsonl")
        assert code == 1
        assert "holds something other than explanations of these texts" in err
        assert (tmp_path / "d.jsonl").read_text() == content


def test_one_file_holds_explanations_of_one_kind(run, tmp_path):
    (tmp_path / "one.txt").write_text("A good film.\n")
    (tmp_path / "two.txt").write_text("A good film.\nA bad film.\n")
    options = ("--out", "e.jsonl", "--target", "negative", "--queries", 30, "--method", "ridge")
    assert run("explain", "--file", "one.txt", *options)[0] == 0
    for other in (["--target", "positive"], ["--queries", "40"], ["--long", "window"], ["--unit", "word"]):
        code, _, err = run("explain", "--file", "two.txt", *options, *other)
        assert code == 1
        assert "was started with another model or other options" in err
        assert len(slalom.load("e.jsonl")) == 1
    assert run("explain", "--file", "two.txt", *options)[0] == 0
    assert len(slalom.load("e.jsonl")) == 2


def test_texts_that_fail_are_named_and_the_others_explained(run, tmp_path):
    (tmp_path / "t.txt").write_text("good\n" * 17 + "\u200b\n" + "bad\n" * 2)
    for _ in range(2):  # the second run takes everything from the file, and says the same
        code, out, err = run("explain", "--file", "t.txt", "--out", "out.jsonl", "--method", "ridge", "--queries", 20)
        assert code == 1
        assert out.count("log odds of positive: ") == 19
        assert "text 17 of 20" in out
        assert "text 18 of 20 ─" not in out
        assert "text 19 of 20" in out
        lines = err.splitlines()
        assert lines[0] == "text 18 of 20 failed: a text must have at least one token; got '\\u200b'"
        assert lines[1] == "1 of 20 texts failed: 18; the others were explained"
    found = slalom.load(tmp_path / "out.jsonl")
    assert len(found) == 19
    assert [(one.number, one.text) for one in found.failures] == [(17, "\u200b")]


def test_a_flip_is_printed_where_it_is_asked_for(run):
    negated = "This is not a good film at all."
    code, out, err = run("explain", negated, "--flip")
    assert code == 0, err
    explainer = slalom.Explainer()
    e = explainer(negated)
    asked = explainer.ask(e, [unit != "not" for unit in e.units])
    line = f"log odds of positive {e.score:+.3f} to {asked:+.3f}; 1 more query"
    assert f'flip: without "not" (1 of {len(e)} tokens) the model says positive: {line}\n' in out
    line = json.loads(run("explain", negated, "--flip", "--json")[1])
    assert line["flip"] == explainer.flip(e).to_dict()
    assert slalom.Explanation.from_dict(line).units == e.units
    code, out, err = run("explain", negated, "--flip", "--method", "attention")
    assert (code, out) == (1, "")
    assert err == "error: --flip needs scores with a sign, which attention does not give; use a method such as joint\n"


def test_certified_shapley_values_follow_the_explanation(run):
    text = "Not a good film at all."
    code, out, err = run("explain", text, "--certify", 60, "--top", 2, "--seed", 1)
    assert code == 0, err
    explainer = slalom.Explainer()
    found = explainer.shapley(explainer(text, seed=1), queries=60, seed=1)
    assert out.endswith(f"{found.table(2)}\n")
    assert json.loads(run("explain", text, "--certify", 60, "--seed", 1, "--json")[1])["certified"] == found.to_dict()
    assert run("explain", text, "--certify", 5)[2] == "error: --certify must be at least 12; got 5\n"


def test_a_text_without_a_deciding_token_has_a_flip_by_itself(run):
    praise = "A wonderful, moving film. A great cast, superb music, and a brilliant, touching end. " * 2
    asked = ("explain", praise, "--queries", 50, "--method", "eff")
    code, out, err = run(*asked)
    assert code == 0, err
    explainer = slalom.Explainer(queries=50, method="eff")
    e = explainer(praise)
    flip = explainer.flip(e)
    most = f"{np.abs(e.removal).max():.3g} of {e.score:+.2f}"
    assert (
        f"No single token decides: removing any one is predicted to change the log odds of positive by at most {most}.\n" in out
    )
    assert f"({len(flip.units)} of {len(e)} tokens) the model says negative" in out
    assert f"to {flip.asked:+.3f}; {flip.queries} more queries\n" in out
    assert re.search(r"^token +Shapley +removal", out, flags=re.M)
    assert json.loads(run(*asked, "--json")[1])["flip"] == flip.to_dict()
    assert "flip" not in json.loads(run(*asked, "--json", "--no-flip")[1])


def test_what_failed_is_tried_again(run, tmp_path):
    (tmp_path / "t.txt").write_text("a good film " * 10 + "\nbad\n")
    model = short_sighted(tmp_path / "m")
    options = ("--file", "t.txt", "--model", model, "--long", "window", "--out", "out.jsonl", "--queries", 20)
    code, _, err = run("explain", "--method", "gradient", *options)
    assert code == 1
    assert "text 1 of 2 failed: gradient looks at one pass" in err
    (tmp_path / "out.jsonl").write_text((tmp_path / "out.jsonl").read_text().splitlines()[0] + "\n")  # the failure alone
    code, _, err = run("explain", "--method", "eff", *options)
    assert (code, err) == (0, "")
    assert [e.method for e in slalom.load(tmp_path / "out.jsonl")] == ["eff", "eff"]


def test_a_text_cannot_steer_the_terminal(run):
    _, out, _ = run("explain", "A \x1b[31mgood\x9b film", "--queries", 20)
    assert not re.search(r"[\x1b\x9b]", out)


def test_a_column_names_the_texts(run, tmp_path):
    rows = [{"text": "no", "review": "A good film, really."}, {"text": "no", "review": "A bad film."}]
    (tmp_path / "t.csv").write_text('text,review\nno,"A good film, really."\nno,A bad film.\n')
    for source in (["-"], ["--file", "t.csv"]):
        options = ("--column", "review", "--json", "--queries", 20, "--method", "ridge")
        code, out, err = run("explain", *source, *options, given=json.dumps(rows, indent=1))
        assert code == 0, err
        assert [json.loads(line)["text"] for line in out.splitlines()] == ["A good film, really.", "A bad film."]


def test_running_out_of_memory_says_what_to_do(run, monkeypatch):
    def full(*_arguments, **_options):
        raise MemoryError("8 GiB wanted")

    monkeypatch.setattr(slalom.Explainer, "stream", full)
    code, _, err = run("explain", "good")
    assert code == 1
    assert err == "error: out of memory (8 GiB wanted); try fewer queries, a shorter text, or another device\n"


def test_a_text_that_is_too_long_is_said_to_be_cut(run, tmp_path):
    asked = ["explain", "good film " * 15, "--model", short_sighted(tmp_path / "m"), "--queries", 20]
    code, out, err = run(*asked)
    assert code == 0, err
    # 16 fit, one of them [CLS]
    assert re.fullmatch(r"warning: 15 tokens do not fit into m and were cut; the option long=window .*\n", err)
    assert "note: The model cannot see the last" in out
    code, out, err = run(*asked, "--long", "window")
    assert (code, err) == (0, "")
    assert "cannot see" not in out


def test_info_tells_versions_devices_and_the_model(run):
    code, out, _ = run("info")
    assert code == 0
    assert f"slalom         {slalom.__version__}" in out
    assert "slalom-sentiment: 3,300,610 parameters" in out
    found = json.loads(run("info", "--json")[1])
    assert found["model"]["labels"] == ["negative", "positive"]
    assert found["devices"][0].startswith("cpu")
    assert found["versions"]["numpy"] == np.__version__
    assert run("--version")[1] == f"slalom {slalom.__version__}\n"


def test_help_and_completion_are_there(run):
    for command in ([], ["explain"], ["compare"], ["methods"], ["info"]):
        code, out, _ = run(*command, "--help")
        assert code == 0
        assert "Usage:" in out
    assert "--install-completion" in run("--help")[1]
    assert run()[0] in (0, 2)
    assert "explain" in run()[1] + run()[2]


def test_redirected_commands_show_their_progress_in_lines(run, tmp_path, monkeypatch):
    from tests.models.tiny_lm import language_model, tokenizer  # noqa: PLC0415

    words = tokenizer("gpt2")
    language_model("llama", len(words)).save_pretrained(tmp_path / "lm")
    words.save_pretrained(tmp_path / "lm")
    (tmp_path / "t.txt").write_text("A good film.\nA bad film.\n")
    asking = r"asking: [\d,]+ of [\d,]+ (tokens|queries) \(\d+%\), \d\d:\d\d"
    commands = (
        (["explain", "--file", "t.txt", "--queries", 20], [asking, "explaining: 2 of 2 texts"]),
        (
            ["compare", "--file", "t.txt", "--methods", "random,ridge", "--queries", 20],
            [r"comparing: 2 of 4 explanations \(50%\).*, ridge$"],
        ),
        (
            ["corpus", "run", "t.txt", "out", "--queries", 20],
            [r"explaining: 1 of 2 texts \(50%\), \d\d:\d\d, about \d\d:\d\d left$"],
        ),
        (["context", "--lm", "lm", "--file", "t.txt", "--question", "good?", "--answer", "good.", "--queries", 8], [asking]),
    )
    run("--version")  # drops what saving the model has printed
    monkeypatch.setattr("slalom.progress._SECONDS", 1e9)
    for command, _ in commands:
        assert run(*command)[::2] == (0, ""), command  # not within the first seconds
    shutil.rmtree("out")
    monkeypatch.setattr("slalom.progress._SECONDS", 0.0)
    for command, lines in commands:
        code, _, err = run(*command)
        assert code == 0, err
        for line in lines:
            assert re.search(rf"^{line}", err, flags=re.M), err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert not re.search(r"^\w+ing: \d.*\n", run("explain", "--file", "t.txt", "--queries", 20)[2], flags=re.M)


def test_ctrl_c_before_the_first_result_claims_nothing(run, tmp_path, monkeypatch):
    def pressed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Pipeline, "ask", pressed)
    code, _, err = run("explain", SENTENCE, "--out", "e.jsonl")
    assert code == 130
    assert "interrupted after 0 of 1 text; run the same command to continue" in err
    assert not (tmp_path / "e.jsonl").exists()


def test_methods_are_set_side_by_side(run, tmp_path):
    pytest.importorskip("torch")  # `attention` loads it: the second run has the classifier in torch, so must the first
    (tmp_path / "t.csv").write_text("text,label\nThe first half is dull.,0\nA wonderful and touching film.,1\n")
    options = ["--file", "t.csv", "--queries", "60,80", "--methods", "local,ridge,attention", "--out", "c.jsonl"]
    code, out, err = run("compare", *options, "--csv", "c.csv")
    assert code == 0, err
    assert re.search(r"^method +budget +near +far +deletion +insertion +queries +tokens +seconds$", out, flags=re.M)
    assert re.search(r"^local +80 +\d\.\d{3} ± \d+\.\d{3} ", out, flags=re.M)
    assert re.search(r"^attention +\d\.\d{3} ± ", out, flags=re.M)  # it predicts nothing
    assert "2 texts, slalom-sentiment, seed 0" in out
    assert "near: squared error" in out
    assert (tmp_path / "c.csv").read_text().startswith("method,budget,texts,near,near_se")
    code, printed, err = run("compare", *options, "--json")
    assert code == 0, err
    assert json.loads(printed)["about"]["texts"] == 2


def test_methods_are_compared_under_several_meanings_of_removal(run, tmp_path):
    (tmp_path / "t.txt").write_text(f"{SENTENCE}\n")
    options = ["--file", "t.txt", "--queries", 40, "--methods", "ridge", "--metrics", "near", "--out", "c.jsonl"]
    code, out, err = run("compare", *options, "--removal", "drop, mask")
    assert code == 0, err
    assert re.search(r"^ridge \(drop\) +40 .*\nridge \(mask\) +40 ", out, flags=re.M)
    assert run("compare", *options, "--removal", "drop,mask")[0] == 0
    assert "(removal differ)" in run("compare", *options, "--removal", "mask")[2]
    assert "got 'masks'" in run("compare", *options, "--removal", "masks")[2]


def test_a_budget_that_grows_says_why_it_stopped(run, tmp_path):
    code, out, err = run("explain", SENTENCE, "--queries", "auto", "--max-queries", 200, "--html", "p.html", "--out", "e.jsonl")
    assert code == 0, err
    saved = json.loads((tmp_path / "e.jsonl").read_text())
    assert saved["settings"]["queries"] == "auto"
    assert saved["settings"]["max_queries"] == 200
    assert f"stopped: {saved['stopped']}" in out
    tests = sum(place["queries"] for place in saved["fidelity"].values())
    assert f"{saved['queries'] - saved['pair_queries'] - tests} queries + {tests} to test" in out
    assert saved["stopped"] in (tmp_path / "p.html").read_text()
    code, out, _ = run("explain", SENTENCE, "--queries", "auto", "--max-queries", 200, "--out", "e.jsonl")
    assert code == 0, "the same options continue the file"
    code, _, err = run("explain", SENTENCE, "--queries", "auto", "--out", "e.jsonl")
    assert code == 1
    assert "other options" in err
    code, out, err = run("explain", SENTENCE, "--tolerance", "1e6", "--json")
    assert code == 0, err
    assert "the tolerance is 1e+06" in json.loads(out)["stopped"]


def test_a_comparison_takes_a_budget_that_grows(run, tmp_path):
    (tmp_path / "t.txt").write_text("A dull film.\nA wonderful, touching film.\n")
    options = ["--file", "t.txt", "--queries", "60,auto", "--methods", "ridge", "--metrics", "near"]
    code, out, err = run("compare", *options, "--html", "c.html", "--csv", "c.csv")
    assert code == 0, err
    assert re.search(r"^ridge +60 ", out, flags=re.M)
    assert re.search(r"^ridge +auto ", out, flags=re.M)
    assert "ridge,auto,2," in (tmp_path / "c.csv").read_text()
    assert "auto" in (tmp_path / "c.html").read_text()


def test_a_comparison_takes_its_texts_from_a_column(run, tmp_path):
    options = ["--methods", "random", "--metrics", "near", "--json"]
    rows = '{"review": "A good film."}\n{"review": "A bad film."}'
    code, printed, err = run("compare", "--file", "-", "--column", "review", *options, given=rows)
    assert code == 0, err
    assert [json.loads(printed)["about"][end] for end in ("first", "last")] == ["A good film.", "A bad film."]


@cases(
    ("arguments", "code", "said"),
    [
        (["--file", "none.txt"], 1, "could not read 'none.txt'"),
        (["--file", "t.txt", "--methods", "magic"], 1, "method must be one of 'joint', 'local'"),
        (["--file", "t.txt", "--metrics", "magic"], 1, "a measure must be one of near"),
        (["--file", "t.txt", "--metrics", "human"], 1, "needs texts with words that people have marked"),
        (
            ["--file", "t.txt", "--methods", ","],
            1,
            "--methods must have at least one name; got ','; leave it out for the default",
        ),
        (["--file", "t.txt", "--metrics", ""], 1, "--metrics must have at least one name; got ''"),
        (["--file", "t.txt", "--seed", "-1"], 1, "--seed must be a whole number of at least 0; got -1"),
        (["--file", "t.txt", "--methods", "random", "--target", "magic"], 1, "target 'magic' is not a class of this model"),
        (["--file", "t.txt", "--methods", "random", "--out", "list.jsonl"], 1, "'list.jsonl' holds something else"),
        (["--file", "t.txt", "--queries", "many"], 1, "--queries must be numbers of at least 2 or auto"),
        (["--file", "t.txt", "--queries", "auto,1"], 1, "--queries must be numbers of at least 2 or auto"),
        (["--file", "empty.txt"], 1, "empty.txt must have at least one line with a text"),
        (["--file", "w.csv"], 1, "row 1 of w.csv must have a field \"text\"; it has 'words'; .* --column words"),
        (["--file", "t.txt", "--column", "words"], 1, "--column is for rows .*; t.txt has one text per line"),
        (["--file", "t.txt", "--corpus", "w3.csv"], 1, "--corpus must have two labels"),
        (["--file", "t.txt", "--html", "t.txt"], 1, "is the file with the texts"),
        ([], 2, "the texts are missing; add --file FILE"),
    ],
)
def test_what_is_wrong_with_a_comparison(run, tmp_path, arguments, code, said):
    (tmp_path / "t.txt").write_text("A good film.\n")
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "w.csv").write_text("words\na\n")
    (tmp_path / "w3.csv").write_text("text,label\na,1\nb,2\nc,3\n")
    (tmp_path / "list.jsonl").write_text("[1]\n")
    found, out, err = run("compare", *arguments)
    assert (found, out) == (code, "")
    assert re.search(said, err)
    assert len(err.strip().splitlines()) == 1


def test_one_text_has_no_interval_and_words_that_people_marked_need_no_label(run, tmp_path):
    (tmp_path / "w.jsonl").write_text(json.dumps({"words": ["A", "good", "film"], "maps": [[0, 1, 0]] * 3}) + "\n")
    code, out, err = run("compare", "--file", "w.jsonl", "--methods", "leave-one-out", "--metrics", "human")
    assert code == 0, err
    assert "1 text, slalom-sentiment, seed 0; one value each" in out
    assert "±" not in out
    assert re.search(r"^leave-one-out +1\.000 ", out, flags=re.M)


def test_compare_prints_95_percent_intervals():
    from scipy.stats import t  # noqa: PLC0415

    from slalom.cli.compare import _table  # noqa: PLC0415
    from tests.side_by_side import realistic  # noqa: PLC0415

    compared = realistic()
    row = compared.rows[0]
    summary = compared.summary(row, "near")
    table = _table(compared, ["near"], errors=True)
    cell = str(next(iter(table.columns[2].cells)))
    mean, half_width = map(float, cell.split(" ± "))
    assert mean == pytest.approx(summary.mean, abs=5e-4)
    assert (
        half_width == pytest.approx(t.ppf(0.975, summary.n - 1) * summary.se, abs=5e-4) != pytest.approx(summary.se, abs=5e-4)
    )


def test_the_source_of_an_answer(run, tmp_path):
    from tests.models.tiny_lm import language_model, tokenizer  # noqa: PLC0415

    words = tokenizer("gpt2")
    language_model("llama", len(words)).save_pretrained(tmp_path / "lm")
    words.save_pretrained(tmp_path / "lm")
    (tmp_path / "a.txt").write_text("A good film. The plot was thin.\n\nNobody liked it.")
    (tmp_path / "b.txt").write_text("The cast was fine.")
    base = [
        "context",
        "--lm",
        "lm",
        "--file",
        "a.txt",
        "--question",
        "Was it good?",
        "--answer",
        "it was good. it was thin.",
    ]
    code, out, err = run(*base, "--html", "page.html")
    assert code == 0, err
    assert out.startswith("question: Was it good?\nanswer, and the sources that each sentence rests on:\n  it was good.  ")
    assert "\n  it was thin.  " in out
    assert "log probability of answer: -" in out
    assert "Nobody liked it." in out
    assert "written: page.html" in out
    assert "Was it good?" in Path("page.html").read_text()
    code, out, err = run(*base, "--file", "b.txt", "--json", "--part", "2")
    assert code == 0, err
    e = slalom.Explanation.from_dict(json.loads(out))
    assert (e.unit, len(e), e.target) == ("document", 2, "sentence 2")
    code, out, err = run(*base, "--json", "--part", "1", "--words")
    assert code == 0, err
    (sentence,) = slalom.Explanation.from_dict(json.loads(out)).sentences
    assert [word.text for word in sentence.words] == ["it", "was", "good."]
    code, out, err = run(*base, "--unit", "paragraph", "--json", "--method", "leave-one-out")
    assert len(slalom.Explanation.from_dict(json.loads(out))) == 2, err
    code, out, err = run(*base, "--json", "--method", "leave-one-out", "--span", "7:11")
    assert slalom.Explanation.from_dict(json.loads(out)).answer.part == "good", err
    for wrong, message in (
        (["--file", "none.txt"], "could not read 'none.txt'"),
        (["--lm", "./none"], "there is no folder or file './none'"),
        (["--part", "7"], "part must be one of 'answer', 'sentence 1', 'sentence 2'; got 7"),
        (["--template", "{question}"], "must contain {context} once"),
        (["--span", "3:99"], "0 <= start < stop <= 25; got 3 and 99"),
        (["--span", "3-9"], "--span must be two whole numbers such as 12:19; got '3-9'"),
        (["--span", "3:9", "--part", "1"], "give --part or --span, not both"),
    ):
        code, out, err = run(*base, *wrong)
        assert code in (1, 2)
        assert message in err
        assert len(err.strip().splitlines()) == 1


@cases(
    ("options", "said"),
    [
        (["--queries", 1], "--queries must be a whole number of at least 2; got 1"),
        (["--seed", -1], "--seed must be a whole number of at least 0; got -1"),
        (["--max-queries", 1], "--max-queries must be a whole number of at least 2; got 1"),
        (["--tolerance", -1], "--tolerance must be a number above 0, in units of the score, such as 0.1; got -1.0"),
        (["--tolerance", 0.1, "--queries", 9], "--tolerance is a goal of --queries='auto'; got --queries=9"),
        (["--max-queries", 3], "and --max-queries is 3; raise it, or lower queries"),
        (["--max-cost", 1], "--max-cost needs --prices, the dollars per million tokens"),
        (["--max-cost", 1e-9, "--prices", "1,2"], "and --max-cost is $0.000000001; raise --max-cost, or lower queries"),
        (["--prices", "nope.json"], "--prices must be in a JSON file that can be read; 'nope.json'"),
        (["--method", "nope"], "'random'; got 'nope'"),
    ],
)
def test_messages_name_the_options_of_the_command(run, options, said):
    code, _, err = run("explain", "a good film", *options)
    assert code == 1
    assert said in err
    assert not re.search(r"\bmax_", err)


# --- records of several fields

TABLE = "title,body,stars,genre\nA good film,I like it,4,drama\nA bad film,no fun,1,horror\n"


def _functions(folder):
    """Write a module of functions of records and a table, and return the name of the module."""
    name = f"functions_{folder.name.replace('-', '_')}"
    (folder / f"{name}.py").write_text(
        "def pair(rows): return [3.0 * ('good' in a and 'like' in b) for a, b in rows]\n"
        "def films(rows): return [0.5 * row['stars'] + 2.0 * ('good' in row['title']) for row in rows]\n"
    )
    (folder / "films.csv").write_text(TABLE)
    (folder / "background.jsonl").write_text('{"stars": 1}\n{"stars": 3}\n')
    return name


def test_columns_are_fields_of_records(run, tmp_path):
    name = _functions(tmp_path)
    fields = ["--file", "films.csv", "--column", "title", "--column", "body", "--numeric", "stars", "--out", "out.jsonl"]
    fields += ["--model", f"{name}:films", "--output", "scores", "--background", "background.jsonl", "--queries", 20]
    code, shown, _ = run("explain", *fields)
    assert code == 0
    assert "title: A good film\nbody: I like it\nstars: 4" in shown
    assert "field 'title': removal +2.000 (asked)" in shown
    assert "field 'stars': removal +1.000 (asked)" in shown, "4 becomes 1 and 3"
    first, second = (slalom.Explanation.from_dict(json.loads(line)) for line in Path("out.jsonl").read_text().splitlines())
    assert (first.score, second.score, second.record.fields[2].value) == (4.0, 0.5, 1)
    assert run("explain", *fields)[0] == 0, "the same command goes on"
    code, shown, _ = run("explain", "--file", "films.csv", "--pair", "title,body", "--model", f"{name}:pair",
                         "--output", "scores", "--json", "--queries", 20)  # fmt: skip
    assert code == 0
    assert json.loads(shown.splitlines()[0])["record"] == {
        "form": "tuple",
        "fields": {"title": "A good film", "body": "I like it"},
    }


@cases(
    ("options", "message"),
    [
        ("--column title --column boddy", '"boddy"; it has .* name the one with the texts: --column body'),
        ("--column title --numeric body", "row 1 of films.csv must have a number in its field \"body\"; it has 'I like it'"),
        ("--column title --numeric nothing", 'films.csv must have a column "nothing"; its rows have none'),
        ("--numeric stars", "--numeric is for columns beside those of texts; name these with --column"),
        ("--column title --column title", "columns must differ from each other; got title, title"),
        ("--pair title", "--pair names the columns of two texts, as premise,hypothesis; got 'title'"),
        ("--pair title,body --column title", "--pair names the columns of two texts, .*; got 'title,body' with other columns"),
        ("--column title --background background.jsonl", "--background needs the columns that it replaces: --numeric NAME"),
    ],
)
def test_wrong_columns_are_named_in_one_line(run, tmp_path, options, message):
    name = _functions(tmp_path)
    code, _, said = run("explain", "--file", "films.csv", "--model", f"{name}:films", "--output", "scores", *options.split())
    assert code != 0
    assert len(said.splitlines()) == 1, said
    assert re.search(message, said), said


def test_units_are_masked(run):
    code, shown, _ = run("explain", "A good film , but long", "--removal", "mask", "--queries", 40)
    assert code == 0
    assert "removal (mask): by how much" in shown
    assert "moves later words" not in shown
