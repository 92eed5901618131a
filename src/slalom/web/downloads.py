"""An explanation as a file: a page, a picture, data, or the code that makes it again."""

import io
import threading

from slalom.errors import require
from slalom.files import csv_text
from slalom.result import Explanation
from slalom.result.frame import columns
from slalom.text import Record
from slalom.web.schema import DownloadRequest

_DRAWING = threading.Lock()  # matplotlib's caches are not made for threads
_TYPES = {
    "html": "text/html; charset=utf-8", "json": "application/json", "csv": "text/csv; charset=utf-8",
    "python": "text/x-python; charset=utf-8", "png": "image/png", "svg": "image/svg+xml",
}  # fmt: skip


def download(e: Explanation, request: DownloadRequest, code: str) -> tuple[str, str, bytes]:
    name, ending = "explanation", "py" if request.format == "python" else request.format
    match request.format:
        case "html":
            content = e.to_html().encode()
        case "json":
            content = (e.to_json() + "\n").encode()
        case "csv":  # the columns of `to_pandas`, one row per unit; pandas is not needed
            table = {name: list(column) for name, column in columns(e).items() if column is not None}
            content = csv_text([list(table), *zip(*table.values(), strict=True)]).encode()
        case "python":
            content = _python(code, request)
        case kind:
            content = _drawn(e, kind, request.picture or ("bar" if e.additive else "scatter"))
            name += f"-{request.picture}" if request.picture else ""
    return f"{name}.{ending}", _TYPES[request.format], content


def _drawn(e: Explanation, kind: str, picture: str) -> bytes:
    with require("a picture", "plots"):
        import matplotlib  # noqa: F401, PLC0415
    content = io.BytesIO()
    with _DRAWING:
        getattr(e.plot, picture)().savefig(content, format=kind)
    return content.getvalue()


def _python(code: str, request: DownloadRequest) -> bytes:
    defaults = {"method": "joint", "unit": None, "queries": None, "target": None, "seed": 0}
    options = {name: getattr(request, name) for name, default in defaults.items() if getattr(request, name) != default}
    example = request.text.example(list(request.text.plain().values())) if isinstance(request.text, Record) else request.text
    call = "".join(f", {name}={value!r}" for name, value in options.items())
    return f"import slalom\n\n{code}\ntext = {example!a}\ne = explainer(text{call})\nprint(e)\n".encode()
