"""Where the time of a first call goes: phases that are timed, and progress on a terminal.

The phases are "traced" (AOTAutograd, and all that TrainStep captures), "translated" (to the compiler's
graph), "compiled", "loaded" (from disk), "opened" (sessions, in which drivers make pipelines) and
"first run". The time before AOTAutograd is Dynamo's, which `torch._dynamo.utils.compile_times()` has.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .._progress import Progress, progress_for
from .tally import counters

#: What a terminal shows in each phase.
_SHOWN = {
    "traced": "PyTorch traces it", "translated": "translating", "compiled": "compiling",
    "loaded": "loading", "opened": "the driver prepares kernels", "first run": "running",
}  # fmt: skip
#: Seconds between updates of what is shown, also if nothing is reported.
_INTERVAL = 0.5


class _Local(threading.local):
    def __init__(self) -> None:
        #: The seconds of phases inside each open phase.
        self.inner: list[float] = []
        #: What else notes the seconds.
        self.notes: list[dict[str, float]] = []
        self.display: _Display | None = None
        self.subject = ""


_local = _Local()
_lock = threading.Lock()


class _Display:
    """Shows what is being done, again and again until it is closed."""

    def __init__(self, show: Progress) -> None:
        self._show, self._lock = show, threading.Lock()
        self._now = ("", 0, 0)
        self._ended = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)
        self._ticker.start()

    def report(self, what: str, done: int = 0, total: int = 0) -> None:
        with self._lock:
            self._now = (what, done, total)
            self._show(what, done, total)

    def close(self) -> None:
        self._ended.set()
        self._ticker.join()

    def _tick(self) -> None:
        while not self._ended.wait(_INTERVAL):
            with self._lock:
                self._show(*self._now)


@contextmanager
def shown(subject: str) -> Iterator[None]:
    """In this block, a terminal or notebook shows what is done to a graph, if it takes long."""
    before = _local.subject
    _local.subject = subject
    try:
        if _local.display is not None:
            yield
            return
        with progress_for(None) as show:
            if show is None:
                yield
                return
            _local.display = _Display(show)
            try:
                yield
            finally:
                _local.display.close()
                _local.display = None
    finally:
        _local.subject = before


def progress() -> Progress | None:
    """Returns what the compiler reports its progress to; None: it shows its own where that is due."""
    display, subject = _local.display, _local.subject
    if display is None:
        return None
    return lambda what, done, total: display.report(f"{subject}: {what}", done, total)


@contextmanager
def noted(seconds: dict[str, float]) -> Iterator[None]:
    """Adds the seconds of the phases in this block to a dict as well."""
    _local.notes.append(seconds)
    try:
        yield
    finally:
        _local.notes.pop()


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Times a phase, without those inside it."""
    if _local.display is not None:
        _local.display.report(f"{_local.subject}: {_SHOWN[name]}")
    _local.inner.append(0.0)
    start = time.perf_counter()
    try:
        yield
    finally:
        took = time.perf_counter() - start
        own = took - _local.inner.pop()
        if _local.inner:
            _local.inner[-1] += took
        with _lock:
            for seconds in (counters.seconds, *_local.notes):
                seconds[name] = seconds.get(name, 0.0) + own


def listed(seconds: dict[str, float]) -> str:
    """Tells what time was spent on: "traced 0.4 s, compiled 2.0 s"."""
    order = [*(name for name in seconds if name not in _SHOWN), *_SHOWN]
    return ", ".join(f"{n} {seconds[n]:.1f} s" for n in order if n in seconds)
