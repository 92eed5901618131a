"""Adapters for saved classifiers, pipelines and torch modules. Nothing heavy is imported before one is used."""

import re
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

from slalom.errors import InputError, require
from slalom.models.adapter import Adapter, ModelOptions, instance_of
from slalom.models.base import Model

EMBEDDED = Path(__file__).parents[1] / "sentiment"  # the bundled classifier
EMBEDDED_NAME = "slalom-sentiment"
_DOTTED = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"


def names_code(model: str) -> bool:
    """Return whether a model's name is that of an object in a Python module.

    Example:
        >>> names_code("package.module:function"), names_code("folder/model"), names_code("organisation/name")
        (True, False, False)
    """
    return re.fullmatch(rf"{_DOTTED}:{_DOTTED}", model) is not None and not Path(model).exists()


@final
@dataclass(frozen=True)
class SavedAdapter(Adapter):
    """The path or hub name of a saved classifier; None is the bundled one."""

    name: str = "saved"
    summary: str = "a folder or hub name of a saved classifier; nothing: the bundled classifier"
    kind: str = "bundled and saved classifiers"
    takes: tuple[str, ...] = ("precision", "device", "trust_remote_code")
    extra: str | None = "hf"

    def matches(self, model: object) -> bool:
        return model is None or isinstance(model, (str, Path))

    def adapt(self, model: Any, options: ModelOptions) -> Model:
        if isinstance(model, str) and names_code(model):
            raise InputError(
                f"{model!r} names Python code, which only slalom explain and compare import; in Python pass the object itself"
            )
        if model is None and not options.specified() and "torch" not in sys.modules:
            from slalom.models.bundled import Bundled  # noqa: PLC0415

            return Bundled(EMBEDDED, EMBEDDED_NAME, partial(_in_torch, None, ModelOptions(device="cpu")))
        return _in_torch(model, options)


@final
@dataclass(frozen=True)
class PipelineAdapter(Adapter):
    """Text-classification pipelines of transformers."""

    name: str = "pipeline"
    summary: str = "a text-classification pipeline of transformers"
    kind: str = "pipelines"
    takes: tuple[str, ...] = ("precision",)
    extra: str | None = "hf"

    def matches(self, model: object) -> bool:
        return instance_of(model, "transformers", "Pipeline")

    def adapt(self, model: Any, options: ModelOptions) -> Model:
        if not instance_of(model, "transformers", "TextClassificationPipeline"):
            raise InputError(f"a pipeline must be for text classification; got {type(model).__name__}")
        from slalom.models.huggingface.pipelines import from_pipeline  # noqa: PLC0415

        return from_pipeline(model, options.precision)


@final
@dataclass(frozen=True)
class TorchAdapter(Adapter):
    """Torch modules with their tokenizer."""

    name: str = "torch"
    summary: str = "a Hugging Face classifier or another torch module, with its tokenizer"
    kind: str = "torch models"
    takes: tuple[str, ...] = ("tokenizer", "precision")
    extra: str | None = "hf"

    def matches(self, model: object) -> bool:
        return instance_of(model, "torch", "Module")

    def adapt(self, model: Any, options: ModelOptions) -> Model:
        if options.tokenizer is None:
            raise InputError(
                f"{type(model).__name__} reads tokens, so it needs its tokenizer as the second argument"
                " (AutoTokenizer.from_pretrained, or give a text-classification pipeline)"
            )
        with require("this model", "hf"):
            from slalom.models.huggingface.model import HuggingFace  # noqa: PLC0415
        return HuggingFace(model, options.tokenizer, options.precision)


def _in_torch(model: Any, options: ModelOptions) -> Model:
    with require("the classifier that ships with slalom" if model is None else "a model path", "hf"):
        from slalom.models.huggingface.model import HuggingFace  # noqa: PLC0415
        from slalom.models.huggingface.saved import load_classifier  # noqa: PLC0415
    path, name = (str(EMBEDDED), EMBEDDED_NAME) if model is None else (str(model), Path(model).name)
    network, tokenizer = load_classifier(path, options.device, bool(options.trust_remote_code))
    made = HuggingFace(network, tokenizer, options.precision, name=name)
    made.reads_records = model is not None  # the bundled one knows single texts
    if model is None and options.precision is None:
        from slalom.models.bundled import identity_of_files  # noqa: PLC0415

        made.twin = identity_of_files(EMBEDDED), made.identity()
    return made
