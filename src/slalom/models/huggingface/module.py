"""What all models around a torch module and its tokenizer share: device, batches, the session, the reading of long texts.

The module is left as it was: weights, dtype, device, training flags, configuration. Nothing is moved or cast, so quantised
modules (4 or 8 bits) work as they are.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from slalom.errors import InputError, ModelError, SlalomError, one_line
from slalom.models.base import Model
from slalom.models.huggingface.reading import TokenReading, aligned_spans, readable
from slalom.models.huggingface.saved import check_vocabulary, positions
from slalom.models.huggingface.wrappers import unwrapped
from slalom.models.removal import Removal
from slalom.text import Record

_CPU_TOKENS = 4096  # per batch: what stays in the caches of a few cores
_GPU_TOKENS = 262_144  # per batch, at most
UNLIMITED = 10**9  # tokenizers without a limit have a larger one
_DRIVER_STAGED = 65_536  # bytes that the driver copies to its own buffer before it returns


class Transfer(NamedTuple):
    """A tensor on its way to host memory, and what is recorded after the copy (None: no copy was needed)."""

    block: torch.Tensor
    done: torch.cuda.Event | None

    def wait(self) -> torch.Tensor:
        """Return the tensor when the copy is complete."""
        if self.done is not None:
            self.done.synchronize()
        return self.block


def to_device(block: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a copy of host memory on a device. On a GPU it is asynchronous, and the block may be overwritten at once."""
    if device.type == "cuda" and block.nbytes > _DRIVER_STAGED:
        block = block.pin_memory()
    return block.to(device, non_blocking=device.type == "cuda")


def to_host(block: torch.Tensor) -> Transfer:
    """Start an asynchronous copy to host memory; requested later, it would wait for all that is queued in the meantime."""
    if block.device.type != "cuda":
        return Transfer(block.cpu(), None)
    copy = block.to("cpu", non_blocking=True)
    return Transfer(copy, torch.cuda.current_stream(block.device).record_event())


class TorchModel(Model):
    """A torch module, or a wrapper around one (`base`), with its tokenizer, in batches of at most `batch_tokens` tokens."""

    tokenized = True
    loader: ClassVar[str]  # the class of transformers that loads such models

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
        self.batch_tokens = tokens_that_fit(self.base, self.device)

    @property
    def _config(self) -> Any:
        return self.base.config if isinstance(self.base, PreTrainedModel) else None

    @property
    def _text_config(self) -> Any:
        return None if self._config is None else self._config.get_text_config()

    @cached_property
    def device(self) -> torch.device:
        return next((p.device for p in self.model.parameters()), torch.device("cpu"))

    @property
    def max_in_flight(self) -> int:
        return 16 if self.device.type == "cuda" else 1

    @cached_property
    def context_length(self) -> int | None:
        """Number of tokens that fit into the model, including special tokens; None where there is no limit."""
        limits = (self.max_length, positions(self.model))
        return min([limit for limit in limits if limit is not None and limit < UNLIMITED], default=None)

    def _encode(self, text: str, second: str | None = None, **options: Any) -> tuple[Any, list[tuple[int, int]]]:
        """Return what the tokenizer makes of a text, or of two, and where the tokens are in it."""
        fast = self.tokenizer.is_fast
        with warnings.catch_warnings(), readable(text):
            warnings.simplefilter("ignore")
            encoding = self.tokenizer(text, second, return_offsets_mapping=fast, truncation=False, verbose=False, **options)
        return encoding, encoding["offset_mapping"] if fast else aligned_spans(text, encoding["input_ids"], self.tokenizer)

    def _fitted(
        self,
        text: str,
        table: NDArray[np.int32],
        runs: Sequence[tuple[int, int]],
        spans: NDArray[np.int64],
        long: str,
        reserved: int = 0,
        full: str = "which the special tokens fill",
        **options: Any,
    ) -> TokenReading:
        """Return the tokens of a text, cut or in windows where they do not fit beside the others and those reserved."""
        n = sum(end - start for start, end in runs)
        room = None if self.context_length is None else self.context_length - (table.shape[1] - n) - reserved
        if room is not None and room < min(1, n):
            raise InputError(f"{self.name} has room for {self.context_length} tokens, {full}")
        left, unknown = self.tokenizer.truncation_side == "left", self.tokenizer.unk_token_id
        made = TokenReading(
            text,
            table,
            runs,
            spans,
            room,
            long,
            self._token_name,
            left,
            unknown=unknown,
            replacement=self._replacement,
            **options,
        )
        if isinstance(text, Record) and made.cut:
            made.cut_from = f" of {' and '.join(name for name, cut in zip(text.names, made.cut_of, strict=True) if cut)}"
        return made

    @property
    def _replacement(self) -> int | None:
        """Id of the token in place of removed ones; None where later ones move forward."""
        names = {"mask": ("mask_token_id", "unk_token_id"), "blank": ("pad_token_id", "eos_token_id")}
        if not isinstance(self.removal, str) or self.removal not in names:
            return None
        ids = [token for name in names[self.removal] if (token := getattr(self.tokenizer, name)) is not None]
        if not ids:
            raise InputError(f"the tokenizer of {self.name} has no token for removal={self.removal!r}; use 'drop'", "removal")
        return int(ids[0])

    def removing(self, removal: Removal) -> Model:
        other = super().removing(removal)
        assert isinstance(other, TorchModel)
        _ = other._replacement  # fails here where there is no such token
        return other

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

    def shrink(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        super().shrink()

    def collect(self, handle: Transfer) -> NDArray[Any]:
        with self._failures("a batch"):  # a GPU reports some failures late
            return np.asarray(handle.wait().numpy())

    @contextmanager
    def _failures(self, inputs: str) -> Iterator[None]:
        """Turn errors of the forward pass into a ModelError with advice, or a MemoryError."""
        try:
            with memory_errors():
                yield
        except (SlalomError, MemoryError):
            raise
        except Exception as error:
            if isinstance(error, IndexError) or "device-side assert" in str(error):
                advice = "give it the tokenizer that it was trained with"
            elif isinstance(error, TypeError):
                advice = "its forward must take input_ids, and nothing else that has no default but attention_mask"
            else:
                advice = f"load it with {self.loader}, or explain a callable around it, with output="
            reason = f"{type(error).__name__}: {one_line(error)}".removesuffix(": ")
            raise ModelError(f"{self.name} failed on {inputs}: {reason}; {advice}") from error


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
