"""Hugging Face sequence classifiers, and any torch module that turns token ids into logits.

A text is the tokenizer's own: special tokens are those that the tokenizer puts around a text, and are there in every input; the
tokens between them are the atoms. Inputs of one batch have one length, so no padding token, padding side or attention mask
comes into play; only for an architecture that cannot read so few tokens is an input padded, and masked, to what it can. The
model is left as it was found: weights, dtype, device, training flags, configuration.

Wrappers (PEFT, torch.compile, DataParallel) are asked as they are; what the model says about itself is read from the model
inside.
"""

import inspect
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property, lru_cache, partial
from typing import Any, Literal, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from slalom.errors import InputError, ModelError, SlalomError
from slalom.models.fingerprint import identity_of
from slalom.models.model import Group, Head, Model, Reading
from slalom.models.saved import positions
from slalom.models.staging import Coming, to_device, to_host
from slalom.models.wrappers import arguments, ids_by_keyword, unwrapped

Activation = Literal["softmax", "sigmoid", "none"]

_CPU_TOKENS = 4096  # in a batch: what stays in the caches of a few cores
_GPU_TOKENS = 262_144  # and at most so many on a GPU
UNLIMITED = 10**9  # tokenizers without a limit have a larger one
_PADDED = (4, 5, 6, 7, 8, 12, 16, 32, 64)  # lengths that are tried where a model cannot read a short input


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

    Args:
        model: A torch module that turns token ids into logits (n, classes), or a wrapper around one.
        tokenizer: Its tokenizer.
        precision: None computes in the dtype of the model, "bfloat16" under torch's autocast.
        batch_tokens: Tokens per batch. Default: chosen by device and memory.
        name: What to call the model. Default: the name of its class.
        max_length: Tokens of an input at most, special tokens counted. Default: the tokenizer's `model_max_length`. The model's
            own limit holds in any case.
        activation: What turns logits into probabilities; "none" where they stand for none. Default: what transformers'
            text-classification pipeline chooses by the model's configuration.
    """

    tokenized = True

    def __init__(
        self,
        model: torch.nn.Module,
        tokenizer: PreTrainedTokenizerBase,
        precision: Literal["bfloat16"] | None = None,
        batch_tokens: int | None = None,
        name: str | None = None,
        max_length: int | None = None,
        activation: Activation | None = None,
    ) -> None:
        if not isinstance(tokenizer, PreTrainedTokenizerBase):
            raise InputError(
                f"a Hugging Face model needs its tokenizer as the second argument; got {type(tokenizer).__name__}"
                " (load it with AutoTokenizer.from_pretrained)"
            )
        if precision not in (None, "bfloat16"):
            raise InputError(f"precision must be None (as the model is) or 'bfloat16'; got {precision!r}")
        self.model, self.base, self.tokenizer, self.precision = model, unwrapped(model), tokenizer, precision
        self.name = name or type(self.base).__name__
        if any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers())):
            raise InputError(
                f"the weights of {self.name} must be loaded, some are on the meta device;"
                " load the model with from_pretrained, without offloading"
            )
        self.max_length = int(tokenizer.model_max_length if max_length is None else max_length)
        self.least, self.takes_empty = 0, True  # inputs of fewer tokens are padded; whether special tokens alone are an input
        self.head = self._head(activation)
        self.budget = batch_tokens or self._tokens_that_fit()

    @property
    def _config(self) -> Any:
        """The configuration of transformers, where there is one."""
        return self.base.config if isinstance(self.base, PreTrainedModel) else None

    def _head(self, activation: Activation | None) -> Head:
        """Find out what the model answers by asking it about a short text."""
        logits = self._first_logits()
        if logits.ndim != 2 or len(logits) != 1 or not logits.shape[1] or not logits.is_floating_point():
            raise ModelError(
                f"{self.name} must answer with logits of shape (n, classes); got {tuple(logits.shape)}"
                " (load it with AutoModelForSequenceClassification)"
            )
        n = logits.shape[1]
        named: dict[Any, str] = {} if self._config is None else dict(self._config.id2label or {})
        labels = tuple(str(named.get(i, f"LABEL_{i}")) for i in range(n))
        labels = tuple(label if labels.count(label) == 1 else f"{label} ({i})" for i, label in enumerate(labels))
        usual = _usual_activation(None if self._config is None else self._config.problem_type, n)
        chosen = usual if activation is None else activation
        if n == 1 and chosen == "softmax":
            raise InputError(f"softmax makes 1 of the one output of {self.name}, whatever the text; use sigmoid or none")
        apart = chosen == "sigmoid" or (chosen == "none" and usual != "softmax")
        return Head("score" if n == 1 else "labels" if apart else "classes", labels, probabilistic=chosen != "none")

    def _first_logits(self) -> torch.Tensor:
        """Return the logits of a short text, having found out how short an input may be."""
        reading = self.read(self.probe, "cut", None)
        keep = np.array([[True] * len(reading.names), [False] * len(reading.names)])
        with self.session():
            logits = self._padded_logits(reading.parts(keep[:1])[0][0].make()[0])
            if reading.empty:
                try:
                    self._padded_logits(reading.parts(keep[1:])[0][0].make()[0])
                except ModelError:
                    self.takes_empty = False
        return logits

    def _padded_logits(self, inputs: NDArray[np.int32]) -> torch.Tensor:
        """Return the logits of a short input, with the least padding with which the model can read it."""
        least = self.least
        try:
            return self.logits(inputs)
        except ModelError as error:
            if error.__cause__ is None or self.tokenizer.pad_token_id is None or "attention_mask" not in self._arguments:
                raise
            for self.least in _PADDED:
                with suppress(ModelError):
                    return self.logits(inputs)
            self.least = least
            raise

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
        config = getattr(self.base, "config", None)
        width = int(getattr(config, "hidden_size", None) or getattr(config, "d_model", None) or 1024)
        free, _ = torch.cuda.mem_get_info(self.device)
        return int(min(max(0.3 * free / (width * 4 * 24), 2048), _GPU_TOKENS))

    @cached_property
    def _template(self) -> tuple[int, int]:
        """How many special tokens the tokenizer puts before and after a text."""
        special = self.tokenizer(self.probe, return_special_tokens_mask=True)["special_tokens_mask"]
        return special.index(0), special[::-1].index(0)

    @cached_property
    def probe(self) -> str:
        """A text of which the tokenizer makes at least one token that is not special."""
        for text in ("a", *(self.tokenizer.decode([i]) for i in range(min(len(self.tokenizer), 300)))):
            if not all(self.tokenizer(text, return_special_tokens_mask=True)["special_tokens_mask"]):
                return str(text)
        raise InputError(f"{type(self.tokenizer).__name__} makes no tokens of any text; check its vocabulary")

    @cached_property
    def _arguments(self) -> dict[str, inspect.Parameter]:
        """What the forward pass takes."""
        return arguments(self.model)

    @cached_property
    def context(self) -> int | None:
        """The number of tokens that fit into the model, special tokens counted; None where there is no limit."""
        stated = positions(self.model)
        return min([limit for limit in (self.max_length, stated) if limit is not None and limit < UNLIMITED], default=None)

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
        reading = TokenReading(text, names, places[:n], body, table[:, :ahead], table[:, end:], windows, cut)
        reading.empty = reading.empty and self.takes_empty
        return reading

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
        config: Any = None if self._config is None else self._config.get_text_config()
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
        try:
            return np.asarray(started.wait().numpy())
        except RuntimeError as error:  # a GPU reports some failures late
            raise self._failure(error, "a batch") from error

    def logits(self, inputs: NDArray[np.int32]) -> torch.Tensor:
        """Return the logits of ids (k, planes, length), in float32 at least, on the device, which may still compute them."""
        length, device = inputs.shape[2], self.device
        block = to_device(torch.from_numpy(np.ascontiguousarray(inputs)), device)
        if length < self.least:
            block = torch.nn.functional.pad(block, (0, self.least - length))
            block[:, 0, length:] = self.tokenizer.pad_token_id
        ids = block[:, 0].long()
        given: dict[str, Any] = {}
        if "token_type_ids" in self._arguments and "token_type_ids" in self.tokenizer.model_input_names:
            given["token_type_ids"] = block[:, 1].long() if block.shape[1] > 1 else torch.zeros_like(ids)
        mask = self._arguments.get("attention_mask")
        if mask is not None and (mask.default is inspect.Parameter.empty or length < self.least):
            given["attention_mask"] = (torch.arange(ids.shape[1], device=device) < length).long().expand(len(ids), -1)
        if "use_cache" in self._arguments:
            given["use_cache"] = False
        try:
            answer = self.model(input_ids=ids, **given) if ids_by_keyword(self._arguments) else self.model(ids, **given)
        except (SlalomError, MemoryError):
            raise
        except torch.OutOfMemoryError as error:
            raise MemoryError(str(error)) from error
        except Exception as error:
            raise self._failure(error, f"inputs of {length} tokens, ids up to {int(inputs[:, 0].max())}") from error
        logits = answer if isinstance(answer, torch.Tensor) else getattr(answer, "logits", None)
        if not isinstance(logits, torch.Tensor):
            raise ModelError(
                f"{self.name} must answer with logits; got {type(answer).__name__}"
                " (load it with AutoModelForSequenceClassification)"
            )
        return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits

    def _failure(self, error: Exception, inputs: str) -> ModelError:
        """Return what to say about an error of the forward pass."""
        kind = type(error)
        if isinstance(error, IndexError) or "device-side assert" in str(error):
            advice = "give it the tokenizer that it was trained with"
        elif isinstance(error, TypeError):
            advice = "its forward must take input_ids, and nothing else that has no default but attention_mask"
        elif kind.__module__.startswith(("torch._dynamo", "torch._inductor")):
            advice = "give the model as it was before torch.compile"
        else:
            advice = "load it with AutoModelForSequenceClassification, or explain a callable around it, with output="
        return ModelError(f"{self.name} failed on {inputs}: {first_line(error)}; {advice}")


def _usual_activation(problem: str | None, n: int) -> Activation:
    """Return what transformers' text-classification pipeline applies to n outputs, by the problem type of the configuration."""
    if problem == "regression":
        return "none"
    return "sigmoid" if n == 1 or problem == "multi_label_classification" else "softmax"


def first_line(error: Exception) -> str:
    """Return the kind of an error and the first line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__


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
