"""Classifiers saved by transformers: a folder, or a name on the hub."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging

from slalom.errors import InputError
from slalom.models import one_layer  # noqa: F401  it makes itself known to transformers

_POSITIONS = ("position_embeddings", "wpe", "embed_positions")


def load_saved(path: str, **options: Any) -> tuple[Any, Any, list[str]]:
    """Return a sequence classifier, its tokenizer, and the names of weights that were not in the files.

    options: for transformers' `from_pretrained`.
    """
    if Path(path).is_file():
        raise InputError(f"a saved classifier is a folder; {path!r} is a file")
    if not Path(path).exists() and (path.startswith((".", "/", "~")) or path.count("/") > 1):
        raise InputError(f"there is no folder {path!r}; name the folder of a saved classifier, or one on the hub")
    try:
        with quietly():
            tokenizer = AutoTokenizer.from_pretrained(path)
            model, loading = AutoModelForSequenceClassification.from_pretrained(path, output_loading_info=True, **options)
    except ImportError:
        raise
    except Exception as error:  # broken files raise what they like
        reason = " ".join(str(error).split())[:300]
        raise InputError(f"no sequence classifier with its tokenizer could be loaded from {path!r}: {reason}") from error
    return model, tokenizer, sorted(loading["missing_keys"])


def positions(model: torch.nn.Module) -> int | None:
    """Return how many tokens a model has positions for; None where there is no limit."""
    tables = [
        table
        for name, table in model.named_modules()
        if isinstance(table, torch.nn.Embedding) and name.rsplit(".", 1)[-1] in _POSITIONS
    ]
    if tables:  # those with a padding index number positions from the one after it
        return min(t.num_embeddings - (0 if t.padding_idx is None else t.padding_idx + 1) for t in tables)
    stated = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    return stated if isinstance(stated, int) and stated > 0 else None


@contextmanager
def quietly() -> Iterator[None]:
    """Show no bar and no remarks while files are read or written."""
    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
