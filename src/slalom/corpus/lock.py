"""One run at a time on one folder: a file that names the run's host and process.

On a local folder the operating system holds the lock of the file and releases it when the process ends, however it ends.
Elsewhere (object stores, Windows) the file itself is the lock: it is taken over where its process was on this machine and has
ended; one of another machine must be deleted by hand where that run has ended. Two runs that begin there within the same second
may both go on; they compute the same parts twice, and the table is right all the same.

The file has a name of its own, is never followed as a link, and is written only where it is empty or a lock of slalom.
"""

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from slalom.corpus.folder import LOCK, Folder
from slalom.errors import InputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_PATIENCE = 1.0  # seconds: `is_running` may hold the lock for a moment


def locked(folder: Folder) -> Any:
    return _system_lock(folder) if folder.is_local and fcntl is not None else _file_as_lock(folder)


def is_running(folder: Folder) -> bool:
    if not folder.is_local or fcntl is None:
        holder = _holder(folder)
        return holder is not None and not _has_ended(holder)
    try:
        with _opened(folder, os.O_RDONLY) as file:
            return not _flocked(file, fcntl.LOCK_SH)
    except OSError:
        return False


@contextmanager
def _system_lock(folder: Folder) -> Iterator[None]:
    try:
        os.makedirs(folder.root, exist_ok=True)
        file = _opened(folder, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise InputError(
            f"could not write to {folder.address!r}: {error.strerror} ({os.path.basename(error.filename)}); name another folder"
        ) from error
    with file:
        began = time.monotonic()
        while not _flocked(file, fcntl.LOCK_EX):
            if time.monotonic() - began > _PATIENCE:
                raise _refusal(folder, _holder(folder))
            time.sleep(0.05)
        _holder(folder)  # refused where it is not ours
        file.truncate()
        file.write(json.dumps(_this_run()).encode())
        file.flush()
        yield


def _opened(folder: Folder, flags: int) -> Any:
    """Open the lock file, and no other that a link leads to; a pipe of that name does not block."""
    handle = os.open(folder.at(LOCK), flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    return os.fdopen(handle, "rb" if flags == os.O_RDONLY else "r+b")


def _flocked(file: Any, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _file_as_lock(folder: Folder) -> Iterator[None]:
    holder, this_run = _holder(folder), _this_run()
    if holder is not None and not _has_ended(holder):
        raise _refusal(folder, holder, f"; if it has ended, delete {folder.path(LOCK)!r}")
    folder.write(LOCK, json.dumps(this_run).encode())
    try:
        yield
    finally:
        if _holder(folder) == this_run:
            folder.remove(LOCK)


def _this_run() -> dict[str, Any]:
    """Return host, container (which counts its own processes), process and time."""
    space = os.readlink("/proc/self/ns/pid") if os.path.exists("/proc/self/ns/pid") else None
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"host": socket.gethostname(), "space": space, "process": os.getpid(), "time": now}


def _holder(folder: Folder) -> dict[str, Any] | None:
    """Return the run that the lock file names; None where there is none."""
    content = (folder.read(LOCK) or b"").strip(b"\0")  # zeros may be left where the machine itself has failed
    if not content:
        return None
    try:
        note = dict(json.loads(content))
        return note | {"host": str(note["host"]), "process": int(note["process"]), "time": str(note["time"])}
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise InputError(f"{folder.path(LOCK)!r} is not a lock of slalom; remove it, or name another folder") from error


def _has_ended(holder: dict[str, Any]) -> bool:
    """Return whether a run was on this machine, and its process has ended."""
    here = _this_run()
    if os.name != "posix" or any(holder.get(name) != here[name] for name in ("host", "space")):
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
