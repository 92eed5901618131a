"""A corpus may come from someone else: its manifest does not decide where texts and keys go, nor which files are opened."""

import json
import os
import shutil
from pathlib import Path

import pytest

from slalom import corpus
from slalom.cli.corpus_model import confirmed_options
from slalom.corpus.folder import Folder
from slalom.errors import InputError
from slalom.models import EMBEDDED
from tests.cli.test_commands import run  # noqa: F401
from tests.models.test_api_client import works
from tests.servers import Served

KEY = "sk-of-the-victim"


def rewritten(out, **options):
    """Change the command in a manifest, as its author can."""
    path = Path(out, "manifest.json")
    manifest = json.loads(path.read_text())
    manifest["command"] |= options
    path.write_text(json.dumps(manifest))


@pytest.fixture
def made(run, tmp_path):  # noqa: F811
    """A corpus of the bundled classifier with a text that failed."""
    Path("texts.jsonl").write_text('{"text": "a good film"}\n{"text": ""}\n')
    assert run("corpus", "run", "texts.jsonl", "out", "--method", "ridge", "--queries", 10)[0] == 0
    return "out"


def answering(handler, path, body):
    """Answer all but the second text."""
    if "second" in json.dumps(body):
        handler.send({"error": {"message": "no"}}, 400)
    else:
        works(handler, path, body)


def test_no_key_goes_where_a_manifest_says(run, monkeypatch):  # noqa: F811
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    started = []
    monkeypatch.setattr("slalom.cli.serve._run", lambda server, _: started.append(server))
    Path("texts.txt").write_text("a good day\nthe second one\n")
    with Served(answering) as thief:
        prompt = ["--template", "{text} ->", "--labels", "bad,good", "--method", "ridge", "--queries", 10]
        assert run("corpus", "run", "texts.txt", "out", "--api", "m", "--base-url", thief.url, *prompt)[0] == 0
        asked = len(thief.asked)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        for command in (["corpus", "retry-failed", "out"], ["serve", "--port", 0, "--corpus", "out"]):
            for options, missing in (
                ([], f"add --api m --base-url {thief.url}"),
                (["--api", "m"], f"add --base-url {thief.url}"),
            ):
                code, _, error = run(*command, *options)
                assert (code, error.count("\n")) == (1, 1), error
                assert missing in error
                assert "does not decide where texts and keys go" in error
            assert run(*command, "--base-url", thief.url)[0] == 2
        assert run("corpus", "status", "out")[0] == 0
        run("corpus", "summary", "out")
        assert (len(thief.asked), started) == (asked, [])
        rewritten("out", api="m; rm -rf ~", base_url=None)
        assert "add --api 'm; rm -rf ~'\n" in run("corpus", "retry-failed", "out")[2]
        rewritten("out", api=["m"])
        assert "must have a text as api; got list\n" in run("corpus", "retry-failed", "out")[2]


def test_a_server_that_the_command_line_names_is_asked_and_said(run, monkeypatch):  # noqa: F811
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    answers = [answering]

    def answer(handler, path, body):
        answers[-1](handler, path, body)

    with Served(answer) as server:
        Path("texts.txt").write_text("a good day\nthe second one is good\n")
        Path("prompt.txt").write_text("{text} ->")
        named = ["--api", "m", "--base-url", server.url]
        options = ["--template", "@prompt.txt", "--labels", "bad,good", "--method", "ridge", "--queries", 10]
        code, _, error = run("corpus", "run", "texts.txt", "out", *named, *options, "--cache", "answers")
        assert code == 0, error
        assert error.startswith(f"starting with the language model 'm' at {server.url}\n")
        assert {headers.get("authorization") for headers in server.headers} == {f"Bearer {KEY}"}
        answers.append(works)
        code, _, error = run("corpus", "retry-failed", "out", *named)
        assert (code, "add --template @prompt.txt\n" in error) == (1, True)
        code, out, error = run("corpus", "retry-failed", "out", *named, "--template", "@prompt.txt")
        assert (code, out) == (0, "tried again: 1 explained, 0 failed, 0 killed\n"), error
        assert error == f"starting with the language model 'm' at {server.url}\n"
        started = []
        monkeypatch.setattr("slalom.cli.serve._run", lambda server, _: started.append(server))
        code, _, error = run("serve", "--port", 0, "--corpus", "out", *named, "--template", "@prompt.txt")
        assert (code, error) == (0, f"starting with the language model 'm' at {server.url}\n")
        (served,) = started[0].models
        served.queue.stop()
        assert (served.remote, served.explainer.model.client.base_url) == (True, server.url)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        rewritten("out", base_url=None, template="{text} ->")
        assert run("corpus", "retry-failed", "out", "--api", "m")[0] == 0
        assert "not with --model" in run("corpus", "retry-failed", "out", "--model", "x")[2]


def test_a_model_that_may_have_come_with_a_corpus_must_be_named(run, made, tmp_path, monkeypatch):  # noqa: F811
    outside, inside = tmp_path / "outside", tmp_path / made / "model"
    for folder in (outside, inside):
        shutil.copytree(EMBEDDED, folder)
    (tmp_path / "link").symlink_to(inside)
    (tmp_path / made / "link").symlink_to(outside)
    monkeypatch.setenv("HOME", str(tmp_path))

    def asked(path, kind="model", **named):
        rewritten(made, **{"model": None, "lm": None} | {kind: path})
        given = dict.fromkeys(("model", "lm", "api", "base_url", "template")) | named
        try:
            return confirmed_options(made, **given)[kind]
        except InputError as error:
            return f"add --{kind} " not in str(error) or None

    names = (inside, tmp_path / "link", tmp_path / made / "link", tmp_path / made / "parts" / ".." / "model", tmp_path / made)
    relative = ("outside", "./out/model", "out/../outside", "~/out/model", "//server/share", r"\\server\share")
    for name in (*map(str, names), *relative):
        for kind in ("model", "lm"):
            assert asked(name, kind) is None, name
        assert asked(name, model=str(inside)) == str(inside)
    for name in (str(outside), "organisation/name"):
        assert asked(name) == name
    rewritten(made, model=None, cache=str(tmp_path / "written"))
    assert run("corpus", "retry-failed", made)[:2] == (0, "tried again: 0 explained, 1 failed, 0 killed\n")
    rewritten(made, model=str(inside))
    for command in (["corpus", "retry-failed", made], ["serve", "--port", 0, "--corpus", made]):
        code, _, error = run(*command)
        assert (code, error.count("\n")) == (1, 1)
        assert f"add --model {inside}\n" in error
    run("corpus", "retry-failed", made, "--model", inside)
    assert not (tmp_path / "written").exists(), "a manifest names no file to write"


def test_a_run_keeps_the_place_of_its_model(run, tmp_path):  # noqa: F811
    shutil.copytree(EMBEDDED, tmp_path / "mine")
    Path("texts.txt").write_text("a good film\n\n")
    code, _, error = run("corpus", "run", "texts.txt", "out", "--model", "mine", "--queries", 10, "--device", "cpu")
    assert (code, error) == (0, f"loading the classifier {str(tmp_path / 'mine')!r}\n")
    assert corpus.open("out").manifest["command"]["model"] == str(tmp_path / "mine")
    assert run("corpus", "retry-failed", "out")[0] == 0


def test_a_manifest_does_not_choose_who_is_asked_for_the_texts(run, made):  # noqa: F811
    path = Path(made, "manifest.json")
    manifest = json.loads(path.read_text())
    for address in ("s3://bucket/x.jsonl?endpoint_override=127.0.0.1:9&scheme=http", "hf:someone/else"):
        manifest["source"]["address"] = address
        path.write_text(json.dumps(manifest))
        code, _, error = run("corpus", "retry-failed", made)
        assert (code, len(error.splitlines())) == (1, 1)
        assert f"the texts came from {address!r}, which is no file here; confirm it" in error


def test_what_is_refused_or_no_lock_leaves_a_folder_as_it_was(run, made):  # noqa: F811
    assert run("corpus", "run", "texts.jsonl", "new", "--queries", 1)[0] == 1
    assert not Path("new").exists()
    lock = Path(made, ".slalom-corpus.lock")
    for content in ('{"host": "a", "process": Infinity, "time": "x"}', "[" * 200_000):
        lock.write_text(content)
        code, _, error = run("corpus", "retry-failed", made)
        assert (code, "is not a lock of slalom" in error, lock.read_text()) == (1, True, content)
    lock.unlink()
    os.mkfifo(Path(made, "pipe"))
    with pytest.raises(InputError, match="must be a file"):
        Folder(made).read("pipe")  # which would wait for a writer
