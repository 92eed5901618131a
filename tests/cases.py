"""Many cases in one test: a loop that names the case that fails."""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any


def cases(names: str | tuple[str, ...], values: Iterable[Any], ids: Any = None) -> Callable[..., Any]:
    """Call a test once per case, with these arguments; other arguments are fixtures, shared by all cases.

    Used like `pytest.mark.parametrize`, also several times on one test, but it stays one test.
    """
    listed = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    values = list(values)
    assert values, "a test without a case tests nothing"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)

        @wraps(test)
        def run(*args: Any, **fixtures: Any) -> None:
            for number, value in enumerate(values):
                given = dict(zip(listed, value if len(listed) > 1 else (value,), strict=True))
                try:
                    test(*args, **fixtures, **given)
                except BaseException as error:
                    name = ids[number] if isinstance(ids, (list, tuple)) else ids(value) if ids else None
                    error.add_note(f"case {number}: {name or ', '.join(f'{key} = {one!r:.200}' for key, one in given.items())}")
                    raise

        kept = [one for key, one in signature.parameters.items() if key not in listed]
        run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        del run.__wrapped__  # pytest would look at the signature of the test itself
        return run

    return decorate
