"""Labelled texts, from a file (.csv, .tsv, .jsonl, .json, each also .gz) or from a data set of the `datasets` library."""

from collections.abc import Iterable, Iterator, Mapping
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
        names: Names of the labels, sorted; labels that are numbers by their size.
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


def read_labelled(source: str | Path, *, text: str = "text", label: str = "label", split: str = "train") -> Labelled:
    """Return the labelled texts of a file, or of a data set by its name.

    Raises:
        InputError: The source cannot be read, a column is missing, or no row has both a text and a label.
    """
    path = Path(source)
    if path.is_file() and not has_rows(path):
        raise InputError(
            f"data must be a .csv, .tsv, .jsonl or .json file (also .gz), or the name of a data set; got {str(path)!r}"
        )
    rows = read_rows(path) if has_rows(path) else _rows_of_dataset(str(source), split)
    pairs, skipped = _pairs(rows, text, label, str(source))
    names = tuple(sorted({name for _, name in pairs}, key=_order))
    number_of = {name: i for i, name in enumerate(names)}
    labels = np.array([number_of[name] for _, name in pairs], dtype=np.int64)
    return Labelled(tuple(words for words, _ in pairs), labels, names, str(source), skipped)


def _pairs(rows: Iterable[Mapping[str, Any]], text: str, label: str, source: str) -> tuple[list[tuple[str, str]], int]:
    """Return texts with the names of their labels, and the number of rows that lack one of them."""
    pairs, skipped = list[tuple[str, str]](), 0
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
        pairs.append((words, str(name if isinstance(name, str) else int(name))))
    if not pairs:
        raise InputError(f"{source} must have at least one row with a text and a label; all {skipped} rows lack one of them")
    return pairs, skipped


def _order(name: str) -> tuple[bool, int, str]:
    number = name.removeprefix("-").isdecimal()
    return not number, int(name) if number else 0, name


def _rows_of_dataset(name: str, split: str) -> Iterator[Mapping[str, Any]]:
    with require(f"there is no file {name!r}, and a data set by its name", "all", "datasets"):
        import datasets  # noqa: PLC0415
    try:
        rows = datasets.load_dataset(name, split=split)
    except Exception as error:  # loaders raise many kinds of errors
        raise InputError(
            f"{name!r} is neither a file nor a data set with the split {split!r} that could be loaded: {one_line(error)}"
        ) from error
    names = {column: feature.names for column, feature in rows.features.items() if isinstance(feature, datasets.ClassLabel)}
    for row in rows:
        yield {c: names[c][v] if c in names and isinstance(v, int) and v >= 0 else v for c, v in row.items()}
