"""The closed forms as methods of the Explainer: `explainer(text, method=slalom.theory.attention.METHODS["exact-shapley"])`.

The explanation has one effect per word, and a base that makes them sum to the score of the text.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import final

from slalom.core.checks import Floats
from slalom.errors import InputError
from slalom.methods import Method, WhiteBoxMethod
from slalom.models import Model, Reading
from slalom.theory.attention import forms
from slalom.theory.attention.traces import ForwardTrace, Output, Players, trace_reading

_GAMES: dict[str, Callable[[ForwardTrace, Players], Floats]] = {
    "lime-limit": forms.lime_limit,
    "lime-bernoulli": forms.lime_bernoulli,
    "exact-shapley": forms.shapley,
    "exact-banzhaf": forms.banzhaf,
}
_PLAIN: dict[str, tuple[Callable[[ForwardTrace], Floats], bool]] = {
    "attention-mean": (partial(forms.attention_weights, over="mean"), False),
    "attention-max": (partial(forms.attention_weights, over="max"), False),
    "gradient-mean": (partial(forms.gradient, reduce="mean"), True),
    "gradient-l1": (partial(forms.gradient, reduce="l1"), False),
    "gradient-l2": (partial(forms.gradient, reduce="l2"), False),
    "gradient-x-input": (partial(forms.gradient, reduce="input"), True),
    "lime-printed": (forms.lime_printed, True),
}
FORMS = (*_PLAIN, *_GAMES)


def form(name: str, trace: ForwardTrace, players: Players = "position") -> Floats:
    """Return the scores (n,) of a closed form, one of `FORMS`; players matter for LIME and the exact values only."""
    _check(name)
    return _GAMES[name](trace, players) if name in _GAMES else _PLAIN[name][0](trace)


def _check(name: str) -> None:
    if name not in FORMS:
        raise InputError(f"a closed form must be one of {', '.join(FORMS)}; got {name!r}")


@final
@dataclass(frozen=True)
class ClosedForm(WhiteBoxMethod):
    """A closed form, one of `FORMS`, as a method; output "logit" is that of the class alone, as in the paper."""

    name: str
    players: Players = "position"
    output: Output = "log_odds"
    signed: bool = field(init=False, default=True)
    summary: str = "closed form of one layer of attention"

    def __post_init__(self) -> None:
        _check(self.name)
        object.__setattr__(self, "signed", self.name in _GAMES or _PLAIN[self.name][1])

    def attribute(self, model: Model, reading: Reading, target: int, seed: int) -> Floats:
        return form(self.name, trace_reading(model, reading, target, self.output), self.players)


METHODS: dict[str, Method] = {name: ClosedForm(name) for name in FORMS}
