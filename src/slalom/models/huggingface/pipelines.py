"""Text-classification pipelines of transformers: the model as the pipeline calls it.

    option of the pipeline            here
    truncation, max_length            how many tokens the model reads
    function_to_apply                 what the outputs mean: softmax, sigmoid, none
    top_k, verbose                    change what is printed, not the answer
    padding to the longest text       changes nothing: a text alone is never padded
    anything else, own methods        refused

The pipeline itself is left as it is.
"""

from typing import Any, Literal

from transformers import TextClassificationPipeline

from slalom.errors import InputError
from slalom.models.huggingface.model import HuggingFace
from slalom.models.huggingface.module import UNLIMITED

_METHODS = ("__call__", "preprocess", "forward", "_forward", "postprocess")
_FOLLOWED: dict[str, tuple[Any, ...] | None] = {  # options, and the values that they may have; None: any
    "truncation": (None, True, False, "do_not_truncate", "longest_first", "only_first"),
    "padding": (None, True, False, "longest", "do_not_pad"),
    "function_to_apply": (None, "softmax", "sigmoid", "none"),
} | dict.fromkeys(("max_length", "padding_side", "verbose", "top_k", "_legacy"))
_INSTEAD = "explain a callable around the pipeline instead, and say with output= what it returns"


def from_pipeline(pipeline: Any, precision: Literal["bfloat16"] | None = None) -> HuggingFace:
    """Return the model of a pipeline, with the pipeline's options."""
    for name in _METHODS:
        if name in vars(pipeline) or getattr(type(pipeline), name) is not getattr(TextClassificationPipeline, name):
            raise InputError(
                f"a pipeline must do as transformers' own; {type(pipeline).__name__} has its own {name}; {_INSTEAD}"
            )
    options = {**pipeline._preprocess_params, **pipeline._forward_params, **pipeline._postprocess_params}
    function: Any = options.get("function_to_apply")
    if function is not None:
        options["function_to_apply"] = function = str(getattr(function, "value", function)).lower()
    for name, value in options.items():
        allowed = _FOLLOWED.get(name, ())
        if allowed is not None and value not in allowed:
            advice = "leave it out, texts are read one by one" if name in ("padding", "pad_to_multiple_of") else _INSTEAD
            raise InputError(f"the option {name}={value!r} of the pipeline cannot be followed; {advice}")
    return HuggingFace(pipeline.model, pipeline.tokenizer, precision, max_length=_max_length(options), activation=function)


def _max_length(options: dict[str, Any]) -> int | None:
    """Return the maximum length that these options set, as the tokenizer reads them; None for the tokenizer's default."""
    truncation, length = options.get("truncation"), options.get("max_length")
    if truncation is None:
        truncation = length is not None and options.get("padding", False) is False
    if truncation in (False, "do_not_truncate"):
        return UNLIMITED
    return None if length is None else int(length)
