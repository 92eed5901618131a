"""Every hint `pip install 'NAME[EXTRA]'` names this distribution and extras that it has."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HINT = re.compile(r"pip install (['\"])(?P<name>[\w.-]*)\[(?P<extras>[\w{}, -]+)\]\1")
PLACES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "src").rglob("*.py"))]
HINTS = [
    (str(path.relative_to(ROOT)), found[0], found["name"], found["extras"])
    for path in PLACES
    for found in HINT.finditer(path.read_text(encoding="utf-8"))
]


def test_hints_name_this_distribution_and_its_extras():
    for path, hint, name, extras in HINTS:
        assert name in (PROJECT["name"], "."), f"{path}: {hint}"  # "." is this folder
        named = {extra.strip() for extra in extras.split(",") if "{" not in extra}  # {extra} is filled in by the message
        assert named <= PROJECT["optional-dependencies"].keys(), f"{path}: {hint}"
    assert {path.split("/")[0] for path, *_ in HINTS} >= {"docs", "src"}


def test_every_call_of_require_names_an_extra():
    sources = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py")))
    extras = re.findall(r'\brequire\(.+?, "(\w+)"', sources)
    assert len(extras) >= 10
    assert set(extras) <= PROJECT["optional-dependencies"].keys()
