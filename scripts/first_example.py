#!/usr/bin/env python
"""Run the first Python example of a page as a doctest, with the installed slalom: scripts/first_example.py README.md."""

import doctest
import re
import sys
from pathlib import Path

import slalom


def first_example(page: str) -> str:
    """Return the first block of Python of a page."""
    found = re.search(r"```python\n(>>> .*?)```", page, flags=re.S)
    if found is None:
        raise ValueError("the page has no Python example")
    return found[1]


if __name__ == "__main__":
    (path,) = sys.argv[1:]
    example = doctest.DocTestParser().get_doctest(first_example(Path(path).read_text(encoding="utf-8")), {}, path, path, None)
    failed, tried = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example)
    print(f"{path}: {tried - failed} of {tried} statements of the first example are right, slalom {slalom.__version__}")
    print(f"slalom is {Path(slalom.__file__).parent}")
    sys.exit(failed > 0 or tried == 0)
