"""Every experiment's quick version runs, and bears out the direction of the claims."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from experiments import harness
from experiments.__main__ import main
from experiments.harness import Absent, Claim, Lab, Result, Table, mean
from experiments.page import as_markdown, shown, write_page
from experiments.proposition52 import recovered
from experiments.registry import ALIASES, EXPERIMENTS
from tests.waiting import until

# Experiments that share trained networks run one after the other, so that these are trained once.
SHARED = {
    "synthetic": ["figure3", "table6", "table7", "figure7"],
    "imdb and yelp": ["table4", "table9", "table10", "table11", "figure6"],
    "other": ["figure5", "figure11", "table12", "table13", "table14", "table15"],
    "attention": [name for name in EXPERIMENTS if name.startswith("attention")],
}
ALONE = [name for name in EXPERIMENTS if not any(name in names for names in SHARED.values())]


@pytest.mark.parametrize("names", [*SHARED.values(), *([name] for name in ALONE)], ids=[*SHARED, *ALONE])
def test_quick_runs_bear_out_the_claims(names, tmp_path, capsys):
    status = main([*names, "--quick", "--device", "cpu", "--out", str(tmp_path), "--silent"])
    said = capsys.readouterr()
    assert status == 0, said.out + said.err
    for name in names:
        kept = json.loads((tmp_path / f"{name}-quick.json").read_text())
        assert kept["claims"]
        assert all(claim["holds"] for claim in kept["claims"])
        assert Result.of(kept).to_dict() == {key: kept[key] for key in ("tables", "claims", "remarks", "series")}


def test_aliases_name_experiments():
    assert set(ALIASES.values()) <= set(EXPERIMENTS)
    assert not set(ALIASES) & set(EXPERIMENTS)


def test_unknown_name_is_said_in_one_line(capsys):
    assert main(["tabel6"]) == 2
    said = capsys.readouterr().err
    assert "tabel6" in said
    assert "Traceback" not in said
    assert len(said.splitlines()) == 1


def test_parts_are_kept_and_not_done_again(tmp_path):
    lab = Lab("some", folder=tmp_path, progress=False)
    calls = []
    assert lab.part("a", lambda: calls.append(1) or (1.5, 2)) == [1.5, 2]
    assert lab.part("a", lambda: calls.append(1)) == [1.5, 2]
    assert len(calls) == 1


def test_another_seed_or_training_is_not_taken_from_the_kept_parts(tmp_path):
    lab = Lab("some", folder=tmp_path, progress=False)
    changes = ({}, {"seed": 1}, {"settings": (("epochs", 2),)}, {"quick": True}, {"quick": True, "seed": 1})
    assert [replace(lab, **one).part("a", lambda i=i: i) for i, one in enumerate(changes)] == [0, 1, 2, 3, 4]
    assert replace(lab, settings=(("texts", 3),)).part("a", lambda: 5) == 0  # how many texts changes no network


def test_all_settings_are_known():
    sources = "".join(path.read_text(encoding="utf-8") for path in Path(harness.__file__).parent.glob("*.py"))
    whole, each = (set(re.findall(rf"""lab\.{call}["'](\w+)""", sources)) for call in (r"number\(", r"each\([^,]+, "))
    assert whole | each | {f"{data}_{name}" for data in ("imdb", "yelp") for name in each} == set(harness.SETTINGS)


@pytest.mark.parametrize(
    "given",
    [
        ["--set", "txts=3"], ["--set", "texts"], ["--set", "texts=-1"], ["--jobs", "0"], ["--seed", "-1"],
        ["--device", "nowhere"], ["--out", __file__],
    ],
)  # fmt: skip
def test_wrong_options_are_said_before_the_work(given, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        sys.exit(main(["proposition52", "--quick", "--out", str(tmp_path), *given]))
    said = capsys.readouterr()
    assert said.err.splitlines()[-1]
    assert "Traceback" not in said.err
    assert not list(tmp_path.iterdir())


def test_an_empty_folder_writes_no_page(tmp_path, capsys):
    assert main(["--page", "--out", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err


def test_ctrl_c_stops_all_experiments(monkeypatch, tmp_path, capsys):
    asked = []

    def conduct(lab):
        asked.append(lab.name)
        raise KeyboardInterrupt

    monkeypatch.setattr("experiments.__main__.conduct", conduct)
    assert main(["proposition52", "proposition51", "--quick", "--out", str(tmp_path)]) == 130
    assert asked == ["proposition52"]
    assert "the same command goes on" in capsys.readouterr().err


def test_parts_are_the_same_in_processes_of_their_own(tmp_path):
    given = {f"{size}": {"size": size} for size in (5, 6)}
    alone = Lab("some", folder=tmp_path / "a", progress=False).parts(recovered, given)
    assert Lab("some", folder=tmp_path / "b", jobs=2, progress=False).parts(recovered, given) == alone


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="processes are looked up in /proc")
def test_workers_end_with_the_main_process(tmp_path):
    code = (
        "from pathlib import Path; from experiments.harness import Lab; from tests.experiments.sleeper import sleep\n"
        f"if __name__ == '__main__': Lab('some', jobs=1 + 1, folder=Path({str(tmp_path)!r}), progress=False).parts("
        f"sleep, {{'a': {{'folder': {str(tmp_path)!r}}}}})"
    )
    script = tmp_path / "run.py"
    script.write_text(code)
    main_process = subprocess.Popen([sys.executable, script], env={**os.environ, "PYTHONPATH": str(harness.ROOT)})
    note = tmp_path / "pid"
    until(note.exists, process=main_process)
    worker = int(note.read_text())
    main_process.kill()
    main_process.wait()
    until(lambda: not _alive(worker))


def _alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().split(")")[-1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_data_set_may_have_a_size_of_its_own():
    lab = Lab("some", settings=(("texts", 40), ("yelp_texts", 20)))
    assert (lab.each("imdb", "texts", 100, 2), lab.each("yelp", "texts", 100, 2)) == (40, 20)
    assert Lab("some", quick=True).each("yelp", "texts", 100, 2) == 2


def test_missing_data_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("SLALOM_SHARED", str(tmp_path))
    with pytest.raises(Absent, match=r"imdb_train\.jsonl\.gz"):
        Lab("some").shared("data", "imdb_train.jsonl.gz")


def test_page_says_which_claims_do_not_hold(tmp_path):
    result = Result(
        (Table("T", ("a", "b"), (("x", (1.0, 0.25)),)),), (Claim("It is |so|.", False, "it is not"),), ("a remark",)
    )
    about = {"seconds": 3.0, "device": "cpu", "seed": 0}
    name = next(iter(EXPERIMENTS))
    (tmp_path / f"{name}.json").write_text(json.dumps({"about": about, **result.to_dict()}))
    text = write_page(tmp_path, tmp_path / "page.md").read_text()
    assert "| It is \\|so\\|. | **no** | it is not |" in text
    assert "| x | 1.000 ± 0.250 |" in text
    assert "- a remark" in text
    assert "DOES NOT HOLD" in as_markdown(result)


@pytest.mark.parametrize(
    ("cell", "text"),
    [(None, ""), (0.0001, "1e-04"), (0.123456, "0.123"), (123.456, "123.5"), (7, "7"), ((1.0, 0.1), "1.000 ± 0.100")],
)
def test_cells(cell, text):
    assert shown(cell) == text


def test_mean_with_standard_error():
    assert mean([1.0, 3.0]) == (2.0, 1.0)
    assert mean([4.0]) == (4.0, 0.0)
