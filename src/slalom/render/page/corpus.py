"""What a model does on a corpus, or what changed between two, as one self-contained HTML page."""

from typing import Any

from slalom.corpus import CorpusComparison, CorpusSummary
from slalom.errors import plural
from slalom.render.page.parts import asset, embedded, rendered, rounded, script, style
from slalom.text import printable

_SCRIPTS = ("format.js", "effects.js", "corpus.js")


def corpus_page(summary: CorpusSummary, title: str | None = None) -> str:
    """Return a summary of a corpus as one self-contained HTML page."""
    about = summary.about
    facts = [("Model", about["model"]), ("Texts", f"{about['explained']:,}"), ("Effects on the score of", about["target"])]
    if about["poor"]:
        facts.append(("Poorly explained, " + ("included" if about["include_poor"] else "left out"), f"{about['poor']:,}"))
    if about["accuracy"] is not None:
        facts.append(("Accuracy", f"{100 * about['accuracy']:.1f} %"))
    if about["slice"] is not None:
        facts.append(("Slices", about["slice"]))
    data = summary_content(summary)
    name = title or f"What {about['model']} does on {about['explained']:,} {plural(about['explained'], 'text')}"
    return _page(name, facts, data, heading="Strongest", shortcuts=data["shortcuts_help"], flips=None)


def summary_content(summary: CorpusSummary) -> dict[str, Any]:
    """Return a summary as pages need it: lists, numbers to six digits, and strings."""
    about = summary.about
    shortcuts = [{**shortcut.to_dict(), "word": shortcut.word.to_dict()} for shortcut in summary.shortcuts]
    if not shortcuts:
        means = "None was found."
    elif about["gold"] is None and about["slice"] is None:
        means = "Neither true labels nor slices were given: these are only the strong and rare."
    else:
        means = (
            "Score: log odds that the model relies on it for, beyond what true labels and slices support. Look at the examples"
            " before you judge."
        )
    return dict(rounded({**summary.to_dict(), "shortcuts": shortcuts, "shortcuts_help": means}))


def corpus_comparison_page(comparison: CorpusComparison, title: str | None = None) -> str:
    """Return a comparison of two models on the same texts as one self-contained HTML page."""
    about = comparison.about
    first, second = about["models"]
    facts = [("Before", first), ("After", second), ("Shared texts", f"{about['shared']:,}"), ("Effects on", about["target"])]
    if about["accuracy"] is not None:
        facts.append(("Accuracy", " → ".join(f"{100 * share:.1f} %" for share in about["accuracy"])))
    facts.append(("Flipped predictions", f"{about['flipped']:,} ({100 * about['flipped'] / about['shared']:.1f} %)"))
    ways = "; ".join(f"{way['texts']:,} from {way['before']} to {way['after']}" for way in about["flips"])
    shown = len(comparison.flips)
    flips = f"{ways or 'None'}. Listed: the {shown} with the largest change of the score, and the words that moved it."
    data, name = rounded(comparison.to_dict()), title or f"{second} against {first}"
    return _page(name, facts, data, heading="Changed most", shortcuts=None, flips=printable(flips))


def _page(title: str, facts: list[tuple[str, Any]], data: dict[str, Any], **parts: Any) -> str:
    look, shown = "\n".join((style(), asset("effects.css"), asset("corpus.css"))), [(k, printable(str(v))) for k, v in facts]
    return rendered("corpus.html", title, look, script(*_SCRIPTS), facts=shown, data=embedded(data), **parts)
