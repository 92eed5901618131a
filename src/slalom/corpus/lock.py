"""One run at a time on one folder.

On a local folder the operating system holds the lock and releases it when the process ends, however it ends. That holds on
file systems of several machines too where these carry `flock` (NFS from version 4, Lustre with its mount option). Elsewhere
(object stores, Windows) the file itself is the lock: it is taken over where its process was on this machine and has ended; one
of another machine must be deleted by hand where that run has ended. Two runs that begin there within the same second may both
go on; they compute the same parts twice, and the table is right all the same.

The file has a name of its own, is never followed as a link, and is written only where it is empty or a lock of slalom.
"""

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from slalom.corpus.folder import LOCK, Folder, LocalFolder
from slalom.errors import InputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_PATIENCE = 1.0  # seconds: `is_running` may hold the lock for a moment


@contextmanager
def locked(folder: Folder) -> Iterator[None]:
    """Exclude other runs on a folder."""
    with _flock(folder) if isinstance(folder, LocalFolder) and fcntl is not None else _noted(folder):
        yield


def is_running(folder: Folder) -> bool:
    """Return whether a run holds a folder."""
    if not isinstance(folder, LocalFolder) or fcntl is None:
        holder = _holder(folder)
        return holder is not None and not _gone(holder)
    try:
        with _opened(folder, os.O_RDONLY) as file:
            return not _taken(file, fcntl.LOCK_SH)
    except OSError:
        return False


def _opened(folder: LocalFolder, flags: int) -> Any:
    """Open the lock file, and no other that a link leads to; a pipe of that name does not block."""
    handle = os.open(folder.root / LOCK, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    return os.fdopen(handle, "rb" if flags == os.O_RDONLY else "r+b")


def _taken(file: Any, kind: int) -> bool:
    """Try to take the lock of an open file."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _flock(folder: LocalFolder) -> Iterator[None]:
    try:
        folder.root.mkdir(parents=True, exist_ok=True)
        file = _opened(folder, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        where = "" if error.filename is None else f" ({os.path.basename(error.filename)})"
        raise InputError(f"could not write to {folder.address!r}: {error.strerror}{where}; name another folder") from error
    with file:
        began = time.monotonic()
        while not _taken(file, fcntl.LOCK_EX):
            if time.monotonic() - began > _PATIENCE:
                raise _refusal(folder, _holder(folder))
            time.sleep(0.05)
        _note(folder, file.read())  # it is ours, or empty
        file.seek(0)
        file.truncate()
        file.write(json.dumps(_self()).encode())
        file.flush()
        yield


@contextmanager
def _noted(folder: Folder) -> Iterator[None]:
    holder, mine = _holder(folder), _self()
    if holder is not None and not _gone(holder):
        raise _refusal(folder, holder, f"; if it has ended, delete {folder.path(LOCK)!r}")
    folder.write(LOCK, json.dumps(mine).encode())
    try:
        yield
    finally:
        if (_holder(folder) or {}).get("run") == mine["run"]:
            folder.remove(LOCK)


def _self() -> dict[str, Any]:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"host": socket.gethostname(), "space": _space(), "process": os.getpid(), "time": now, "run": uuid4().hex}


def _space() -> str | None:
    """Return what the numbers of processes hold in: a container counts its own; None where that is not known."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None


def _holder(folder: Folder) -> dict[str, Any] | None:
    return _note(folder, folder.read(LOCK) or b"")


def _note(folder: Folder, content: bytes) -> dict[str, Any] | None:
    """Return the content of a lock file; None where it is empty."""
    if not content.strip(b"\0"):  # zeros may be left where the machine itself has failed
        return None
    try:
        note = dict(json.loads(content))
        return note | {"host": str(note["host"]), "process": int(note["process"]), "time": str(note["time"])}
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise InputError(f"{folder.path(LOCK)!r} is not a lock of slalom; remove it, or name another folder") from error


def _gone(holder: dict[str, Any]) -> bool:
    """Return whether a run was on this machine, and its process has ended."""
    if os.name != "posix" or (holder["host"], holder.get("space")) != (socket.gethostname(), _space()):
        return False
    try:
        os.kill(holder["process"], 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # of another user
        pass
    return False


def _refusal(folder: Folder, holder: dict[str, Any] | None, advice: str = "") -> InputError:
    who = "" if holder is None else f" (process {holder['process']} on {holder['host']}, since {holder['time']})"
    return InputError(f"another run{who} is writing to {folder.address!r}; wait for it, end it, or name another folder{advice}")
