"""`slalom methods`: all installed methods, plugins included."""

import json
from typing import Any

from rich.table import Table
from rich.text import Text

from slalom.cli.options import Json
from slalom.cli.printing import console, print_line

_LEGEND = (
    "joint is the default",
    "needs: what it takes from the model; those that need gradients or attention explain Hugging Face models only",
    "extra: what it needs beyond the base package: pip install 'slalom-xai[hf]' for hf",
    "sign: whether scores say for or against a class, or only how much a unit counts",
)


def methods(*, as_json: Json = False) -> None:
    """List the methods for `slalom explain --method` and `slalom compare --methods`."""
    from slalom.methods import list_methods  # noqa: PLC0415

    facts = ("needs", "extra", "signed", "unit", "summary")
    rows: list[dict[str, Any]] = [
        {"method": name, **{fact: getattr(method, fact) for fact in facts}} for name, method in list_methods().items()
    ]
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in ("method", "needs", "extra", "sign", "what it does"):
        table.add_column(title, no_wrap=title != "what it does")
    for row in rows:
        needs, sign = ", ".join(row["needs"]) or "-", "yes" if row["signed"] else "no"
        table.add_row(*map(Text, (row["method"], needs, row["extra"] or "-", sign, row["summary"])))
    screen = console()
    screen.print(table)
    for line in _LEGEND:
        print_line(screen, line, "dim")
