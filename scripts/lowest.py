#!/usr/bin/env python
"""Print the lower bounds of the direct dependencies as constraints for pip: scripts/lowest.py [EXTRA ...] > lowest.txt."""

import re
import sys
import tomllib
from pathlib import Path

_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(\[(?P<extras>[\w,-]+)\])?(?P<bound>[<>=!~].*)?")


def lower_bounds(project: dict, extras: list[str]) -> dict[str, str]:
    """Return the lowest version that the project allows of each direct dependency of the base package and these extras.

    Raises:
        ValueError: A requirement is no plain lower bound (``name>=version``) or pin.
    """
    found: dict[str, str] = {}
    waiting = [project["dependencies"], *(project["optional-dependencies"][extra] for extra in extras)]
    while waiting:
        for requirement in waiting.pop():
            match = _REQUIREMENT.fullmatch(requirement)
            if match is None:
                raise ValueError(f"{requirement!r} is no requirement with a plain bound")
            if match["name"] == project["name"]:
                waiting += [project["optional-dependencies"][extra] for extra in match["extras"].split(",")]
            elif match["bound"] is None or not re.fullmatch(r"[>=]=[\w.]+", match["bound"]):
                raise ValueError(f"{requirement!r} must have a lower bound: name>=version")
            else:
                found[match["name"]] = match["bound"][2:]
    return dict(sorted(found.items()))


if __name__ == "__main__":
    with (Path(__file__).parents[1] / "pyproject.toml").open("rb") as file:
        described = tomllib.load(file)["project"]
    for name, version in lower_bounds(described, sys.argv[1:]).items():
        print(f"{name}=={version}")
