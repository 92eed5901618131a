"""What it means to remove units of a text.

    how         tokens                                        strings
    "drop"      later tokens move forward                     the unit and the white space after it are cut out
    "mask"      the mask or unknown token in the place        "_" in the place
    "blank"     the padding token in the place                blanks in the place, as many as it has characters
    a function  the text of the function, read anew           the text of the function

A function takes the kept parts of a text in order, with None for each gap, and returns a text, or several, over whose scores
the mean is taken.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeAlias, get_args

from slalom.core.checks import check_choice
from slalom.errors import InputError, ModelError, SlalomError, one_line
from slalom.text import function_name

Infill: TypeAlias = Callable[[list[str | None]], str | Iterable[str]]
Removal: TypeAlias = Literal["drop", "mask", "blank"] | Infill
KINDS = get_args(get_args(Removal)[0])


def check_removal(removal: object) -> None:
    """Check that this says how to remove units."""
    if not callable(removal):
        check_choice("removal", removal, KINDS)


def removal_name(removal: Removal) -> str:
    """Return a word for how units are removed: "drop", "mask", "blank", or the name of a function."""
    return removal if isinstance(removal, str) else function_name(removal)


def filled(parts: Sequence[str | None], infill: Infill) -> list[str]:
    """Return the texts that a function makes of parts, and gaps, which are None."""
    name = function_name(infill)
    try:
        made = infill(list(parts))
        texts = [made] if isinstance(made, str) else list(made)
    except SlalomError:
        raise
    except Exception as error:
        raise ModelError(f"removal={name} failed on {len(parts)} parts: {type(error).__name__}: {one_line(error)}") from error
    if not texts or not all(isinstance(text, str) for text in texts):
        raise InputError(f"removal={name} must return a text or several; got {texts!r:.60}", "removal")
    return texts
