"""A lexicon: what a model says of each word alone, learnt once from many texts and then known in every text.

The value of a word is the model's own answer to the word alone, and does not depend on a text; how loud it is and how words
compete hardly do. A lexicon has all of this, and how far texts differ from it; `Explainer(prior=...)` begins with it.

A word is known by the input that it makes when it stands alone, so the same word of another spelling is another one.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats
from slalom.core.fitting.across import Across
from slalom.errors import InputError, count, require
from slalom.lexicon.known import KnownWords, alone_keys, check_single, first_units, identity_of, mirrored, width
from slalom.lexicon.learning import estimate, learn
from slalom.methods import JointMethod
from slalom.models import EMBEDDED, Engine, Estimate, Head, Reading
from slalom.text import Mixed, Units

FORMAT = 1
BUNDLED = "bundled"  # the name of the lexicon of the bundled classifier
_METADATA = b"slalom lexicon"
_LARGEST = 20.0  # logarithm
_HIGHEST = 1e30  # other number
_WORDS = ("values", "importances", "importances_se", "in_texts", "in_texts_se")  # parts of Across that have a row per word


@final
@dataclass(frozen=True, eq=False)
class Lexicon:
    """What a model says of V words, and how they act in its texts.

    Attributes:
        words: The words as they are shown (V,).
        keys: What their inputs are known by.
        texts: In how many texts each of them was seen (V,).
        outputs: The model's outputs for the words alone (V, n_columns).
        empty: That for the empty input, (0 or 1, n_columns).
        alone: Scores of the words alone less that of the empty input, for each class or the second of two (V, K).
        across: Values, importances and what all texts have in common.
        log_variances: How far texts differ from that, for scores with deviation 1: of values, importances, neighbours, places
            and noise.
        certain: Precisions of these.
        about: Where it comes from and how good it is, as plain data.
    """

    words: tuple[str, ...]
    keys: tuple[bytes, ...]
    texts: NDArray[np.int64]
    outputs: Floats
    empty: Floats
    alone: Floats
    across: Across
    log_variances: Floats
    certain: Floats
    about: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.words)

    def __repr__(self) -> str:
        return f"Lexicon({count(len(self), 'word')} of {count(self.about['texts'], 'text')}, {self.digest})"

    def shortened(self) -> "Lexicon":
        """Return what a file keeps: what is fitted of words, in single precision."""
        parts = (getattr(self.across, name).astype(np.float32).astype(np.float64) for name in _WORDS)
        return replace(self, across=Across(*parts, *self.across[len(_WORDS) :]))

    @cached_property
    def digest(self) -> str:
        """A short name of its content."""
        numbers = (self.outputs, self.empty, *self.across, self.log_variances, self.certain)
        content = b"".join([*self.keys, *(np.asarray(part, dtype=float).tobytes() for part in numbers)])
        return hashlib.blake2b(content, digest_size=6).hexdigest()

    @classmethod
    def learn(cls, explainer: Any, texts: Iterable[str], *, queries: int = 120) -> "Lexicon":
        """Learn the words of texts from queries about them.

        A call that was interrupted goes on where it was, if the Explainer has a cache.

        Args:
            explainer: An Explainer, whose unit, seed and cache are used.
            texts: At least ten texts like those that will be explained; a thousand are better.
            queries: Queries per text, besides each new word alone.

        Raises:
            InputError: There are too few texts, or nothing identifies the model.
        """
        return learn(cls, explainer, texts, queries)

    @staticmethod
    def estimate(explainer: Any, texts: Iterable[str], *, queries: int = 120) -> Estimate:
        """Return what `learn` would ask and cost; the model is asked nothing."""
        return estimate(explainer, texts, queries)

    def save(self, path: str | Path) -> None:
        """Write a Parquet file: a row per word; `docs/reference/file-formats.md` has its columns."""
        try:
            Path(path).write_bytes(self.to_parquet())
        except OSError as error:
            raise InputError(f"{str(path)!r} cannot be written: {error.strerror or error}") from None

    @classmethod
    def load(cls, path: str | Path) -> "Lexicon":
        """Read a file that `save` wrote; "bundled" is the lexicon of the bundled classifier.

        Raises:
            InputError: It is something else.
        """
        file = EMBEDDED / "lexicon.parquet" if str(path) == BUNDLED else Path(path)
        if not file.is_file():
            raise InputError(f"there is no file {str(path)!r}; slalom lexicon build writes one", "prior")
        return cls.from_parquet(file.read_bytes(), str(path))

    def to_parquet(self) -> bytes:
        """Return the content of the file."""
        pa, pq = _pyarrow()
        short = {1: pa.float32(), 2: pa.list_(pa.float32())}
        parts = {name: np.asarray(getattr(self.across, name)) for name in _WORDS}
        of_words = {name: pa.array(part.tolist(), short[part.ndim]) for name, part in parts.items()}
        columns = {
            "word": list(self.words), "texts": self.texts, "alone": self.alone.tolist(), **of_words,
            "outputs": self.outputs.tolist(), "key": list(self.keys),
        }  # fmt: skip
        common = {name: np.asarray(part).tolist() for name, part in self.across._asdict().items() if name not in _WORDS}
        own = {name: getattr(self, name).tolist() for name in ("empty", "log_variances", "certain")}
        kept = {"format": FORMAT, "common": common, **own, "about": dict(self.about)}
        table = pa.table(columns).replace_schema_metadata({_METADATA: json.dumps(kept).encode()})
        content = pa.BufferOutputStream()
        pq.write_table(table, content, compression="zstd")
        return bytes(content.getvalue())

    @classmethod
    def from_parquet(cls, content: bytes, name: str) -> "Lexicon":
        """Return the lexicon in a file of this name."""
        pa, pq = _pyarrow()
        try:
            table = pq.read_table(pa.BufferReader(content))
            kept = json.loads((table.schema.metadata or {})[_METADATA])
            if kept["format"] != FORMAT:
                raise InputError(f"{name!r} is a lexicon of format {kept['format']}; this version reads {FORMAT}", "prior")
            column = {title: table.column(title).to_pylist() for title in table.column_names}
            parts = {title: np.array(column[title], dtype=float) for title in (*_WORDS, "outputs", "alone")}
            parts |= {title: np.array(part, dtype=float) for title, part in kept["common"].items()}
            own = {title: np.array(kept[title], dtype=float) for title in ("empty", "log_variances", "certain")}
            outputs, alone, empty = parts.pop("outputs"), parts.pop("alone"), own.pop("empty")
            words, keys, texts = tuple(column["word"]), tuple(column["key"]), np.array(column["texts"])
            empty = empty.reshape(-1, outputs.shape[1])
            found = cls(words, keys, texts, outputs, empty, alone, Across(**parts), **own, about=kept["about"])  # type: ignore[arg-type]
            found._check_shapes()
        except InputError:
            raise
        except Exception as error:  # it may hold anything
            raise InputError(f"{name!r} must be a file that slalom lexicon build wrote; it is not", "prior") from error
        return found

    def _check_shapes(self) -> None:
        """Raise a ValueError where parts do not fit together."""
        n, (_, k) = len(self), self.alone.shape
        shapes = [getattr(self.across, name).shape for name in Across._fields]
        expected = [(n, k), (n,), (n,), (n, k), (n, k), (), (k,), (k,), (k,), (k,)]
        others = self.texts.shape, self.log_variances.shape, self.certain.shape, (len(self.outputs), len(self.keys))
        if shapes != expected or others != ((n,), (5,), (5,), (n, n)) or self.texts.dtype.kind != "i":
            raise ValueError("parts do not fit together")
        labels, held = self.about["labels"], self.about["held_out"]
        named = [self.about[name] for name in ("model", "identity", "unit")] + [*labels, *self.words]
        said = [self.about["texts"], held["texts"], *(held[name] for name in ("near", "far") if held[name] is not None)]
        logarithms = np.concatenate([self.log_variances, self.across.importances, [self.across.logit]])
        positive = np.concatenate([self.certain, self.across.reach, self.across.spread])
        numbers = (self.outputs, self.empty, self.alone, *self.across, positive, 1.0 / positive, said)
        small = all((np.abs(part) < _HIGHEST).all() for part in numbers) and (np.abs(logarithms) < _LARGEST).all()
        if not small or not (positive > 0.0).all():
            raise ValueError("numbers are out of range")
        if k not in (len(labels), 1) or not labels or not all(isinstance(name, str) for name in named):
            raise ValueError("classes do not fit")
        if not all(isinstance(key, bytes) for key in self.keys) or not all(isinstance(number, (int, float)) for number in said):
            raise TypeError("keys and what is said must be bytes and numbers")

    def check(self, engine: Engine, unit: str) -> None:
        """Raise an InputError where the lexicon is of another model, or of other units."""
        head = engine.model.head
        if self.about["unit"] != unit:
            raise InputError(f"the lexicon has words of unit={self.about['unit']!r}; got unit={unit!r}", "prior", "unit")
        if self.about["identity"] != identity_of(engine):
            raise InputError(
                f"the lexicon was learnt from another model ({self.about['model']}), or from this one before it was changed;"
                f" learn one of {engine.model.name} with slalom lexicon build",
                "prior",
            )
        mine = list(self.about["labels"]), self.outputs.shape[1], self.alone.shape[1]
        if mine != (list(head.labels), engine.model.n_columns, width(head)):
            raise InputError(
                f"the lexicon has the classes {', '.join(self.about['labels'])}, and {engine.model.name} has"
                f" {', '.join(head.labels)}; use the same labels and output",
                "prior",
            )

    def on(self, method: Any) -> JointMethod:
        """Return the method with this lexicon; InputError where it is another one than `joint`."""
        return taking(method).knowing(self)

    def of_text(self, reading: Reading, units: Units) -> KnownWords:
        """Return what the lexicon has of the words of a text."""
        check_single(reading.text)
        first = first_units(units)
        found = np.array([self._numbers.get(key, -1) for key in alone_keys(reading, units, first)], dtype=np.int64)
        return KnownWords(self, units.shared.type_of_unit, first, found, reading.empty)

    @cached_property
    def _numbers(self) -> dict[bytes, int]:
        return {key: i for i, key in enumerate(self.keys)}

    def column(self, head: Head, target: int) -> tuple[int, float]:
        """Return the column of a class, and -1.0 where its scores are those of the other one, negated."""
        if mirrored(head):
            return 0, 1.0 if target == len(head.labels) - 1 else -1.0
        return target, 1.0


def _pyarrow() -> tuple[Any, Any]:
    with require("a lexicon", "corpus", "pyarrow"):
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415
    return pa, pq


def taking(method: Any) -> JointMethod:
    """Return a method if it takes a lexicon, which only `joint` does."""
    if not isinstance(method, JointMethod) or not isinstance(method.sampler, Mixed):
        raise InputError(f"a lexicon needs method=joint; got method={method.name}", "method")
    return method
