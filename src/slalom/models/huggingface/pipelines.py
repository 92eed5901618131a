"""Text-classification pipelines of transformers: the model as the pipeline calls it.

    option of the pipeline                        here
    truncation, max_length                        how many tokens the model reads
    function_to_apply                             what the outputs mean: softmax, sigmoid, none
    top_k                                         changes what is printed, not the answer
    padding and related, return_token_type_ids,   ignored where the model gives the same answer without them, which is checked
      return_attention_mask
    anything else, overridden methods             refused

The pipeline itself is left as it is.
"""

from typing import Any, Literal

import numpy as np
import torch
from transformers import TextClassificationPipeline

from slalom.errors import InputError, ModelError
from slalom.models.huggingface.model import Activation, HuggingFace
from slalom.models.huggingface.module import UNLIMITED, first_line

_METHODS = ("__call__", "preprocess", "forward", "_forward", "postprocess")
_LENGTHS = ("truncation", "max_length")
_PADDING = ("padding", "pad_to_multiple_of", "padding_side", "return_token_type_ids", "return_attention_mask")
_PRINTING = ("top_k", "_legacy")
_INSTEAD = "explain a callable around the pipeline instead, and say with output= what it returns"


def from_pipeline(pipeline: Any, precision: Literal["bfloat16"] | None = None) -> HuggingFace:
    """Return the model of a pipeline, with the pipeline's options."""
    changed = next((name for name in _METHODS if _overridden(pipeline, name)), None)
    if changed is not None:
        raise InputError(
            f"a pipeline must do as transformers' own; {type(pipeline).__name__} has its own {changed}; {_INSTEAD}"
        )
    reading, printing = dict(pipeline._preprocess_params), dict(pipeline._postprocess_params)
    known = (*_LENGTHS, *_PADDING, "verbose", *_PRINTING, "function_to_apply")
    for name, value in {**reading, **pipeline._forward_params, **printing}.items():
        if name not in known:
            raise InputError(f"the option {name}={value!r} of the pipeline cannot be followed; {_INSTEAD}")
    model = HuggingFace(
        pipeline.model,
        pipeline.tokenizer,
        precision,
        max_length=_max_length(reading),
        activation=_activation(printing.get("function_to_apply")),
    )
    unsure = [f"{name}={reading[name]!r}" for name in _PADDING if name in reading]
    if unsure and not _agrees(model, pipeline, reading):
        raise InputError(f"{', '.join(unsure)} of the pipeline changes what {model.name} answers; leave it out, or {_INSTEAD}")
    return model


def _overridden(pipeline: Any, name: str) -> bool:
    return name in vars(pipeline) or getattr(type(pipeline), name) is not getattr(TextClassificationPipeline, name)


def _max_length(options: dict[str, Any]) -> int | None:
    """Return the maximum length that these options set, as the tokenizer reads them; None for the tokenizer's default."""
    truncation, length = options.get("truncation"), options.get("max_length")
    if truncation is None and length is not None and options.get("padding", False) is False:
        truncation = True
    if truncation is None or truncation is False or truncation == "do_not_truncate":
        return UNLIMITED
    if truncation is not True and truncation not in ("longest_first", "only_first"):
        raise InputError(f"the option truncation={truncation!r} of the pipeline cannot be followed; {_INSTEAD}")
    return None if length is None else int(length)


def _activation(function: Any) -> Activation | None:
    """Return the name of a pipeline's `function_to_apply`."""
    if function is None:
        return None
    name = str(getattr(function, "value", function)).lower()
    if name not in ("softmax", "sigmoid", "none"):
        raise InputError(f"the option function_to_apply={function!r} of the pipeline cannot be followed; {_INSTEAD}")
    return name  # type: ignore[return-value]


def _agrees(model: HuggingFace, pipeline: Any, options: dict[str, Any]) -> bool:
    """Return whether model and pipeline give the same answer to a short text."""
    reading = model.read(model.probe_text, "cut", None)
    inputs, _ = reading.groups(np.ones((1, len(reading.names)), dtype=bool))[0].build()
    with model.session():
        ours = model.logits(inputs).double().cpu()
        try:
            answer = pipeline.forward(pipeline.preprocess(model.probe_text, **options))
        except Exception as error:
            raise ModelError(
                f"the pipeline must answer {model.probe_text!r}; got {first_line(error)}; check its options"
            ) from error
    theirs = answer["logits"]
    size = max(float(ours.abs().max()), 1.0)
    rounding = torch.finfo(torch.bfloat16 if model.precision == "bfloat16" else theirs.dtype).eps ** 0.5
    return bool(((theirs.double().cpu() - ours).abs() <= rounding * size).all())
