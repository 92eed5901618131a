"""The bundled classifier without a deep-learning framework: tokenizers reads the text, numpy computes the logits.

Batches are computed in threads, one per core, each with one BLAS thread: matrices of this size are too small to be shared.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats
from slalom.models.base import Model, Reading
from slalom.models.encoder import Encoder, Singles
from slalom.models.head import Head
from slalom.models.huggingface.reading import TokenReading, readable
from slalom.threads import one_blas_thread, threads_here


@final
class Bundled(Model):
    """A small BERT classifier, computed by numpy; `in_torch` returns the same in torch, for methods that look inside."""

    tokenized = True

    def __init__(self, folder: Path, name: str, in_torch: Callable[[], Model] | None = None) -> None:
        from tokenizers import Tokenizer  # noqa: PLC0415

        self.folder, self.name, self.in_torch = folder, name, in_torch
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.encoder = Encoder(folder)
        labels = self.encoder.config["id2label"]
        self.head = Head("classes", tuple(labels[str(i)] for i in range(len(labels))))
        self._pool: ThreadPoolExecutor | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None}

    def read(self, text: str, long: str, spans: NDArray[np.int64] | None) -> TokenReading:
        with readable(text):
            encoding = self.tokenizer.encode(text)
        end = len(encoding.ids) - 1
        places = np.array(encoding.offsets[1:end], dtype=np.int64).reshape(-1, 2)
        room = int(self.encoder.config["max_position_embeddings"]) - 2
        ids, unknown = np.array([encoding.ids], dtype=np.int32), self.tokenizer.token_to_id("[UNK]")
        replacement = None
        if self.removal in ("mask", "blank"):  # it has no token for a mask
            replacement = unknown if self.removal == "mask" else self.tokenizer.token_to_id("[PAD]")
        return TokenReading(
            text, ids, [(1, end)], places, room, long, self._token_name, unknown=unknown, replacement=replacement
        )

    def _token_name(self, token_id: int, covered: str) -> str:
        return str(self.tokenizer.id_to_token(token_id)) or covered

    def unwrap(self, reading: Reading) -> tuple[Model, Reading]:
        if self._inside is None:
            return self, reading
        several = isinstance(reading, TokenReading) and len(reading.windows) > 1
        return self._inside, self._inside.removing(self.removal).read(reading.text, "window" if several else "cut", None)

    @cached_property
    def _inside(self) -> Model | None:
        return None if self.in_torch is None else self.in_torch()

    @cached_property
    def _identity(self) -> str:
        return identity_of_files(self.folder)

    def identity(self) -> str:
        return self._identity

    @contextmanager
    def session(self) -> Iterator[None]:
        with one_blas_thread(), ThreadPoolExecutor(self.max_in_flight) as self._pool:
            yield
        self._pool = None

    @property
    def max_in_flight(self) -> int:
        return threads_here()

    def submit(self, inputs: NDArray[np.int32]) -> "Future[Singles]":
        if self._pool is None:
            raise RuntimeError("a batch must be submitted in a session")
        return self._pool.submit(self.encoder, inputs[:, 0])

    def collect(self, handle: "Future[Singles]") -> Floats:
        return handle.result().astype(np.float64)


def identity_of_files(folder: Path) -> str:
    """Return the identity of the classifier in a folder."""
    files = (folder / "model.safetensors", folder / "tokenizer.json")
    return "numpy " + sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
