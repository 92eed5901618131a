"""What queries cost: prices of tokens, estimates, and a counter that refuses what is too expensive.

cost = (input tokens x input price + output tokens x output price) / 1,000,000
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from slalom.core.checks import is_number
from slalom.errors import CostLimit, InputError, plural

_MILLION = 1_000_000


class Usage(NamedTuple):
    """What a model behind an API was asked so far.

    Attributes:
        requests: Requests that were sent, those of the probe and those sent again after a fault included.
        prompt_tokens: Tokens of the prompts of all answers, where the server counts them.
        completion_tokens: Tokens that were generated for them.
    """

    requests: int
    prompt_tokens: int
    completion_tokens: int


class Charged:
    """What may cost money: a model, or the language model behind it."""

    @property
    def usage(self) -> Usage | None:
        """What was asked so far, of a model that costs money; None: free, or not counted."""
        return None

    @property
    def start_tokens(self) -> tuple[int, int]:
        """About how many tokens are read and written, at most, before the first query; 0 where nothing is asked then."""
        return 0, 0


class Prices(NamedTuple):
    """Prices of tokens that a model reads and writes, in dollars (or any other currency) per million.

    Example:
        >>> Prices(0.15, 0.60).cost(2_000_000, 500_000)
        0.6
    """

    input: float
    output: float = 0.0

    def cost(self, read: int, written: int) -> float:
        """Return the cost of so many tokens."""
        return (read * self.input + written * self.output) / _MILLION


def prices_of(given: object, model: str) -> Prices | None:
    """Return the prices of a model: as given, from a table by model, or from a JSON file with either.

    Example:
        >>> prices_of({"gpt-4o-mini": {"input": 0.15, "output": 0.60}}, "gpt-4o-mini")
        Prices(input=0.15, output=0.6)
    """
    if given is None or isinstance(given, Prices):
        return given
    table: Any = given
    if isinstance(given, (str, Path)):
        try:
            table = json.loads(Path(given).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"prices must be in a JSON file that can be read; {str(given)!r}: {error}", "prices") from error
    if isinstance(table, Mapping) and "input" not in table and table and all(isinstance(v, Mapping) for v in table.values()):
        if model not in table:
            names = ", ".join(sorted(map(str, table))[:10])
            raise InputError(f"prices must have the model {model!r}; they have {names}; add it", "prices")
        table = table[model]
    numbers = [table.get("input"), table.get("output", 0.0)] if isinstance(table, Mapping) else []
    if not numbers or not set(table) <= {"input", "output"} or not all(map(_is_price, numbers)):
        raise InputError(
            'prices must be {"input": dollars, "output": dollars} per million tokens, numbers of at least 0, or a table of'
            f" these by model; got {str(table)[:100]!r}",
            "prices",
        )
    return Prices(*map(float, numbers))


class Estimate(NamedTuple):
    """What an explanation will ask, before anything is asked.

    Attributes:
        queries: Different inputs that the model has to answer, those that test the explanation included.
        tokens: Tokens that it reads, those of finding out what a server can do included.
        output_tokens: Tokens that it writes, at most.
        cost: In the currency of the prices; None without prices.
        cached: Inputs that are in the cache already, which cost nothing.
        about: Whether tokens are counted as a quarter of the characters.
        at_least: Whether more may follow: rounds of queries="auto", or what a method asks as it goes.
        further: Most queries that may follow, about the strongest units and pairs of units; tokens and cost are without them.

    Example:
        >>> print(Estimate(200, 12_000, 200, 0.00192, 20, True, False))
        200 queries (20 more are in the cache), about 12,000 tokens to read and 200 to write: $0.00192
    """

    queries: int
    tokens: int
    output_tokens: int = 0
    cost: float | None = None
    cached: int = 0
    about: bool = False
    at_least: bool = False
    further: int = 0

    def __str__(self) -> str:
        least, about = "at least " if self.at_least else "", "about " if self.about else ""
        cached = f" ({self.cached:,} more {'is' if self.cached == 1 else 'are'} in the cache)" if self.cached else ""
        written = f" to read and {self.output_tokens:,} to write" if self.output_tokens else ""
        cost = "" if self.cost is None else f": {money(self.cost)}"
        queries, tokens = plural(self.queries, "query"), plural(self.tokens, "token")
        further = f", and at most {self.further:,} that depend on the answers" if self.further else ""
        return f"{least}{self.queries:,} {queries}{cached}{further}, {about}{self.tokens:,} {tokens}{written}{cost}"


@final
class Spending:
    """Counts what a model costs (its `usage`, else what was estimated), and refuses what would exceed a limit."""

    def __init__(self, model: Any, prices: object = None, max_cost: float | None = None) -> None:
        self.model, self.prices, self.max_cost = model, prices_of(prices, model.name), max_cost
        if max_cost is not None and (not _is_price(max_cost) or not max_cost):
            raise InputError(f"max_cost must be a number above 0, in the currency of the prices; got {max_cost!r}", "max_cost")
        if max_cost is not None and self.prices is None:
            raise InputError("max_cost needs prices, the dollars per million tokens", "max_cost", "prices")
        self._before, self._estimated = model.usage, 0.0
        self._call = self._run = 0.0  # estimated cost of what is planned and not asked yet: of this call, of a run of several

    @property
    def spent(self) -> float:
        """What the answers so far have cost, requests before the first query included."""
        usage, before = self.model.usage, self._before or Usage(0, 0, 0)  # of another Explainer with the same model
        if usage is None:
            return self._estimated
        read, written = usage.prompt_tokens - before.prompt_tokens, usage.completion_tokens - before.completion_tokens
        return self.cost(read, written) or self._estimated  # not all servers count

    def cost(self, read: int, written: int) -> float:
        """Return the cost of so many tokens; 0 without prices."""
        return 0.0 if self.prices is None else self.prices.cost(read, written)

    def received(self, cost: float) -> None:
        """Add the estimated cost of answers that have come."""
        self._estimated += cost

    @property
    def dearer(self) -> float:
        """How many times as much as estimated the answers so far have cost, at least 1."""
        return max(self.spent / self._estimated, 1.0) if self._estimated else 1.0

    def allows(self, cost: float) -> bool:
        """Return whether so much more may be spent."""
        return self.max_cost is None or self.spent + cost <= self.max_cost * (1.0 + 1e-9)

    def check(self, cost: float, what: str) -> None:
        """Raise a CostLimit where a cost exceeds what is left."""
        if not self.allows(cost):
            assert self.max_cost is not None
            before = f" after {money(self.spent)}" if self.spent else ""
            raise CostLimit(
                f"{what} would cost {money(cost)}{before}, and max_cost is {money(self.max_cost)}; raise max_cost, or lower"
                " queries",
                "max_cost",
            )

    @property
    def reserved(self) -> float:
        """The estimated cost of what is planned and not asked yet."""
        return max(self._call, self._run)

    def reserve(self, cost: float, what: str, run: bool = False) -> None:
        """Keep the money for what a call plans, or a run of several calls, until it is asked or another one begins."""
        self.check(cost, what)
        if run:
            self._run = cost
        else:
            self._call = cost

    @contextmanager
    def planned(self) -> Iterator[None]:
        """Take the cost of what is asked within from what is reserved."""
        before = self._estimated
        try:
            yield
        finally:
            asked = self._estimated - before
            self._call, self._run = max(self._call - asked, 0.0), max(self._run - asked, 0.0)

    @property
    def shown(self) -> str:
        """What is spent and left, for a progress bar; empty without prices."""
        rest = "" if self.max_cost is None else f", {money(max(self.max_cost - self.spent, 0.0))} left"
        return "" if self.prices is None else f"{money(self.spent)} spent{rest}"


def about_tokens(characters: int) -> int:
    """Return the tokens of a text without a tokenizer: a quarter of its characters, rounded up."""
    return -(-characters // 4)


def money(amount: float) -> str:
    """Return an amount as text.

    Example:
        >>> money(0.0000123456), money(12.5)
        ('$0.0000123', '$12.50')
    """
    if amount >= 1.0 or amount == 0.0:
        return f"${amount:.2f}"
    return f"${np.format_float_positional(amount, 3, fractional=False, trim='-')}"


def _is_price(part: Any) -> bool:
    return is_number(part) and bool(0 <= part < np.inf)
