"""One table of test vectors holds the formula in Python and the one of the page, in JavaScript, together.

`python -m tests.core.test_vectors` writes the table anew, with the scores of the formulas in `written`.
"""

import json
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from slalom.core.kinds import from_dict
from tests.core.written import surrogates

TABLE = Path(__file__).parent / "surrogate_vectors.json"
ROWS = [[1, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 1], [0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0], [0.5, 1, 0.25, 1, 0, 1]]


def written():
    """Return the table: models as in files, rows of counts, and their scores, a list for each row."""
    pairs = [pair for shape in ((), (3,)) for pair in surrogates(np.random.default_rng(5), shape)]
    return [
        {"model": model.to_dict(), "rows": ROWS, "scores": [np.atleast_1d(formula(np.array(row))).tolist() for row in ROWS]}
        for model, formula in pairs
    ]


def test_python_gives_the_scores_of_the_table():
    for case in json.loads(TABLE.read_text()):
        found = from_dict(case["model"]).predict(case["rows"])
        np.testing.assert_allclose(found.reshape(len(ROWS), -1), case["scores"], atol=1e-12, err_msg=str(case["model"]))


def test_the_page_gives_the_scores_of_the_table():
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    script = (files("slalom.render") / "page/assets/surrogate.js").read_text(encoding="utf-8")
    script += "\nconst table = JSON.parse(require('fs').readFileSync(0));"
    script += "\nconsole.log(JSON.stringify(table.map(({ model, rows }) => rows.map((row) => predict(model, row)))));"
    done = subprocess.run(["node", "-e", script], input=TABLE.read_text(), capture_output=True, text=True, check=True)
    for case, found in zip(json.loads(TABLE.read_text()), json.loads(done.stdout), strict=True):
        np.testing.assert_allclose(found, case["scores"], atol=1e-12, err_msg=str(case["model"]))


if __name__ == "__main__":
    TABLE.write_text("[\n" + ",\n".join(json.dumps(case) for case in written()) + "\n]\n")
