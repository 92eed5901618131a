"""What a user gives, as parts that can be removed: a context as its sources, and a language model."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from slalom.core.checks import check_choice
from slalom.errors import InputError, require
from slalom.models.continuation import LanguageModel
from slalom.models.prompts import messages
from slalom.models.sources import Sources
from slalom.text import CHOSEN, UnitFunction, chosen_spans, paragraphs, sentences, words

UNITS = ("document", "paragraph", "sentence", "word", "turn")  # from coarse to fine; those of a chat
_SPLITS = (paragraphs, sentences, words)
_SEPARATOR = "\n\n"  # between documents, and between turns where they are shown


def language_model_of(
    model: Any,
    tokenizer: Any = None,
    device: str | None = None,
    chat_options: Mapping[str, Any] | None = None,
    trust_remote_code: bool = False,
) -> LanguageModel:
    """Return the `LanguageModel` of a user object."""
    if trust_remote_code and not isinstance(model, (str, Path)):
        raise InputError("trust_remote_code= is for a model given by its folder; leave it out")
    if isinstance(model, LanguageModel):
        if any(part is not None for part in (tokenizer, device, chat_options)):
            raise InputError("tokenizer=, device= and chat_options= are for models of Hugging Face; leave them out")
        return model
    with require("a language model", "hf"):
        from slalom.models.huggingface.causal import LocalLanguageModel  # noqa: PLC0415
        from slalom.models.huggingface.saved import load_language_model  # noqa: PLC0415
    if isinstance(model, (str, Path)):
        loaded, own = load_language_model(str(model), device, trust_remote_code)
        return LocalLanguageModel(loaded, own if tokenizer is None else tokenizer, chat_options)
    if device is not None:
        raise InputError("device= is for a model given by its folder; move the model itself before explaining it")
    return LocalLanguageModel(model, tokenizer, chat_options)


def sources_of(context: Any, unit: str | UnitFunction | None = None) -> Sources:
    """Return a context in parts."""
    if unit is not None and not callable(unit):
        check_choice("unit", unit, UNITS)
    if not isinstance(context, str) and isinstance(context, Sequence) and context and isinstance(context[0], Mapping):
        if unit not in (None, "turn"):
            raise InputError(f"the units of a chat are its turns; got unit={unit!r}; leave it out")
        return _chat(messages(context, "a context"))
    if not isinstance(context, str) and not isinstance(context, Sequence):
        raise InputError(f"a context must be a text, a list of texts or a list of chat messages; got {type(context).__name__}")
    documents = [context] if isinstance(context, str) else list(context)
    if not all(isinstance(document, str) and document.strip() for document in documents) or not documents:
        raise InputError("a context must be a text, or a list of texts that are not empty")
    if unit == "turn":
        raise InputError('turns are those of a chat: pass a list of {"role": "user", "content": "..."}')
    kind = unit or ("sentence" if isinstance(context, str) else "document")
    text, spans = _joined(documents)
    chosen = (paragraphs, sentences, partial(chosen_spans, function=kind)) if callable(kind) else _SPLITS[: UNITS.index(kind)]
    parts = [spans, *(np.concatenate([a + split(text[a:b]) for a, b in spans.tolist()]) for split in chosen)]
    starts = parts[-1][:, 0]
    levels = tuple(np.unique(np.searchsorted(starts, np.concatenate(parts[:i])[:, 0])) for i in range(1, len(parts)))
    return Sources(text, parts[-1], CHOSEN if callable(kind) else kind, levels=levels)


def _chat(turns: tuple[tuple[str, str], ...]) -> Sources:
    """Return the turns of a chat; its system messages stay in their places."""
    before = np.cumsum([turn[0] != "system" for turn in turns]).tolist()
    system = tuple((n, turn) for n, turn in zip(before, turns, strict=True) if turn[0] == "system")
    others = [turn for turn in turns if turn[0] != "system"]
    question = others.pop()[1] if others and others[-1][0] == "user" else ""
    if not others:
        raise InputError("a chat must have at least one turn before the question, besides system messages")
    text, spans = _joined([f"{role}: {content}" for role, content in others])
    return Sources(text, spans, "turn", tuple(others), system, question)


def _joined(parts: list[str]) -> tuple[str, Any]:
    """Return parts as one text, and their spans (n, 2)."""
    stripped = [part.strip() for part in parts]
    starts = np.cumsum([0, *(len(part) + len(_SEPARATOR) for part in stripped[:-1])])
    return _SEPARATOR.join(stripped), np.stack([starts, starts + [len(part) for part in stripped]], axis=1).astype(np.int64)
