"""The card of a trained model: what it is, what it was trained on, how good it is, what it is not for."""

from typing import TYPE_CHECKING

from slalom.training.data import Labelled
from slalom.training.recipe import Recipe

if TYPE_CHECKING:
    from slalom.training.loop import Trained


def card(made: "Trained", recipe: Recipe, data: Labelled, test: Labelled | None, kind: str, device: str, command: str) -> str:
    """Return the card as Markdown."""
    start = f"started from `{recipe.init}`" if recipe.init else "trained from random weights"
    taught = f", taught by `{recipe.teacher}`" if recipe.teacher else ""
    lines = [
        "# A text classifier",
        "",
        f"Architecture `{kind}`, {made.parameters:,} parameters, labels {', '.join(data.names)}; {start}{taught}.",
        "",
        "## Trained on",
        "",
        f"`{data.source}`: {len(data):,} texts ("
        + ", ".join(f"{int((data.labels == i).sum()):,} {name}" for i, name in enumerate(data.names))
        + f"), of which {round(recipe.validation * len(data)):,} were held out to watch the training."
        + (f" {data.skipped:,} rows without text or label were left out." if data.skipped else ""),
        "",
        f"{recipe.epochs} epochs in {made.seconds:.0f} s on {device}; all settings:",
        "",
        "    " + ", ".join(f"{name}={value!r}" for name, value in recipe.to_dict().items()),
        "",
    ]
    if command:
        lines += ["Made with:", "", "```", command, "```", ""]
    lines += ["## How often it is right", ""]
    if len(made.validation) and made.validation[-1] == made.validation[-1]:
        if recipe.best:
            lines.append(f"- {max(made.validation):.4f} on the held-out texts after the epoch that was chosen by them")
        else:
            lines.append(f"- {made.validation[-1]:.4f} on the held-out texts after the last epoch (no epoch was chosen by it)")
    if test is not None:
        left = f" ({test.skipped:,} rows without text or label left out)" if test.skipped else ""
        lines.append(f"- {made.test:.4f} on all {len(test):,} texts of `{test.source}`{left}")
        if made.repeated and made.test_new is not None:
            lines.append(
                f"- {made.test_new:.4f} on the {len(test) - made.repeated:,} of them that are not also in the training data"
            )
    return "\n".join(
        [
            *lines,
            "",
            "## What it must not be used for",
            "",
            "It knows the texts it was trained on and nothing else: other languages, other subjects and other kinds of text are"
            " outside of what was measured. Do not let it decide about people, and do not take its probabilities for"
            " frequencies without checking them on your own data.",
            "",
        ]
    )
