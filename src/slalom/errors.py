"""Everything that slalom raises on purpose.

    SlalomError
    ├── InputError (also a ValueError)     an argument is not what it must be
    ├── ModelError (also a RuntimeError)   the explained model answered with something unusable
    └── MissingExtra (also an ImportError) an optional dependency is not installed

Every message is one line: what must hold, what came, what to do.
"""


class SlalomError(Exception):
    """The root of all errors that slalom raises on purpose."""


class InputError(SlalomError, ValueError):
    """An argument is not what it must be."""


class ModelError(SlalomError, RuntimeError):
    """The explained model answered with something unusable (wrong shape, NaN, infinity)."""


class MissingExtra(SlalomError, ImportError):
    """An optional dependency is not installed; the message names the extra to install."""
