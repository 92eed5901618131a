"""`slalom serve` as a user runs it: the address, Ctrl-C, and errors in one line."""

import functools
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import closing, contextmanager

import pytest

from slalom import cli
from slalom.models.huggingface.adapters import EMBEDDED
from tests.cases import cases
from tests.waiting import DEADLINE

TEXT = "A slow, beautiful and utterly convincing film."


def start(*options):
    command, pipe = [sys.executable, "-m", "slalom", "serve", "--port", "0", *options], subprocess.PIPE
    return subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, env={**os.environ, "COLUMNS": "200"},
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  (background jobs ignore it)
    )  # fmt: skip


def ended(process):
    process.kill()
    process.communicate()


def address(process):
    line = process.stdout.readline()
    found = re.fullmatch(r"slalom is running at http://(\S+):(\d+)/(\?token=\S+)? \(Ctrl-C stops it\)\n", line)
    assert found, line + process.stderr.read()
    return found.group(1), int(found.group(2)), (found.group(3) or "").removeprefix("?token=")


@contextmanager
def request(port, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    with closing(connection):
        connection.request("GET" if body is None else "POST", path, body and json.dumps(body), headers)
        with connection.getresponse() as response:
            yield response


def ready(monkeypatch, *options):
    """The model that the command is about to serve, in this process."""
    (served,) = prepared(monkeypatch, *options).models
    served.queue.stop()
    return served


def prepared(monkeypatch, *options):
    """The server that the command is about to run, in this process."""
    started = []
    monkeypatch.setattr("slalom.cli.serve._run", lambda server, _: started.append(server))
    monkeypatch.setattr(sys, "argv", ["slalom", "serve", "--port", "0", *options])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert not stop.value.code
    return started[0]


def test_the_bundled_classifier_is_served_until_ctrl_c():
    process = start()
    try:
        host, port, token = address(process)
        assert (host, token) == ("127.0.0.1", "")
        with request(port, "/api/info") as response:
            info = json.load(response)
        (model,) = info["models"]
        assert model == {
            "id": "slalom-sentiment", "name": "slalom-sentiment", "labels": ["negative", "positive"], "scale": "log odds",
            "remote": False, "records": False, "fields": [],
        }  # fmt: skip
        kinds = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        with request(port, "/api/explain", {"text": " ".join(60 * [TEXT]), "queries": 2000}, **kinds) as stream:
            assert stream.readline() == b"event: queued\n"
            process.send_signal(signal.SIGINT)  # with work under way
            rest = stream.read()
        assert b"event: error" in rest
        assert b"the server is stopping" in rest
        out, err = process.communicate(timeout=DEADLINE)
    finally:
        ended(process)
    assert process.returncode == 130
    assert err == "loading the bundled classifier\nstopped\n"
    assert out == ""


def test_a_corpus_is_served_with_the_model_that_made_it(tmp_path, monkeypatch, capsys):
    source, out = tmp_path / "texts.txt", tmp_path / "out"
    source.write_text("A dull film.\nA superb film.\n")
    run = ["slalom", "corpus", "run", str(source), str(out), "--queries", "20", "--method", "ridge"]
    monkeypatch.setattr(sys, "argv", run)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert not stop.value.code
    manifest = json.loads((out / "manifest.json").read_text())
    unusable = {"lm": "a/language-model", "template": "{text}", "labels": "one"}  # found before anything is loaded
    for options, said in (({}, ""), (unusable, "could not be loaded")):
        (out / "manifest.json").write_text(json.dumps(manifest | {"command": manifest["command"] | options}))
        server = prepared(monkeypatch, "--corpus", str(out))
        err = capsys.readouterr().err
        assert said in err
        assert bool(said) is ("the bundled one is served" in err)
        assert server.models[0].explainer.model.name == "slalom-sentiment"
        assert len(server.access.token) >= 20
        server.models[0].queue.stop()
        server.corpus.stop()


def test_a_model_behind_an_api_is_said_to_be_elsewhere_and_needs_the_token(monkeypatch):
    api = ["--api", "m", "--base-url", "http://127.0.0.1:9/v1", "--template", "{text}", "--labels", "a,b"]
    server = prepared(monkeypatch, *api)
    assert server.models[0].remote
    assert server.access.token is not None
    server.models[0].queue.stop()


def test_a_language_model_without_labels_answers_from_sources_only(tmp_path, monkeypatch):
    from tests.models.tiny_lm import language_model, tokenizer  # noqa: PLC0415

    words, folder = tokenizer("gpt2"), tmp_path / "tiny"
    language_model("llama", len(words)).save_pretrained(folder)
    words.save_pretrained(folder)
    labels = ["--template", "{text} so:", "--labels", "good,bad"]
    elsewhere = ["--api", "m", "--base-url", "http://127.0.0.1:9/v1"]
    for options, models, name in (
        (["--lm", str(folder)], 0, "tiny"),
        (["--lm", str(folder), *labels], 1, "tiny"),
        ([*elsewhere, "--mode", "sample"], 0, "m"),
        ([*elsewhere, *labels], 1, "m"),
    ):
        server = prepared(monkeypatch, *options)
        assert (len(server.models), server.sources.name, server.sources.remote) == (models, name, options[0] == "--api")
        assert server.sources.mode == ("sample" if "sample" in options else "logprobs")
        assert len(server.access.token) >= 20
        if models and not server.sources.remote:
            assert server.sources.model is server.models[0].explainer.model.lm  # it is loaded once
        for served in (*server.models, server.sources):
            served.queue.stop()
    assert prepared(monkeypatch).sources is None


@cases(("host", "shown"), [("127.0.0.1", True), ("0.0.0.0", False)])
def test_visitors_of_other_machines_see_no_folder_of_this_one(tmp_path, monkeypatch, host, shown):
    folder = tmp_path / "secret-project" / "classifier"
    shutil.copytree(EMBEDDED, folder, dirs_exist_ok=True)
    served = ready(monkeypatch, "--model", str(folder), "--host", host)
    assert served.code == f"explainer = slalom.Explainer({str(folder) if shown else 'classifier'!r})"
    assert (served.id, served.explainer.model.name) == ("classifier", "classifier")


def test_only_the_bundled_model_on_this_machine_needs_no_token(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "classifier"
    shutil.copytree(EMBEDDED, folder)
    private = ["--model", str(folder)]
    for options, token, said in (
        ([], None, ""),
        (private, "random", ""),
        (["--host", "0.0.0.0"], "random", ""),
        ([*private, "--token", "sesame-open-9"], "sesame-open-9", ""),
        (["--token", "sesame-open-9"], "sesame-open-9", ""),
        ([*private, "--no-token"], None, "no token: whoever reaches this address, every user of this machine included,"),
        (["--no-token"], None, ""),
    ):
        server = prepared(monkeypatch, *options)
        found = server.access.token
        assert found == token or (token == "random" and len(found) >= 20), options
        assert said in capsys.readouterr().err
        server.models[0].queue.stop()


@pytest.fixture
def failing(monkeypatch, capsys):
    """Run the command in this process, where it fails before it serves; returns its exit code and its line."""

    def call(*options):
        monkeypatch.setattr(sys, "argv", ["slalom", "serve", *options])
        monkeypatch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as stop:
            cli.main()
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.count("\n") == 1, said.err
        return stop.value.code, said.err

    return call


@cases(
    ("options", "code", "reason"),
    [
        (["--token", "short"], 1, "at least 8"),
        (["--token", "has a space in it"], 1, "at least 8"),
        (["--token", "sesame-open-9", "--no-token"], 2, "one of --token and --no-token"),
        (["--port", "70000"], 2, "65535"),
        (["--host", "256.1.1.1", "--port", "0"], 1, "could not listen"),
        (["--model", "a", "--lm", "b", "--port", "0"], 2, "one of --model, --lm and --api"),
        (["--chat", "--port", "0"], 2, "--chat is for"),
        (["--lm", "b", "--labels", "a,b", "--port", "0"], 2, "--lm needs --template and --labels"),
        (["--lm", "b", "--corpus", "c", "--port", "0"], 2, "--lm needs --template and --labels"),
        (["--gold", "label", "--port", "0"], 2, "name it with --corpus OUT"),
        (["--corpus", "no/such/folder", "--port", "0"], 1, "must be a folder that slalom corpus run has written"),
    ],
)
def test_wrong_options_are_one_line(failing, options, code, reason):
    returned, message = failing(*options)
    assert returned == code
    assert reason in message


def test_a_port_that_is_taken_is_one_line(failing):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        returned, message = failing("--port", str(taken.getsockname()[1]))
    assert returned == 1
    assert "choose another --port" in message


def test_without_its_packages_the_command_names_the_extra(failing, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    for name in [name for name in sys.modules if name.startswith("slalom.web.")]:
        monkeypatch.delitem(sys.modules, name)
    returned, message = failing("--port", "0")
    assert returned == 1
    assert "slalom serve needs fastapi and uvicorn; install them with: pip install 'slalom-xai[web]'" in message
