"""Hooks of `mkdocs build`: pages and figures of results/, which is outside of docs/, and the help of the commands."""

from collections.abc import Iterator
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

from cyclopts import App
from mkdocs.structure.files import File, Files
from rich.console import Console

from slalom.cli.app import COMMANDS, app

_RESULTS = Path(__file__).parents[1] / "results"


def on_files(files: Files, *, config: Any) -> Files:
    """Add results/*.md and results/*.png to the site."""
    for path in sorted([*_RESULTS.glob("*.md"), *_RESULTS.glob("*.png")]):
        files.append(File.generated(config, f"results/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Mend links between docs/ and results/: in the repository they are neighbours, in the site results/ is inside."""
    if page.file.src_uri == "cli.md":
        markdown += "".join(f"\n## slalom {name}\n\n```\n{_help(name)}\n```\n" for name in _commands())
    if page.file.src_uri.startswith("results/"):
        return markdown.replace("](../docs/", "](../").replace('="../docs/', '="../')
    up = "../" * page.file.src_uri.count("/")
    return markdown.replace(f"]({up}../results/", f"]({up}results/")


def _commands() -> Iterator[str]:
    """Yield the commands, each followed by its own: "explain", ..., "corpus", "corpus run", ..."""
    for name in COMMANDS:
        yield name
        group = getattr(import_module(f"slalom.cli.{name}"), name)
        if isinstance(group, App):
            yield from (f"{name} {sub}" for sub in group if not sub.startswith("-"))


def _help(command: str) -> str:
    printed = StringIO()
    app.help_print(command.split(), console=Console(file=printed, width=110))
    return "\n".join(line.rstrip() for line in printed.getvalue().strip().splitlines())
