"""Code that comes with a model runs where the user allows it, and nowhere else."""

import ast
import json
import pickle
import sys
from pathlib import Path

import joblib
import pytest
import transformers
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import slalom
from slalom.errors import InputError
from tests.cli.test_commands import run  # noqa: F401
from tests.models.tiny import classifier
from tests.models.tiny_lm import language_model, tokenizer

ROOT = Path(__file__).parents[2]
LOADERS = ("from_pretrained", "from_config")
CODE = """
from pathlib import Path
Path({marker!r}).write_text("ran")
from transformers import {base}Config, {base}{head}
class OwnConfig({base}Config):
    model_type = "own"
class OwnModel({base}{head}):
    config_class = OwnConfig
"""
USER_MODULE = """
import mine_besides
def shouts(texts):
    return [text.count("!") - 1.0 for text in texts]
number = 3
path = "folder"
class Nested:
    shouts = staticmethod(shouts)
"""


def with_code(folder, network, words, base, head, auto):
    """Save a model in a folder whose configuration asks for a Python module, which leaves a marker where it runs."""
    network.save_pretrained(folder)
    words.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own_code.OwnConfig", auto: "own_code.OwnModel"}}
    (folder / "config.json").write_text(json.dumps(config))
    marker = folder / "ran"
    (folder / "own_code.py").write_text(CODE.format(marker=str(marker), base=base, head=head))
    return marker


def test_every_call_that_loads_a_model_says_whether_its_code_may_run():
    calls = 0
    for path in (path for folder in ("src", "experiments", "benchmarks", "scripts") for path in (ROOT / folder).rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if not any(word in source for word in (*LOADERS, "pipeline(", "torch.load")):
            continue
        for node in ast.walk(ast.parse(source)):
            name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            keywords = {keyword.arg for keyword in getattr(node, "keywords", ())}
            if name.endswith(LOADERS) or name in ("transformers.pipeline", "hf.pipeline"):
                assert "trust_remote_code" in keywords, f"{path}:{node.lineno}"
                calls += 1
            assert name != "torch.load" or "weights_only" in keywords, f"{path}:{node.lineno}"
    assert calls > 10


def test_the_code_of_a_folder_runs_only_where_the_user_allows_it(run, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(transformers.dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    head = "ForSequenceClassification"
    markers = [with_code(tmp_path / "own", *classifier("bert"), "Bert", head, f"AutoModel{head}")]
    lm = language_model("gpt2", len(tokenizer("gpt2")))
    markers.append(with_code(tmp_path / "lm", lm, tokenizer("gpt2"), "GPT2", "LMHeadModel", "AutoModelForCausalLM"))
    Path("texts.txt").write_text("a good film\n")
    prompt = ["--lm", "lm", "--template", "{text}", "--labels", "a,b"]
    open_to_it = [
        ["explain", "a good film", "--model", "own", "--queries", 10],
        ["explain", "a good film", *prompt, "--queries", 10],
        ["compare", "--file", "texts.txt", "--model", "own", "--methods", "ridge", "--queries", 10],
        ["context", "--lm", "lm", "--context", "texts.txt", "--question", "Why?", "--answer", "a", "--queries", 10],
    ]
    never = [
        ["corpus", "run", "texts.txt", "out", "--model", "own"],
        ["corpus", "run", "texts.txt", "out", *prompt],
        ["serve", "--port", 0, "--model", "own"],
        ["serve", "--port", 0, *prompt],
    ]
    for command in (*open_to_it, *never):
        code, _, error = run(*command, given="y\n" * 20)
        assert code == 1, command
        assert "wants to run Python code of its own" in error.splitlines()[-1]
        assert "allow it with --trust-remote-code (trust_remote_code=True) in explain, compare and context; serve and" in error
        assert not any(marker.exists() for marker in markers), command
    for command in never:
        assert run(*command, "--trust-remote-code")[0] == 2
    for load in (slalom.Explainer, lambda path: slalom.ContextExplainer(path, context="a")):
        with pytest.raises(InputError, match=r"if you trust it allow it with .*\(trust_remote_code=True\)"):
            load(str(tmp_path / ("own" if load is slalom.Explainer else "lm")))
    for command in open_to_it:
        code, out, error = run(*command, "--trust-remote-code", "--device", "cpu")
        assert code == 0, error
        assert out
    assert slalom.Explainer(tmp_path / "own", trust_remote_code=True, device="cpu").model.head.labels == ("LABEL_0", "LABEL_1")
    assert all(marker.exists() for marker in markers)


def test_functions_and_estimators_of_ones_own_modules_are_explained(run, tmp_path):  # noqa: F811
    Path("mine_besides.py").write_text("")
    Path("mine.py").write_text(USER_MODULE)
    for name in ("mine:shouts", "mine:Nested.shouts"):
        code, out, error = run(
            "explain", "Stop! Now", "--model", name, "--output", "log_odds", "--labels", "calm,loud", "--json"
        )
        assert code == 0, error
        explanation = json.loads(out)
        assert (explanation["score"], explanation["labels"]) == (0.0, ["calm", "loud"])
    Path("texts.txt").write_text("Stop! Now\n")
    compared = [
        "compare",
        "--file",
        "texts.txt",
        "--model",
        "mine:shouts",
        "--output",
        "log_odds",
        "--methods",
        "ridge",
        "--json",
    ]
    assert run(*compared)[0] == 0
    Path("broken.py").write_text("1 / 0")
    Path("leaves.py").write_text("raise SystemExit(3)")
    Path("needs.py").write_text("import nowhere_to_be_found")
    output = ["--output", "log_odds"]
    for options, code, message in (
        (["none:f", *output], 1, "there is no module 'none' here or in PYTHONPATH"),
        (["mine:f", *output], 1, "has no 'f'; name a function or a classifier in it"),
        (
            ["mine:number", *output],
            1,
            "'mine:number' must be a function list[str] -> scores or a fitted scikit-learn classifier",
        ),
        (["mine:path", *output], 1, "it is of type str"),
        (["broken:f", *output], 1, "importing 'broken' failed: ZeroDivisionError: division by zero"),
        (["leaves:f", *output], 1, "importing 'leaves' failed: SystemExit: 3"),
        (["needs:f", *output], 1, "importing 'needs' failed: ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        (["mine:shouts"], 1, "a callable needs --output, what it returns"),
        (["mine:shouts", "--output", "nothing"], 2, "--output"),
        (["mine:shouts", *output, "--template", "{text}"], 2, "--template is for a language model"),
        (["mine:shouts", *output, "--trust-remote-code"], 1, "--trust-remote-code is for bundled and saved classifiers"),
        (["folder", *output], 2, "--output says what a Python function returns"),
    ):
        found, _, error = run("explain", "Stop!", "--model", *options)
        assert (found, error.count("\n")) == (code, 1), error
        assert message in error
    for command in (["serve", "--port", 0], ["corpus", "run", "texts.txt", "out"]):
        code, _, error = run(*command, "--model", "broken:f")
        assert code == 1
        assert "error: 'broken:f' names Python code, which only slalom explain and compare import" in error.splitlines()[-1]


class Explosive:
    """A pickle that creates a file when it is loaded."""

    def __reduce__(self):
        return Path.touch, (Path("ran"),)


def test_a_pickled_model_is_loaded_only_where_the_user_allows_it(run, tmp_path, monkeypatch):  # noqa: F811
    made = make_pipeline(CountVectorizer(), LogisticRegression()).fit(["good film", "bad film"], ["yes", "no"])
    joblib.dump(made, "model.joblib")
    Path("plain.pkl").write_bytes(pickle.dumps(made))
    for name in ("model.joblib", "plain.pkl"):
        code, out, error = run("explain", "a good film", "--model", name, "--trust-pickle", "--json")
        assert code == 0, error
        assert json.loads(out)["score"] == pytest.approx(made.decision_function(["a good film"])[0])
    Path("bomb.pkl").write_bytes(pickle.dumps(Explosive()))
    Path("texts.txt").write_text("a good film\n")
    refused = [
        ["explain", "a"],
        ["compare", "--file", "texts.txt"],
        ["serve", "--port", 0],
        ["corpus", "run", "texts.txt", "out"],
    ]
    for command in refused:
        code, _, error = run(*command, "--model", "bomb.pkl")
        assert code == 1
        assert "bomb.pkl' is a file" in error
        assert ("add --trust-pickle" in error) is (command[0] in ("explain", "compare"))
        assert not Path("ran").exists()
    for command in refused[2:]:
        assert run(*command, "--model", "bomb.pkl", "--trust-pickle")[0] == 2
    for name, message in (
        ("texts.txt", "'texts.txt' is not a joblib or pickle file: "),
        ("none.joblib", "there is no file 'none.joblib'"),
        (
            "bomb.pkl",
            "'bomb.pkl' must be a function list[str] -> scores or a fitted scikit-learn classifier; it is of type NoneType",
        ),
    ):
        code, _, error = run("explain", "a", "--model", name, "--trust-pickle")
        assert (code, error.count("\n")) == (1, 1), error
        assert message in error
    monkeypatch.setitem(sys.modules, "joblib", None)
    code, _, error = run("explain", "a", "--model", "model.joblib", "--trust-pickle")
    assert (code, error) == (
        1, "error: a pickled model needs scikit-learn; install it with: pip install 'slalom-xai[sklearn]'\n",
    )  # fmt: skip
