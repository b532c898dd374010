"""What programs of this folder need of the Python environment."""

import sys
from importlib.util import find_spec


def require(*names: str) -> None:
    """Ends the program with the status of skipped tests if a package is missing."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        print(f"skipped: Python lacks {', '.join(missing)}; run tools/torch --full to install them")
        sys.exit(77)
