"""Progress of long compilations, with tqdm where a terminal or notebook shows it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Progress = Callable[[str, int, int], object]


def _is_shown() -> bool:
    if "ipykernel" in sys.modules:
        return True
    return sys.stderr is not None and sys.stderr.isatty()


_DELAY = 1.0  # seconds; shorter work shows nothing
_QUIET = 3.0  # seconds until text is shown where tqdm is not installed


def _tqdm() -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm


def _show_text(start: float) -> Progress:
    """Returns what writes lines of text for work that takes long."""
    last = start + _QUIET - _DELAY

    def show(what: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _DELAY:
            last = now
            part = f" ({done} of {total})" if total else ""
            print(
                f"reprise: compiling for {now - start:.0f} s: {what}{part}",
                file=sys.stderr,
            )

    return show


@contextmanager
def progress_for(wanted: bool | Progress | None) -> Iterator[Progress | None]:
    """Yields the function that shows progress, or None."""
    if callable(wanted):
        yield wanted
        return
    shown = wanted or (wanted is None and _is_shown())
    tqdm = _tqdm() if shown else None
    start = time.monotonic()
    if tqdm is None:
        yield _show_text(start) if shown else None
        return
    bar: Any = None

    def show(what: str, done: int, total: int) -> None:
        nonlocal bar
        if bar is None:
            if time.monotonic() - start < _DELAY:
                return
            bar = tqdm(desc="compiling", unit="step", leave=False)
        bar.set_description(what, refresh=False)
        if total:
            bar.total = total
            bar.n = done
            bar.refresh()
        else:
            bar.update()

    try:
        yield show
    finally:
        if bar is not None:
            bar.close()
