"""The kinds of surrogates by their name in saved files; a new kind is one file and one entry here."""

from collections.abc import Mapping
from typing import Any

from slalom.core.additive import Additive
from slalom.core.base import Surrogate
from slalom.core.slalom import Slalom
from slalom.errors import InputError

KINDS: dict[str, type[Surrogate]] = {cls.kind: cls for cls in (Slalom, Additive)}


def from_dict(saved: Mapping[str, Any]) -> Surrogate:
    """Return the surrogate of a dictionary made by `Surrogate.to_dict`, with exactly its numbers.

    Example:
        >>> from_dict(Additive([2.0, -1.0], base=0.5).to_dict()).base
        0.5
    """
    kind = saved.get("kind")
    if kind not in KINDS:
        raise InputError(f"the kind of a surrogate must be one of {', '.join(map(repr, KINDS))}; got {kind!r}; update slalom")
    return KINDS[kind].from_dict(saved)
