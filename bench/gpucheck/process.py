"""Runs programs and keeps their output even if they are stopped."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Finished:
    status: int | None  # None: stopped at its limit
    output: str
    seconds: float


def line_buffered(command: list[str]) -> list[str]:
    """Avoids buffering, so that output before a stop is not lost."""
    return ["stdbuf", "-oL", *command] if shutil.which("stdbuf") else command


def run(
    command: list, environment: dict, limit: float, cwd: Path | None = None, watch=None, errors=True
) -> Finished:
    """Runs a program for at most `limit` seconds; `watch` is called about once a second."""
    start = time.monotonic()
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdout=output,
            stderr=subprocess.STDOUT if errors else None,
            stdin=subprocess.DEVNULL,
            env=environment,
            cwd=cwd,
            start_new_session=True,
        )
        status = _wait(process, start + limit, watch)
        output.seek(0)
        return Finished(status, output.read(), time.monotonic() - start)


def _wait(process: subprocess.Popen, end: float, watch) -> int | None:
    try:
        while True:
            left = end - time.monotonic()
            try:
                return process.wait(timeout=max(0.0, min(1.0, left)))
            except subprocess.TimeoutExpired:
                if left <= 0:
                    return None
                if watch:
                    watch()
    finally:
        _stop(process)


def _stop(process: subprocess.Popen) -> None:
    """Stops the program and the processes that it started."""
    if process.poll() is not None:
        return
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
            process.wait(timeout=5)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
