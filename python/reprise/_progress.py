"""Progress of long compilations, with tqdm where a terminal or notebook shows it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Progress = Callable[[str, int, int], object]


def _is_shown() -> bool:
    if "ipykernel" in sys.modules:
        return True
    return sys.stderr is not None and sys.stderr.isatty()


def _bar() -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(desc="compiling", unit="step", delay=1.0, leave=False)


@contextmanager
def progress_for(wanted: bool | Progress | None) -> Iterator[Progress | None]:
    """Yields the function that shows progress, or None."""
    if callable(wanted):
        yield wanted
        return
    bar = _bar() if wanted or (wanted is None and _is_shown()) else None
    if bar is None:
        yield None
        return

    def show(what: str, done: int, total: int) -> None:
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
        bar.close()
