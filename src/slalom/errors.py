"""The exceptions of slalom.

    SlalomError
    ├── InputError (also a ValueError)     an argument is not what it must be
    │   └── CostLimit                      max_cost is reached
    ├── ModelError (also a RuntimeError)   the explained model answered with something unusable
    └── MissingExtra (also an ImportError) an optional dependency is not installed

Every message is one line: what must hold, what came, what to do.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_PACKAGES = {
    "torch": "torch",
    "hf": "torch and transformers",
    "pandas": "pandas",
    "plots": "matplotlib",
    "api": "openai",
    "corpus": "pyarrow",
    "peers": "lightgbm and scikit-learn",
    "ray": "ray",
    "segment": "icu4py",
    "web": "fastapi and uvicorn",
}


class SlalomError(Exception):
    """Base class of all exceptions of slalom."""


class InputError(SlalomError, ValueError):
    """An argument is invalid.

    Args:
        message: What must hold, what came, what to do.
        names: The arguments that the message speaks of by their names in Python; the command line writes them as options.
    """

    def __init__(self, message: str, *names: str) -> None:
        super().__init__(message)
        self.names = names


class CostLimit(InputError):
    """What was asked for would cost more than `max_cost` allows."""


class ModelError(SlalomError, RuntimeError):
    """The explained model answered with something unusable (wrong shape, NaN, infinity)."""


class MissingExtra(SlalomError, ImportError):
    """An optional dependency is not installed; the message names the extra to install."""


def one_line(error: object, limit: int | None = 300) -> str:
    """Return the message of an error as one line.

    Example:
        >>> one_line(ValueError("no such file:\\n  model.bin"))
        'no such file: model.bin'
    """
    return " ".join(str(error).split())[:limit]


def count(n: int, noun: str) -> str:
    """Return a number with its noun.

    Example:
        >>> count(1, "query"), count(1200, "query"), count(2, "class"), count(0, "text")
        ('1 query', '1200 queries', '2 classes', '0 texts')
    """
    return f"{n} {plural(n, noun)}"


def plural(n: int, noun: str) -> str:
    """Return a noun as it stands after a number.

    Example:
        >>> plural(1, "query"), plural(2, "query")
        ('query', 'queries')
    """
    if n == 1:
        return noun
    return f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}es" if noun.endswith("s") else f"{noun}s"


def closest(name: object, names: Iterable[str]) -> str | None:
    """Return the name that a mistyped one most likely stands for; None where none is similar."""
    from difflib import get_close_matches  # noqa: PLC0415

    by_lower, wanted = {str(known).lower(): known for known in names}, str(name).lower()
    matches = get_close_matches(wanted, by_lower, n=1) or [known for known in by_lower if len(wanted) > 2 and wanted in known]
    return by_lower[matches[0]] if matches else None


def did_you_mean(name: object, names: Iterable[str]) -> str:
    """Return the end of an error message about a name that is not among the known ones.

    Example:
        >>> did_you_mean("kernelshap", ["lime", "kernel-shap"]), did_you_mean("magic", ["lime", "kernel-shap"])
        ("; did you mean 'kernel-shap'?", '')
    """
    match = closest(name, names)
    return "" if match is None else f"; did you mean {match!r}?"


def validation_message(problem: Mapping[str, Any]) -> str:
    """Return what an error of pydantic expected and what came instead.

    Example:
        >>> validation_message({"msg": "Input should be a valid integer, unable to parse string", "input": "many"})
        "must be a valid integer; got 'many'"
    """
    message = problem["msg"].removeprefix("Value error, ").partition(", unable to")[0]
    _, should, rest = message.partition(" should ")  # pydantic's "Input should be ..."
    expected = f"must {rest}" if should else message
    came = problem.get("input")
    shown = f"a {type(came).__name__}" if isinstance(came, (list, tuple, set, dict)) else f"{came!r:.60}"
    return one_line(expected if shown in expected or "; got " in expected else f"{expected}; got {shown}")


@contextmanager
def require(feature: str, extra: str, packages: str | None = None) -> Iterator[None]:
    """Turn a failed import of an optional dependency into a MissingExtra.

    Args:
        feature: What needs it, as the subject of the message.
        extra: The extra of this distribution that installs it.
        packages: The packages to name. Default: those of the extra.

    Raises:
        MissingExtra: If an import in the block fails; an import error of slalom's own modules is passed on.

    Example:
        >>> with require("counting", "pandas", "abacus"):
        ...     import abacus
        Traceback (most recent call last):
        slalom.errors.MissingExtra: counting needs abacus; install it with: pip install 'slalom-xai[pandas]'
    """
    try:
        yield
    except MissingExtra:
        raise
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "slalom":
            raise
        names = packages or _PACKAGES[extra]
        them = "them" if " and " in names else "it"
        raise MissingExtra(f"{feature} needs {names}; install {them} with: pip install 'slalom-xai[{extra}]'") from error
