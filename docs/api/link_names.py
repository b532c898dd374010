"""Doxygen's filter for headers: a name of the C interface in a comment becomes a link to it.

Doxygen links names with capitals by itself, and others if they begin with '#'. One that does not exist
is then a warning.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

COMMENT = re.compile(r"/\*\*.*?\*/|///[^\n]*", re.DOTALL)
APART = re.compile(r"(`[^`\n]*`|@code.*?@endcode)", re.DOTALL)  # stay as they are
NAME = re.compile(r"(?<![\w:#/.*\"])(reprise_\w+|REPRISE_\w+)\b(?!\*|/|::|\.h)")


def linked(comment: str) -> str:
    """Returns a comment with links."""
    parts = APART.split(comment)
    parts[::2] = [NAME.sub(r"#\1", part) for part in parts[::2]]
    return "".join(parts)


if __name__ == "__main__":
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    sys.stdout.write(COMMENT.sub(lambda m: linked(m[0]), text))
