"""Tables as text and as HTML."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def text_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table with aligned columns."""
    all_rows = [tuple(header), *(tuple(row) for row in rows)]
    widths = [max(len(row[c]) for row in all_rows) for c in range(len(header))]
    lines = (
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in all_rows
    )
    return "\n".join(lines)


def html_table(
    caption: str, header: Sequence[str], rows: Iterable[Sequence[str]]
) -> str:
    """Returns a table for notebooks. Cells are text and get escaped."""
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return (
        f"<table><caption>{html.escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def some(names: list[str], most: int = 40) -> str:
    """The first names, and how many others there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return " ".join(names[:most]) + more


def bytes_text(size: int | None) -> str:
    """Returns a size with its unit, or '?' if it is not known before a run."""
    if size is None:
        return "?"
    for unit, limit in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= limit:
            return f"{size / limit:.1f} {unit}"
    return f"{size} B"
