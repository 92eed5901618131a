"""One run at a time on one folder.

On a local folder the operating system holds the lock and lets go of it when the process ends, however it ends. That holds on
file systems of several machines too where these carry `flock` (NFS from version 4, Lustre with its mount option). Remote
folders have no locks: a run writes a file every half minute that says that it is there, and one that has been silent for five
minutes counts as ended, and so does one of this machine whose process is gone. Two runs that begin within the same second may
then both go on; they compute the same parts twice, and the table is right all the same.
"""

import json
import os
import socket
import threading
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

BEAT, SILENCE = 30.0, 300.0  # seconds
_PATIENCE = 1.0  # seconds: `is_running` may hold the lock for a moment


@contextmanager
def locked(folder: Folder) -> Iterator[None]:
    """Exclude other runs on a folder.

    Args:
        folder: The folder.

    Raises:
        InputError: Another run holds it.
    """
    with _flock(folder) if isinstance(folder, LocalFolder) and fcntl is not None else _heartbeat(folder):
        yield


def is_running(folder: Folder) -> bool:
    """Return whether a run holds a folder.

    Args:
        folder: The folder.
    """
    if not isinstance(folder, LocalFolder) or fcntl is None:
        return _alive(_holder(folder))
    try:
        with (folder.root / LOCK).open("rb") as file:
            return not _taken(file)
    except OSError:
        return False


def _taken(file: Any) -> bool:
    """Try to take the lock of an open file."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _flock(folder: LocalFolder) -> Iterator[None]:
    try:
        folder.root.mkdir(parents=True, exist_ok=True)
        file = (folder.root / LOCK).open("a+b")
    except OSError as error:
        raise InputError(f"could not write to {folder.address!r}: {error.strerror}; name another folder") from error
    with file:
        began = time.monotonic()
        while not _taken(file):
            if time.monotonic() - began > _PATIENCE:
                raise _refusal(folder, _holder(folder))
            time.sleep(0.05)
        file.truncate(0)
        file.write(json.dumps(_self()).encode())
        file.flush()
        yield


@contextmanager
def _heartbeat(folder: Folder) -> Iterator[None]:
    holder, mine = _holder(folder), _self()
    if _alive(holder):
        raise _refusal(folder, holder)
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(BEAT):
            folder.write(LOCK, json.dumps({**mine, "time": time.time()}).encode())

    folder.write(LOCK, json.dumps(mine).encode())
    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        if (_holder(folder) or {}).get("run") == mine["run"]:
            folder.remove(LOCK)


def _self() -> dict[str, Any]:
    return {"host": socket.gethostname(), "space": _space(), "process": os.getpid(), "time": time.time(), "run": uuid4().hex}


def _space() -> str | None:
    """Return what the numbers of processes hold in: a container counts its own; None where that is not known."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None


def _holder(folder: Folder) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(folder.read(LOCK) or b"null")
    except ValueError:
        return None
    return found


def _alive(holder: dict[str, Any] | None) -> bool:
    return holder is not None and time.time() - float(holder["time"]) < SILENCE and not _gone(holder)


def _gone(holder: dict[str, Any]) -> bool:
    """Return whether a run was on this machine, and its process has ended."""
    space = _space()
    if space is None or (holder["host"], holder.get("space")) != (socket.gethostname(), space):
        return False
    return not os.path.exists(f"/proc/{holder['process']}")


def _refusal(folder: Folder, holder: dict[str, Any] | None) -> InputError:
    who = "" if holder is None else f" (process {holder['process']} on {holder['host']})"
    return InputError(f"another run{who} is writing to {folder.address!r}; wait for it, end it, or name another folder")
