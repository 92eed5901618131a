"""Every Python example of the documentation is a doctest, and pytest runs it."""

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OPTIONS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
EXAMPLE = re.compile(r"^( *)```(?:python|pycon|py)\n(.*?)^\1```", flags=re.M | re.S)


def examples(page):
    return [found[2] for found in EXAMPLE.finditer(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", [page for page in PAGES if examples(page)], ids=lambda page: str(page.relative_to(ROOT)))
def test_python_examples_are_doctests_that_are_run(page):
    assert all(example.lstrip().startswith(">>> ") for example in examples(page))
    path = str(page.relative_to(ROOT))
    globs = re.findall(r"--doctest-glob=(\S+)", OPTIONS["addopts"])
    assert any(fnmatch(path, glob) for glob in globs)
    assert any(path == place or path.startswith(f"{place}/") for place in OPTIONS["testpaths"])


def test_there_are_examples():
    assert sum(len(examples(page)) for page in PAGES) > 40
