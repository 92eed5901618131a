"""Waiting for a condition, with a deadline that no machine misses: a test that passes returns as soon as it holds."""

import time

DEADLINE = 120.0  # seconds


def until(condition, seconds=DEADLINE, process=None):
    """Wait until a condition holds, and return what it returned.

    Args:
        condition: Returns something true once it holds.
        seconds: Longest time; only a test that fails takes it.
        process: A process that must not end before.
    """
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "this did not happen"
        assert process is None or process.poll() is None, "the process has ended"
        time.sleep(0.01)
    return found
