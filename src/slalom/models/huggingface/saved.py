"""Classifiers and language models saved by transformers: a folder, or a name on the hub; language models also as GGUF files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer, modeling_gguf_pytorch_utils
from transformers.utils import logging

from slalom.errors import InputError, one_line, require
from slalom.models.huggingface.wrappers import unwrapped, virtual_tokens
from slalom.networks import one_layer  # noqa: F401  registers itself with transformers

_POSITIONS = ("position_embeddings", "wpe", "embed_positions")


def load_saved(path: str, **options: Any) -> tuple[Any, Any, list[str]]:
    """Load a sequence classifier.

    Args:
        path: A folder, or a name on the hub.
        **options: For transformers' `from_pretrained`.

    Returns:
        The classifier, its tokenizer, and the names of weights that were not in the files.

    Raises:
        InputError: There is no such folder, or no classifier in it.
    """
    if Path(path).is_file():
        raise InputError(f"a saved classifier is a folder; {path!r} is a file")
    if not Path(path).exists() and (path.startswith((".", "/", "~")) or path.count("/") > 1):
        raise InputError(f"there is no folder {path!r}; name the folder of a saved classifier, or one on the hub")
    try:
        with quietly():
            tokenizer = AutoTokenizer.from_pretrained(path)
            model, loading = AutoModelForSequenceClassification.from_pretrained(path, output_loading_info=True, **options)
            missing = {*loading["missing_keys"], *_missing_below_adapter(model, options)}
    except ImportError:
        raise
    except Exception as error:  # broken files may raise anything
        reason = one_line(error)
        raise InputError(f"no sequence classifier with its tokenizer could be loaded from {path!r}: {reason}") from error
    return model, tokenizer, sorted(missing)


def load_language_model(path: str, device: str | None = None) -> tuple[Any, Any]:
    """Load a causal language model: in float32 on a CPU, in the dtype of its files elsewhere.

    Args:
        path: A folder, a GGUF file, or a name on the hub.
        device: The device to put it on; a quantised model stays where it is loaded to. Default: a GPU if there is one.

    Returns:
        The model and its tokenizer.

    Raises:
        InputError: There is no such folder or file, no language model in it, or no such device.
    """
    place = Path(path).expanduser()
    if not place.exists() and (path.startswith((".", "/", "~")) or path.count("/") > 1 or place.suffix.lower() == ".gguf"):
        raise InputError(f"there is no folder or file {path!r}; name a language model's folder, GGUF file, or name on the hub")
    if place.is_file() and place.suffix.lower() != ".gguf":
        raise InputError(f"a language model is a folder or a .gguf file; {path!r} is another file")
    if place.is_file():
        with require("a GGUF file", "gguf", "gguf"):
            import gguf  # noqa: F401, PLC0415
    source = str(place.parent) if place.is_file() else path
    options: dict[str, Any] = {"gguf_file": place.name} if place.is_file() else {}
    chosen = device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype: Any = torch.float32 if chosen.startswith("cpu") else "auto"
    try:
        with quietly():
            tokenizer: Any = AutoTokenizer.from_pretrained(source, **options)
            loaded: Any = AutoModelForCausalLM.from_pretrained(source, dtype=dtype, output_loading_info=True, **options)
    except ImportError:
        raise
    except Exception as error:  # broken files may raise anything
        reason = one_line(error)
        raise InputError(f"no language model with its tokenizer could be loaded from {path!r}: {reason}") from error
    model, loading = loaded
    missing = sorted(loading["missing_keys"])
    if missing:
        raise InputError(f"{path!r} holds no causal language model, {missing[0]} is missing")
    try:
        if options or not getattr(model, "is_quantized", False):  # weights of GGUF files are plain once they are loaded
            model = model.to(chosen)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"the model could not be put on device {chosen!r}: {one_line(error)}; try device 'cpu'") from error
    return model, tokenizer


def _missing_below_adapter(model: Any, options: dict[str, Any]) -> set[str]:
    """Return the weights that a PEFT adapter needs and neither it nor its base model has.

    For a folder with an adapter transformers reports only what is missing in the adapter: a base model without a classifier
    silently gets a random one.
    """
    if not getattr(model, "_hf_peft_config_loaded", False):
        return set()
    bases = {config.base_model_name_or_path for config in model.peft_config.values()}
    saved = {name.split(".modules_to_save.")[0] for name, _ in model.named_parameters() if ".modules_to_save." in name}
    loaded = [AutoModelForSequenceClassification.from_pretrained(base, output_loading_info=True, **options) for base in bases]
    return {key for _, loading in loaded for key in loading["missing_keys"] if key.rpartition(".")[0] not in saved}


def positions(model: torch.nn.Module) -> int | None:
    """Return the number of tokens that a model, wrapped or not, has positions for; None where there is no limit."""
    n_virtual = virtual_tokens(model)
    tables = [
        table
        for name, table in model.named_modules()
        if isinstance(table, torch.nn.Embedding) and name.rsplit(".", 1)[-1] in _POSITIONS
    ]
    if tables:  # those with a padding index number positions from the one after it
        return min(t.num_embeddings - (0 if t.padding_idx is None else t.padding_idx + 1) for t in tables) - n_virtual
    stated = getattr(getattr(unwrapped(model), "config", None), "max_position_embeddings", None)
    return stated - n_virtual if isinstance(stated, int) and stated > 0 else None


@contextmanager
def quietly() -> Iterator[None]:
    """Silence the progress bars and log messages of transformers."""
    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    conversion: Any = modeling_gguf_pytorch_utils  # its bar ignores the settings
    bar, conversion.tqdm = getattr(conversion, "tqdm", None), logging.tqdm
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        conversion.tqdm = bar
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
