#!/usr/bin/env python3
"""Runs samples of PyTorch's operator database through the backend.

Each entry of `op_db` is run in float32, float16 and int64, forward and, where PyTorch
differentiates it, backward. Results are compared with eager's. An entry either runs on our kernels,
or falls back (with reasons), or is wrong, or crashes. Strides of results that differ from eager's are
noted, unless PyTorch's own `aot_eager` has other ones as well. Entries run in child processes, so that a
crash or a hang is the finding of one entry. `op_table.py` writes the table of docs/pytorch.md.

    op_db.py --device vulkan:0 --samples 3 --json results.json
    op_db.py --only add,mul --device host
    op_db.py --gradcheck --device host          # derivatives of the compiled program, in float64
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
#: What the child processes are told as well.
SWITCHES = ("gradcheck", "dynamic", "strided", "reference", "export")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="vulkan:0")
    parser.add_argument(
        "--only", default="", help="names of entries, separated by commas"
    )
    parser.add_argument("--dtypes", default="float32,float16,int64")
    parser.add_argument(
        "--samples", type=int, default=3, help="of each entry, dtype and direction"
    )
    parser.add_argument("--json", type=Path, help="where the results go")
    parser.add_argument(
        "--timeout", type=float, default=60, help="seconds for one entry"
    )
    parser.add_argument(
        "--start", default="", help="leave out entries whose names come before this"
    )
    parser.add_argument(
        "--part", default="0/1", help="I/N: every Nth entry, beginning with the Ith"
    )
    parser.add_argument(
        "--gradcheck", action="store_true",
        help="compare gradients in float64 with numerical derivatives instead",
    )  # fmt: skip
    parser.add_argument(
        "--dynamic", action="store_true", help="sizes are symbols of the compiled graph"
    )
    parser.add_argument(
        "--strided",
        action="store_true",
        help="samples are not dense: their memory has gaps",
    )
    parser.add_argument(
        "--reference",
        action="store_true",
        help="PyTorch's larger sets of samples, where it has them",
    )
    parser.add_argument(
        "--export",
        action="store_true",
        help="run packages of `reprise.torch.export` instead",
    )
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        from op_db_child import serve

        return serve(options)
    return run(options)


def entries(options: argparse.Namespace) -> list[str]:
    from torch.testing._internal.common_methods_invocations import op_db

    wanted = {n for n in options.only.split(",") if n}
    names = sorted({_full_name(o) for o in op_db})
    part, parts = (int(n) for n in options.part.split("/"))
    names = [n for n in names if not wanted or n in wanted or n.split("|")[0] in wanted]
    return [n for n in names if n >= options.start][part::parts]


def _full_name(info: Any) -> str:
    return (
        f"{info.name}|{info.variant_test_name}"
        if info.variant_test_name
        else str(info.name)
    )


class Child:
    """A process that runs entries one after another."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._command = [
            sys.executable, str(HERE / "op_db.py"), "--child", "--device", options.device,
            "--dtypes", options.dtypes, "--samples", str(options.samples),
            *(f"--{name}" for name in SWITCHES if getattr(options, name)),
        ]  # fmt: skip
        self._timeout = options.timeout
        self._process: subprocess.Popen[str] | None = None

    def ask(self, name: str) -> dict[str, Any]:
        """Returns what became of an entry."""
        import select

        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=HERE,
            )
            assert self._process.stdout is not None
            self._process.stdout.readline()  # it is ready
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(name + "\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], self._timeout)
        line = process.stdout.readline() if ready else ""
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        code = process.poll()
        process.kill()
        process.wait()
        self._process = None
        reason = "it takes too long" if not ready else f"the process ends with {code}"
        return {
            "name": name,
            "status": "crash" if ready else "timeout",
            "reasons": [reason],
        }


def run(options: argparse.Namespace) -> int:
    results: list[dict[str, Any]] = []
    names = entries(options)
    child = Child(options)
    start = time.monotonic()
    for number, name in enumerate(names):
        found = child.ask(name)
        results.append(found)
        if found["status"] != "kernels":
            print(
                f"{name}: {found['status']}: {'; '.join(found['reasons'])[:300]}",
                flush=True,
            )
        for strides in found.get("strides", []):
            print(f"{name}: strides {strides[:300]}", flush=True)
        if options.json:
            options.json.write_text(json.dumps(results, indent=1))
        if number % 50 == 49:
            print(
                f"-- {number + 1}/{len(names)}, {time.monotonic() - start:.0f} s",
                flush=True,
            )
    totals: dict[str, int] = {}
    for found in results:
        totals[found["status"]] = totals.get(found["status"], 0) + 1
    print(totals)
    other = sum(bool(f.get("strides")) for f in results)
    print(f"{other} entries have results with other strides than eager's")
    return (
        1 if totals.get("wrong") or totals.get("crash") or totals.get("timeout") else 0
    )


if __name__ == "__main__":
    sys.exit(main())
