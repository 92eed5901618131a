"""An explanation as a file: a page, a picture, data, or the code that makes it again."""

import io
import threading
from typing import NamedTuple

from slalom.errors import require
from slalom.files import csv_text
from slalom.result import Explanation
from slalom.result.frame import columns
from slalom.web.schema import Subject

_DRAWING = threading.Lock()  # matplotlib's caches are not made for threads


class File(NamedTuple):
    """A file to download.

    Attributes:
        name: Its name.
        media_type: Its type.
        content: What is in it.
    """

    name: str
    media_type: str
    content: bytes


def download(e: Explanation, kind: str, code: str, subject: Subject, picture: str | None = None) -> File:
    """Return an explanation as a file."""
    match kind:
        case "html":
            return File("explanation.html", "text/html; charset=utf-8", e.to_html().encode())
        case "json":
            return File("explanation.json", "application/json", (e.to_json() + "\n").encode())
        case "csv":
            return File("explanation.csv", "text/csv; charset=utf-8", _csv(e))
        case "python":
            return File("explanation.py", "text/x-python; charset=utf-8", _python(code, subject))
    name = f"explanation-{picture}" if picture else "explanation"
    content = _drawn(e, kind, picture or ("bar" if e.additive else "scatter"))
    return File(f"{name}.{kind}", {"png": "image/png", "svg": "image/svg+xml"}[kind], content)


def _csv(e: Explanation) -> bytes:
    """Return the columns of `to_pandas`, one row per unit; pandas is not needed."""
    table = {name: list(column) for name, column in columns(e).items() if column is not None}
    return csv_text([list(table), *zip(*table.values(), strict=True)]).encode()


def _drawn(e: Explanation, kind: str, picture: str) -> bytes:
    with require("a picture", "plots"):
        import matplotlib  # noqa: F401, PLC0415
    content = io.BytesIO()
    with _DRAWING:
        getattr(e.plot, picture)().savefig(content, format=kind)
    return content.getvalue()


def _python(code: str, subject: Subject) -> bytes:
    """Return the code that makes the explanation again."""
    options = {"method": subject.method, "unit": subject.unit, "queries": subject.queries, "target": subject.target}
    given = {name: value for name, value in options.items() if value is not None and (name, value) != ("method", "joint")}
    given |= {"seed": subject.seed} if subject.seed else {}
    call = "".join(f", {name}={value!r}" for name, value in given.items())
    return f"import slalom\n\n{code}\ntext = {subject.text!a}\ne = explainer(text{call})\nprint(e)\n".encode()
