"""DuckDB over the Parquet parts of a corpus: it reads only the columns that a query needs, and spills to disk.

Local parts are read by DuckDB itself, remote ones through the file system of pyarrow that has written them. Every part is
verified (`slalom.corpus.parts`) before it is read.
"""

import tempfile
from collections.abc import Iterator, Sequence
from glob import escape
from pathlib import Path
from typing import Any, final
from uuid import uuid4

from slalom.corpus.folder import Folder, part_name
from slalom.corpus.parts import part_file
from slalom.errors import require

MEMORY = "1GB"  # of DuckDB; what does not fit is written to a temporary folder


def connect() -> Any:
    """Return a connection to a new database in memory."""
    with require("a query over a corpus", "corpus", "duckdb"):
        import duckdb  # noqa: PLC0415
    spilled = Path(tempfile.gettempdir()) / f"slalom-duckdb-{uuid4().hex[:12]}"
    settings = {"memory_limit": MEMORY, "temp_directory": str(spilled), "preserve_insertion_order": "false"}
    return duckdb.connect(config={**settings, "autoinstall_known_extensions": "false"})


@final
class Parts:
    """Some parts of a corpus as a table of DuckDB.

    Args:
        connection: The connection.
        folder: Where they lie.
        numbers: The parts. Default: those that are there now.
        name: Names the parts in the database, where several corpora are read.

    Raises:
        InputError: A part is damaged.
    """

    def __init__(self, connection: Any, folder: Folder, numbers: Sequence[int] | None = None, name: str = "parts") -> None:
        self.connection, self._folder, self._name = connection, folder, name
        self._rows: dict[int, int] = {}  # by part
        for number in folder.parts() if numbers is None else numbers:
            with part_file(folder, number) as file:
                self._rows[number] = file.metadata.num_rows

    def __len__(self) -> int:
        return sum(self._rows.values())

    def source(self, numbers: Sequence[int] | None = None) -> str:
        """Return what stands after FROM to read the parts, or some of them."""
        names = [part_name(number) for number in (self._rows if numbers is None else numbers)]
        if self._folder.is_local:
            return f"read_parquet([{', '.join(literal(escape(self._folder.path(name))) for name in names)}])"
        from pyarrow.dataset import dataset  # noqa: PLC0415

        self.connection.register(self._name, dataset([self._folder.at(name) for name in names], filesystem=self._folder.files))
        return self._name

    def chunks(self, texts: float) -> Iterator[str]:
        """Yield what stands after FROM for parts with about as many texts in all, at least one part each."""
        numbers, rows = list[int](), 0
        for number in self._rows:
            if numbers and rows + self._rows[number] > texts:
                yield self.source(numbers)
                numbers, rows = [], 0
            numbers.append(number)
            rows += self._rows[number]
        if numbers:
            yield self.source(numbers)


def literal(text: str) -> str:
    """Return a string as SQL."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """Return the name of a column as SQL."""
    return '"' + name.replace('"', '""') + '"'
