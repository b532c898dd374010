"""python -m reprise: the command line."""

import signal
import sys

from . import _native


def main() -> int:
    """Runs the command line with the arguments of the process and returns its exit status."""
    signal.signal(
        signal.SIGINT, signal.SIG_DFL
    )  # commands do not return to Python for it
    return _native.command_line(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
