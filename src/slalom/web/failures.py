"""What is wrong with a request, where a status of its own says it."""

from slalom.errors import InputError


class TooLarge(InputError):
    """A text or a budget above the limits of the server."""


class NotFound(InputError):
    """There is no such thing."""
