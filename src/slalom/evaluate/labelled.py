"""Labelled texts from a file: .csv, .tsv, .jsonl or .json, each also .gz."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from slalom.errors import InputError
from slalom.files import has_rows, read_rows


@final
@dataclass(frozen=True, eq=False)
class Labelled:
    """Labelled texts: the texts (m,), their labels (m,) as indices into the sorted names, and the file they are from."""

    texts: tuple[str, ...]
    labels: NDArray[np.int64]
    names: tuple[str, ...]
    source: str

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, rows: NDArray[Any]) -> "Labelled":
        chosen = np.arange(len(self))[rows]
        return Labelled(tuple(self.texts[i] for i in chosen), self.labels[chosen], self.names, self.source)


def read_labelled(source: str | Path, *, text: str = "text", label: str = "label") -> Labelled:
    """Return the labelled texts of a file; rows without a text or a label are left out."""
    if not has_rows(Path(source)):
        raise InputError(f"labelled texts must be in a .csv, .tsv, .jsonl or .json file (also .gz); got {str(source)!r}")
    pairs = list[tuple[str, str]]()
    for number, row in enumerate(read_rows(Path(source)), start=1):
        for column in (text, label):
            if column not in row:
                raise InputError(f"row {number} of {source} has no column {column!r}; it has {', '.join(map(repr, row))}")
        words, name = row[text], row[label]
        if name is None or name == "" or not isinstance(words, str) or not words.strip():
            continue
        if not isinstance(name, (str, int)):
            raise InputError(f"labels must be words or whole numbers; row {number} of {source} has {name!r}")
        pairs.append((words, str(int(name)) if isinstance(name, bool) else str(name)))
    if not pairs:
        raise InputError(f"{source} must have at least one row with a text and a label; it has none")
    names, labels = np.unique([name for _, name in pairs], return_inverse=True)
    return Labelled(tuple(words for words, _ in pairs), labels, tuple(names.tolist()), str(source))
