"""A table of methods as bars, a panel for each classifier, the paper's figures as strokes across."""

from typing import Any

from experiments.harness import Table
from slalom.render.figures.canvas import theme_of


def bars(table: Table, figure: Any, what: str) -> None:
    """Draw a table as `experiments.real.beside` makes it: method, score, then ours and the paper's for each classifier."""
    panels = range(2, len(table.columns), 2)
    rows = [row for row in table.rows if any(isinstance(row[i], tuple) for i in panels)]
    figure.set_size_inches(3.0 + 2.4 * len(panels), 1.4 + 0.24 * len(rows))
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    colour, ink = theme_of("light").hue(1.0), theme_of("light").ink
    for ax, i in zip(axes, panels, strict=True):
        for place, row in enumerate(rows):
            ours, paper = row[i], row[i + 1]
            if isinstance(ours, tuple):
                ax.barh(place, ours[0], xerr=ours[1], height=0.7, color=colour, error_kw={"elinewidth": 1, "ecolor": ink})
            if isinstance(paper, float):
                ax.plot([paper, paper], [place - 0.45, place + 0.45], color=ink, linewidth=2)
        ax.axvline(0.0, color=ink, linewidth=0.6)
        ax.set_title(table.columns[i], fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_yticks(range(len(rows)), [f"{row[0]} {row[1]}".strip() for row in rows], fontsize=8)
    axes[0].invert_yaxis()
    figure.supxlabel(f"{what} (bar: ours with standard error, stroke: paper)", fontsize=9)
