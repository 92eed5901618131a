"""Training, saving and loading the one layer of attention.

train(texts, labels, "folder")      by default the recipe of the paper
load("folder")                      a model for `slalom.Explainer` and for everything in slalom.theory.attention
"""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from slalom.errors import InputError, require
from slalom.models import Model, model_of
from slalom.training import Labelled, Recipe

if TYPE_CHECKING:
    from slalom.training import Trained

Perturbation = Literal["replace", "delete"]


def train(
    texts: Sequence[str],
    labels: ArrayLike,
    out: str | Path,
    recipe: Recipe | None = None,
    *,
    names: Sequence[str] | None = None,
    test: tuple[Sequence[str], ArrayLike] | None = None,
    device: str | None = None,
    fresh: bool = False,
    progress: bool = True,
    **settings: Any,
) -> "Trained":
    """Train an AttentionClassifier and save it in a folder, weights as safetensors, the rest as JSON.

    A run that was stopped by Ctrl-C resumes when it is called again.

    Args:
        texts: The training texts.
        labels: 0, 1, ... for each text.
        out: The folder.
        recipe: Default: the paper's.
        names: Names of the classes. Default: their numbers.
        test: Texts and labels that the finished network is evaluated on.
        device: Where to train. Default: a GPU, where there is one.
        fresh: Whether to start again instead of resuming.
        progress: Whether to print progress.
        **settings: Changes of the paper's recipe by name (``epochs=3, final=False, seed=1``).

    Returns:
        What the training reports.

    Raises:
        InputError: A setting is unknown, or texts and labels do not fit together.
    """
    from slalom.training import train as run  # noqa: PLC0415

    if recipe is not None and settings:
        raise InputError(f"give a recipe or single settings, not both; got a recipe and {', '.join(settings)}")
    known = [field.name for field in fields(Recipe) if field.name != "arch"]
    if unknown := [name for name in settings if name not in known]:
        raise InputError(f"a setting must be one of {', '.join(known)}; got {', '.join(unknown)}")
    recipe = recipe or Recipe.of("attention", **settings)
    if recipe.arch != "attention":
        raise InputError(f"the recipe must be of the architecture attention (Recipe.of('attention')); got {recipe.arch!r}")
    data = _labelled(texts, labels, names, "the training texts")
    judged = None if test is None else _labelled(*_pair(test), data.names, "the test texts")
    return run(data, out, recipe, test=judged, device=device, fresh=fresh, progress=progress)


def load(path: str | Path, *, perturbation: Perturbation = "replace", device: str | None = None) -> Model:
    """Return a saved AttentionClassifier with its tokenizer, for the Explainer and for everything here.

    Args:
        path: The folder.
        perturbation: What happens to a word that is removed: "replace" puts [UNK] in its place, as the closed forms do;
            "delete" moves the later words forward, as `slalom.Explainer(path)` does.
        device: Where to load it. Default: a GPU, where there is one.

    Raises:
        InputError: The folder does not hold an AttentionClassifier.
    """
    if perturbation not in ("replace", "delete"):
        raise InputError(f"perturbation must be 'replace' or 'delete'; got {perturbation!r}")
    model = model_of(str(path), device=device)
    with require("slalom.theory.attention", "hf"):
        from slalom.models.huggingface import HuggingFace, InPlace  # noqa: PLC0415
        from slalom.networks.one_layer import AttentionClassifier  # noqa: PLC0415
    if not isinstance(model, HuggingFace) or not isinstance(model.model, AttentionClassifier):
        raise InputError(f"{str(path)!r} must hold an AttentionClassifier; slalom.Explainer takes any classifier")
    return InPlace(model) if perturbation == "replace" else model


def _pair(test: Any) -> tuple[Any, Any]:
    if not isinstance(test, tuple | list) or len(test) != 2:
        raise InputError(f"test must be a pair of texts and labels; got {type(test).__name__}")
    return test[0], test[1]


def _labelled(texts: Any, labels: ArrayLike, names: Sequence[str] | None, source: str) -> Labelled:
    numbers = np.asarray(labels)
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise InputError(f"{source} must be a list of strings; got {type(texts).__name__}")
    texts = tuple(texts)
    if not texts:
        raise InputError(f"{source} must be at least one text; got none")
    if other := [type(text).__name__ for text in texts if not isinstance(text, str)]:
        raise InputError(f"{source} must be strings; {len(other)} of the {len(texts)} are not, the first is {other[0]}")
    if numbers.shape != (len(texts),) or numbers.dtype.kind not in "iub":
        raise InputError(
            f"the labels of {source} must be {len(texts)} whole numbers, one per text;"
            f" got {numbers.dtype.name} of shape {numbers.shape}"
        )
    most = int(numbers.max()) + 1
    named = tuple(map(str, names)) if names is not None else tuple(str(i) for i in range(max(most, 2)))
    if isinstance(names, str) or len(set(named)) < len(named):
        raise InputError(f"names must be a list of different strings, one per class; got {names!r}")
    if numbers.min() < 0 or most > len(named):
        raise InputError(f"the labels of {source} must be 0 to {len(named) - 1}; got {numbers.min()} to {most - 1}")
    return Labelled(texts, numbers.astype(np.int64), named, source)
