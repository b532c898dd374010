"""Runs the peers on cases, interleaved; needs numpy and onnx."""

import hashlib
import json
import os
import selectors
import shutil
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy

from . import cases, environment
from .table import PEERS, Peer

HERE = Path(__file__).resolve().parent.parent
WRONG = 1e-2  # the largest allowed error, relative to the output's range


class Failure(Exception):
    def __init__(self, stage: str, reason: str):
        super().__init__(reason)
        self.stage = stage


@dataclass
class Setup:
    """The settings that all measurements of one call share."""

    root: Path  # folder of environments and converted models
    reprise: Path
    runner: Path
    device: str
    icd: str
    threads: int
    runs: int
    starts: int
    seconds: float
    timeout: float
    say: object
    pythons: dict[str, Path] = field(default_factory=dict)

    def environment(self, scratch: Path) -> dict[str, str]:
        threads = str(self.threads)
        env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("VK_LAYER", "VK_INSTANCE_LAYERS", "VK_LOADER_LAYERS"))
        }
        return env | {
            "VK_DRIVER_FILES": self.icd,
            "VK_ICD_FILENAMES": self.icd,  # for loaders before 1.3.207
            "MESA_SHADER_CACHE_DISABLE": "true",
            "XDG_CACHE_HOME": str(scratch),
            "LP_NUM_THREADS": threads,
            "OMP_NUM_THREADS": threads,
            "OMP_WAIT_POLICY": "passive",
            "PYTHONPATH": str(HERE),
            "PYTHONDONTWRITEBYTECODE": "1",
        }


class Worker:
    """A process that has loaded one model with one peer and runs it on request."""

    def __init__(self, command: list[str], env: dict[str, str], log: Path):
        self.log = log
        with log.open("wb") as err:
            self.process = subprocess.Popen(
                command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err
            )
        self.pending = b""

    def answer(self, timeout: float) -> dict:
        deadline = time.monotonic() + timeout
        fd = self.process.stdout.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(fd, selectors.EVENT_READ)
            while b"\n" not in self.pending:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    self.stop(kill=True)
                    raise Failure("run", f"no answer within {timeout:g} s")
                chunk = os.read(fd, 1 << 16)
                if not chunk:
                    self.stop()
                    raise Failure("run", self.last_words())
                self.pending += chunk
        line, self.pending = self.pending.split(b"\n", 1)
        fields = json.loads(line)
        if "error" in fields:
            self.stop()
            raise Failure("run", fields["error"])
        return fields

    def ask(self, timeout: float) -> dict:
        try:
            self.process.stdin.write(b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # reading the answer reports that the process ended
        return self.answer(timeout)

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        status = self.process.returncode
        ended = f"ended by signal {-status}" if status < 0 else f"exited with {status}"
        return f"{ended}: {lines[-1][:300]}" if lines else ended

    def stop(self, kill: bool = False) -> None:
        if self.process.poll() is None:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass
            if kill:
                self.process.kill()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()


def _call(command: list[str], env: dict[str, str], timeout: float) -> subprocess.CompletedProcess:
    """Runs a converter in its own session, so that the processes that it starts end with it."""
    process = subprocess.Popen(
        command,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        raise Failure("convert", f"not done within {timeout:g} s") from None
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _digest(case: Path, versions: str) -> str:
    digest = hashlib.sha256(versions.encode())
    for path in [
        HERE / "peerbench" / "convert.py",
        case / "model.onnx",
        *sorted((case / "test_data_set_0").glob("input_*.pb")),
    ]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _convert(setup: Setup, peer: Peer, case: Path, scratch: Path) -> tuple[Path, float]:
    """The folder of a peer's form of the model, and how long the conversion took."""
    env = setup.environment(scratch)
    start = time.monotonic()
    if peer.name == "reprise":
        command = [setup.reprise, "compile", case / "model.onnx", "-o", scratch / "model.rpk"]
        done = _call([*map(str, command), "--targets", "vulkan"], env, setup.timeout)
        if done.returncode != 0:
            raise Failure("convert", (done.stderr.strip().splitlines() or ["no output"])[-1])
        return scratch, (time.monotonic() - start) * 1e3
    python = setup.pythons[peer.name]
    stamp = (python.parent.parent / "versions.json").read_text()
    folder = setup.root / "models" / peer.name / f"{case.name}-{_digest(case, stamp)}"
    record = folder / "converted.json"
    done = json.loads(record.read_text()) if record.exists() else {}
    if not done or 0 < done["gave_up_s"] < setup.timeout:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        command = [str(python), "-m", "peerbench.convert", peer.name, str(case), str(folder)]
        reason, gave_up_s = "", 0.0
        try:
            result = _call(command, env, setup.timeout)
            if result.returncode != 0:
                reason = (result.stderr.strip().splitlines() or ["no output"])[-1]
        except Failure as failure:
            reason, gave_up_s = str(failure), setup.timeout
        done = {"ms": (time.monotonic() - start) * 1e3, "reason": reason, "gave_up_s": gave_up_s}
        record.write_text(json.dumps(done))
    if done["reason"]:
        raise Failure("convert", done["reason"])
    return folder, done["ms"]


@dataclass
class Entry:
    peer: Peer
    scratch: Path
    folder: Path = Path()
    worker: Worker | None = None
    row: dict = field(default_factory=dict)
    first: list[tuple[float, float]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    spent: float = 0.0

    def fail(self, stage: str, reason: str) -> None:
        self.row |= {"status": "failed", "stage": stage, "reason": reason}
        if self.worker:
            self.worker.stop(kill=True)
            self.worker = None

    @property
    def alive(self) -> bool:
        return self.row.get("status") != "failed"


def _start(setup: Setup, entry: Entry, case: Path) -> None:
    if entry.worker:
        entry.worker.stop()
        entry.worker = None
    outputs = entry.scratch / "outputs"
    outputs.mkdir(exist_ok=True)
    cache = entry.scratch / f"cache{len(entry.first)}"  # an empty cache for each start
    cache.mkdir()
    if entry.peer.name == "reprise":
        command = [setup.runner, entry.folder / "model.rpk", "--device", setup.device]
        command += ["--inputs", case / "test_data_set_0", "--outputs", outputs]
    else:
        command = [setup.pythons[entry.peer.name], "-m", "peerbench.worker", entry.peer.name]
        command += [case, entry.folder, outputs, setup.threads]
    entry.worker = Worker(
        [str(part) for part in command], setup.environment(cache), entry.scratch / "log.txt"
    )
    answer = entry.worker.answer(setup.timeout)
    entry.row["device"] = answer.get("device", "")
    entry.first.append((answer["load_ms"], answer["first_run_ms"]))


def _check(entry: Entry, expected: list[numpy.ndarray]) -> None:
    files = sorted((entry.scratch / "outputs").glob("*.npy"), key=lambda path: int(path.stem))
    error = cases.error([numpy.load(path) for path in files], expected)
    entry.row["max_error"] = error if numpy.isfinite(error) else None
    if error > WRONG:
        entry.row |= {"status": "wrong", "stage": "check"}
        entry.row["reason"] = (
            f"largest error {error:.3g} of the output's range"
            if numpy.isfinite(error)
            else "outputs of another shape, or not finite"
        )
    else:
        entry.row["status"] = "ok"


def _rounds(setup: Setup, entries: list[Entry]) -> None:
    """Runs each peer once, in turn, except those that have used up their time."""
    for turn in range(-1, setup.runs):
        shift = turn % max(1, len(entries))
        for entry in entries[shift:] + entries[:shift]:  # the order rotates
            if not entry.alive or (entry.times and entry.spent > setup.seconds):
                continue
            try:
                ms = entry.worker.ask(setup.timeout)["ms"]
            except Failure as failure:
                entry.fail(failure.stage, str(failure))
                continue
            entry.spent += ms / 1e3
            if turn >= 0 or entry.spent > setup.seconds:
                entry.times.append(ms)


def _finish(entry: Entry) -> dict:
    if entry.first:
        entry.row["load_ms"] = statistics.median(load for load, _ in entry.first)
        entry.row["first_run_ms"] = statistics.median(run for _, run in entry.first)
        entry.row["first_ms"] = statistics.median(load + run for load, run in entry.first)
    if entry.times and entry.alive:
        entry.row["median_ms"] = statistics.median(entry.times)
        entry.row["p10_ms"] = float(numpy.percentile(entry.times, 10))
        entry.row["p90_ms"] = float(numpy.percentile(entry.times, 90))
        entry.row["runs"] = len(entry.times)
    return entry.row


def measure_case(setup: Setup, case: Path, peers: list[Peer], unavailable: dict[str, str]) -> dict:
    rows = {}
    with tempfile.TemporaryDirectory(prefix="peers-") as temporary:
        entries = []
        for peer in peers:
            entry = Entry(peer, Path(temporary) / peer.name)
            entry.scratch.mkdir()
            entries.append(entry)
            if peer.name in unavailable:
                entry.fail("setup", unavailable[peer.name])
                continue
            if not peer.converts:
                continue
            setup.say(f"{case.name}: {peer.title}: converting")
            try:
                entry.folder, entry.row["compile_ms"] = _convert(setup, peer, case, entry.scratch)
            except Failure as failure:
                entry.fail(failure.stage, str(failure))
        try:
            _measure_entries(setup, case, entries)
        finally:
            for entry in entries:
                if entry.worker:
                    entry.worker.stop()
        rows = {entry.peer.name: _finish(entry) for entry in entries}
    for name, row in rows.items():
        if row["status"] != "ok":
            setup.say(f"{case.name}: {PEERS[name].title}: {row['status']}: {row['reason']}")
    return {"model": case.name, "peers": rows}


def _measure_entries(setup: Setup, case: Path, entries: list[Entry]) -> None:
    for number in range(setup.starts):
        for entry in entries:
            if not entry.alive:
                continue
            setup.say(f"{case.name}: {entry.peer.title}: cold start {number + 1}")
            try:
                _start(setup, entry, case)
            except Failure as failure:
                entry.fail("start", str(failure))
    expected = cases.outputs(case)
    for entry in entries:
        if entry.alive:
            _check(entry, expected)
    setup.say(f"{case.name}: {setup.runs} rounds")
    _rounds(setup, [entry for entry in entries if entry.alive])


def write_versions(python: Path, peer: Peer) -> dict[str, str]:
    found = environment.versions(python, peer)
    (python.parent.parent / "versions.json").write_text(json.dumps(found))
    return found
