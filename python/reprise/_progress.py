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


def _tqdm() -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm


@contextmanager
def progress_for(wanted: bool | Progress | None) -> Iterator[Progress | None]:
    """Yields the function that shows progress, or None."""
    if callable(wanted):
        yield wanted
        return
    tqdm = _tqdm() if wanted or (wanted is None and _is_shown()) else None
    if tqdm is None:
        yield None
        return
    start = time.monotonic()
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
