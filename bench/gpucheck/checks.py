"""Tests on the GPU: GoogleTest programs and `reprise conformance`, read line by line."""

import json
import os
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from . import process

LINE = re.compile(r"^\[ +(?P<kind>RUN|OK|FAILED|SKIPPED) +\] (?P<name>[\w./]+)(?: \(|$)")
# Of tools/fuzz: a finding, up to the next one or the summary, and the last line.
FINDING = re.compile(r"^--- seed (\d+): (.*?)(?=^--- seed |^operators: |\Z)", re.MULTILINE | re.DOTALL)
GRAPHS = re.compile(r"^(?P<graphs>\d+) graphs, (?P<findings>\d+) findings$", re.MULTILINE)
CASE = re.compile(r"^(?P<kind>pass|fail|unsupported|error)  (?P<name>\S+?)(?:: (?P<reason>.*))?$")


@dataclass
class Result:
    name: str
    passed: int = 0
    skipped: int = 0
    unsupported: int = 0
    failures: dict = field(default_factory=dict)  # name: message
    seconds: float = 0
    stopped: str = ""  # why it did not finish
    missing: str = ""  # why it was not run

    def json(self) -> dict:
        out = {
            "name": self.name,
            "passed": self.passed,
            "skipped": self.skipped,
            "unsupported": self.unsupported,
            "failures": self.failures,
            "seconds": round(self.seconds, 1),
        }
        if self.stopped:
            out["stopped"] = self.stopped
        if self.missing:
            out["missing"] = self.missing
        return out


def read_gtest(name: str, done: process.Finished) -> Result:
    result = Result(name, seconds=done.seconds)
    running, said = "", []
    for line in done.output.splitlines():
        found = LINE.match(line)
        if not found:
            said.append(line)
            continue
        kind, test = found["kind"], found["name"]
        if kind == "RUN":
            running, said = test, []
        elif test == running:  # ignores the summary, which repeats the failures
            if kind == "OK":
                result.passed += 1
            elif kind == "SKIPPED":
                result.skipped += 1
            else:
                result.failures[test] = "\n".join(said)[:2000]
            running = ""
    if done.status is None:
        result.stopped = f"at its time limit, in {running or 'no test'}"
    elif running:
        result.failures[running] = (
            f"the program ended with status {done.status}\n" + "\n".join(said)[-2000:]
        )
    elif done.status != 0 and not result.failures:
        result.failures["(program)"] = f"status {done.status}\n{done.output[-2000:]}"
    return result


# Cases of Debian's ONNX suite whose data contradict their model (tests/conformance).
WRONG_CASES = ("node/test_adam_multiple",)


def read_conformance(name: str, done: process.Finished) -> Result:
    result = Result(name, seconds=done.seconds)
    wrong_cases = False
    for line in done.output.splitlines():
        found = CASE.match(line)
        if not found:
            continue
        if found["kind"] == "pass":
            result.passed += 1
        elif found["kind"] == "unsupported":
            result.unsupported += 1
        elif found["name"] in WRONG_CASES:
            wrong_cases = True
        else:
            result.failures[found["name"]] = f"{found['kind']}: {found['reason']}"
    if done.status is None:
        result.stopped = "at its time limit"
    elif done.status not in ((0, 1) if wrong_cases else (0,)) and not result.failures:
        result.failures["(program)"] = f"status {done.status}\n{done.output[-2000:]}"
    return result


def read_fuzz(name: str, done: process.Finished) -> Result:
    """The output of tools/fuzz; each finding is a failure, named by its seed."""
    result = Result(name, seconds=done.seconds)
    for seed, text in FINDING.findall(done.output):
        result.failures[f"seed {seed}"] = text.strip()[:2000]
    counted = GRAPHS.search(done.output)
    if counted:
        result.passed = int(counted["graphs"]) - int(counted["findings"])
    if done.status is None:
        result.stopped = "at its time limit"
    elif not counted or (done.status != 0 and not result.failures):
        result.failures["(program)"] = f"status {done.status}\n{done.output[-2000:]}"
    return result


def read_check(name: str, done: process.Finished, rows: list[dict]) -> Result:
    """The kernels of `reprise check --json`; each one that is wrong is a failure."""
    result = Result(name, seconds=done.seconds)
    for row in rows:
        if row["status"] == "pass":
            result.passed += 1
        elif row["status"] == "skipped":
            result.skipped += 1
        else:
            result.failures[f"{row['model']} {row['kernel']}"] = f"{row['status']}: {row['reason']}"
    if done.status is None:
        result.stopped = "at its time limit"
    elif done.status not in (0, 1) or (done.status == 1 and not result.failures):
        result.failures["(program)"] = f"status {done.status}\n{done.output[-2000:]}"
    return result


def read_primitives(name: str, done: process.Finished, rows: list[dict]) -> Result:
    """The rows of reprise_primitives; each result that is not the recorded one is a failure."""
    result = Result(name, seconds=done.seconds)
    for row in rows:
        if row["status"] == "pass":
            result.passed += 1
        else:
            result.failures[row["name"]] = f"{row['status']}: {row['reason']}"
    if done.status is None:
        result.stopped = "at its time limit"
    elif done.status not in (0, 1) or (done.status == 1 and not result.failures):
        result.failures["(program)"] = f"status {done.status}\n{done.output[-2000:]}"
    return result


@dataclass
class Machine:
    """The folders and devices of a check."""

    build: Path
    environment: dict
    device: str  # "cuda:0"
    vulkan: str | None  # the same GPU through Vulkan
    models: Path
    suite: Path
    quick: bool = False

    def program(self, name: str) -> Path:
        return self.build / "bin" / name


def gtest(machine: Machine, title: str, program: str, select: str, limit: float) -> Result:
    path = machine.program(program)
    if not path.is_file():
        return Result(title, missing=f"{program} was not built")
    command = [path, "--gtest_color=no", f"--gtest_filter={select}"]
    return read_gtest(title, process.run(command, machine.environment, limit, cwd=machine.build))


def conformance(machine: Machine, title: str, folder: Path, device: str, limit: float) -> Result:
    if not folder.is_dir():
        return Result(title, missing=f"there is no folder {folder}")
    jobs = max(1, min(8, os.cpu_count() or 1))
    command = [machine.program("reprise"), "conformance", folder, "--device", device]
    command += ["--jobs", jobs, "--timeout", 120, "--verbose"]
    if machine.quick:
        command += ["--filter", "test_a*" if folder == machine.suite else "m*"]
    command = process.line_buffered([str(word) for word in command])
    return read_conformance(title, process.run(command, machine.environment, limit))


#: The folder of recorded primitives in a pack.
PRIMITIVES = "primitives"


def record_primitives(machine: Machine, folder: Path, arch: str, limit: float) -> str:
    """Records what a device is compared with; returns why that failed, or nothing."""
    program = machine.program("reprise_record_primitives")
    if not program.is_file():
        return "reprise_record_primitives was not built"
    done = process.run([program, folder, arch], machine.environment, limit)
    return "" if done.status == 0 else f"status {done.status}: {done.output.strip()[-1000:]}"


def primitives(machine: Machine, arch: str, limit: float) -> Result:
    """Each assembly function alone. What a pack has is recorded; else it is recorded now."""
    title, program = "primitives", machine.program("reprise_primitives")
    if not program.is_file():
        return Result(title, missing="reprise_primitives was not built")
    with tempfile.TemporaryDirectory() as scratch:
        folder, target = machine.build / PRIMITIVES, Path(scratch) / "primitives.json"
        if not (folder / "index.json").is_file():
            folder = Path(scratch) / PRIMITIVES
            missing = record_primitives(machine, folder, arch, limit)
            if missing:
                return Result(title, missing=missing)
        command = [program, folder, "--device", machine.device, "--json", target]
        done = process.run(command, machine.environment, limit)
        rows = []
        if target.is_file():
            rows = json.loads(target.read_text(encoding="utf-8"))["primitives"]
    return read_primitives(title, done, rows)


def probes(machine: Machine, device: str | None, limit: float) -> Result:
    """Each kind of kernel alone, against what the interpreter computed."""
    title = f"probes on {device or 'vulkan'}"
    if not device or device == "off":
        return Result(title, missing="no Vulkan device on this GPU")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "check.json"
        command = [machine.program("reprise"), "check", "--device", device, "--json", target]
        done = process.run([*command, "--runs", 12], machine.environment, limit)
        rows = json.loads(target.read_text(encoding="utf-8")) if target.is_file() else []
    return read_check(title, done, rows)


def random_graphs(machine: Machine, limit: float) -> Result:
    """Random graphs on the GPU, for most of the given time."""
    path = machine.program("reprise_fuzz")
    if not path.is_file():
        return Result("random graphs", missing="reprise_fuzz was not built")
    seconds = 5 if machine.quick else max(5.0, min(120.0, 0.8 * limit - 5))
    jobs = max(1, min(8, (os.cpu_count() or 2) // 2))
    command = [path, "--minutes", f"{seconds / 60:.2f}", "--jobs", jobs, "--cuda-every", 0]
    return read_fuzz("random graphs", process.run(command, machine.environment, limit))


# Operators and models on other devices are covered by the tests on any machine.
GTESTS = (
    ("backend contract", "test_backends", "*"),
    ("cuda", "test_cuda", "-*Full*"),
)
# These need no GPU and take long, so they run last.
LATE_GTESTS = (("nvrtc", "test_nvrtc", "-*Full*"),)
