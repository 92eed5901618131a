"""What pyproject.toml, constraints.txt and CITATION.cff say about the package agrees."""

import importlib
import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

import slalom

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EVERY = [*PROJECT["dependencies"], *(one for extra in PROJECT["optional-dependencies"].values() for one in extra)]


def script(name):
    """Import one of the scripts, which are no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def number(version):
    return tuple(int(part) for part in re.findall(r"\d+", version))


PINS = {
    normal(line.partition("==")[0]): line.partition("==")[2]
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if "==" in line
}


def test_the_version_stands_in_one_place():
    assert PROJECT["dynamic"] == ["version"]
    assert "version" not in PROJECT
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {slalom.__version__}\n" in citation


def test_the_newest_entry_of_the_changelog_is_of_this_version():
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## \[?([\d.]+)", changes, flags=re.M)[1] == slalom.__version__


def test_extras_refer_to_extras_of_this_project():
    for requirement in [one for one in EVERY if one.startswith("slalom") and not one.startswith("slalom-explanations")]:
        name, extras = re.fullmatch(r"([\w-]+)\[([\w,]+)\]", requirement).groups()
        assert name == PROJECT["name"], requirement
        assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys(), requirement


def test_the_lower_bounds_are_those_of_the_base_package_and_its_extras():
    found = script("lowest").lower_bounds(PROJECT, ["all"])
    names = {re.match(r"[\w.-]+", one)[0] for one in PROJECT["dependencies"]}
    assert names | {"torch", "transformers", "scikit-learn", "pandas", "matplotlib", "captum", "lime", "shap"} <= found.keys()
    assert f"numpy>={found['numpy']}" in PROJECT["dependencies"]


def test_a_dependency_without_a_lower_bound_is_refused():
    bare = {"name": "x", "dependencies": ["numpy"], "optional-dependencies": {}}
    with pytest.raises(ValueError, match="'numpy' must have a lower bound"):
        script("lowest").lower_bounds(bare, [])


def test_every_direct_dependency_is_pinned_within_its_bounds():
    for requirement in [one for one in EVERY if not one.startswith("slalom-xai")]:
        name, bound = re.fullmatch(r"([\w.-]+)(?:\[\w+\])?(?:[>=]=(.*))?", requirement).groups()
        assert normal(name) in PINS, requirement
        assert number(PINS[normal(name)]) >= number(bound or "0"), requirement


def test_everything_that_a_package_exports_has_a_docstring():
    for package in (
        "core",
        "corpus",
        "evaluate",
        "methods",
        "models",
        "result",
        "text",
        "theory",
        "render.figures",
        "render.page",
    ):
        module = importlib.import_module(f"slalom.{package}")
        for name in module.__all__:
            exported = getattr(module, name)
            if callable(exported) and getattr(exported, "__module__", "").startswith("slalom"):
                assert exported.__doc__, f"slalom.{package}.{name} needs a docstring: it is in the documentation"


def test_the_documentation_lists_every_extra_with_its_packages():
    listed = (ROOT / "docs" / "installation.md").read_text(encoding="utf-8")
    tools = {"benchmark", "dev", "docs", "package"}  # of those who change slalom
    for extra, packages in PROJECT["optional-dependencies"].items():
        row = re.search(rf"^\| `{extra}` \| (.*?) \|", listed, flags=re.M)
        assert (row is None) == (extra in tools), extra
        for package in () if row is None or extra == "all" else packages:
            name = re.match(r"[\w-]+(\[(\w+)\])?", package)
            assert (name[2] or name[0]) in row[1], f"{extra}: {package}"


def test_every_test_that_holds_a_promise_of_security_exists():
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    assert len(named) > 20
    for file, test in named:
        source = (ROOT / file).read_text(encoding="utf-8")
        assert f"\ndef {test}(" in source if test else "\ndef test_" in source, f"{file}::{test}"
