"""Kernels in the results of `torch.profiler`.

PyTorch lets a device backend add events only from C++ that is built with it. So the kernels of runs
in a profiled block are noted here and added to the results when the profiler makes them: to the table
and the list of events, and to the trace. Their durations are measured by the device. Where they begin
is not known on the clock of the host: they are laid out one after another from the start of the run.
"""

from __future__ import annotations

import bisect
import functools
import gzip
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.autograd import profiler, profiler_util

import reprise

#: How many runs are kept for results that were not asked for.
_MOST_RUNS = 100_000
#: What the ranges of runs are called, before the device.
_PREFIX = "reprise "
_autograd: Any = torch.autograd
_event: Any = profiler_util.FunctionEvent


@dataclass
class Run:
    """A run in a profiled block: times in nanoseconds since 1970, kernels with microseconds."""

    start: int
    device: str
    kernels: list[tuple[str, float]]

    def laid_out(self, origin: int) -> list[tuple[str, float, float]]:
        """Returns the kernels with their start and end in microseconds after `origin`."""
        at = (self.start - origin) / 1000
        found = []
        for name, duration in self.kernels:
            found.append((name, at, at + duration))
            at += duration
        return found


_runs: list[Run] = []
_lock = threading.Lock()


def enabled() -> bool:
    """Returns whether this thread is in a profiled block."""
    return bool(_autograd._profiler_enabled())


def run(
    session: reprise.Session,
    inputs: Sequence[Any],
    outputs: Sequence[Any] | None = None,
) -> list[Any]:
    """Runs a session that has timestamps, and notes its kernels for the profiler."""
    _extend_profiler()
    device = session.device.id
    with profiler.record_function(_PREFIX + device):
        start = time.time_ns()
        results, times = session.run_timed(inputs, outputs)
    kernels = list(zip(session.kernels_of(times.plan), times.kernel_us, strict=False))
    with _lock:
        _runs.append(Run(start, device, kernels))
        del _runs[:-_MOST_RUNS]
    return results


def _between(start: int, end: int) -> list[Run]:
    with _lock:
        low = bisect.bisect_left(_runs, start, key=lambda r: r.start)
        return [r for r in _runs[low:] if r.start <= end]


def _with_kernels(parse: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Extends what makes the list of events."""

    @functools.wraps(parse)
    def extended(self: Any, result: Any, *args: Any, **keywords: Any) -> list[Any]:
        events = parse(self, result, *args, **keywords)
        origin = result.trace_start_ns()
        ours = [e for e in events if e.name.startswith(_PREFIX)]
        if not ours:
            return events
        last = max(e.time_range.end for e in ours)
        added = []
        for run in _between(origin, origin + int(last * 1000)):
            kind = run.device.split(":")[0]
            if kind == self.use_device:  # PyTorch has measured them
                continue
            at = (run.start - origin) / 1000
            around = [
                e for e in ours if e.time_range.start <= at <= e.time_range.end
                and e.name == _PREFIX + run.device
            ]  # fmt: skip
            for name, start, end in run.laid_out(origin):
                added.append(
                    _event(
                        id=0,
                        name=name,
                        trace_name=name,
                        thread=0,
                        start_us=start,
                        end_us=end,
                        input_shapes=[],
                        stack=[],
                        use_device=kind,
                        device_type=_autograd.DeviceType.PrivateUse1,
                    )
                )
                if around:
                    around[-1].append_kernel(name, 0, end - start)
        if added and self.use_device is None:
            self.use_device = added[0].use_device
            for event in events + added:
                event.use_device = self.use_device
        merged: list[Any] = sorted(
            events + added, key=lambda e: [e.time_range.start, -e.time_range.end]
        )
        return merged

    return extended


def _with_tracks(export: Callable[..., Any]) -> Callable[..., Any]:
    """Extends what writes a trace: each device has a track of its own."""

    @functools.wraps(export)
    def extended(self: Any, path: str, *args: Any, **keywords: Any) -> Any:
        result = export(self, path, *args, **keywords)
        _add_tracks(Path(path))
        return result

    return extended


def _add_tracks(path: Path) -> None:
    opened: Any = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt") as file:
        trace = json.load(file)
    origin = int(trace.get("baseTimeNanoseconds", 0))
    spans = [
        (e["ts"], e["ts"] + e["dur"])
        for e in trace["traceEvents"]
        if str(e.get("name", "")).startswith(_PREFIX) and "dur" in e
    ]
    if not spans:
        return
    first, last = min(s[0] for s in spans), max(s[1] for s in spans)
    for run in _between(origin + int(first * 1000), origin + int(last * 1000)):
        trace["traceEvents"] += [
            {
                "ph": "X", "cat": "kernel", "name": name, "pid": "Reprise", "tid": run.device,
                "ts": start, "dur": end - start,
            }
            for name, start, end in run.laid_out(origin)
        ]  # fmt: skip
    with opened(path, "wt") as file:
        json.dump(trace, file)


@functools.lru_cache(maxsize=1)
def _extend_profiler() -> None:
    """Adds kernels to all results that are made from now on."""
    kind: Any = profiler.profile
    kind._parse_kineto_results = _with_kernels(kind._parse_kineto_results)
    whole: Any = torch.profiler.profile
    whole.export_chrome_trace = _with_tracks(whole.export_chrome_trace)
