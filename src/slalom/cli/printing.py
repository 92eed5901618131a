"""Where the commands print: results to standard output, complaints to standard error."""

from rich.console import Console


def console() -> Console:
    """Return the console of standard output; it has colours only in a terminal, and is as wide as that."""
    return Console(highlight=False)


def complain(message: str) -> None:
    """Print one line to standard error."""
    Console(stderr=True, highlight=False).print(message, markup=False, soft_wrap=True)
