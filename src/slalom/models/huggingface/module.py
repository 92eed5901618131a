"""What all models around a torch module and its tokenizer share: device, batches, the session, the reading of long texts.

The module is left as it was: weights, dtype, device, training flags, configuration. Nothing is moved or cast, so quantised
modules (4 or 8 bits) work as they are.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from slalom.errors import InputError, ModelError
from slalom.models.base import Model
from slalom.models.huggingface.reading import TokenReading, fitted_reading
from slalom.models.huggingface.saved import check_vocabulary, positions
from slalom.models.huggingface.staging import Transfer
from slalom.models.huggingface.wrappers import unwrapped

_CPU_TOKENS = 4096  # per batch: what stays in the caches of a few cores
_GPU_TOKENS = 262_144  # per batch, at most
UNLIMITED = 10**9  # tokenizers without a limit have a larger one
_HALF_SPEED, _FULL_SPEED = 4e14, 4e13  # operations per second of a large GPU; only their order of magnitude matters
_LAUNCH = 6e-4  # seconds that one layer takes to launch


class TorchModel(Model):
    """A torch module with its tokenizer, in batches of a bounded number of tokens.

    Args:
        model: A torch module, or a wrapper around one.
        tokenizer: Its tokenizer.
        name: What to call the model. Default: the name of its class.
        max_length: Tokens per input at most. Default: the tokenizer's `model_max_length`. The model's own limit always holds.

    Attributes:
        base: The model inside of wrappers.
        batch_tokens: Tokens per batch.

    Raises:
        InputError: There is no tokenizer, or the weights are not loaded.
    """

    tokenized = True
    loader: ClassVar[str]  # the class of transformers that loads such models
    batch_tokens: int

    def __init__(
        self, model: torch.nn.Module, tokenizer: PreTrainedTokenizerBase, name: str | None, max_length: int | None
    ) -> None:
        if not isinstance(tokenizer, PreTrainedTokenizerBase):
            raise InputError(
                f"a Hugging Face model needs its tokenizer as the second argument; got {type(tokenizer).__name__}"
                " (load it with AutoTokenizer.from_pretrained)"
            )
        self.model, self.base, self.tokenizer = model, unwrapped(model), tokenizer
        self.name = name or type(self.base).__name__
        if any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers())):
            raise InputError(
                f"the weights of {self.name} must be loaded, some are on the meta device;"
                " load the model with from_pretrained, without offloading"
            )
        check_vocabulary(tokenizer, self.name)
        self.max_length = int(tokenizer.model_max_length if max_length is None else max_length)

    @property
    def _config(self) -> Any:
        """The transformers configuration, where there is one."""
        return self.base.config if isinstance(self.base, PreTrainedModel) else None

    @property
    def _text_config(self) -> Any:
        """The part of the configuration that is about text, where there is one."""
        return None if self._config is None else self._config.get_text_config()

    def _launch_tokens(self, half: bool = False) -> int:
        """Return how many tokens a GPU could compute in the time that a batch takes to launch."""
        weights = sum(parameter.numel() for parameter in self.model.parameters())
        half = half or next(self.model.parameters()).dtype in (torch.float16, torch.bfloat16)
        seconds_per_token = 2.0 * weights / (_HALF_SPEED if half else _FULL_SPEED)
        launch = _LAUNCH * int(getattr(self._text_config, "num_hidden_layers", None) or 12)
        return int(np.clip(launch / seconds_per_token, 64, 16_384))

    @cached_property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next((p.device for p in self.model.parameters()), torch.device("cpu"))

    @property
    def max_in_flight(self) -> int:
        return 16 if self.device.type == "cuda" else 1

    def _tokens_that_fit(self) -> int:
        return tokens_that_fit(self.base, self.device)

    @cached_property
    def context_length(self) -> int | None:
        """Number of tokens that fit into the model, including special tokens; None where there is no limit."""
        stated = positions(self.model)
        return min([limit for limit in (self.max_length, stated) if limit is not None and limit < UNLIMITED], default=None)

    def _fitted(
        self,
        text: str,
        table: NDArray[np.int32],
        before: int,
        end: int,
        spans: NDArray[np.int64],
        long: str,
        reserved: int = 0,
        full: str = "which the special tokens fill",
    ) -> TokenReading:
        """Return the tokens of a text, cut or in windows where they do not fit."""
        after = table.shape[1] - end
        room = None if self.context_length is None else self.context_length - before - after - reserved
        if room is not None and room < min(1, end - before):
            raise InputError(f"{self.name} has room for {self.context_length} tokens, {full}")
        left, unknown = self.tokenizer.truncation_side == "left", self.tokenizer.unk_token_id
        return fitted_reading(text, table, before, end, spans, room, long, self._token_name, left, self._takes_empty(), unknown)

    def _takes_empty(self) -> bool:
        """Return whether an input without any token of the text is one."""
        return True

    def _token_name(self, token_id: int, covered: str) -> str:
        """Return a name for a token that covers nothing of the text but white space."""
        token = str(self.tokenizer.convert_ids_to_tokens(token_id))
        plain = str(self.tokenizer.convert_tokens_to_string([token]))
        return plain.strip() or covered or plain or token

    @contextmanager
    def session(self) -> Iterator[None]:
        self.__dict__.pop("device", None)
        with evaluating(self.model, self.device):
            yield

    def batch_rows(self, length: int) -> int:
        return max(self.batch_tokens // max(length, 1), 1)

    def shrink(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.batch_tokens = max(self.batch_tokens // 2, 1)

    def collect(self, handle: Transfer) -> NDArray[Any]:
        try:
            return np.asarray(handle.wait().numpy())
        except RuntimeError as error:  # a GPU reports some failures late
            raise self._failure(error, "a batch") from error

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
            advice = f"load it with {self.loader}, or explain a callable around it, with output="
        return ModelError(f"{self.name} failed on {inputs}: {first_line(error)}; {advice}")


@contextmanager
def evaluating(model: torch.nn.Module, device: torch.device) -> Iterator[None]:
    """Run a module in evaluation and inference mode, and restore its training flags afterwards."""
    training = [module for module in model.modules() if module.training]
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode())
        if device.type == "cuda":
            # cuDNN's attention compiles a plan for every new shape, which takes longer than a whole explanation.
            stack.enter_context(sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]))
        try:
            for module in training:
                module.training = False
            yield
        finally:
            for module in training:
                module.training = True


@contextmanager
def memory_errors() -> Iterator[None]:
    """Turn torch's error of a device without enough memory into a MemoryError, after which the engine asks for less at once."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise MemoryError(str(error)) from error


def tokens_that_fit(base: torch.nn.Module, device: torch.device) -> int:
    """Return how many tokens a batch may have, by device and free memory."""
    if device.type != "cuda":
        return _CPU_TOKENS
    config = getattr(base, "config", None)
    width = int(getattr(config, "hidden_size", None) or getattr(config, "d_model", None) or 1024)
    free, _ = torch.cuda.mem_get_info(device)
    return int(min(max(0.3 * free / (width * 4 * 24), 2048), _GPU_TOKENS))


def first_line(error: Exception) -> str:
    """Return the kind of an error and the first line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
