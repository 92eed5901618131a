"""Loading a saved one layer of attention."""

from pathlib import Path
from typing import Literal

from slalom.errors import InputError, require
from slalom.models import Model, model_of

Perturbation = Literal["replace", "delete"]


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
        from slalom.models.huggingface.model import HuggingFace  # noqa: PLC0415
        from slalom.models.huggingface.one_layer import AttentionClassifier  # noqa: PLC0415
    if not isinstance(model, HuggingFace) or not isinstance(model.model, AttentionClassifier):
        raise InputError(f"{str(path)!r} must hold an AttentionClassifier; slalom.Explainer takes any classifier")
    return model.in_place() if perturbation == "replace" else model
