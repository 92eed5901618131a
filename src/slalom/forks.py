"""Locks in a forked process: a thread of the parent may have held one, and there is nobody in the child to release it."""

import os
import threading
from typing import Any
from weakref import WeakSet

_OWNERS: WeakSet[Any] = WeakSet()
_LOCK, _RLOCK = type(threading.Lock()), type(threading.RLock())


def renew_after_fork(owner: object) -> None:
    """Give an object new locks in forked processes, where another thread held them."""
    _OWNERS.add(owner)


def wait_before_fork(lock: Any) -> None:
    """Let forks wait for a lock, of code that works with locks of its own for a short time."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def _renew() -> None:
    for owner in list(_OWNERS):
        held = [name for name, part in vars(owner).items() if isinstance(part, (_LOCK, _RLOCK)) and not _is_free(part)]
        for name in held:
            setattr(owner, name, threading.RLock() if isinstance(getattr(owner, name), _RLOCK) else threading.Lock())
        if hasattr(owner, "after_fork"):
            owner.after_fork(bool(held))


def _is_free(lock: Any) -> bool:
    """Return whether no other thread holds a lock."""
    if not lock.acquire(blocking=False):
        return False
    lock.release()
    return True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
