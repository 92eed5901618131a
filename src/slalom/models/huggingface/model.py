"""Hugging Face sequence classifiers, and any torch module that turns token ids into logits.

Special tokens are those that the tokenizer puts around a text. On a CPU inputs of one batch have one length, so there is no
padding token, padding side or attention mask. On a GPU, where launching a batch takes as long as thousands of tokens, inputs
of similar lengths are padded to one, if the model ignores what follows an input, by itself (decoders) or with a mask
(encoders). Wrappers (PEFT, torch.compile, DataParallel) are called as they are; configuration is read from the model inside.
"""

import copy
import inspect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from itertools import product
from typing import Any, Literal, final

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DynamicCache, PreTrainedTokenizerBase

from slalom.errors import InputError, ModelError
from slalom.models.base import PADDING, Model, Reading
from slalom.models.head import Head
from slalom.models.huggingface.fingerprint import identity_of
from slalom.models.huggingface.module import TorchModel, Transfer, to_device, to_host
from slalom.models.huggingface.reading import TokenReading
from slalom.models.huggingface.wrappers import additive_mask, arguments, call, plain_logits
from slalom.models.removal import Removal
from slalom.text import Record

Activation = Literal["softmax", "sigmoid", "none"]

_NO_PADDING = -2  # a padding token that never occurs; PADDING marks places
_HALF_SPEED, _FULL_SPEED = 4e14, 4e13  # operations per second of a large GPU; only their order of magnitude matters
_LAUNCH = 6e-4  # seconds that one layer takes to launch


def _table(encoding: Any) -> NDArray[np.int32]:
    """Return the token ids, and token types where there are different ones, (planes, length)."""
    planes = [encoding["input_ids"], *([encoding["token_type_ids"]] if any(encoding.get("token_type_ids", ())) else ())]
    return np.array(planes, dtype=np.int32).reshape(len(planes), -1)


@final
class HuggingFace(TorchModel):
    """A sequence classifier and its tokenizer.

    Args:
        model: A torch module that turns token ids into logits (n, classes), or a wrapper around one.
        tokenizer: Its tokenizer.
        precision: None computes in the dtype of the model, "bfloat16" under torch's autocast.
        name: What to call the model. Default: the name of its class.
        max_length: Tokens per input at most, including special tokens. Default: the tokenizer's `model_max_length`. The model's
            own limit always holds.
        activation: What turns logits into probabilities; "none" where the logits represent none. Default: what transformers'
            text-classification pipeline chooses by the model's configuration.
    """

    loader = "AutoModelForSequenceClassification"
    unknown_in_place = False
    reads_records = True

    def __init__(
        self,
        model: torch.nn.Module,
        tokenizer: PreTrainedTokenizerBase,
        precision: Literal["bfloat16"] | None = None,
        name: str | None = None,
        max_length: int | None = None,
        activation: Activation | None = None,
    ) -> None:
        if precision not in (None, "bfloat16"):
            raise InputError(f"precision must be None (as the model is) or 'bfloat16'; got {precision!r}")
        super().__init__(model, tokenizer, name, max_length)
        self.precision = precision
        self.takes_empty = True  # whether special tokens alone are an input
        self._masks = self._lends_cache = False  # how padded batches are computed
        self.head = self._head(activation)

    def in_place(self) -> "HuggingFace":
        """Return the same classifier, but tokens are replaced by the unknown token, not removed."""
        other = copy.copy(self)
        other.unknown_in_place, other.variant = True, "unknown tokens in place"
        return other

    @property
    def _replacement(self) -> int | None:
        return int(self.tokenizer.unk_token_id) if self.unknown_in_place else super()._replacement

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
        """Return the logits of a short text, and find out whether the model reads special tokens alone."""
        reading, inputs = self._probe()
        with self.session():
            logits = self.logits(inputs)
            if reading.empty:
                try:
                    self.logits(reading.groups(np.zeros((1, len(reading.names)), dtype=bool))[0].build()[0])
                except ModelError:
                    self.takes_empty = False
        return logits

    def _probe(self) -> tuple[TokenReading, NDArray[np.int32]]:
        reading = self.read(self.probe_text, "cut", None)
        return reading, reading.groups(np.ones((1, len(reading.names)), dtype=bool))[0].build()[0]

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
        return arguments(self.model)

    def read(self, text: str, long: str, spans: NDArray[np.int64] | None) -> TokenReading:
        if isinstance(text, Record):
            return self._read_pair(text, long)
        encoding, places = self._encode(text)
        table = _table(encoding)
        before, after = self._template
        end = table.shape[1] - after
        within = np.array(places, dtype=np.int64).reshape(-1, 2)[before:end]
        return self._fitted(text, table, [(before, end)], within, long, empty=self.takes_empty)

    def removing(self, removal: Removal) -> Model:
        other = super().removing(removal)
        if removal == "blank":  # a decoder may take padding tokens at the end for what pads a batch
            other.__dict__["batch_overhead"] = 0
        return other

    def whole_fields(self, record: Record) -> frozenset[str]:
        if self.reads_records and len(record.fields) > 2:
            names = ", ".join(map(repr, record.names))
            raise InputError(f"{self.name} takes one text or two; got {len(record.fields)} fields, {names}")
        return super().whole_fields(record)

    def _read_pair(self, record: Record, long: str) -> TokenReading:
        """Return one or two fields as the tokenizer joins them."""
        values, starts = [str(field.value) for field in record.fields], [field.start for field in record.fields]
        encoding, _ = self._encode(*values, return_special_tokens_mask=True)
        table, special = _table(encoding), np.array(encoding["special_tokens_mask"], dtype=bool)
        runs, at, within = list[tuple[int, int]](), 0, list[NDArray[np.int64]]()
        for value, start in zip(values, starts, strict=True):
            alone, places = self._encode(value, add_special_tokens=False)
            ids = alone["input_ids"]
            found = next(
                (
                    i
                    for i in range(at, len(special) - len(ids) + 1)
                    if table[0, i : i + len(ids)].tolist() == ids and not special[i : i + len(ids)].any()
                ),
                None,
            )
            if found is None:
                raise InputError(
                    f"the tokenizer of {self.name} reads two texts otherwise than each alone; explain a callable around it"
                )
            at = found + len(ids)
            runs.append((found, at))
            within.append(np.array(places, dtype=np.int64).reshape(-1, 2) + start)
        return self._fitted(record, table, runs, np.concatenate(within), long, empty=self.takes_empty)

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
        if PADDING not in inputs[:, 0, -1]:
            return self._forward(inputs)
        return self._padded(inputs, next(self._unused(inputs)))

    def _padded(self, inputs: NDArray[np.int32], filler: int) -> torch.Tensor:
        """Return the logits of ids with PADDING on the right, in whose place the model reads a padding token."""
        config = self._text_config
        before, config.pad_token_id = config.pad_token_id, filler
        try:
            padding = inputs[:, 0] == PADDING
            block = np.where(padding[:, None], np.int32(0), inputs)
            block[:, 0][padding] = filler
            return self._forward(block, padding)
        finally:
            config.pad_token_id = before

    def _unused(self, inputs: NDArray[np.int32]) -> Iterator[int]:
        """Yield ids of the vocabulary that do not occur in inputs."""
        used = set(np.unique(inputs).tolist())
        return (i for i in range(int(self._text_config.vocab_size) - 1, -1, -1) if i not in used)

    def _forward(self, inputs: NDArray[np.int32], padding: NDArray[np.bool_] | None = None) -> torch.Tensor:
        """Return the logits of ids (k, planes, length), some of which (k, length) may be padding."""
        block = to_device(torch.from_numpy(np.ascontiguousarray(inputs)), self.device)
        ids = block[:, 0].long()
        more: dict[str, Any] = {}
        if "token_type_ids" in self._arguments and "token_type_ids" in self.tokenizer.model_input_names:
            more["token_type_ids"] = block[:, 1].long() if block.shape[1] > 1 else torch.zeros_like(ids)
        mask = self._arguments.get("attention_mask")
        if mask is not None and mask.default is inspect.Parameter.empty:
            more["attention_mask"] = torch.ones_like(ids)
        if self._masks and padding is not None:
            # Of a mask of two axes transformers (5.22) asks the GPU whether it masks anything, and waits for the answer.
            masked = to_device(torch.from_numpy(padding[:, None, None, :]), self.device)
            more["attention_mask"] = additive_mask(self.model, masked)
        if "use_cache" in self._arguments:
            more["use_cache"] = False
        if self._lends_cache:
            # Without a cache transformers looks for several texts in one row, and waits for the GPU to tell (5.22).
            more["past_key_values"] = DynamicCache(config=self._text_config)
        with self._failures(f"inputs of {inputs.shape[2]} tokens, ids up to {int(inputs[:, 0].max())}"):
            answer = call(self.model, self._arguments, ids, **more)
        logits = plain_logits(answer)
        if not isinstance(logits, torch.Tensor):
            raise ModelError(
                f"{self.name} must answer with logits; got {type(answer).__name__}"
                " (load it with AutoModelForSequenceClassification)"
            )
        return logits

    @cached_property
    def batch_overhead(self) -> int:  # type: ignore[override]
        if self.device.type != "cuda" or not self.may_be_padded():
            return 0
        weights = sum(parameter.numel() for parameter in self.model.parameters())
        half = self.precision or next(self.model.parameters()).dtype in (torch.float16, torch.bfloat16)
        seconds_per_token = 2.0 * weights / (_HALF_SPEED if half else _FULL_SPEED)
        launch = _LAUNCH * int(getattr(self._text_config, "num_hidden_layers", None) or 12)
        return int(np.clip(launch / seconds_per_token, 64, 16_384))

    def may_be_padded(self) -> bool:
        """Return whether padding changes no answer, and set the fastest way of computing in which that is so."""
        takes_mask, takes_cache = "attention_mask" in self._arguments, "past_key_values" in self._arguments
        for masks, lends_cache in product((False, True), (True, False)):
            if masks <= takes_mask and lends_cache <= takes_cache:
                self._masks, self._lends_cache = masks, lends_cache
                if self._ignores_padding():
                    return True
        self._masks = self._lends_cache = False
        return False

    def _ignores_padding(self) -> bool:
        """Return whether inputs that differ in the padding only have equal logits, bit by bit, near those without padding."""
        _, inputs = self._probe()
        if inputs.shape[1] > 1 or not hasattr(self._text_config, "pad_token_id"):
            return False
        longer = np.concatenate([inputs, np.full((1, 1, 5), PADDING, dtype=inputs.dtype)], axis=2)
        unused = self._unused(inputs)
        try:
            with self.session():
                plain = self.logits(inputs)
                one, other = self._padded(longer, next(unused)), self._padded(longer, next(unused))
        except (ModelError, StopIteration):
            return False
        near = 0.05 * float(plain.abs().max())  # kernels differ with the shape
        return bool(torch.equal(one, other) and float((one - plain).abs().max()) <= near)


def torch_classifier(model: Model, reading: Reading, feature: str) -> tuple[HuggingFace, TokenReading] | None:
    """Return the torch classifier that computes, and a text as it reads it in one pass, for what looks inside of it."""
    inner, tokens = model.unwrap(reading)
    if not isinstance(inner, HuggingFace) or not isinstance(tokens, TokenReading):
        return None
    if len(tokens.windows) > 1:
        raise InputError(f'{feature} looks at one pass, this text is read in {len(tokens.windows)} windows; use long="cut"')
    return inner, tokens


def _default_activation(problem: str | None, n: int) -> Activation:
    """Return what transformers' text-classification pipeline applies to n outputs, by the configured problem type."""
    if problem == "regression":
        return "none"
    return "sigmoid" if n == 1 or problem == "multi_label_classification" else "softmax"
