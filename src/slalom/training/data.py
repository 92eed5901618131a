"""Labelled texts, from a file or from a data set by its name.

    reviews.csv, .tsv, .jsonl, .json (each also .gz)     rows with a column of texts and one of labels
    anything else                                        a data set of the `datasets` library

Labels may be numbers or words; they become 0, 1, ... in sorted order, and `names` has the originals.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from slalom.errors import InputError, one_line, require
from slalom.files import has_rows, read_rows


@final
@dataclass(frozen=True, eq=False)
class Labelled:
    """Labelled texts.

    Attributes:
        texts: The texts (m,).
        labels: Their labels (m,), indices into `names`.
        names: Names of the labels.
        source: Name of the file or data set.
        skipped: Number of rows left out because they had no text or no label.
    """

    texts: tuple[str, ...]
    labels: NDArray[np.int64]
    names: tuple[str, ...]
    source: str
    skipped: int = 0

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, rows: NDArray[Any]) -> "Labelled":
        chosen = np.arange(len(self))[rows]
        return Labelled(tuple(self.texts[i] for i in chosen), self.labels[chosen], self.names, self.source)

    def named(self, names: Sequence[str]) -> "Labelled":
        """Return the same texts with labels in the order of other names.

        Args:
            names: The names, which must include all that occur.

        Raises:
            InputError: If a label is not among the names.

        Example:
            >>> Labelled(("a", "b"), np.array([0, 1]), ("no", "yes"), "here").named(["yes", "no"]).labels.tolist()
            [1, 0]
        """
        missing = [self.names[i] for i in np.unique(self.labels) if self.names[i] not in names]
        if missing:
            raise InputError(f"labels in {self.source} must be among {', '.join(names)}; it also has {', '.join(missing[:5])}")
        order = np.array([list(names).index(name) if name in names else -1 for name in self.names])
        return Labelled(self.texts, order[self.labels], tuple(names), self.source, self.skipped)

    def fingerprint(self) -> str:
        """Return a short hash of texts, labels and names."""
        digest = hashlib.sha256(repr(self.names).encode())
        for text, label in zip(self.texts, self.labels.tolist(), strict=True):
            digest.update(f"{label} {len(text)} {text}".encode(errors="surrogatepass"))
        return digest.hexdigest()[:16]


def read_labelled(source: str | Path, *, text: str = "text", label: str = "label", split: str = "train") -> Labelled:
    """Read labelled texts from a file, or from a data set by its name.

    Args:
        source: A .csv, .tsv, .jsonl or .json file (also .gz), or the name of a data set of the `datasets` library.
        text: Column of the texts.
        label: Column of the labels.
        split: Split of a data set.

    Returns:
        Texts and labels of all rows that have both.

    Raises:
        InputError: If the source cannot be read, a column is missing, or no row has both text and label.
    """
    path = Path(source)
    if has_rows(path):
        rows = read_rows(path)
    elif path.is_file():
        raise InputError(
            f"data must be a .csv, .tsv, .jsonl or .json file (also .gz), or the name of a data set; got {str(path)!r}"
        )
    else:
        rows = _rows_of_dataset(str(source), split)
    return _labelled(rows, text, label, str(source))


def _labelled(rows: Iterable[Mapping[str, Any]], text: str, label: str, source: str) -> Labelled:
    texts: list[str] = []
    raw: list[str | int] = []
    skipped = 0
    for number, row in enumerate(rows, start=1):
        for column in (text, label):
            if column not in row:
                raise InputError(
                    f"row {number} of {source} has no column {column!r}; it has {', '.join(map(repr, row))};"
                    " name the columns of texts and labels"
                )
        words, name = row[text], row[label]
        if name is None or name == "" or not isinstance(words, str) or not words.strip():
            skipped += 1
            continue
        if not isinstance(name, (str, int, float)) or (isinstance(name, float) and not name.is_integer()):
            raise InputError(f"labels must be words or whole numbers; row {number} of {source} has {name!r}")
        texts.append(words)
        raw.append(int(name) if isinstance(name, (bool, float)) else name)
    if not texts:
        raise InputError(f"{source} must have at least one row with a text and a label; all {skipped} rows lack one of them")
    as_number = {name: int(name) for name in set(raw) if re.fullmatch(r"-?[0-9]+", str(name))}
    distinct = set(raw)
    ordered = (
        sorted(distinct, key=lambda name: as_number[name]) if len(as_number) == len(distinct) else sorted(map(str, distinct))
    )
    names = tuple(dict.fromkeys(map(str, ordered)))
    number_of = {name: i for i, name in enumerate(names)}
    labels = np.array([number_of[str(name)] for name in raw], dtype=np.int64)
    return Labelled(tuple(texts), labels, names, source, skipped)


def _rows_of_dataset(name: str, split: str) -> Iterator[Mapping[str, Any]]:
    with require(f"there is no file {name!r}, and a data set by its name", "all", "datasets"):
        import datasets  # noqa: PLC0415
    try:
        rows = datasets.load_dataset(name, split=split)
    except Exception as error:  # loaders raise many kinds of errors
        reason = one_line(error)
        raise InputError(
            f"{name!r} is neither a file nor a data set with the split {split!r} that could be loaded: {reason}"
        ) from error
    names = {column: feature.names for column, feature in rows.features.items() if isinstance(feature, datasets.ClassLabel)}
    for row in rows:
        yield {c: names[c][v] if c in names and isinstance(v, int) and v >= 0 else v for c, v in row.items()}
