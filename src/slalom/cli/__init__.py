"""The command `slalom`: parse, call, print."""

from slalom.cli.app import main

__all__ = ["main"]
