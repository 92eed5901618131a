"""Hugging Face sequence classifiers, and any torch module that turns token ids into logits.

Special tokens are those that the tokenizer puts around a text. On a CPU inputs of one batch have one length, so there is no
padding token, padding side or attention mask; only for an architecture that cannot read so few tokens is an input padded, and
masked, to the shortest length that it can read. On a GPU, where launching a batch takes as long as thousands of tokens, inputs
of similar lengths are padded to one, if the model ignores what follows an input, by itself (decoders) or with a mask
(encoders). The model is left as it was: weights, dtype, device, training flags, configuration.

Wrappers (PEFT, torch.compile, DataParallel) are called as they are; configuration is read from the model
inside.
"""

import inspect
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from typing import Any, Literal, final

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DynamicCache, PreTrainedTokenizerBase

from slalom.errors import InputError, ModelError, SlalomError
from slalom.models.base import PADDING
from slalom.models.head import Head
from slalom.models.huggingface.fingerprint import identity_of
from slalom.models.huggingface.module import TorchModel, memory_errors
from slalom.models.huggingface.reading import TokenReading, aligned_spans
from slalom.models.huggingface.staging import Transfer, to_device, to_host
from slalom.models.huggingface.wrappers import arguments, ids_by_keyword
from slalom.models.readable import readable

Activation = Literal["softmax", "sigmoid", "none"]

_NO_PADDING = -2  # a padding token that never occurs; PADDING marks places
_PADDED_LENGTHS = (4, 5, 6, 7, 8, 12, 16, 32, 64)  # to try where a model cannot read a short input


@final
class HuggingFace(TorchModel):
    """A sequence classifier and its tokenizer.

    Args:
        model: A torch module that turns token ids into logits (n, classes), or a wrapper around one.
        tokenizer: Its tokenizer.
        precision: None computes in the dtype of the model, "bfloat16" under torch's autocast.
        batch_tokens: Tokens per batch. Default: chosen by device and memory.
        name: What to call the model. Default: the name of its class.
        max_length: Tokens per input at most, including special tokens. Default: the tokenizer's `model_max_length`. The model's
            own limit always holds.
        activation: What turns logits into probabilities; "none" where the logits represent none. Default: what transformers'
            text-classification pipeline chooses by the model's configuration.

    Raises:
        InputError: An argument is wrong, or the weights are not loaded.
        ModelError: The model does not answer a short text with logits.
    """

    loader = "AutoModelForSequenceClassification"

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
        if precision not in (None, "bfloat16"):
            raise InputError(f"precision must be None (as the model is) or 'bfloat16'; got {precision!r}")
        super().__init__(model, tokenizer, name, max_length)
        self.precision, self._without_packing, self._masks = precision, False, False
        self.min_length, self.takes_empty = 0, True  # shorter inputs are padded; whether special tokens alone are an input
        self.head = self._head(activation)
        self.batch_tokens = batch_tokens or self._tokens_that_fit()

    def _head(self, activation: Activation | None) -> Head:
        """Return what the outputs mean, from the logits of a short text and the configuration."""
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
        default = _default_activation(None if self._config is None else self._config.problem_type, n)
        chosen = default if activation is None else activation
        if n == 1 and chosen == "softmax":
            raise InputError(f"softmax makes 1 of the one output of {self.name}, whatever the text; use sigmoid or none")
        independent = chosen == "sigmoid" or (chosen == "none" and default != "softmax")
        return Head("score" if n == 1 else "labels" if independent else "classes", labels, probabilistic=chosen != "none")

    def _first_logits(self) -> torch.Tensor:
        """Return the logits of a short text, and set how short an input may be."""
        reading = self.read(self.probe_text, "cut", None)
        keep = np.array([[True] * len(reading.names), [False] * len(reading.names)])
        with self.session():
            logits = self._padded_logits(reading.groups(keep[:1])[0].build()[0])
            if reading.empty:
                try:
                    self._padded_logits(reading.groups(keep[1:])[0].build()[0])
                except ModelError:
                    self.takes_empty = False
        return logits

    def _padded_logits(self, inputs: NDArray[np.int32]) -> torch.Tensor:
        """Return the logits of a short input, padded as little as the model needs to read it."""
        before = self.min_length
        try:
            return self.logits(inputs)
        except ModelError as error:
            if error.__cause__ is None or self.tokenizer.pad_token_id is None or "attention_mask" not in self._arguments:
                raise
            for self.min_length in _PADDED_LENGTHS:
                with suppress(ModelError):
                    return self.logits(inputs)
            self.min_length = before
            raise

    @cached_property
    def _template(self) -> tuple[int, int]:
        """Numbers of special tokens before and after a text."""
        special = self.tokenizer(self.probe_text, return_special_tokens_mask=True)["special_tokens_mask"]
        return special.index(0), special[::-1].index(0)

    @cached_property
    def probe_text(self) -> str:
        """A short text with at least one token that is not special."""
        for text in ("a", *(self.tokenizer.decode([i]) for i in range(min(len(self.tokenizer), 300)))):
            if not all(self.tokenizer(text, return_special_tokens_mask=True)["special_tokens_mask"]):
                return str(text)
        raise InputError(f"{type(self.tokenizer).__name__} does not make a token of any text; check its vocabulary")

    @cached_property
    def _arguments(self) -> dict[str, inspect.Parameter]:
        """The arguments of the forward pass."""
        return arguments(self.model)

    def read(self, text: str, long: str, spans: NDArray[np.int64] | None) -> TokenReading:
        fast = self.tokenizer.is_fast
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with readable(text):
                encoding = self.tokenizer(text, return_offsets_mapping=fast, truncation=False, verbose=False)
        ids = encoding["input_ids"]
        planes = [ids]
        if any(encoding.get("token_type_ids", ())):
            planes.append(encoding["token_type_ids"])
        table = np.array(planes, dtype=np.int32).reshape(len(planes), len(ids))
        before, after = self._template
        end = len(ids) - after
        tokens = ids[before:end]
        offsets = encoding["offset_mapping"][before:end] if fast else aligned_spans(text, tokens, self.tokenizer)
        places = np.array(offsets, dtype=np.int64).reshape(-1, 2)
        return self._fitted(text, table, before, end, places, long)

    def _takes_empty(self) -> bool:
        return self.takes_empty

    def identity(self) -> str:
        return f"{identity_of(self.model)} {self.precision} {self._template}"

    @contextmanager
    def session(self) -> Iterator[None]:
        config = self._text_config
        before = getattr(config, "pad_token_id", _NO_PADDING)  # some configurations have no such entry
        with ExitStack() as stack:
            stack.enter_context(super().session())
            if self.precision == "bfloat16":
                stack.enter_context(torch.autocast(self.device.type, torch.bfloat16))
            try:
                if before is None:
                    config.pad_token_id = _NO_PADDING  # decoders refuse batches without one
                yield
            finally:
                if before != _NO_PADDING:
                    config.pad_token_id = before

    def submit(self, inputs: NDArray[np.int32]) -> Transfer:
        return to_host(self.logits(inputs))

    def logits(self, inputs: NDArray[np.int32]) -> torch.Tensor:
        """Return the logits (k, n_outputs) of ids (k, planes, length), in float32 at least, on the device, asynchronously."""
        return self._padded_on_the_right(inputs) if PADDING in inputs[:, 0, -1] else self._forward(inputs)

    def _forward(self, inputs: NDArray[np.int32], hidden: NDArray[np.bool_] | None = None) -> torch.Tensor:
        """Return the logits of ids (k, planes, length) without PADDING; hidden (k, length): padding, masked if need be."""
        length, device = inputs.shape[2], self.device
        block = to_device(torch.from_numpy(np.ascontiguousarray(inputs)), device)
        if length < self.min_length:
            block = torch.nn.functional.pad(block, (0, self.min_length - length))
            block[:, 0, length:] = self.tokenizer.pad_token_id
        ids = block[:, 0].long()
        more: dict[str, Any] = {}
        if "token_type_ids" in self._arguments and "token_type_ids" in self.tokenizer.model_input_names:
            more["token_type_ids"] = block[:, 1].long() if block.shape[1] > 1 else torch.zeros_like(ids)
        mask = self._arguments.get("attention_mask")
        if mask is not None and (mask.default is inspect.Parameter.empty or length < self.min_length):
            more["attention_mask"] = (torch.arange(ids.shape[1], device=device) < length).long().expand(len(ids), -1)
        if self._masks and hidden is not None:
            # What is added to the attention before the softmax: of a mask of two axes transformers asks the GPU whether it
            # masks anything, and waits for all that is under way (5.22).
            number = next(p.dtype for p in self.model.parameters() if p.is_floating_point())
            masked = to_device(torch.from_numpy(hidden[:, None, None, :]), device)
            more["attention_mask"] = masked.to(number) * torch.finfo(number).min
        if "use_cache" in self._arguments:
            more["use_cache"] = False
        if self._without_packing:
            # Without a cache transformers looks for several texts in one row, and waits for the GPU to tell (5.22).
            more["past_key_values"] = DynamicCache(config=self._text_config)
        try:
            with memory_errors():
                answer = self.model(input_ids=ids, **more) if ids_by_keyword(self._arguments) else self.model(ids, **more)
        except (SlalomError, MemoryError):
            raise
        except Exception as error:
            raise self._failure(error, f"inputs of {length} tokens, ids up to {int(inputs[:, 0].max())}") from error
        logits = answer if isinstance(answer, torch.Tensor) else getattr(answer, "logits", None)
        if not isinstance(logits, torch.Tensor):
            raise ModelError(
                f"{self.name} must answer with logits; got {type(answer).__name__}"
                " (load it with AutoModelForSequenceClassification)"
            )
        return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits

    @cached_property
    def batch_overhead(self) -> int:  # type: ignore[override]
        if self.device.type != "cuda" or not self._may_be_padded():
            return 0
        self._without_packing = "past_key_values" in self._arguments
        self._without_packing = self._without_packing and self._ignores_padding()
        return self._launch_tokens(self.precision is not None)

    def _may_be_padded(self) -> bool:
        """Return whether padding changes nothing, with a mask if need be; set whether it needs one."""
        if self._ignores_padding():
            return True
        self._masks = "attention_mask" in self._arguments
        self._masks = self._masks and self._ignores_padding()
        return self._masks

    def _ignores_padding(self) -> bool:
        """Return whether what follows the last token of an input changes nothing, as in decoders, or in encoders with a mask.

        Two inputs of one shape that differ in the padding only have equal logits then, bit by bit.
        """
        reading = self.read(self.probe_text, "cut", None)
        inputs = reading.groups(np.ones((1, len(reading.names)), dtype=bool))[0].build()[0]
        config = self._text_config
        if inputs.shape[1] > 1 or self.min_length or not hasattr(config, "pad_token_id"):
            return False
        unused, hidden = self._unused(inputs), np.arange(inputs.shape[2] + 5)[None] >= inputs.shape[2]
        try:
            with self.session():
                plain = self.logits(inputs)
                padded = []
                for config.pad_token_id in (next(unused), next(unused)):
                    filler = np.full((1, 1, 5), config.pad_token_id, dtype=inputs.dtype)
                    padded.append(self._forward(np.concatenate([inputs, filler], axis=2), hidden))
        except (ModelError, StopIteration):
            return False
        near = 0.05 * float(plain.abs().max())  # kernels differ with the shape
        return bool(torch.equal(*padded) and float((padded[0] - plain).abs().max()) <= near)

    def _padded_on_the_right(self, inputs: NDArray[np.int32]) -> torch.Tensor:
        """Return the logits of ids with PADDING; a model without a padding token gets one that they do not contain."""
        inputs = inputs[:, :, : int((inputs[:, 0] != PADDING).sum(axis=1).max())]
        config, hidden = self._text_config, inputs[:, 0] == PADDING
        before = config.pad_token_id
        token = next(self._unused(inputs)) if before == _NO_PADDING else before
        try:
            config.pad_token_id = token
            return self._forward(np.where(inputs == PADDING, np.int32(token), inputs), hidden)
        finally:
            config.pad_token_id = before

    def _unused(self, inputs: NDArray[np.int32]) -> Iterator[int]:
        """Yield ids of the vocabulary that do not occur in inputs."""
        used = set(np.unique(inputs).tolist())
        return (i for i in range(int(self._text_config.vocab_size) - 1, -1, -1) if i not in used)


def _default_activation(problem: str | None, n: int) -> Activation:
    """Return what transformers' text-classification pipeline applies to n outputs, by the configured problem type."""
    if problem == "regression":
        return "none"
    return "sigmoid" if n == 1 or problem == "multi_label_classification" else "softmax"
