"""How long a server asks to wait, by the headers of its answers."""

import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")


def asked_wait(headers: Mapping[str, str], limited: bool) -> float | None:
    """Return how many seconds the server asks to wait; None where it does not say."""
    milliseconds = seconds_of(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000.0
    said = headers.get("retry-after", "").strip()
    seconds = seconds_of(said)
    if seconds is None and said:
        try:
            until = parsedate_to_datetime(said)
            seconds = max((until - datetime.now(until.tzinfo or UTC).replace(tzinfo=until.tzinfo)).total_seconds(), 0.0)
        except (ValueError, TypeError, OverflowError):
            seconds = None
    if seconds is not None or not limited:
        return seconds
    resets = [seconds_of(headers.get(f"x-ratelimit-reset{kind}", "")) for kind in ("", "-requests", "-tokens")]
    now = time.time()
    known = [max(reset - now, 0.0) if reset > 1e9 else reset for reset in resets if reset is not None]  # or a date in seconds
    return max(known) if known else None


def seconds_of(said: str) -> float | None:
    """Return a duration such as "20", "1.5s", "6m0s" or "20ms" in seconds; None where it is none."""
    said = said.strip().lower()
    try:
        plain = float(said)
        return plain if 0.0 <= plain < 1e12 else None
    except ValueError:
        pass
    match = _DURATION.fullmatch(said)
    if not said or match is None:
        return None
    return sum(float(part) * unit for part, unit in zip(match.groups("0"), (3600.0, 60.0, 1.0, 0.001), strict=True))
