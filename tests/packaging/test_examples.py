"""Every Python example of the documentation is a doctest, and pytest runs it."""

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OPTIONS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
EXAMPLE = re.compile(r"^( *)```(?:python|pycon|py)\n(.*?)^\1```", flags=re.M | re.S)


def examples(page):
    return [found[2] for found in EXAMPLE.finditer(page.read_text(encoding="utf-8"))]


def test_python_examples_are_doctests_that_are_run():
    globs = re.findall(r"--doctest-glob=(\S+)", OPTIONS["addopts"])
    for page in [page for page in PAGES if examples(page)]:
        path = str(page.relative_to(ROOT))
        assert all(example.lstrip().startswith((">>> ", "--8<-- ")) for example in examples(page)), path  # or a piece of a file
        assert any(fnmatch(path, glob) for glob in globs), path
        assert any(path == place or path.startswith(f"{place}/") for place in OPTIONS["testpaths"]), path
    assert sum(len(examples(page)) for page in PAGES) > 40
