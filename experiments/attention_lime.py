"""LIME beside its limit: the package by the number of samples, Theorem 5.1 as printed, and the Bernoulli shortcut."""

from typing import Any

import numpy as np

from experiments.harness import Claim, Lab, Result, Table, mean
from experiments.one_layer import network, networks, texts
from slalom.render.figures.canvas import theme_of
from slalom.theory import attention

_SHORTCUTS = ("lime-bernoulli", "lime-printed")


def run(lab: Lab) -> Result:
    """Measure relative errors over document length and number of samples."""
    networks(lab, ("final",))
    lengths, samples = lab.of((5, 10, 25, 50, 100, 150), (4, 24)), lab.of((300, 1000, 3000, 10_000), (500, 2000, 8000))
    several = lab.number("several", 6, 5)
    plan = {f"lime-{n}-{i}": {"words": n, "number": i, "samples": list(samples)} for n in lengths for i in range(several)}
    found = lab.parts(distances, plan, "attention", "text")
    ways = [*map(str, samples), *_SHORTCUTS]
    errors = {n: {way: [found[f"lime-{n}-{i}"][way]["error"] for i in range(several)] for way in ways} for n in lengths}
    agree = [found[key]["lime-printed"]["correlation"] for key in found]
    rows = tuple((n, *(mean(errors[n][way]) for way in ways)) for n in lengths)
    slope = float(
        np.polyfit(np.log(samples), np.log([mean(e for n in lengths for e in errors[n][str(s)])[0] for s in samples]), 1)[0]
    )
    printed = mean(e for n in lengths for e in errors[n]["lime-printed"])[0]
    cheap = mean(errors[lengths[-1]]["lime-bernoulli"])[0]
    claims = (
        Claim(
            "LIME tends to the exact limit like 1 / sqrt(samples).",
            -0.6 < slope < -0.4,
            f"slope {slope:.2f} in the log-log plot",
        ),
        Claim(
            "Theorem 5.1 has LIME's direction, not its limit.",
            float(np.mean(agree)) > 0.5 and printed > 0.15,
            f"correlation {np.mean(agree):.2f}, relative error {printed:.0%}",
        ),
        Claim(
            "Words that are left independently of each other are nearly as good, the better the longer the text.",
            cheap < mean(errors[lengths[0]]["lime-bernoulli"])[0] and cheap < 0.1,
            f"relative error {cheap:.1%} at {lengths[-1]} words",
        ),
    )
    columns = ("words", *(f"{s} samples" for s in samples), "Bernoulli", "Theorem 5.1")
    series = {"samples": list(samples), "errors": {str(n): [mean(errors[n][str(s)])[0] for s in samples] for n in lengths}}
    series["printed"] = {str(n): mean(errors[n]["lime-printed"])[0] for n in lengths}
    return Result((Table("Relative error against LIME's exact limit", columns, rows),), claims, (), series)


def distances(lab: Lab, words: int, number: int, samples: list[int]) -> dict[str, dict[str, float]]:
    """Return how far every way is from the limit, on one text cut to so many words."""
    long = [text for text in texts(lab) if len(text.split()) >= words]
    text = " ".join(long[number % len(long)].split()[:words])
    found = attention.compare(network(lab, "final"), text, samples=tuple(samples), seed=number)
    named = dict(zip([*map(str, samples), *_SHORTCUTS], found.lime[: len(samples) + 2], strict=True))
    return {name: {"error": d.error, "correlation": d.correlation} for name, d in named.items()}


def draw(result: Result, figure: Any) -> None:
    """Draw the errors of the package against the samples, and Theorem 5.1 as level lines."""
    ax, look = figure.subplots(), theme_of("light")
    samples, errors = result.series["samples"], result.series["errors"]
    shades = np.linspace(0.35, 1.0, len(errors))
    for shade, (words, found) in zip(shades, errors.items(), strict=True):
        ax.loglog(samples, found, "o-", color=look.hue(1.0), alpha=shade, label=f"lime, {words} words")
        ax.axhline(result.series["printed"][words], color=look.ink, alpha=shade, linestyle=":", linewidth=1.2)
    ax.plot([], [], color=look.ink, linestyle=":", label="Theorem 5.1, same texts")
    ax.set_xlabel("samples")
    ax.set_ylabel("relative error against the exact limit")
    ax.legend(frameon=False, fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)
