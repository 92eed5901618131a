"""Causal language models of Hugging Face: log-probabilities of continuations, and greedy generation.

Sequences that begin alike are packed (`trees`): one pass computes each common beginning once. What all have in common is
computed first, and its keys and values are passed on. Where a model does not take masks of four axes, each sequence is a row of
its own, padded on the right: attention looks back only, so padding changes nothing and needs no mask.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DynamicCache, PreTrainedModel

from slalom.core.checks import Floats
from slalom.errors import InputError, ModelError, one_line
from slalom.models.huggingface.module import evaluating, memory_errors, tokens_that_fit
from slalom.models.huggingface.staging import to_device
from slalom.models.huggingface.trees import Pack, common, packed, visible
from slalom.models.huggingface.wrappers import arguments, ids_by_keyword, unwrapped

_LOGITS = 2**27  # numbers of float32 that are held at once
_PACK = 512  # tokens; in larger ones attention between sequences costs more than they have in common
_ROUNDED, _ROUNDED_HALF = 2e-3, 0.5  # differences of log-probabilities by the order of sums, in float32 and half precision


@final
class CausalLM:
    """A causal language model and its tokenizer.

    Args:
        model: A model with a language-modelling head, on its device.
        tokenizer: Its tokenizer.
        chat_options: Further arguments for the tokenizer's `apply_chat_template`, such as ``{"enable_thinking": False}``.

    Attributes:
        computed: Number of tokens that went through the network so far, padding included.
    """

    def __init__(self, model: Any, tokenizer: Any, chat_options: Mapping[str, Any] | None = None) -> None:
        if not isinstance(chat_options, (Mapping, type(None))):
            raise InputError(f"chat_options must be a mapping; got {type(chat_options).__name__}")
        self.model, self.tokenizer, self.chat_options = model, tokenizer, dict(chat_options or {})
        self.base, self.computed = unwrapped(model), 0
        self._packs: bool | None = None  # whether packs answer as plain passes; not known yet

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
    def _filler(self) -> int:
        """A token after the end of rows; not the padding token, about which transformers warns."""
        config: Any = self.base.config.get_text_config() if isinstance(self.base, PreTrainedModel) else None
        return int(getattr(config, "pad_token_id", None) == 0)

    @property
    def _window(self) -> int | None:
        """The sliding window of attention, in tokens; None where all layers see everything before."""
        config: Any = self.base.config.get_text_config() if isinstance(self.base, PreTrainedModel) else None
        if getattr(config, "use_sliding_window", True) is False:
            return None
        sizes = [getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size", "window_size")]
        return min([size for size in sizes if isinstance(size, int) and size > 0], default=None)

    def _forward(
        self,
        ids: torch.Tensor,
        places: torch.Tensor,
        parents: torch.Tensor | None = None,
        past: DynamicCache | None = None,
        keep: DynamicCache | None = None,
    ) -> torch.Tensor:
        """Return the logits at some places (rows, k) only, of packs whose tokens follow their parents, or of plain rows."""
        self.computed += ids.numel()
        more: dict[str, Any] = {"use_cache": False} if "use_cache" in self._arguments else {}
        if keep is not None:
            more = {"past_key_values": keep, "use_cache": True}
        if parents is not None:
            seen = visible(parents)
            width = 0
            if past is not None:
                more = {"past_key_values": copy.deepcopy(past), "use_cache": True}
                more["past_key_values"].batch_repeat_interleave(len(ids))
                width = past.get_seq_length()
            more["position_ids"] = seen.sum(dim=2) + (width - 1)
            number = next(p.dtype for p in self.model.parameters() if p.is_floating_point())
            hidden = torch.nn.functional.pad(~seen, (width, 0))[:, None]
            more["attention_mask"] = hidden.to(number) * torch.finfo(number).min
        with self._only(places, ids.shape) as chosen:
            answer = self.model(input_ids=ids, **more) if ids_by_keyword(self._arguments) else self.model(ids, **more)
        logits = getattr(answer, "logits", None)
        if not isinstance(logits, torch.Tensor) or logits.ndim != 3:
            got = type(answer).__name__ if logits is None else tuple(logits.shape)
            raise ModelError(
                f"a language model must answer with logits of shape (n, tokens, vocabulary); got {got}"
                " (load it with AutoModelForCausalLM)"
            )
        return logits if chosen else logits.gather(1, places[..., None].expand(-1, -1, logits.shape[-1]))

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
        self, prompts: Sequence[Sequence[int]], continuations: Sequence[Sequence[int]], batch_tokens: int | None = None
    ) -> list[Floats]:
        """Return the log-probability of each token of a continuation, given its prompt and the tokens before it."""
        if not all(len(prompt) for prompt in prompts):
            raise InputError("a prompt must have at least one token; begin it with the tokenizer's bos token")
        most = batch_tokens or tokens_that_fit(self.base, self.device)
        with evaluating(self.model, self.device), memory_errors():
            logs = self.token_log_probs(prompts, continuations, most).double().cpu().numpy()
        return np.split(logs, np.cumsum([len(tokens) for tokens in continuations])[:-1])

    def token_log_probs(
        self,
        prompts: Sequence[Sequence[int]],
        continuations: Sequence[Sequence[int]],
        batch_tokens: int,
        packs: bool = True,
    ) -> torch.Tensor:
        """Return the log-probabilities of the tokens of all continuations, one after another, on the device.

        It is called while the model is evaluated, and waits for no GPU.

        Args:
            prompts: The prompts, of at least one token.
            continuations: A continuation of each.
            batch_tokens: Tokens per pass, at most.
            packs: Whether common beginnings are computed once, where the model can.
        """
        pairs = [(list(p), list(c)) for p, c in zip(prompts, continuations, strict=True)]
        longest = max((len(p) + len(c) for p, c in pairs), default=0)
        if packs and self._packs is None and longest > 1:
            self._packs = self._packs_agree(max(pairs, key=lambda pair: len(pair[0])))
        if not packs or not self._packs or (self._window is not None and longest > self._window):
            return self._logs(pairs, batch_tokens, 0)
        pack_tokens = min(_PACK, batch_tokens)  # padding costs, and a CPU gains nothing from several packs in a pass
        return self._logs(pairs, batch_tokens if self.device.type == "cuda" else pack_tokens, pack_tokens)

    def _packs_agree(self, pair: tuple[list[int], list[int]]) -> bool:
        """Return whether packs give the same log-probabilities as plain passes, up to what the dtype rounds."""
        row = ([*pair[0], *pair[1]] * 16)[:16]
        pairs = [(row[:8], row[8:]), ([*row[:6], *row[7:10]], row[10:]), ([*row[:6], *row[9:12]], row[12:])]
        half = next(self.model.parameters()).dtype in (torch.float16, torch.bfloat16)
        plain = self._logs(pairs, 1000, 0)
        try:
            difference = float((self._logs(pairs, 20, 20) - plain).abs().max())
        except Exception:  # models fail in many ways on what they do not support
            return False
        return difference <= (_ROUNDED_HALF if half else _ROUNDED)

    def _logs(self, pairs: list[tuple[list[int], list[int]]], batch_tokens: int, pack_tokens: int) -> torch.Tensor:
        """Return the log-probabilities of continuations by packs of so many tokens, at most; 0: by plain rows."""
        asked = [pair for pair in pairs if pair[1]]
        rows = [[*prompt, *continuation[:-1]] for prompt, continuation in asked]
        start, past = 0, None
        if pack_tokens and sum(map(len, rows)) > pack_tokens:
            start = min(common(min(rows), max(rows)), *(len(prompt) - 1 for prompt, _ in asked))
        if start:
            past, ids = DynamicCache(), self._tensor([rows[0][:start]])
            self._forward(ids, torch.zeros_like(ids[:, :1]), keep=past)
        packs = sorted(packed([row[start:] for row in rows], pack_tokens), key=lambda pack: -len(pack.tokens))
        wanted = [len(prompt) - 1 - start for prompt, _ in asked]  # the place before the first token of a continuation
        begins: dict[int, int] = {}  # where the log-probabilities of each continuation begin
        parts, total = [], 0
        for batch in self._batches(packs, wanted, batch_tokens):
            places, tokens = [], []
            for pack in batch:
                places.append([place for number, path in pack.paths.items() for place in path[wanted[number] :]])
                tokens.append([token for number in pack.paths for token in asked[number][1]])
            width = max(map(len, places))
            for row, pack in enumerate(batch):
                begin = total + row * width
                for number in pack.paths:
                    begins[number], begin = begin, begin + len(asked[number][1])
            total += len(batch) * width
            at, chosen = self._tensor(places), self._tensor(tokens)
            parents = self._tensor([pack.parents for pack in batch], -1) if pack_tokens else None
            logits = self._forward(self._tensor([pack.tokens for pack in batch], self._filler), at, parents, past)
            parts.append(chosen_log_probs(logits, chosen.to(logits.device)[..., None]).flatten())
        if not parts:
            return torch.zeros(0)
        order = [begins[number] + i for number, (_, tokens) in enumerate(asked) for i in range(len(tokens))]
        logs = torch.cat(parts)
        return logs[to_device(torch.tensor(order), logs.device)]

    def _batches(self, packs: list[Pack], wanted: list[int], most: int) -> Iterator[list[Pack]]:
        """Yield packs, longest first, in batches of so many tokens, and of logits that fit into memory."""
        vocabulary = int(getattr(getattr(self.base, "config", None), "vocab_size", None) or 50_000)
        batch, places = list[Pack](), 0
        for pack in packs:
            new = max(places, sum(len(path) - wanted[number] for number, path in pack.paths.items()))
            rows = len(batch) + 1
            if batch and (rows * len(batch[0].tokens) > most or rows * new * vocabulary > _LOGITS):
                yield batch
                batch, new = [], sum(len(path) - wanted[number] for number, path in pack.paths.items())
            batch.append(pack)
            places = new
        if batch:
            yield batch

    def _tensor(self, rows: list[list[int]], filler: int = 0) -> torch.Tensor:
        """Return rows, padded on the right, on the device."""
        table = np.full((len(rows), max(map(len, rows))), filler, dtype=np.int64)
        for row, numbers in zip(table, rows, strict=True):
            row[: len(numbers)] = numbers
        return to_device(torch.from_numpy(table), self.device)

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
