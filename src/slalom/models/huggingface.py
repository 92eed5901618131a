"""Hugging Face sequence classifiers, and any torch module that turns token ids into logits.

A text is the tokenizer's own: special tokens are those that the tokenizer puts around a text, and are there in every input; the
tokens between them are the atoms. Inputs of one batch have one length, so no padding token, padding side or attention mask
comes into play. The model is left as it was found: weights, dtype, device, training flags, configuration.
"""

import inspect
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property, lru_cache, partial
from typing import Any, Literal, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from slalom.errors import InputError, ModelError
from slalom.models.fingerprint import identity_of
from slalom.models.model import Group, Head, Model, Reading
from slalom.models.saved import positions
from slalom.models.staging import Coming, to_device, to_host

_CPU_TOKENS = 4096  # in a batch: what stays in the caches of a few cores
_GPU_TOKENS = 262_144  # and at most so many on a GPU


@final
class TokenReading(Reading):
    """Token ids (planes, n_atoms) of a text, with the special tokens before and after them in every window."""

    def __init__(
        self,
        text: str,
        names: tuple[str, ...],
        spans: NDArray[np.int64],
        planes: NDArray[np.int32],
        before: NDArray[np.int32],
        after: NDArray[np.int32],
        windows: list[tuple[int, int]],
        cut: int,
    ) -> None:
        self.text, self.names, self.spans, self.cut = text, names, spans, cut
        self.planes, self.before, self.after, self.windows = planes, before, after, windows
        self.types = planes[0].astype(np.int64)
        self.empty = before.shape[1] + after.shape[1] > 0

    def parts(self, keep: NDArray[np.bool_]) -> list[list[Group]]:
        """Return the inputs for presence of atoms (m, n_atoms), by window and length."""
        if len(self.windows) == 1:
            return [self._groups(keep, 0, np.arange(len(keep)))]
        seen = np.stack([keep[:, a:b].any(axis=1) for a, b in self.windows])
        seen[0] |= ~seen.any(axis=0)  # a row with no atom at all is asked once
        return [
            self._groups(keep[rows, a:b], a, rows)
            for (a, b), rows in zip(self.windows, (np.flatnonzero(s) for s in seen), strict=True)
        ]

    def _groups(self, keep: NDArray[np.bool_], start: int, rows: NDArray[np.int64]) -> list[Group]:
        lengths = keep.sum(axis=1, dtype=np.int32)
        groups = []
        for length in np.unique(lengths):
            own = np.flatnonzero(lengths == length)
            total = self.before.shape[1] + int(length) + self.after.shape[1]
            groups.append(Group(rows[own], total, partial(self._inputs, keep, own, start, total)))
        return groups

    def _inputs(
        self, keep: NDArray[np.bool_], own: NDArray[np.int64], start: int, total: int
    ) -> tuple[NDArray[np.int32], list[bytes]]:
        """Return the token ids (k, planes, total) of some rows, which all have that many, and their digests."""
        window, k, n = self.planes[:, start : start + keep.shape[1]], len(own), keep.shape[1]
        ahead, behind = self.before.shape[1], self.after.shape[1]
        some = keep[own[0] : own[-1] + 1] if own[-1] - own[0] == k - 1 else keep[own]  # rows side by side need no copy
        places = np.flatnonzero(some).reshape(k, total - ahead - behind) - n * np.arange(k)[:, None]
        inputs = np.empty((k, len(window), total), dtype=np.int32)
        inputs[:, :, :ahead], inputs[:, :, total - behind :] = self.before, self.after
        for plane, ids in enumerate(window):
            inputs[:, plane, ahead : total - behind] = ids.take(places)
        return inputs, digests(inputs)


def digests(inputs: NDArray[np.int32]) -> list[bytes]:
    """Return a name of 16 bytes for each input (k, planes, length): two sums of its ids + 1, each times a number of its place.

    The numbers are of 64 bits, random, and others for every shape, so that two inputs share a name with a chance of 2^-128 (at
    most 2^-66, where all their differences are multiples of 2^31). Two to five times as fast as a cryptographic digest, and
    good enough where nobody makes up inputs in order to be confused.
    """
    ids = inputs.reshape(len(inputs), -1).astype(np.uint64)
    ids += np.uint64(1)  # or inputs of zeros would have one name, whatever their length
    sums = ids @ _multipliers(*inputs.shape[1:])
    names: list[bytes] = sums.astype("<u8").view("V16")[:, 0].tolist()
    return names


@lru_cache(maxsize=4096)
def _multipliers(planes: int, length: int) -> NDArray[np.uint64]:
    """Return the random numbers (planes * length, 2) of a shape, the same on every machine."""
    return np.random.PCG64([planes, length]).random_raw(2 * planes * length).reshape(-1, 2)


@final
class HuggingFace(Model):
    """A sequence classifier and its tokenizer.

    precision: None computes in the dtype of the model, "bfloat16" under torch's autocast. batch_tokens: how many tokens go into
    a batch; None chooses by device and memory. name: what to call the model; None takes that of its class.
    """

    tokenized = True

    def __init__(
        self,
        model: torch.nn.Module,
        tokenizer: PreTrainedTokenizerBase,
        precision: Literal["bfloat16"] | None = None,
        batch_tokens: int | None = None,
        name: str | None = None,
    ) -> None:
        if not isinstance(tokenizer, PreTrainedTokenizerBase):
            raise InputError(
                f"a Hugging Face model needs its tokenizer as the second argument; got {type(tokenizer).__name__}"
                " (load it with AutoTokenizer.from_pretrained)"
            )
        if precision not in (None, "bfloat16"):
            raise InputError(f"precision must be None (as the model is) or 'bfloat16'; got {precision!r}")
        self.model, self.tokenizer, self.precision = model, tokenizer, precision
        self.name = name or type(model).__name__
        self.head = self._head()
        self.budget = batch_tokens or self._tokens_that_fit()

    def _head(self) -> Head:
        """Find out what the model answers by asking it about a short text."""
        reading = self.read(self._probe, "cut", None)
        inputs, _ = reading.parts(np.ones((1, len(reading.names)), dtype=bool))[0][0].make()
        with self.session():
            logits = self.logits(inputs)
        if logits.ndim != 2 or len(logits) != 1 or not logits.is_floating_point():
            raise ModelError(
                f"{self.name} must answer with logits of shape (n, classes); got {tuple(logits.shape)}"
                " (load it with AutoModelForSequenceClassification)"
            )
        n = logits.shape[1]
        config = self.model.config if isinstance(self.model, PreTrainedModel) else None
        named: dict[Any, str] = dict(config.id2label or {}) if config is not None else {}
        labels = tuple(str(named.get(i, f"LABEL_{i}")) for i in range(n))
        kind = None if config is None else config.problem_type
        if n == 1:
            return Head("score", labels)
        labels = tuple(label if labels.count(label) == 1 else f"{label} ({i})" for i, label in enumerate(labels))
        return Head("labels" if kind == "multi_label_classification" else "classes", labels)

    @cached_property
    def device(self) -> torch.device:
        """Where the model's weights are."""
        return next((p.device for p in self.model.parameters()), torch.device("cpu"))

    @property
    def ahead(self) -> int:
        """How many batches are begun before the first must be finished: on a GPU small ones while a large one is computed."""
        return 16 if self.device.type == "cuda" else 1

    def _tokens_that_fit(self) -> int:
        if self.device.type != "cuda":
            return _CPU_TOKENS
        config = getattr(self.model, "config", None)
        width = int(getattr(config, "hidden_size", None) or getattr(config, "d_model", None) or 1024)
        free, _ = torch.cuda.mem_get_info(self.device)
        return int(min(max(0.3 * free / (width * 4 * 24), 2048), _GPU_TOKENS))

    @cached_property
    def _template(self) -> tuple[int, int]:
        """How many special tokens the tokenizer puts before and after a text."""
        special = self.tokenizer(self._probe, return_special_tokens_mask=True)["special_tokens_mask"]
        return special.index(0), special[::-1].index(0)

    @cached_property
    def _probe(self) -> str:
        """A text of which the tokenizer makes at least one token that is not special."""
        for text in ("a", *(self.tokenizer.decode([i]) for i in range(min(len(self.tokenizer), 300)))):
            if not all(self.tokenizer(text, return_special_tokens_mask=True)["special_tokens_mask"]):
                return str(text)
        raise InputError(f"{type(self.tokenizer).__name__} makes no tokens of any text; check its vocabulary")

    @cached_property
    def _arguments(self) -> dict[str, inspect.Parameter]:
        return dict(inspect.signature(self.model.forward).parameters)

    @cached_property
    def context(self) -> int | None:
        """The number of tokens that fit into the model, special tokens counted; None where there is no limit."""
        limits = [int(self.tokenizer.model_max_length)] if self.tokenizer.model_max_length < 1e9 else []
        stated = positions(self.model)
        return min([*limits, *([] if stated is None else [stated])], default=None)

    def read(self, text: str, long: str, spans: NDArray[np.int64] | None) -> TokenReading:
        """Tokenize a text."""
        fast = self.tokenizer.is_fast
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = self.tokenizer(text, return_offsets_mapping=fast, truncation=False, verbose=False)
            except TypeError as error:
                raise InputError(f"the tokenizer cannot read {text[:40]!r}; a text must be valid Unicode") from error
        ids = found["input_ids"]
        planes = [ids]
        if any(found.get("token_type_ids", ())):
            planes.append(found["token_type_ids"])
        table = np.array(planes, dtype=np.int32).reshape(len(planes), len(ids))
        ahead, behind = self._template
        end = len(ids) - behind
        tokens = ids[ahead:end]
        offsets = found["offset_mapping"][ahead:end] if fast else _aligned(text, tokens, self.tokenizer)
        places = np.array(offsets, dtype=np.int64).reshape(-1, 2)
        room = None if self.context is None else self.context - ahead - behind
        n, cut, windows = end - ahead, 0, [(0, end - ahead)]
        if room is not None and n > room:
            if room < 1:
                raise InputError(f"{self.name} has room for {self.context} tokens, which the special tokens fill")
            if long == "window":
                starts = [*range(0, n - room, max(room // 2, 1)), n - room]
                windows = [(a, a + room) for a in starts]
            else:
                cut, n, windows = n - room, room, [(0, room)]
                if self.tokenizer.truncation_side == "left":
                    tokens, places, table = tokens[cut:], places[cut:], np.delete(table, np.s_[ahead : ahead + cut], axis=1)
                    end -= cut
        names = tuple(
            text[a:b].strip() or self._shown(token, text[a:b])
            for (a, b), token in zip(places[:n].tolist(), tokens, strict=False)
        )
        body = table[:, ahead : ahead + n]
        return TokenReading(text, names, places[:n], body, table[:, :ahead], table[:, end:], windows, cut)

    def _shown(self, number: int, seen: str) -> str:
        """Return a name for a token that covers nothing of the text but white space."""
        token = str(self.tokenizer.convert_ids_to_tokens(number))
        plain = str(self.tokenizer.convert_tokens_to_string([token]))
        return plain.strip() or seen or plain or token

    def identity(self) -> str:
        """Return a name made from configuration, settings, hooks and all weights of the model as it is now."""
        return f"{identity_of(self.model)} {self.precision} {self._template}"

    @contextmanager
    def session(self) -> Iterator[None]:
        """Switch to evaluation and inference mode; switch back whatever happens."""
        training = [module for module in self.model.modules() if module.training]
        config: Any = self.model.config.get_text_config() if isinstance(self.model, PreTrainedModel) else None
        unpadded = config is not None and getattr(config, "pad_token_id", 0) is None
        self.__dict__.pop("device", None)
        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode())
            if self.device.type == "cuda":
                # cuDNN's attention compiles a plan for every new shape, which takes longer than a whole explanation.
                stack.enter_context(sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]))
            if self.precision == "bfloat16":
                stack.enter_context(torch.autocast(self.device.type, torch.bfloat16))
            try:
                for module in training:
                    module.training = False
                if unpadded:
                    config.pad_token_id = -1  # decoders refuse batches without one; -1 never occurs
                yield
            finally:
                if unpadded:
                    config.pad_token_id = None
                for module in training:
                    module.training = True

    def rows(self, length: int) -> int:
        """Return how many inputs of one length go into a batch."""
        return max(self.budget // max(length, 1), 1)

    def shrink(self) -> None:
        """Halve the batches."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.budget = max(self.budget // 2, 1)

    def start(self, inputs: NDArray[np.int32]) -> Coming:
        """Launch the forward pass of ids (k, planes, length) and the copy of its logits to the host."""
        return to_host(self.logits(inputs))

    def finish(self, started: Coming) -> NDArray[Any]:
        """Wait for the logits."""
        return np.asarray(started.wait().numpy())

    def logits(self, inputs: NDArray[np.int32]) -> torch.Tensor:
        """Return the logits of ids (k, planes, length), in float32 at least, on the device, which may still compute them."""
        device = self.device
        block = to_device(torch.from_numpy(np.ascontiguousarray(inputs)), device)
        ids = block[:, 0].long()
        given: dict[str, Any] = {}
        if "token_type_ids" in self._arguments and "token_type_ids" in self.tokenizer.model_input_names:
            given["token_type_ids"] = block[:, 1].long() if block.shape[1] > 1 else torch.zeros_like(ids)
        mask = self._arguments.get("attention_mask")
        if mask is not None and mask.default is inspect.Parameter.empty:
            given["attention_mask"] = torch.ones_like(ids)
        if "use_cache" in self._arguments:
            given["use_cache"] = False
        try:
            answer = self.model(ids, **given)
        except torch.OutOfMemoryError as error:
            raise MemoryError(str(error)) from error
        except IndexError as error:
            raise ModelError(
                f"{self.name} does not know token id {int(inputs[:, 0].max())} or a length of {inputs.shape[2]} ({error});"
                " give it the tokenizer that it was trained with"
            ) from error
        logits = answer if isinstance(answer, torch.Tensor) else getattr(answer, "logits", None)
        if not isinstance(logits, torch.Tensor):
            raise ModelError(
                f"{self.name} must answer with logits; got {type(answer).__name__}"
                " (load it with AutoModelForSequenceClassification)"
            )
        return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def _aligned(text: str, ids: list[int], tokenizer: PreTrainedTokenizerBase) -> list[tuple[int, int]]:
    """Return spans for the tokens of a tokenizer without offsets: each is looked for after the one before it."""
    spans, at, lower = [], 0, text.lower() if len(text.lower()) == len(text) else text
    for token in tokenizer.convert_ids_to_tokens(ids):
        name = tokenizer.convert_tokens_to_string([token]).strip()
        name = name.removeprefix("##") or token
        found = lower.find(name.lower(), at)
        if found < 0 or found > at + 50:
            spans.append((at, at))
        else:
            spans.append((found, found + len(name)))
            at = found + len(name)
    return spans
