"""pre-commit runs the static checks of scripts/check, from .venv; CI runs all that there is."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_pre_commit_runs_the_static_checks_without_a_download():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert local["repo"] == "local"
    assert {hook["language"] for hook in local["hooks"]} == {"system"}
    script = (ROOT / "scripts" / "check").read_text(encoding="utf-8")
    static = re.findall(r"^(ruff \w+|mypy|lint-imports)", script, flags=re.M)
    hooked = [re.match(r"ruff \w+|[\w-]+", hook["entry"].removeprefix(".venv/bin/"))[0] for hook in local["hooks"]]
    assert sorted(hooked) == sorted(static)
    assert len(static) == 4


def test_ci_runs_tests_documentation_and_package():
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    made = {word for line in lines if line.startswith("make ") for word in line.split()[1:]}
    assert made >= {"test", "test-experiments", "test-processes", "docs", "wheel"}
