"""The benches: reprise_gpubench, then torch and ONNX Runtime in a separate process."""

import json
import sys
import tempfile
from pathlib import Path

from . import document as results
from . import process
from .checks import Machine

HERE = Path(__file__).resolve().parent
SCRIPT = HERE.parent / "gpu" / "torch_peer.py"


def gpubench(machine: Machine, document: dict, save, limit: float, groups: str, tune=False) -> str:
    """Measures the cases of some groups, or with `tune` their schedules.

    Returns why that did not finish; empty if it did.
    """
    program = machine.program("reprise_gpubench")
    if not program.is_file():
        document["bench"]["missing"]["reprise_gpubench"] = "it was not built"
        return "it was not built"
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "bench.json"
        command = [program, "--device", machine.device, "--json", target]
        command += ["--models", machine.models, "--vulkan", machine.vulkan or "auto"]
        command += ["--group", groups, *(["--tune"] if tune else [])]
        command += ["--time-limit", max(1, int(limit * 0.8))]
        if machine.quick:
            command += ["--quick", "--runs", 5, "--seconds", 0.2]
        seen, stopped = 0.0, ""

        def take() -> None:
            nonlocal seen, stopped
            changed = target.stat().st_mtime if target.is_file() else 0.0
            if changed > seen:
                seen = changed
                made = json.loads(target.read_text(encoding="utf-8"))
                stopped = made.get("stopped", "")
                results.take_bench(document, made, "tune" if tune else "bench")
                save()

        done = process.run(command, machine.environment, limit, watch=take)
        take()
    if done.status is None:
        return "stopped at the time limit"
    if done.status not in (0, 1):  # 1: a result of Reprise is wrong; the rows have the details
        return f"status {done.status}: {done.output.strip()[-1000:]}"
    return stopped


def torch_peers(machine: Machine, document: dict, python: str, limit: float) -> str:
    cases = document["bench"]["cases"]
    if not cases:
        return "there is nothing to compare with"
    command = [python or sys.executable, "-B", SCRIPT, "--models", machine.models]
    command += ["--time-limit", max(1, int(limit) - 30), "--device", machine.device]
    command += ["--cases", json.dumps([[case["case"], case["dtype"]] for case in cases])]
    if machine.quick:
        command += ["--runs", 5, "--seconds", 0.2]
    done = process.run(command, machine.environment, limit)
    results.merge_rows(document, results.parse_rows(done.output))
    if done.status is None:
        return "stopped at the time limit"
    if done.status != 0:
        reason = f"status {done.status}: {done.output.strip()[-600:]}"
        document["bench"]["missing"].setdefault("torch", reason)
        return reason
    return ""
