"""What a user gives, as parts that can be removed: a context as its sources, and a language model."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from slalom.core.checks import check_choice
from slalom.errors import InputError, require
from slalom.models.continuation import LanguageModel
from slalom.models.prompts import chat_messages, said
from slalom.models.sources import Messages, Sources
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
        return _chat(chat_messages(context))
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


def _chat(messages: list[Mapping[str, Any]]) -> Sources:
    """Return the turns of a chat; its system messages and its question stay in their places.

    The question is the last message, or the last of the user where the chat ends with the answer of a tool.
    """
    asks = [i for i, message in enumerate(messages) if message["role"] == "user"]
    ends = [message["role"] for message in messages if message["role"] != "system"][-1:]
    asked = asks[-1] if asks and ends in (["user"], ["tool"]) else None
    fixed, turns = list[tuple[int, Mapping[str, Any]]](), list[Messages]()
    for i, message in enumerate(messages):
        if message["role"] == "system" or i == asked:
            fixed.append((len(turns), message))
        elif message["role"] == "tool" and turns and turns[-1][0].get("tool_calls") and messages[i - 1] is turns[-1][-1]:
            turns[-1] = (*turns[-1], message)  # servers and templates refuse a call without its answers
        else:
            turns.append((message,))
    if not turns:
        raise InputError("a chat must have at least one turn before the question, besides system messages")
    text, spans = _joined(["\n".join(f"{message['role']}: {said(message)}" for message in turn) for turn in turns])
    return Sources(text, spans, "turn", tuple(turns), tuple(fixed), "" if asked is None else said(messages[asked]))


def _joined(parts: list[str]) -> tuple[str, Any]:
    """Return parts as one text, and their spans (n, 2)."""
    stripped = [part.strip() for part in parts]
    starts = np.cumsum([0, *(len(part) + len(_SEPARATOR) for part in stripped[:-1])])
    return _SEPARATOR.join(stripped), np.stack([starts, starts + [len(part) for part in stripped]], axis=1).astype(np.int64)
