"""Causal language models of Hugging Face that answer questions: prompts and answers as tokens."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats
from slalom.errors import InputError, ModelError
from slalom.models.continuation import LanguageModel
from slalom.models.huggingface.causal import CausalLM
from slalom.models.huggingface.fingerprint import identity_of
from slalom.models.huggingface.saved import positions, quietly
from slalom.models.readable import readable
from slalom.models.sources import Prompt

_PROBE = "The quick brown fox jumps over 13 lazy dogs; it isn't bored."


@final
class LocalLanguageModel(LanguageModel):
    """A causal language model and its tokenizer.

    Prompt and answer become tokens separately, so that the answer has the same tokens after every prompt.

    Args:
        model: A model with a language-modelling head, on its device; its mode (training or not) is left as it is.
        tokenizer: Its tokenizer.
        chat_options: Further arguments for the tokenizer's `apply_chat_template`, such as ``{"enable_thinking": False}``.

    Raises:
        InputError: It is no language model, or there is no tokenizer.
    """

    def __init__(self, model: Any, tokenizer: Any, chat_options: Mapping[str, Any] | None = None) -> None:
        if not callable(getattr(model, "generate", None)) or not callable(getattr(model, "parameters", None)):
            raise InputError(
                f"model must be a causal language model of Hugging Face, its folder or a server; got {type(model).__name__}"
            )
        if not callable(tokenizer):
            raise InputError(f"a language model needs its tokenizer; got {type(tokenizer).__name__}; pass tokenizer=")
        self.causal = CausalLM(model, tokenizer, chat_options)
        self.chats = bool(getattr(tokenizer, "chat_template", None))
        path = str(getattr(getattr(model, "config", None), "_name_or_path", "") or "")
        self.name = Path(path).name or type(model).__name__
        self._longest = positions(model)

    def tokens(self, answer: str, lead: str) -> NDArray[np.int64]:
        spans = self._answer(answer, lead)[1] - len(lead)
        return np.maximum(spans, 0)

    def log_probs(self, prompts: Sequence[Prompt], answer: str, lead: str) -> Floats:
        ids = [self._prompt(prompt) for prompt in prompts]
        continuation = self._answer(answer, lead)[0]
        self._check_length(max(map(len, ids)) + len(continuation))
        return np.stack(self.causal.log_probs(ids, [continuation] * len(ids)))

    def generate(self, prompt: Prompt, most: int) -> str:
        ids = self._prompt(prompt)
        self._check_length(len(ids) + most)
        try:
            with quietly():
                answer = self.causal.generate(ids, most)
        except MemoryError as error:
            raise ModelError(
                f"a prompt of {len(ids)} tokens and its answer do not fit into the memory of {self.name}; use a larger device,"
                " a smaller model or fewer sources"
            ) from error
        text = str(self.causal.tokenizer.decode(answer, skip_special_tokens=True)).strip()
        return text.partition("\n")[0].strip() if isinstance(prompt, str) else text

    def identity(self) -> str:
        tokenizer = self.causal.tokenizer
        read = getattr(tokenizer, "chat_template", None), self.causal.chat_options, list(tokenizer(_PROBE)["input_ids"])
        return f"{identity_of(self.causal.model)} {read!r}"

    def _prompt(self, prompt: Prompt) -> list[int]:
        """Return a prompt as tokens, with the special tokens of the model."""
        tokenizer = self.causal.tokenizer
        if isinstance(prompt, str):
            ids = list(self._encoded(prompt)["input_ids"])
            if len(ids) > 1 and ids[-1] == tokenizer.eos_token_id:  # added by tokenizers that end every text with it
                ids.pop()
        else:
            ids = list(self._encoded(self.causal.chat(prompt), add_special_tokens=False)["input_ids"])
        if not ids:
            raise InputError(f"the prompt of {self.name} has no token; add words to the template")
        return ids

    def _answer(self, answer: str, lead: str) -> tuple[list[int], NDArray[np.int64]]:
        """Return the tokens of an answer, and their spans (t, 2) in lead and answer."""
        tokenizer, text = self.causal.tokenizer, lead + answer
        if getattr(tokenizer, "is_fast", False):
            encoded = self._encoded(text, add_special_tokens=False, return_offsets_mapping=True)
            return list(encoded["input_ids"]), np.array(encoded["offset_mapping"], dtype=np.int64).reshape(-1, 2)
        ids = list(self._encoded(text, add_special_tokens=False)["input_ids"])
        ends = [min(len(tokenizer.decode(ids[: k + 1])), len(text)) for k in range(len(ids))]
        return ids, np.array([[0, *ends[:-1]], ends], dtype=np.int64).T.reshape(-1, 2)

    def _encoded(self, text: str, **options: Any) -> Any:
        """Return what the tokenizer makes of a text."""
        with readable(text, "sources and answer"):
            return self.causal.tokenizer(text, **options)

    def _check_length(self, n: int) -> None:
        if self._longest is not None and n > self._longest:
            raise InputError(
                f"prompt and answer have {n} tokens, and {self.name} reads {self._longest}; give fewer or shorter sources"
            )
