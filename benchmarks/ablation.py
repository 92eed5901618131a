"""What each part of the method joint is worth: errors and fitting time without it, and its lines of code.

Run: python benchmarks/ablation.py [--device cuda] [--texts 24] [--queries 500] [--models bundled imdb-bert-2 words FOLDER]
       [--sentences | --least 30 --most 508]

near: mean squared error of the change of the score by 1 to 10 removals; far: 1 - R2 on subsets of all sizes; means over the
texts, and in brackets those beside all parts. seconds: those of a text, without the model's. lines: what could be deleted.

There are no options for this: the parts are taken out of the modules for the time of a run.
"""

import argparse
import ast
import inspect
import textwrap
from contextlib import ExitStack, contextmanager
from time import perf_counter
from unittest.mock import patch

import numpy as np

from slalom import Explainer
from slalom.core import Link, Slalom, neighbours, semivalues, shifts
from slalom.core.fitting import joint as fitting
from slalom.core.fitting.kernels import NeighbourKernel, PlaceKernel
from slalom.core.slalom import _checked_link
from slalom.evaluate import fidelity
from slalom.methods import joint as method

from near_and_far import named
from reviews import add_text_options, chosen_texts

_FITTED, _CERTAIN = fitting.fitted, 40.0  # logit of a competition that is 0 or 1 to rounding


def without_kernel(kind):
    """Return a fit that leaves out a kernel."""

    def fitted(counts, observed, profile, kernels, *more, **options):
        return _FITTED(counts, observed, profile, [k for k in kernels if not isinstance(k, kind)], *more, **options)

    return fitted


def without_link(*data, **options):
    return _FITTED(*data, **options, link=False)


PARTS = {  # what is replaced in which module, and the code of the part
    "all": ((), ()),
    "no neighbours": ([(method, "fitted", without_kernel(NeighbourKernel))], (neighbours, NeighbourKernel)),
    "no places": ([(method, "fitted", without_kernel(PlaceKernel))], (shifts, PlaceKernel)),
    "neither": ([(method, "fitted", without_kernel(object))], (neighbours, NeighbourKernel, shifts, PlaceKernel)),
    "no link": ([(method, "fitted", without_link)], (Link, _checked_link, semivalues._enumerated, semivalues._sampled)),
    "competition 0": (
        [(fitting, "COMPETITION_PRIOR", (-_CERTAIN, 0.0))],
        (semivalues._straight, semivalues._without_gaps, Slalom._shares),
    ),
    "competition 1": ([(fitting, "COMPETITION_PRIOR", (_CERTAIN, 0.0))], ()),
    "none asked at the end": ([(method, "_ASKED", 0)], (method.JointMethod._strongest,)),
}


@contextmanager
def replaced(changes):
    """Replace names in modules for a while."""
    with ExitStack() as stack:
        for change in changes:
            stack.enter_context(patch.object(*change))
        yield


def lines(*parts):
    """Return the lines of code of modules, classes and functions, without comments and docstrings."""
    number = 0
    for part in parts:
        source = textwrap.dedent(inspect.getsource(part))
        code = {i for i, line in enumerate(source.splitlines(), 1) if line.strip() and not line.strip().startswith("#")}
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
                code -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
        number += len(code)
    return number


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    add_text_options(parser)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--models", nargs="+", default=["bundled"])
    options = parser.parse_args()
    texts = chosen_texts(options)
    for name in options.models:
        model, device = named(name, options.device)
        explainer = Explainer(*model, device=device, check=0, queries=options.queries, progress=False)
        explainer(texts[0])  # warm up
        print(f"\n{name}, {len(texts)} texts\n\n| parts | near | far | seconds | lines |\n|---|---|---|---|---|", flush=True)
        whole = None
        for part, (changes, code) in PARTS.items():
            with replaced(changes):
                began, asking = perf_counter(), explainer.engine.cost.seconds
                explanations = explainer(texts)
                seconds = (perf_counter() - began - explainer.engine.cost.seconds + asking) / len(texts)
            errors = np.array([(e.near, e.far) for e in fidelity(explanations, explainer, per=100, number=1000)]).mean(axis=0)
            whole = errors if whole is None else whole
            cells = " | ".join(f"{error:.4f} ({error / all_parts:.2f})" for error, all_parts in zip(errors, whole, strict=True))
            print(f"| {part} | {cells} | {seconds:.2f} | {lines(*code) or ''} |", flush=True)


if __name__ == "__main__":
    main()
