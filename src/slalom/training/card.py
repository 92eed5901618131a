"""The model card of a trained classifier: what it is, its data, its accuracy, and what it is not for."""

from slalom.errors import count, plural
from slalom.training.data import Labelled
from slalom.training.recipe import Recipe
from slalom.training.trained import Trained


def card(trained: Trained, recipe: Recipe, data: Labelled, test: Labelled | None, kind: str, device: str, command: str) -> str:
    """Return the card as Markdown."""
    start = f"started from `{recipe.init}`" if recipe.init else "trained from random weights"
    taught = f", taught by `{recipe.teacher}`" if recipe.teacher else ""
    lines = [
        "# A text classifier",
        "",
        f"Architecture `{kind}`, {trained.parameters:,} parameters, labels {', '.join(data.names)}; {start}{taught}.",
        "",
        "## Trained on",
        "",
        f"`{data.source}`: {len(data):,} {plural(len(data), 'text')} ("
        + ", ".join(f"{int((data.labels == i).sum()):,} {name}" for i, name in enumerate(data.names))
        + f"), of which {round(recipe.validation * len(data)):,} were held out for validation."
        + (f" Left out: {data.skipped:,} {plural(data.skipped, 'row')} without text or label." if data.skipped else ""),
        "",
        f"{count(recipe.epochs, 'epoch')} in {trained.seconds:.0f} s on {device}; all settings:",
        "",
        "    " + ", ".join(f"{name}={value!r}" for name, value in recipe.to_dict().items()),
        "",
    ]
    if command:
        lines += ["Made with:", "", "```", command, "```", ""]
    lines += ["## Accuracy", ""]
    if len(trained.validation) and trained.validation[-1] == trained.validation[-1]:
        if recipe.best:
            lines.append(f"- {max(trained.validation):.4f} on the held-out texts after the epoch that was best on them")
        else:
            lines.append(f"- {trained.validation[-1]:.4f} on the held-out texts after the last epoch (no epoch was selected)")
    if test is not None:
        left = f" ({test.skipped:,} {plural(test.skipped, 'row')} without text or label left out)" if test.skipped else ""
        lines.append(f"- {trained.test:.4f} on all {len(test):,} {plural(len(test), 'text')} of `{test.source}`{left}")
        if trained.repeated and trained.test_new is not None:
            lines.append(
                f"- {trained.test_new:.4f} on the {len(test) - trained.repeated:,} of them that are not in the training data"
            )
    return "\n".join(
        [
            *lines,
            "",
            "## What it must not be used for",
            "",
            "Its accuracy was measured on texts like those it was trained on; other languages, subjects and kinds of text were"
            " not measured. Do not let it decide about people, and do not use its probabilities as frequencies without"
            " checking them on your own data.",
            "",
        ]
    )
