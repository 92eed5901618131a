"""Classifiers saved by transformers: a folder, or a name on the hub."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers import AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging

from slalom.errors import InputError


def load_saved(path: str, **options: Any) -> tuple[Any, Any, list[str]]:
    """Return a sequence classifier, its tokenizer, and the names of weights that were not in the files.

    options: for transformers' `from_pretrained`.
    """
    if not Path(path).exists() and (path.startswith((".", "/", "~")) or path.count("/") > 1):
        raise InputError(f"there is no folder {path!r}; name the folder of a saved classifier, or one on the hub")
    try:
        with quietly():
            tokenizer = AutoTokenizer.from_pretrained(path)
            model, loading = AutoModelForSequenceClassification.from_pretrained(path, output_loading_info=True, **options)
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().split("\n")[0]
        raise InputError(f"no sequence classifier with its tokenizer could be loaded from {path!r}: {reason}") from error
    return model, tokenizer, sorted(loading["missing_keys"])


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
