"""The cache file: answers of models in an SQLite file that several processes may share.

    answers (model TEXT, key BLOB, outputs BLOB)     outputs: float64, then the CRC-32 of key and outputs

A file that cannot be opened or read is an InputError. A damaged answer counts as missing. An answer that cannot be written
(full disk, a lock that is held too long) is a warning: the caller has it in memory and continues without the file.
"""

import sqlite3
import time
import warnings
from contextlib import closing, suppress
from pathlib import Path
from threading import RLock
from zlib import crc32

import numpy as np

from slalom.core.checks import Floats
from slalom.errors import InputError, one_line
from slalom.forks import wait_before_fork

_COLUMNS = [("model", 1), ("key", 2), ("outputs", 0)]  # with their places in the primary key
_KEYS_PER_SELECT = 500  # keys in one SELECT
_FAILURES = (sqlite3.Error, UnicodeDecodeError)  # the latter where a message quotes what is damaged
_WORKING = RLock()  # SQLite's own locks, held by another thread, would never be released in a forked process
wait_before_fork(_WORKING)


class AnswerStore:
    """The answers of one model in a cache file; a context manager that does nothing where there is no file."""

    timeout = 60.0  # seconds to wait for the lock of another process

    def __init__(self, file: Path | None, model_id: str | None) -> None:
        self.file, self.model_id = file, model_id
        self.failed = False  # whether an answer could not be written; the file is no longer used then
        self._base: sqlite3.Connection | None = None

    def __enter__(self) -> "AnswerStore":
        if self.file is not None:
            try:
                with _WORKING:
                    self._base = self._opened(self.file)
            except (*_FAILURES, OSError) as error:
                raise self._unusable(error) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def load(self, keys: list[bytes], n_columns: int) -> dict[bytes, Floats]:
        """Return those answers (n_columns,) to inputs that are in the file, by key."""
        answers: dict[bytes, Floats] = {}
        if self._base is None:
            return answers
        try:
            for start in range(0, len(keys), _KEYS_PER_SELECT):
                chunk = keys[start : start + _KEYS_PER_SELECT]
                query = f"SELECT key, outputs FROM answers WHERE model = ? AND key IN ({','.join('?' * len(chunk))})"
                with _WORKING, closing(self._base.execute(query, [self.model_id, *chunk])) as rows:
                    unpacked = ((key, _unpacked(key, packed, n_columns)) for key, packed in rows)
                    answers |= {key: outputs for key, outputs in unpacked if outputs is not None}
        except _FAILURES as error:
            self._close()
            raise self._unusable(error) from error
        return answers

    def save(self, keys: list[bytes], outputs: Floats) -> None:
        """Write the answers of one batch: all of them or, if interrupted, none. Warns once where that fails."""
        if self._base is None:
            return
        rows = [(self.model_id, key, _packed(key, row)) for key, row in zip(keys, outputs, strict=True)]
        try:
            with _WORKING, self._base:
                self._base.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", rows)
        except _FAILURES as error:
            self._close()
            self.failed = True
            warnings.warn(
                f"answers can no longer be written to the cache {str(self.file)!r}: {error}; they are kept in memory only",
                UserWarning,
                stacklevel=2,
            )

    def _opened(self, file: Path) -> sqlite3.Connection:
        """Open the file; it is not changed before it is known to be empty or ours."""
        if file.is_dir():
            raise InputError(f"cache must be a file; {str(file)!r} is a folder; name a file in it")
        give_up = time.monotonic() + self.timeout
        base = sqlite3.connect(file, timeout=self.timeout)
        try:
            base.text_factory = bytes  # what is damaged need not be UTF-8
            (n_tables,) = base.execute("SELECT count(*) FROM sqlite_master").fetchone()  # first: another process may make ours
            info = base.execute("PRAGMA table_info(answers)")
            if [(name.decode(errors="replace"), key) for _, name, _, _, _, key in info] != _COLUMNS and n_tables:
                raise InputError(
                    f"cache must be a file that slalom made; {str(file)!r} is the SQLite file of another program; name another"
                )
            while True:
                try:
                    base.execute("PRAGMA journal_mode=WAL")
                    base.execute(
                        "CREATE TABLE IF NOT EXISTS answers"
                        " (model TEXT, key BLOB, outputs BLOB, PRIMARY KEY (model, key)) WITHOUT ROWID"
                    )
                    base.execute("DELETE FROM answers WHERE 0")  # fails where the file may only be read
                    base.rollback()
                    return base
                except sqlite3.OperationalError as error:  # SQLite does not wait where two processes make one file
                    if "locked" not in str(error) or time.monotonic() > give_up:
                        raise
                    time.sleep(0.01)
        except BaseException:
            base.close()
            raise

    def _close(self) -> None:
        base, self._base = self._base, None
        if base is not None:
            with _WORKING, suppress(sqlite3.Error):
                base.close()

    def _unusable(self, error: Exception) -> InputError:
        reason = f"{str(self.file)!r}: {one_line(error)}; name another file"
        return InputError(f"cache must be an SQLite file that can be read and written; {reason}")


def _packed(key: bytes, outputs: Floats) -> bytes:
    content = outputs.tobytes()
    return content + crc32(key + content).to_bytes(4, "little")


def _unpacked(key: bytes, packed: object, n_outputs: int) -> Floats | None:
    """Return an answer (n_outputs,) as it was before it was written; None where it is damaged."""
    if not isinstance(packed, bytes) or len(packed) != 8 * n_outputs + 4:
        return None
    content, check = packed[:-4], packed[-4:]
    if crc32(key + content).to_bytes(4, "little") != check:
        return None
    outputs = np.frombuffer(content)
    return outputs if np.isfinite(outputs).all() else None
