"""Causal language models of Hugging Face: log-probabilities of continuations, and greedy generation.

Sequences that begin alike are packed (`trees`): one pass computes each common beginning once. What all have in common is
computed first, and its keys and values are passed on. Where a model does not take masks of four axes, each sequence is a row of
its own, padded on the right: attention looks back only, so padding changes nothing and needs no mask.
"""

import copy
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from hashlib import blake2b
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DynamicCache, PreTrainedModel, StoppingCriteriaList

from slalom.core.checks import Floats
from slalom.errors import InputError, ModelError, one_line
from slalom.forks import renew_after_fork
from slalom.interrupt import check
from slalom.models.continuation import LanguageModel, finished
from slalom.models.huggingface.fingerprint import identity_of
from slalom.models.huggingface.module import evaluating, memory_errors, to_device, tokens_that_fit
from slalom.models.huggingface.reading import readable
from slalom.models.huggingface.saved import positions, quietly
from slalom.models.huggingface.trees import common, packed, visible
from slalom.models.huggingface.wrappers import additive_mask, arguments, call, plain_logits, unwrapped
from slalom.models.prompts import said
from slalom.models.sources import Prompt

_LOGITS = 2**27  # numbers of float32 that are held at once
_PACK = 512  # tokens; in larger ones attention between sequences costs more than they have in common
_SHARED = 0.1  # share of the tokens of longer sequences that all must have in common: masks cost time and memory
_ROUNDED, _ROUNDED_HALF = 2e-3, 0.5  # differences of log-probabilities by the order of sums, in float32 and half precision
_PROBE = "The quick brown fox jumps over 13 lazy dogs; it isn't bored."


class _Row(NamedTuple):
    """A pack of sequences as a row of a batch."""

    ids: list[int]
    parents: list[int]  # the place of the token before each
    places: list[int]  # where tokens are predicted
    predicted: list[int]  # these tokens
    slots: list[int]  # where their log-probabilities go


@final
class LocalLanguageModel(LanguageModel):
    """A causal language model and its tokenizer.

    Prompt and answer become tokens separately, so that the answer has the same tokens after every prompt.

    Attributes:
        computed: Number of tokens that went through the network so far, padding included.
        packs: Whether sequences are packed; None: where that answers as plain passes do, which is not known yet.
    """

    def __init__(self, model: Any, tokenizer: Any, chat_options: Mapping[str, Any] | None = None) -> None:
        if not callable(getattr(model, "parameters", None)):
            raise InputError(
                f"model must be a causal language model of Hugging Face, its folder or a server; got {type(model).__name__}"
            )
        if not callable(tokenizer):
            raise InputError(f"a language model needs its tokenizer; got {type(tokenizer).__name__}; pass tokenizer=")
        if not isinstance(chat_options, (Mapping, type(None))):
            raise InputError(f"chat_options must be a mapping; got {type(chat_options).__name__}")
        self.model, self.tokenizer, self.chat_options = model, tokenizer, dict(chat_options or {})
        self.base, self.computed = unwrapped(model), 0
        self.chats = bool(getattr(tokenizer, "chat_template", None))
        self.name = Path(str(getattr(self._config, "_name_or_path", "") or type(model).__name__)).name
        self.packs: bool | None = None
        self._lock = threading.RLock()  # a pass hooks the head of the network, which a classifier of the same model may share
        renew_after_fork(self)

    @property
    def _config(self) -> Any:
        return self.base.config.get_text_config() if isinstance(self.base, PreTrainedModel) else None

    @property
    def device(self) -> torch.device:
        return torch.device(next(self.model.parameters()).device)

    # Text and tokens

    def chat(self, messages: list[dict[str, Any]]) -> str:
        """Return chat messages as the tokenizer formats them, up to the answer."""
        if not self.chats:
            raise InputError("a template of messages needs a tokenizer with a chat template; give a string as the template")
        messages = [  # many templates know strings only
            message | {"content": said({"content": parts})} if isinstance(parts := message.get("content"), list) else message
            for message in messages
        ]
        continued, last = messages[-1]["role"] == "assistant", messages[-1].get("content") or ""
        options = {"continue_final_message": True} if continued else {"add_generation_prompt": True}
        try:
            string = str(self.tokenizer.apply_chat_template(messages, tokenize=False, **options, **self.chat_options))
        except Exception as error:  # templates are programs
            raise InputError(
                f"the tokenizer's chat template refuses these messages: {one_line(error)}; give a string as the template"
            ) from error
        blank = last[len(last.rstrip()) :]  # many templates strip it
        return string + blank if continued and not string.endswith(blank) else string

    def _encode(self, text: str, **options: Any) -> Any:
        with readable(text, "sources and answer"):
            return self.tokenizer(text, **options)

    def _prompt(self, prompt: Prompt, reserved: int) -> list[int]:
        """Return a prompt as tokens, with the special tokens of the model, where it fits with so many tokens after it."""
        if isinstance(prompt, str):
            ids = list(self._encode(prompt)["input_ids"])
            if len(ids) > 1 and ids[-1] == self.tokenizer.eos_token_id:  # added by tokenizers that end every text with it
                ids.pop()
        else:
            ids = list(self._encode(self.chat(prompt), add_special_tokens=False)["input_ids"])
        if not ids:
            raise InputError(f"the prompt of {self.name} has no token; add words to the template")
        longest, n = positions(self.model), len(ids) + reserved
        if longest is not None and n > longest:
            raise InputError(
                f"prompt and answer have {n} tokens, and {self.name} reads {longest}; give fewer or shorter sources"
            )
        return ids

    def _answer(self, answer: str, lead: str) -> tuple[list[int], NDArray[np.int64]]:
        """Return the tokens of an answer, and their spans (t, 2) in lead and answer."""
        text, fast = lead + answer, getattr(self.tokenizer, "is_fast", False)
        encoding = self._encode(text, add_special_tokens=False, **{"return_offsets_mapping": True} if fast else {})
        ids = list(encoding["input_ids"])
        if fast:
            return ids, np.array(encoding["offset_mapping"], dtype=np.int64).reshape(-1, 2)
        ends = [min(len(self.tokenizer.decode(ids[: k + 1])), len(text)) for k in range(len(ids))]
        return ids, np.array([[0, *ends[:-1]], ends], dtype=np.int64).T.reshape(-1, 2)

    def tokens(self, answer: str, lead: str) -> NDArray[np.int64]:
        return np.maximum(self._answer(answer, lead)[1] - len(lead), 0)

    def log_probs(self, prompts: Sequence[Prompt], answer: str, lead: str) -> Floats:
        ids = self._answer(answer, lead)[0]
        rows = [self._prompt(prompt, len(ids)) for prompt in prompts]
        with evaluating(self.model, self.device), memory_errors():
            logs = self.token_log_probs(rows, [ids] * len(rows), tokens_that_fit(self.base, self.device))
            return np.asarray(logs.view(len(rows), -1).double().cpu().numpy())

    def generate(self, prompt: Prompt, most: int) -> str:
        return self.write(prompt, most, lambda _: None)

    def write(self, prompt: Prompt, most: int, on_text: Callable[[str], None]) -> str:
        return self._written(prompt, most, on_text, do_sample=False)[0]

    def sample(
        self, prompts: Sequence[Prompt], most: int, count: int, temperature: float = 1.0, seed: int = 0
    ) -> list[list[str]]:
        if not temperature:
            return [[self.generate(prompt, most)] * count for prompt in prompts]
        drawn, cuda = list[list[str]](), [self.device.index or 0] if self.device.type == "cuda" else []
        plain: dict[str, Any] = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
        for prompt in prompts:  # each has a seed of its own, so that samples do not depend on the batch
            digest = blake2b(json.dumps([prompt, seed]).encode(), digest_size=8).digest()
            with torch.random.fork_rng(cuda):
                torch.manual_seed(int.from_bytes(digest) >> 1)
                drawn.append(self._written(prompt, most, num_return_sequences=count, **plain))
        return drawn

    def _written(self, prompt: Prompt, most: int, on_text: Callable[[str], None] | None = None, **options: Any) -> list[str]:
        """Return what the model writes after a prompt, as the options of `generate` say."""
        row = self._prompt(prompt, most)
        ids = torch.tensor([row], device=self.device)
        stated = getattr(getattr(self.base, "generation_config", None), "eos_token_id", None)
        ends, before = {stated} if isinstance(stated, int) else set(stated or ()), ""

        def texts(sequences: torch.Tensor) -> list[str]:
            written = [list(takewhile(lambda token: token not in ends, tokens)) for tokens in sequences[:, len(row) :].tolist()]
            decoded = [str(self.tokenizer.decode(tokens, skip_special_tokens=True)) for tokens in written]
            return [text.rstrip("\ufffd") for text in decoded]  # without a part of a character

        def end(sequences: torch.Tensor, _: Any, **__: Any) -> torch.Tensor:
            """Tell which sequences end with their last token: those that have said a line, after a string."""
            nonlocal before
            check()
            so_far = texts(sequences)
            text = finished(so_far[0], prompt)
            if on_text is not None and text != before:
                on_text(text)
                before = text
            return torch.tensor([isinstance(prompt, str) and "\n" in text.lstrip() for text in so_far], device=sequences.device)

        options |= {"max_new_tokens": most, "num_beams": 1, "stopping_criteria": StoppingCriteriaList([end])}
        try:
            with self._lock, quietly(), evaluating(self.model, self.device), memory_errors():
                output = self.model.generate(ids, attention_mask=torch.ones_like(ids), **options)
        except MemoryError as error:
            raise ModelError(
                f"a prompt of {len(row)} tokens and its answer do not fit into the memory of {self.name}; use a larger device,"
                " a smaller model or fewer sources"
            ) from error
        return [finished(text, prompt) for text in texts(output)]

    def identity(self) -> str:
        tokenizer = self.tokenizer
        read = getattr(tokenizer, "chat_template", None), self.chat_options, list(tokenizer(_PROBE)["input_ids"])
        return f"{identity_of(self.model)} {read!r}"

    # Log-probabilities

    def token_log_probs(
        self, prompts: Sequence[Sequence[int]], continuations: Sequence[Sequence[int]], batch_tokens: int
    ) -> torch.Tensor:
        """Return the log-probabilities of the tokens of all continuations, one after another, on the device.

        It is called while the model is evaluated, and waits for no GPU.

        Args:
            prompts: The prompts, of at least one token.
            continuations: A continuation of each.
            batch_tokens: Tokens per pass, at most.
        """
        pairs = [(list(p), list(c)) for p, c in zip(prompts, continuations, strict=True)]
        longest = max((len(p) + len(c) for p, c in pairs), default=0)
        with self._lock:
            if self.packs is None and longest > 1:
                self.packs = self._packs_agree(max(pairs, key=lambda pair: len(pair[0])))
            windowed = self._window is not None and longest > self._window
            if not self.packs or windowed or not _worth_packing([prompt for prompt, _ in pairs]):
                return self._logs(pairs, batch_tokens, 0)
            pack_tokens = min(_PACK, batch_tokens)  # padding costs, and a CPU gains nothing from several packs in a pass
            return self._logs(pairs, batch_tokens if self.device.type == "cuda" else pack_tokens, pack_tokens)

    @property
    def _window(self) -> int | None:
        """The sliding window of attention, in tokens; None where all layers see everything before."""
        if getattr(self._config, "use_sliding_window", True) is False:
            return None
        sizes = [getattr(self._config, name, None) for name in ("sliding_window", "attention_chunk_size", "window_size")]
        return min([size for size in sizes if isinstance(size, int) and size > 0], default=None)

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
        slots = np.cumsum([0, *(len(continuation) for _, continuation in asked)]).tolist()
        total, packs, targets, parts = slots[-1], list[_Row](), list[torch.Tensor](), list[torch.Tensor]()
        for pack in packed([row[start:] for row in rows], pack_tokens):
            places = [place for number, path in pack.paths.items() for place in path[len(asked[number][0]) - 1 - start :]]
            tokens = [token for number in pack.paths for token in asked[number][1]]
            into = [slot for number in pack.paths for slot in range(slots[number], slots[number + 1])]
            packs.append(_Row(pack.tokens, pack.parents, places, tokens, into))
        for batch in self._batches(sorted(packs, key=lambda row: -len(row.ids)), batch_tokens):
            parents = self._tensor([row.parents for row in batch], -1) if pack_tokens else None
            filler = int(getattr(self._config, "pad_token_id", None) == 0)  # transformers warns about the padding token
            ids, at = self._tensor([row.ids for row in batch], filler), self._tensor([row.places for row in batch])
            logits = self._forward(ids, at, parents, past)
            predicted = self._tensor([row.predicted for row in batch]).to(logits.device)
            parts.append((logits.gather(2, predicted[..., None])[..., 0] - logits.logsumexp(2)).flatten())
            targets.append(self._tensor([row.slots for row in batch], total).to(logits.device).flatten())
        if not parts:
            return torch.zeros(0)
        values = torch.cat(parts)
        return values.new_zeros(total + 1).index_copy(0, torch.cat(targets), values)[:total]

    def _batches(self, rows: list[_Row], most: int) -> Iterator[list[_Row]]:
        """Yield rows, longest first, in batches of so many tokens, and of logits that fit into memory."""
        vocabulary = int(getattr(self._config, "vocab_size", None) or 50_000)
        batch, width = list[_Row](), 0
        for row in rows:
            n, wider = len(batch) + 1, max(width, len(row.places))
            if batch and (n * len(batch[0].ids) > most or n * wider * vocabulary > _LOGITS):
                yield batch
                batch, wider = [], len(row.places)
            batch.append(row)
            width = wider
        if batch:
            yield batch

    def _tensor(self, rows: list[list[int]], filler: int = 0) -> torch.Tensor:
        table = np.full((len(rows), max(map(len, rows))), filler, dtype=np.int64)
        for row, numbers in zip(table, rows, strict=True):
            row[: len(numbers)] = numbers
        return to_device(torch.from_numpy(table), self.device)

    @cached_property
    def _arguments(self) -> dict[str, Any]:
        return arguments(self.model)

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
            more["attention_mask"] = additive_mask(self.model, torch.nn.functional.pad(~seen, (width, 0))[:, None])
        with self._only(places, ids.shape) as chosen:
            answer = call(self.model, self._arguments, ids, **more)
        logits = plain_logits(answer)
        if not isinstance(logits, torch.Tensor) or logits.ndim != 3:
            got = type(answer).__name__ if logits is None else tuple(logits.shape)
            raise ModelError(
                f"a language model must answer with logits of shape (n, tokens, vocabulary); got {got}"
                " (load it with AutoModelForCausalLM)"
            )
        return logits if chosen else logits.gather(1, places[..., None].expand(-1, -1, logits.shape[-1]))

    @cached_property
    def _head(self) -> torch.nn.Module | None:
        """The module that turns hidden states into logits, where it can be found and hooked."""
        if not isinstance(self.base, PreTrainedModel) or hasattr(self.model, "_orig_mod"):  # compiled code ignores new hooks
            return None
        head = self.base.get_output_embeddings()  # type: ignore[no-untyped-call]
        return head if isinstance(head, torch.nn.Module) else None

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

        hook = None if self._head is None else self._head.register_forward_pre_hook(choose)
        try:
            yield done
        finally:
            if hook is not None:
                hook.remove()


def _worth_packing(prompts: list[list[int]]) -> bool:
    """Return whether packs save enough: of short prompts, or of long ones that have enough in common."""
    mean = sum(map(len, prompts)) / max(len(prompts), 1)
    return mean <= _PACK or common(min(prompts), max(prompts)) >= _SHARED * mean
