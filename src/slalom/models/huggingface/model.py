"""Hugging Face sequence classifiers, and any torch module that turns token ids into logits.

Special tokens are those that the tokenizer puts around a text. Inputs of one batch have one length, so there is no padding
token, padding side or attention mask; only for an architecture that cannot read so few tokens is an input padded, and masked,
to the shortest length that it can read. The model is left as it was: weights, dtype, device, training flags, configuration.

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
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from slalom.errors import InputError, ModelError, SlalomError
from slalom.models.base import PADDING, Model
from slalom.models.head import Head
from slalom.models.huggingface.fingerprint import identity_of
from slalom.models.huggingface.reading import TokenReading, aligned_spans
from slalom.models.huggingface.saved import positions
from slalom.models.huggingface.staging import Transfer, to_device, to_host
from slalom.models.huggingface.wrappers import arguments, ids_by_keyword, unwrapped

Activation = Literal["softmax", "sigmoid", "none"]

_CPU_TOKENS = 4096  # per batch: what stays in the caches of a few cores
_GPU_TOKENS = 262_144  # per batch, at most
UNLIMITED = 10**9  # tokenizers without a limit have a larger one
_NO_PADDING = -2  # a padding token that never occurs; PADDING marks places
_HALF_SPEED, _FULL_SPEED = 4e14, 4e13  # operations per second of a large GPU; only their order of magnitude matters
_LAUNCH = 6e-4  # seconds that one layer takes to launch
_PADDED_LENGTHS = (4, 5, 6, 7, 8, 12, 16, 32, 64)  # to try where a model cannot read a short input


@final
class HuggingFace(Model):
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
        self.min_length, self.takes_empty = 0, True  # shorter inputs are padded; whether special tokens alone are an input
        self.head = self._head(activation)
        self.batch_tokens = batch_tokens or self._tokens_that_fit()

    @property
    def _config(self) -> Any:
        """The transformers configuration, where there is one."""
        return self.base.config if isinstance(self.base, PreTrainedModel) else None

    @property
    def _text_config(self) -> Any:
        """The part of the configuration that is about text, where there is one."""
        return None if self._config is None else self._config.get_text_config()

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
    def device(self) -> torch.device:
        """The device of the weights."""
        return next((p.device for p in self.model.parameters()), torch.device("cpu"))

    @property
    def max_in_flight(self) -> int:
        """How many batches may be submitted before the first is collected: many on a GPU, where launches are asynchronous."""
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
        """Numbers of special tokens before and after a text."""
        special = self.tokenizer(self.probe_text, return_special_tokens_mask=True)["special_tokens_mask"]
        return special.index(0), special[::-1].index(0)

    @cached_property
    def probe_text(self) -> str:
        """A short text with at least one token that is not special.

        Raises:
            InputError: The tokenizer has no such text.
        """
        for text in ("a", *(self.tokenizer.decode([i]) for i in range(min(len(self.tokenizer), 300)))):
            if not all(self.tokenizer(text, return_special_tokens_mask=True)["special_tokens_mask"]):
                return str(text)
        raise InputError(f"{type(self.tokenizer).__name__} does not make a token of any text; check its vocabulary")

    @cached_property
    def _arguments(self) -> dict[str, inspect.Parameter]:
        """The arguments of the forward pass."""
        return arguments(self.model)

    @cached_property
    def context_length(self) -> int | None:
        """Number of tokens that fit into the model, including special tokens; None where there is no limit."""
        stated = positions(self.model)
        return min([limit for limit in (self.max_length, stated) if limit is not None and limit < UNLIMITED], default=None)

    def read(self, text: str, long: str, spans: NDArray[np.int64] | None) -> TokenReading:
        """Tokenize a text; `spans` are not used."""
        fast = self.tokenizer.is_fast
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                encoding = self.tokenizer(text, return_offsets_mapping=fast, truncation=False, verbose=False)
            except TypeError as error:
                raise InputError(f"the tokenizer cannot read {text[:40]!r}; a text must be valid Unicode") from error
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
        room = None if self.context_length is None else self.context_length - before - after
        n, cut, windows = end - before, 0, [(0, end - before)]
        if room is not None and n > room:
            if room < 1:
                raise InputError(f"{self.name} has room for {self.context_length} tokens, which the special tokens fill")
            if long == "window":
                starts = [*range(0, n - room, max(room // 2, 1)), n - room]
                windows = [(a, a + room) for a in starts]
            else:
                cut, n, windows = n - room, room, [(0, room)]
                if self.tokenizer.truncation_side == "left":
                    tokens, places, table = tokens[cut:], places[cut:], np.delete(table, np.s_[before : before + cut], axis=1)
                    end -= cut
        names = tuple(
            text[a:b].strip() or self._token_name(token, text[a:b])
            for (a, b), token in zip(places[:n].tolist(), tokens, strict=False)
        )
        body = table[:, before : before + n]
        return TokenReading(text, names, places[:n], body, table[:, :before], table[:, end:], windows, cut, self.takes_empty)

    def _token_name(self, token_id: int, covered: str) -> str:
        """Return a name for a token that covers nothing of the text but white space."""
        token = str(self.tokenizer.convert_ids_to_tokens(token_id))
        plain = str(self.tokenizer.convert_tokens_to_string([token]))
        return plain.strip() or covered or plain or token

    def identity(self) -> str:
        """Return a fingerprint of configuration, settings, hooks and all weights of the model as it is now."""
        return f"{identity_of(self.model)} {self.precision} {self._template}"

    @contextmanager
    def session(self) -> Iterator[None]:
        """Switch to evaluation and inference mode, and back."""
        training = [module for module in self.model.modules() if module.training]
        config = self._text_config
        before = getattr(config, "pad_token_id", _NO_PADDING)  # some configurations have no such entry
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
                if before is None:
                    config.pad_token_id = _NO_PADDING  # decoders refuse batches without one
                yield
            finally:
                if before != _NO_PADDING:
                    config.pad_token_id = before
                for module in training:
                    module.training = True

    def batch_rows(self, length: int) -> int:
        """Return how many inputs of one length go into a batch."""
        return max(self.batch_tokens // max(length, 1), 1)

    def shrink(self) -> None:
        """Halve the batches."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.batch_tokens = max(self.batch_tokens // 2, 1)

    def submit(self, inputs: NDArray[np.int32]) -> Transfer:
        """Launch the forward pass of ids (k, planes, length) and the copy of its logits to the host."""
        return to_host(self.logits(inputs))

    def collect(self, handle: Transfer) -> NDArray[Any]:
        """Wait for the logits."""
        try:
            return np.asarray(handle.wait().numpy())
        except RuntimeError as error:  # a GPU reports some failures late
            raise self._failure(error, "a batch") from error

    def logits(self, inputs: NDArray[np.int32]) -> torch.Tensor:
        """Return the logits (k, n_outputs) of ids (k, planes, length), in float32 at least, on the device, asynchronously.

        Args:
            inputs: Token ids, and token types where the tokenizer has them, (k, planes, length).

        Raises:
            MemoryError: The batch is too large for the device.
            ModelError: The forward pass fails or does not return logits.
        """
        if PADDING in inputs[:, 0, -1]:
            return self._padded_on_the_right(inputs)
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
        if "use_cache" in self._arguments:
            more["use_cache"] = False
        try:
            answer = self.model(input_ids=ids, **more) if ids_by_keyword(self._arguments) else self.model(ids, **more)
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

    @cached_property
    def batch_overhead(self) -> int:  # type: ignore[override]
        """Tokens that a GPU could compute in the time that a batch takes to launch; 0 where padding would change the logits."""
        if self.device.type != "cuda" or not self._ignores_padding():
            return 0
        weights = sum(parameter.numel() for parameter in self.model.parameters())
        half = self.precision is not None or next(self.model.parameters()).dtype in (torch.float16, torch.bfloat16)
        seconds_per_token = 2.0 * weights / (_HALF_SPEED if half else _FULL_SPEED)
        launch = _LAUNCH * int(getattr(self._text_config, "num_hidden_layers", None) or 12)
        return int(np.clip(launch / seconds_per_token, 64, 16_384))

    def _ignores_padding(self) -> bool:
        """Return whether what follows the last token of an input changes nothing, as in decoders.

        Two inputs of one shape that differ in the padding only have equal logits then, bit by bit.
        """
        reading = self.read(self.probe_text, "cut", None)
        inputs = reading.groups(np.ones((1, len(reading.names)), dtype=bool))[0].build()[0]
        config, unused = self._text_config, self._unused(inputs)
        if inputs.shape[1] > 1 or self.min_length or not hasattr(config, "pad_token_id"):
            return False
        try:
            with self.session():
                plain = self.logits(inputs)
                padded = []
                for config.pad_token_id in (next(unused), next(unused)):
                    filler = np.full((1, 1, 5), config.pad_token_id, dtype=inputs.dtype)
                    padded.append(self.logits(np.concatenate([inputs, filler], axis=2)))
        except (ModelError, StopIteration):
            return False
        near = 0.05 * float(plain.abs().max())  # kernels differ with the shape
        return bool(torch.equal(*padded) and float((padded[0] - plain).abs().max()) <= near)

    def _padded_on_the_right(self, inputs: NDArray[np.int32]) -> torch.Tensor:
        """Return the logits of ids with PADDING; a model without a padding token gets one that they do not contain."""
        inputs = inputs[:, :, : int((inputs[:, 0] != PADDING).sum(axis=1).max())]
        config = self._text_config
        before = config.pad_token_id
        token = next(self._unused(inputs)) if before == _NO_PADDING else before
        try:
            config.pad_token_id = token
            return self.logits(np.where(inputs == PADDING, np.int32(token), inputs))
        finally:
            config.pad_token_id = before

    def _unused(self, inputs: NDArray[np.int32]) -> Iterator[int]:
        """Yield ids of the vocabulary that do not occur in inputs."""
        used = set(np.unique(inputs).tolist())
        return (i for i in range(int(self._text_config.vocab_size) - 1, -1, -1) if i not in used)

    def _failure(self, error: Exception, inputs: str) -> ModelError:
        """Return the error to raise for an error of the forward pass."""
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


def _default_activation(problem: str | None, n: int) -> Activation:
    """Return what transformers' text-classification pipeline applies to n outputs, by the configured problem type."""
    if problem == "regression":
        return "none"
    return "sigmoid" if n == 1 or problem == "multi_label_classification" else "softmax"


def first_line(error: Exception) -> str:
    """Return the kind of an error and the first line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
