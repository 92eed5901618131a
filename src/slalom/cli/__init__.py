"""The command `slalom`: parse, call, print."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C while it is imported is no traceback either."""
    try:
        from slalom.cli.app import main as run  # noqa: PLC0415
    except KeyboardInterrupt:
        sys.exit(130)
    run()


__all__ = ["main"]
