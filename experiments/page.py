"""results/papers.md: every experiment's tables with the paper's printed figures, and whether its claims hold."""

import json
import os
from math import isfinite
from pathlib import Path

from experiments.harness import Cell, Result, Table
from experiments.registry import EXPERIMENTS

_HEAD = """# The papers' claims, run again

Written by `python -m experiments NAME` from results/*.json; `python -m experiments --help` lists all names, `--quick` is a
small version. Columns called *paper* are the printed figures of arXiv 2405.13536 (or 2402.03485 where it says so); a ± is a
standard error. No pretrained weights of the papers' models were to be had: all classifiers are trained from scratch or from
a MiniLM encoder, so orders and directions can be compared, absolute figures only roughly. Experiments share parts of their
work: the first of them has its time. Figures of `joint` and `local` (ours) are of the fit before
[one formula](../docs/decisions/0002-one-formula.md).
"""


def write_page(folder: Path, path: Path) -> Path:
    """Write the page from all results of full runs in a folder."""
    found = {
        name: json.loads(file.read_text(encoding="utf-8")) for name in EXPERIMENTS if (file := folder / f"{name}.json").exists()
    }
    lines = [_HEAD, "| experiment | claim | holds | figure, and the reason where it does not |", "|---|---|---|---|"]
    for name, kept in found.items():
        for claim in Result.of(kept).claims:
            lines.append(_line((f"[{name}](#{name})", claim.says, "yes" if claim.holds else "**no**", claim.reason)))
    for name, kept in found.items():
        about = kept["about"]
        sizes = "".join(f" {key}={number}" for key, number in about.get("settings", {}).items())
        typed = f"python -m experiments {name}" + (f" --set{sizes}" if sizes else "")
        command = f"`{typed}`: {about['seconds']:.0f} s on {about['device']}, seed {about['seed']}."
        lines += ["", f"## {name}", "", f"{_sentence(EXPERIMENTS[name])} {command}"]
        lines += ["", as_markdown(Result.of(kept), claims=False)]
        if (folder / f"{name}.png").exists():
            picture = os.path.relpath(folder / f"{name}.png", path.parent).replace(os.sep, "/")
            lines.append(f'<img src="{picture}" width="640" alt="{EXPERIMENTS[name]}">')
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def as_markdown(result: Result, claims: bool = True) -> str:
    """Return tables, claims and remarks."""
    parts = [_table(table) for table in result.tables]
    if claims:
        parts.append(
            "\n".join(f"- {'holds' if c.holds else 'DOES NOT HOLD'}: {c.says} ({c.reason})" for c in result.claims) + "\n"
        )
    if result.remarks:
        parts.append("\n".join(f"- {remark}" for remark in result.remarks) + "\n")
    return "\n".join(parts)


def _table(table: Table) -> str:
    lines = [f"**{table.title}**", "", _line(table.columns), "|" + "---|" * len(table.columns)]
    lines += [_line(row) for row in table.rows]
    return "\n".join(lines) + "\n"


def _line(cells: tuple[Cell, ...]) -> str:
    return "| " + " | ".join(shown(cell).replace("|", "\\|") for cell in cells) + " |"


def shown(cell: Cell) -> str:
    """Return a cell as text, numbers with three digits or so."""
    if cell is None:
        return ""
    if isinstance(cell, tuple):
        return f"{shown(float(cell[0]))} ± {shown(float(cell[1]))}"
    if isinstance(cell, bool) or not isinstance(cell, float):
        return str(cell)
    if not isfinite(cell):
        return str(cell)
    size = abs(cell)
    return f"{cell:.0e}" if 0 < size < 5e-4 else f"{cell:.3f}" if size < 10 else f"{cell:.1f}" if size < 1000 else f"{cell:.0f}"


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:] + "."
