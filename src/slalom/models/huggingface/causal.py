"""Causal language models of Hugging Face: log-probabilities of continuations, and greedy generation.

Rows of a batch are padded on the right. Attention looks back only, so padding changes nothing and needs no mask. A row may
begin with keys and values that were computed before (`Past`); then a mask says how many of them are its own:

    keys        past 0 1 2 3 4 | new 0 1 2
    row a       1 1 1 1 1        1 1 1         begins with 5 tokens of the past, 3 new ones
    row b       1 1 0 0 0        1 1 0         begins with 2 tokens of the past, 2 new ones and padding

Positions are passed on, so that the gap is none for the model. Sliding windows count keys, so there the gap must be inside of
the window.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DynamicCache, PreTrainedModel

from slalom.core.checks import Floats
from slalom.errors import InputError, ModelError, one_line
from slalom.models.huggingface.module import evaluating, memory_errors, tokens_that_fit
from slalom.models.huggingface.wrappers import arguments, ids_by_keyword, unwrapped

_LOGITS = 2**27  # numbers of float32 that are held at once
_ROUNDED, _ROUNDED_HALF = 2e-3, 0.5  # differences of log-probabilities by the order of sums, in float32 and half precision
Layers = dict[int, tuple[torch.Tensor, torch.Tensor]]


class Past(NamedTuple):
    """Keys and values of rows that were computed.

    Attributes:
        layers: Keys and values by layer, (rows, heads, width, size) each.
        width: Their number of tokens.
    """

    layers: Layers
    width: int


class Forward(NamedTuple):
    """What a forward pass has computed.

    Attributes:
        logits: Logits at the chosen places, (rows, places, vocabulary).
        past: Keys and values of all rows, where they were to be kept.
    """

    logits: torch.Tensor
    past: Past | None


@final
class LentCache(DynamicCache):
    """A cache whose rows begin with tokens of several pasts. It stores the new ones only where they are to be kept.

    Args:
        sources: Pasts in the order of the rows of the batch, with how often each of their rows is repeated.
        width: How many of their tokens are used, at most; what a past lacks is filled with zeros.
        keep: Whether to keep what is computed.
    """

    def __init__(self, sources: Sequence[tuple[Past, int]], width: int, keep: bool) -> None:
        super().__init__()
        self.sources, self.width, self.keep = sources, width, keep
        self.kept: Layers = {}

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return all keys and values of a layer: those of the pasts, and the new ones."""
        joined = self._joined(key_states, layer_idx, 0), self._joined(value_states, layer_idx, 1)
        if self.keep:
            self.kept[layer_idx] = joined
        return joined

    def _joined(self, new: torch.Tensor, layer: int, which: int) -> torch.Tensor:
        if not self.width:
            return new
        rows, heads, length, size = new.shape
        whole = new.new_empty(rows, heads, self.width + length, size)
        whole[:, :, self.width :] = new
        at = 0
        for past, repeats in self.sources:
            old = past.layers[layer][which]
            n, width = len(old), min(past.width, self.width)
            part = whole[at : at + n * repeats].view(n, repeats, heads, self.width + length, size)
            part[:, :, :, :width] = old[:, None, :, :width]
            part[:, :, :, width : self.width] = 0
            at += n * repeats
        return whole

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the number of tokens of the pasts."""
        return self.width

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        """Return the number of keys that new tokens attend to, and the first of them."""
        return self.width + query_length, 0


@final
class CausalLM:
    """A causal language model and its tokenizer.

    Args:
        model: A model with a language-modelling head, on its device.
        tokenizer: Its tokenizer.
        chat_options: Further arguments for the tokenizer's `apply_chat_template`, such as ``{"enable_thinking": False}``.

    Attributes:
        lends: Whether every pass gets a cache, an empty one where there is no past. Without one transformers (5.22) looks for
            several texts in one row, and waits for the GPU to tell.
    """

    def __init__(self, model: Any, tokenizer: Any, chat_options: Mapping[str, Any] | None = None) -> None:
        if not isinstance(chat_options, (Mapping, type(None))):
            raise InputError(f"chat_options must be a mapping; got {type(chat_options).__name__}")
        self.model, self.tokenizer, self.chat_options = model, tokenizer, dict(chat_options or {})
        self.base, self.lends = unwrapped(model), False

    def chat(self, messages: list[dict[str, str]]) -> str:
        """Return chat messages as the tokenizer formats them, up to the answer."""
        if getattr(self.tokenizer, "chat_template", None) is None:
            raise InputError("a template of messages needs a tokenizer with a chat template; give a string as the template")
        continued, last = messages[-1]["role"] == "assistant", messages[-1]["content"]
        options = {"continue_final_message": True} if continued else {"add_generation_prompt": True}
        try:
            string = str(self.tokenizer.apply_chat_template(messages, tokenize=False, **options, **self.chat_options))
        except Exception as error:  # templates are programs
            raise InputError(
                f"the tokenizer's chat template refuses these messages: {one_line(error)}; give a string as the template"
            ) from error
        blank = last[len(last.rstrip()) :]  # many templates strip it
        return string + blank if continued and not string.endswith(blank) else string

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return torch.device(next(self.model.parameters()).device)

    @cached_property
    def _arguments(self) -> dict[str, Any]:
        return arguments(self.model)

    @cached_property
    def _head(self) -> torch.nn.Module | None:
        """The module that turns hidden states into logits, where it can be found and hooked."""
        if not isinstance(self.base, PreTrainedModel) or hasattr(self.model, "_orig_mod"):  # compiled code ignores new hooks
            return None
        head = self.base.get_output_embeddings()  # type: ignore[no-untyped-call]
        return head if isinstance(head, torch.nn.Module) else None

    @property
    def filler(self) -> int:
        """A token after the end of rows; not the padding token, about which transformers warns."""
        config: Any = self.base.config.get_text_config() if isinstance(self.base, PreTrainedModel) else None
        return int(getattr(config, "pad_token_id", None) == 0)

    @property
    def window(self) -> int | None:
        """The sliding window of attention, in tokens; None where all layers see everything before."""
        config: Any = self.base.config.get_text_config() if isinstance(self.base, PreTrainedModel) else None
        if getattr(config, "use_sliding_window", True) is False:
            return None
        sizes = [getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size", "window_size")]
        return min([size for size in sizes if isinstance(size, int) and size > 0], default=None)

    @property
    def takes_past(self) -> bool:
        """Whether the forward pass takes keys and values that were computed before."""
        return {"past_key_values", "attention_mask", "use_cache"} <= self._arguments.keys()

    def agrees(self, plain: Floats, again: Callable[[], Floats]) -> bool:
        """Return whether another way to compute log-probabilities gives the same ones, up to what the dtype rounds."""
        half = next(self.model.parameters()).dtype in (torch.float16, torch.bfloat16)
        try:
            return bool(np.allclose(plain, again(), rtol=0.0, atol=_ROUNDED_HALF if half else _ROUNDED))
        except Exception:  # models fail in many ways on what they do not support
            return False

    def forward(
        self,
        ids: torch.Tensor,
        places: torch.Tensor,
        sources: Sequence[tuple[Past, int]] = (),
        seen: torch.Tensor | None = None,
        lengths: torch.Tensor | None = None,
        keep: bool = False,
    ) -> Forward:
        """Run the model over new tokens, and compute logits at some of them only."""
        more: dict[str, Any] = {"use_cache": False} if "use_cache" in self._arguments else {}
        width = max((past.width for past, _ in sources), default=0) if seen is None else seen.shape[1]
        lent: LentCache | None = None
        if sources or keep or self.lends:
            lent = LentCache(sources, width, keep)
            more |= {"past_key_values": lent, "use_cache": True}
        if seen is not None:
            new = torch.arange(ids.shape[1], device=ids.device).expand(len(ids), -1)
            valid = torch.ones_like(new, dtype=torch.bool) if lengths is None else new < lengths[:, None]
            more["attention_mask"] = torch.cat([seen, valid], dim=1).long()
            if "position_ids" in self._arguments:
                more["position_ids"] = seen.sum(dim=1, keepdim=True) + new
        with self._only(places, ids.shape) as chosen:
            answer = self.model(input_ids=ids, **more) if ids_by_keyword(self._arguments) else self.model(ids, **more)
        logits = getattr(answer, "logits", None)
        if not isinstance(logits, torch.Tensor) or logits.ndim != 3:
            got = type(answer).__name__ if logits is None else tuple(logits.shape)
            raise ModelError(
                f"a language model must answer with logits of shape (n, tokens, vocabulary); got {got}"
                " (load it with AutoModelForCausalLM)"
            )
        if not chosen:
            logits = logits.gather(1, places[..., None].expand(-1, -1, logits.shape[-1]))
        kept = Past(lent.kept, width + ids.shape[1]) if lent is not None and keep else None
        return Forward(logits, kept)

    @contextmanager
    def _only(self, places: torch.Tensor, shape: torch.Size) -> Iterator[list[bool]]:
        """Let the head compute chosen places (rows, k) only; yields a list that is not empty once it did."""
        done: list[bool] = []

        def choose(_: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
            hidden = inputs[0] if inputs else None
            if not isinstance(hidden, torch.Tensor) or hidden.shape[:2] != shape:
                return None
            done.append(True)
            at = places.to(hidden.device)[..., None].expand(-1, -1, hidden.shape[-1])
            return (hidden.gather(1, at), *inputs[1:])

        if self._head is None:
            yield done
            return
        hook = self._head.register_forward_pre_hook(choose)
        try:
            yield done
        finally:
            hook.remove()

    def log_probs(
        self,
        prompts: Sequence[Sequence[int]],
        continuations: Sequence[Sequence[int]],
        batch_tokens: int | None = None,
        *,
        reuse: bool = False,
    ) -> list[Floats]:
        """Return the log-probability of each token of a continuation, given its prompt and the tokens before it."""
        if not all(len(prompt) for prompt in prompts):
            raise InputError("a prompt must have at least one token; begin it with the tokenizer's bos token")
        results = [np.zeros(0) for _ in prompts]
        rows = [[*prompt, *continuation] for prompt, continuation in zip(prompts, continuations, strict=True)]
        order = sorted((i for i, tokens in enumerate(continuations) if len(tokens)), key=lambda i: -len(rows[i]))
        most = batch_tokens or tokens_that_fit(self.base, self.device)
        vocabulary = int(getattr(getattr(self.base, "config", None), "vocab_size", None) or 50_000)
        with evaluating(self.model, self.device), memory_errors():
            past = self._shared_past([prompts[i] for i in order]) if reuse and len(order) > 1 else None
            while order:
                length, k, longest = len(rows[order[0]]), 0, 0
                for i in order:  # as many as fit: tokens of the longest row, logits of the longest continuation
                    longest = max(longest, len(continuations[i]))
                    if k and ((k + 1) * length > most or (k + 1) * longest * vocabulary > _LOGITS):
                        break
                    k += 1
                batch, order = order[:k], order[k:]
                for i, found in zip(
                    batch, self._continued([rows[i] for i in batch], [continuations[i] for i in batch], past), strict=True
                ):
                    results[i] = found
        return results

    def _shared_past(self, prompts: list[Sequence[int]]) -> Past | None:
        """Return the keys and values of what all prompts begin with, without their last tokens; None for no common token."""
        first, least = prompts[0], min(map(len, prompts)) - 1
        n = next((i for i in range(least) if any(prompt[i] != first[i] for prompt in prompts)), least)
        if n < 1:
            return None
        ids = torch.tensor([list(first[:n])], device=self.device)
        return self.forward(ids, torch.zeros_like(ids[:, :1]), keep=True).past

    def _continued(
        self, rows: list[list[int]], continuations: list[Sequence[int]], past: Past | None = None
    ) -> Iterator[Floats]:
        """Yield the log-probabilities of the last tokens of rows, which all begin with a past."""
        if past is not None:
            rows = [row[past.width :] for row in rows]
        sizes, length, longest = [len(c) for c in continuations], max(map(len, rows)), max(map(len, continuations))
        ids, places = np.full((len(rows), length), self.filler), np.zeros((len(rows), longest), dtype=np.int64)
        wanted = np.zeros((len(rows), longest), dtype=np.int64)
        for i, (row, n) in enumerate(zip(rows, sizes, strict=True)):
            ids[i, : len(row)] = row
            places[i, :n] = np.arange(len(row) - n - 1, len(row) - 1)
            wanted[i, :n] = row[len(row) - n :]
        to = self.device
        sources, seen, lengths = [], None, None
        if past is not None:
            sources, lengths = [(past, len(rows))], torch.tensor([len(row) for row in rows], device=to)
            seen = torch.ones((len(rows), past.width), dtype=torch.bool, device=to)
        logits = self.forward(torch.from_numpy(ids).to(to), torch.from_numpy(places).to(to), sources, seen, lengths).logits
        found = chosen_log_probs(logits, torch.from_numpy(wanted).to(logits.device)[..., None])[..., 0].double().cpu().numpy()
        return (found[i, :n] for i, n in enumerate(sizes))

    def generate(self, prompt: Sequence[int], most: int) -> NDArray[np.int64]:
        """Return the most probable continuation, token by token, without the end-of-text token."""
        ids = torch.tensor([list(prompt)], device=self.device)
        with evaluating(self.model, self.device), memory_errors():
            answer = self.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=most, do_sample=False)
        tokens = np.asarray(answer[0, len(prompt) :].cpu().numpy())
        stated = getattr(getattr(self.base, "generation_config", None), "eos_token_id", None)
        ends = [stated] if isinstance(stated, int) else list(stated or ())
        stops = np.flatnonzero(np.isin(tokens, ends))
        return tokens[: stops[0]] if len(stops) else tokens


def chosen_log_probs(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return log softmax(logits)[tokens] in float32 at least, a bounded number of rows at a time."""
    rows = max(_LOGITS // max(logits.shape[1] * logits.shape[2], 1), 1)
    parts = []
    for start in range(0, len(logits), rows):
        part = logits[start : start + rows]
        part = part.float() if part.dtype in (torch.float16, torch.bfloat16) else part
        parts.append(part.gather(2, tokens[start : start + rows]) - torch.logsumexp(part, dim=2, keepdim=True))
    return torch.cat(parts)
