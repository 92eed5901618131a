"""Classifiers and language models saved by transformers: a folder, or a name on the hub; language models also as GGUF files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging

from slalom.errors import InputError, one_line, require
from slalom.models.huggingface import one_layer  # noqa: F401  registers itself with transformers
from slalom.models.huggingface.wrappers import unwrapped

_FEW = 1000  # entries of a vocabulary that may have no word
_POSITIONS = ("position_embeddings", "wpe", "embed_positions")


def load_classifier(path: str, device: str | None = None, trust_remote_code: bool = False) -> tuple[Any, Any]:
    """Load a sequence classifier in float32, and its tokenizer."""
    if Path(path).is_file():
        raise InputError(
            f"a saved classifier is a folder; {path!r} is a file (a pickled scikit-learn model is for slalom explain and"
            " compare; in Python load it, and pass the object)"
        )
    model, tokenizer, missing = _load(
        AutoModelForSequenceClassification, "sequence classifier", path, path, trust_remote_code, dtype=torch.float32
    )
    with quietly():
        missing |= _missing_below_adapter(model, trust_remote_code)
    if missing:
        raise InputError(f"{path!r} holds no sequence classifier, {min(missing)} is missing; fine-tune it first")
    return _on_device(model, device), tokenizer


def load_language_model(path: str, device: str | None = None, trust_remote_code: bool = False) -> tuple[Any, Any]:
    """Load a causal language model: in float32 on a CPU, in the dtype of its files elsewhere."""
    place = Path(path).expanduser()
    if place.is_file() and place.suffix.lower() != ".gguf":
        raise InputError(f"a language model is a folder or a .gguf file; {path!r} is another file")
    options: dict[str, Any] = {}
    if place.is_file():
        with require("a GGUF file", "gguf", "gguf"):
            import gguf  # noqa: F401, PLC0415
        options["gguf_file"] = place.name
    device = device or _default_device()
    dtype: Any = torch.float32 if device.startswith("cpu") else "auto"
    source = str(place.parent if place.is_file() else place if place.exists() else path)
    model, tokenizer, missing = _load(
        AutoModelForCausalLM, "language model", path, source, trust_remote_code, dtype=dtype, **options
    )
    if missing:
        raise InputError(f"{path!r} holds no causal language model, {min(missing)} is missing")
    if "gguf_file" not in options and getattr(model, "is_quantized", False):  # weights of GGUF files are plain once loaded
        return model, tokenizer
    return _on_device(model, device), tokenizer


def _load(
    loader: Any, kind: str, path: str, source: str, trust_remote_code: bool, *, dtype: Any, **options: Any
) -> tuple[Any, Any, set[str]]:
    """Return model, tokenizer, and the weights that the files do not have."""
    if not Path(source).exists() and (source.startswith((".", "/", "~")) or source.count("/") > 1 or ".gguf" in source):
        raise InputError(f"there is no folder or file {path!r}; name the folder of a saved {kind}, or one on the hub")
    try:
        with quietly():
            files = {name: value for name, value in options.items() if name == "gguf_file"}
            tokenizer: Any = AutoTokenizer.from_pretrained(source, trust_remote_code=trust_remote_code, **files)
            model, loading = loader.from_pretrained(
                source, output_loading_info=True, trust_remote_code=trust_remote_code, dtype=dtype, **options
            )
    except ImportError:
        raise
    except Exception as error:  # broken files may raise anything
        if "`trust_remote_code=True`" not in str(error):
            raise InputError(f"no {kind} with its tokenizer could be loaded from {path!r}: {one_line(error)}") from error
        raise InputError(
            f"{path!r} wants to run Python code of its own, which slalom does not do unasked; read it, and if you trust it"
            " allow it with --trust-remote-code (trust_remote_code=True) in explain, compare and context; serve and corpus"
            " never run it"
        ) from error
    check_vocabulary(tokenizer, repr(path))
    return model, tokenizer, set(loading["missing_keys"])


def _default_device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def _on_device(model: Any, device: str | None) -> Any:
    device = device or _default_device()
    try:
        return model.to(device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"the model could not be put on device {device!r}: {one_line(error)}; try device 'cpu'") from error


def check_vocabulary(tokenizer: Any, model: str) -> None:
    """Raise where a tokenizer has no word: transformers makes such a one for a folder without tokenizer files, silently."""
    if len(tokenizer) > _FEW:  # large ones take long to list
        return
    words = set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens)
    if not any(word.strip("▁") for word in words):
        raise InputError(
            f"the tokenizer of {model} must have words, and it has special tokens only: the folder was saved without its"
            " tokenizer; save it there too, with tokenizer.save_pretrained(FOLDER)"
        )


def _missing_below_adapter(model: Any, trust_remote_code: bool) -> set[str]:
    """Return the weights that a PEFT adapter needs and neither it nor its base model has.

    For a folder with an adapter transformers reports only what is missing in the adapter: a base model without a classifier
    silently gets a random one.
    """
    if not getattr(model, "_hf_peft_config_loaded", False):
        return set()
    saved = {name.split(".modules_to_save.")[0] for name, _ in model.named_parameters() if ".modules_to_save." in name}
    missing = set()
    for base in {config.base_model_name_or_path for config in model.peft_config.values()}:
        _, loading = AutoModelForSequenceClassification.from_pretrained(
            base, output_loading_info=True, trust_remote_code=trust_remote_code
        )
        missing |= {key for key in loading["missing_keys"] if key.rpartition(".")[0] not in saved}
    return missing


def positions(model: torch.nn.Module) -> int | None:
    """Return the number of tokens that a model, wrapped or not, has positions for; None where there is no limit."""
    tables = [
        table
        for name, table in model.named_modules()
        if isinstance(table, torch.nn.Embedding) and name.rsplit(".", 1)[-1] in _POSITIONS
    ]
    if tables:  # those with a padding index number positions from the one after it
        return min(t.num_embeddings - (0 if t.padding_idx is None else t.padding_idx + 1) for t in tables)
    stated = getattr(getattr(unwrapped(model), "config", None), "max_position_embeddings", None)
    return stated if isinstance(stated, int) and stated > 0 else None


@contextmanager
def quietly() -> Iterator[None]:
    """Silence the progress bars and log messages of transformers."""
    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
