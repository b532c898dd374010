#!/usr/bin/env python3
"""Writes the table of docs/pytorch.md from the results of op_db.py.

    op_table.py docs/pytorch.md results.json ...

The results of several runs are joined: an entry counts as the worst that became of it.
"""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- op_table.py: begin -->", "<!-- op_table.py: end -->"
#: From the worst to the best.
ORDER = ("crash", "timeout", "wrong", "fallback", "partly", "kernels", "nothing")
MEANING = {
    "crash": "end with an error",
    "timeout": "take too long",
    "wrong": "differ from eager",
    "fallback": "run in PyTorch",
    "partly": "run partly in PyTorch",
    "kernels": "run on compiled kernels",
    "nothing": "leave nothing to compile",
}


def joined(files: list[Path]) -> dict[str, dict[str, Any]]:
    """Returns the worst result of each entry, with all reasons."""
    found: dict[str, dict[str, Any]] = {}
    for file in files:
        for entry in json.loads(file.read_text()):
            before = found.setdefault(
                entry["name"], {"status": "nothing", "reasons": []}
            )
            if ORDER.index(entry["status"]) < ORDER.index(before["status"]):
                before["status"] = entry["status"]
            before["reasons"] += [
                r for r in entry["reasons"] if r not in before["reasons"]
            ]
    return found


def _reason(entry: dict[str, Any], width: int) -> str:
    """Shortens reasons to the operators that fall back, as many as fit."""
    parts: list[str] = []
    for reason in entry["reasons"]:
        operator, _, why = reason.partition(": ")
        short = operator.removeprefix("aten.").removesuffix(".default")
        text = short if "no row" in why else f"{short} ({why})"
        if text not in parts:
            parts.append(text)
    text = ""
    for number, part in enumerate(parts):
        longer = f"{text}, {part}" if text else part
        if len(longer) > width - 6 and text:
            return f"{text}, {len(parts) - number} more"
        text = longer
    return text.replace("|", "\\|")[:width]


def table(found: dict[str, dict[str, Any]]) -> str:
    lines = ["| entries of `op_db` | number |", "|---|---|"]
    for status in reversed(ORDER):
        count = sum(e["status"] == status for e in found.values())
        lines.append(f"| {MEANING[status]} | {count} |")
    lines += ["", "| entry | what PyTorch runs |", "|---|---|"]
    for name, entry in sorted(found.items()):
        if entry["status"] not in ("kernels", "nothing"):
            label = name.replace("|", " ")
            lines.append(f"| {label} | {_reason(entry, 103 - len(label))} |")
    lines += ["", "| what leaves nothing to compile | entries |", "|---|---|"]
    groups: dict[str, list[str]] = {}
    for name, entry in sorted(found.items()):
        if entry["status"] == "nothing":
            groups.setdefault(_idle(entry), []).append(name)
    for reason, names in sorted(groups.items()):
        # A row is as long as lines of documents may be.
        for part in textwrap.wrap(", ".join(names), 103 - len(reason)):
            listed = part.rstrip(",").replace("|", " ")
            lines.append(f"| {reason} | {listed} |")
    return "\n".join(lines)


def _idle(entry: dict[str, Any]) -> str:
    """Why an entry leaves nothing to compile: of several reasons, the one that says most."""
    reasons = sorted(entry["reasons"], key=lambda r: not r.startswith("PyTorch"))
    telling = [r for r in reasons if not r.startswith("it has no samples")]
    return (telling or reasons or ["no operator is left"])[0].replace("|", "\\|")


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    path = Path(sys.argv[1])
    text = path.read_text()
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    found = joined([Path(f) for f in sys.argv[2:]])
    path.write_text(f"{head}{BEGIN}\n{table(found)}\n{END}{tail}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
