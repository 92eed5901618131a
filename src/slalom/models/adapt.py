"""From what the user has to a Model.

    nothing                                                        HuggingFace, the classifier that ships with the package
    transformers pipeline, classifier + tokenizer, path of one     HuggingFace
    scikit-learn classifier or pipeline                            scikit_learn
    any callable with output=                                      Function

Nothing heavy is imported to find out: the classes of an object know their names.
"""

from pathlib import Path
from typing import Any, Literal

from slalom.errors import InputError, one_line, require
from slalom.models.function import OUTPUTS, Function, Output
from slalom.models.model import Model
from slalom.models.sklearn import scikit_learn

EMBEDDED = Path(__file__).parent / "sentiment"  # the classifier that ships with the package
EMBEDDED_NAME = "slalom-sentiment"


def model_of(
    model: Any,
    tokenizer: Any = None,
    *,
    output: Output | None = None,
    labels: Any = None,
    precision: Literal["bfloat16"] | None = None,
    device: str | None = None,
    batch_size: int | None = None,
) -> Model:
    """Return the adapter of a model.

    output, labels: for callables. precision: for Hugging Face models. device: where a model given by its path is put.
    batch_size: strings in one call, for callables and scikit-learn models.
    """
    if isinstance(model, Model):
        return model
    _refuse_what_is_for_others(model, output, labels, device, batch_size)
    if model is None or isinstance(model, (str, Path)):
        if tokenizer is not None:
            raise InputError("a tokenizer is for a torch model; a model given by its path brings its own")
        return _loaded(None if model is None else str(model), precision, device)
    if _is(model, "transformers", "Pipeline"):
        if not _is(model, "transformers", "TextClassificationPipeline"):
            raise InputError(f"a pipeline must be for text classification; got {type(model).__name__}")
        return _of_pipeline(model, precision)
    if _is(model, "torch", "Module"):
        if tokenizer is None:
            raise InputError(
                f"{type(model).__name__} reads tokens, so it needs its tokenizer as the second argument"
                " (AutoTokenizer.from_pretrained, or give a text-classification pipeline)"
            )
        return _hugging_face(model, tokenizer, precision)
    if precision is not None:
        raise InputError(f"precision is for Hugging Face models; got a {type(model).__name__}")
    if tokenizer is not None:
        raise InputError(f"a tokenizer is for torch models; a {type(model).__name__} reads strings")
    if _is(model, "sklearn", "BaseEstimator"):
        return scikit_learn(model, batch_size)
    if callable(model):
        if output is None:
            raise InputError(f"a callable needs output=, what it returns: {', '.join(map(repr, OUTPUTS))}")
        return Function(model, output, labels, batch_size)
    raise InputError(
        "model must be a Hugging Face classifier with its tokenizer, a pipeline, a path, a scikit-learn classifier or a"
        f" callable; got {type(model).__name__}"
    )


def _refuse_what_is_for_others(model: Any, output: Any, labels: Any, device: Any, batch_size: Any) -> None:
    """Raise where an option was given that this kind of model would ignore."""
    path = model is None or isinstance(model, (str, Path))
    kinds = (("transformers", "Pipeline"), ("torch", "Module"), ("sklearn", "BaseEstimator"))
    if (path or any(_is(model, *kind) for kind in kinds)) and (output is not None or labels is not None):
        own = "the classifier that ships with slalom" if model is None else type(model).__name__
        raise InputError(f"output and labels are for callables; {own} brings its own")
    if batch_size is not None and (path or any(_is(model, *kind) for kind in kinds[:2])):
        raise InputError("batch_size is for callables and scikit-learn models; a Hugging Face model is batched by its tokens")
    if device is not None and not path:
        raise InputError("device is for a model given by its path; move the model itself before explaining it")


def _is(thing: Any, package: str, name: str) -> bool:
    """Whether a thing is of a class of a package that need not be installed."""
    return any(cls.__name__ == name and cls.__module__.split(".")[0] == package for cls in type(thing).__mro__)


def _hugging_face(model: Any, tokenizer: Any, precision: Literal["bfloat16"] | None, name: str | None = None) -> Model:
    with require("this model", "hf"):
        from slalom.models.huggingface import HuggingFace  # noqa: PLC0415
    return HuggingFace(model, tokenizer, precision, name=name)


def _of_pipeline(pipeline: Any, precision: Literal["bfloat16"] | None) -> Model:
    from slalom.models.pipelines import of_pipeline  # noqa: PLC0415  whoever has a pipeline has torch and transformers

    return of_pipeline(pipeline, precision)


def _loaded(given: str | None, precision: Literal["bfloat16"] | None, device: str | None) -> Model:
    """Load a classifier and its tokenizer from a folder or by its name on the hub; without one, that of the package."""
    with require("the classifier that ships with slalom" if given is None else "a model path", "hf"):
        import torch  # noqa: PLC0415

        from slalom.models.saved import load_saved  # noqa: PLC0415
    path, name = (str(EMBEDDED), EMBEDDED_NAME) if given is None else (given, Path(given).name)
    model, tokenizer, missing = load_saved(path, dtype=torch.float32)
    if missing:
        raise InputError(f"{path!r} holds no sequence classifier, {missing[0]} is missing; fine-tune it first")
    place = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        model = model.to(place)
    except (RuntimeError, AssertionError) as error:
        reason = one_line(error)
        raise InputError(f"the model could not be put on device {place!r}: {reason}; try device 'cpu'") from error
    return _hugging_face(model, tokenizer, precision, name)
