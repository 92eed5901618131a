"""Hooks of `mkdocs build`: add the figures of the experiments, which are in results/ outside of docs/, to the site."""

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

_RESULTS = Path(__file__).parents[1] / "results"


def on_files(files: Files, *, config: Any) -> Files:
    """Add results/*.png to the site."""
    for picture in sorted(_RESULTS.glob("*.png")):
        files.append(File.generated(config, f"results/{picture.name}", abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Mend the paths of the figures in docs/results.md: one folder up in the repository, beside the page in the site."""
    return markdown.replace('src="../results/', 'src="results/') if page.file.src_uri == "results.md" else markdown
