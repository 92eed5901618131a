"""Comparisons with known numbers, without a model."""

import numpy as np

from slalom.evaluate import Compared

MEASURES = ("near", "far", "deletion", "insertion", "queries", "tokens", "seconds")
QUALITY = {
    "joint": 0.02,
    "local": 0.03,
    "eff": 0.2,
    "fidel": 0.12,
    "ridge": 0.06,
    "leave-one-out": 0.3,
    "lime": 0.25,
    "kernel-shap": 0.22,
    "integrated-gradients": None,
    "input-x-gradient": 1.5,
    "random": 1.4,
}


def record(text, method, budget, near=0.1, **more):
    """One record; the profile is the near error times the number of removed units."""
    profile = None if near is None else {str(k): near * k for k in range(1, 11)}
    rest = {"far": near, "deletion": 0.5, "insertion": 0.1, "queries": budget or 40, "tokens": 4000, "seconds": 0.5}
    return {"text": text, "method": method, "budget": budget, "near": near, "profile": profile, **rest, **more}


def compared(records, measures=MEASURES, **more):
    return Compared(tuple(records), tuple(measures), **more)


def realistic(budgets=(500,), texts=12, seed=0):
    """A comparison as large as a usual one."""
    rng = np.random.default_rng(seed)
    records = []
    for number, (name, near) in enumerate(QUALITY.items()):
        plain = name in ("leave-one-out", "integrated-gradients", "input-x-gradient")
        for budget in (None,) if plain else budgets:
            gain = (100 / (budget or 100)) ** 0.4
            for text in range(texts):
                noise = float(np.exp(0.4 * rng.normal()))
                error = None if near is None else near * gain * noise
                grown = None if error is None else {str(k): error * (0.3 + 0.1 * k ** (1 + 0.1 * number)) for k in range(1, 11)}
                records.append(
                    record(
                        text,
                        name,
                        budget,
                        error,
                        profile=grown,
                        far=None if error is None else min(1.3, error * 1.4 * noise),
                        deletion=0.6 - 0.05 * number + 0.05 * float(rng.normal()),
                        insertion=0.05 + 0.03 * number + 0.02 * float(rng.normal()),
                        seconds=(0.02 if plain else (budget or 1) * 0.004) * noise * (1 + number % 3),
                        queries=1 if plain and name != "leave-one-out" else budget or 80,
                    )
                )
    about = {"model": "distilbert-base", "texts": texts, "seed": 0, "unit": "token", "first": "A film <that> …", "target": None}
    return compared(records, skipped={"shap": "needs the package shap; install it"}, about=about)
