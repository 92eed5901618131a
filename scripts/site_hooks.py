"""Hooks of `mkdocs build`: add the pages and figures of results/, which is outside of docs/, to the site."""

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

_RESULTS = Path(__file__).parents[1] / "results"


def on_files(files: Files, *, config: Any) -> Files:
    """Add results/*.md and results/*.png to the site."""
    for path in sorted([*_RESULTS.glob("*.md"), *_RESULTS.glob("*.png")]):
        files.append(File.generated(config, f"results/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Mend links between docs/ and results/: in the repository they are neighbours, in the site results/ is inside."""
    if page.file.src_uri.startswith("results/"):
        return markdown.replace("](../docs/", "](../").replace('="../docs/', '="../')
    up = "../" * page.file.src_uri.count("/")
    return markdown.replace(f"]({up}../results/", f"]({up}results/")
