"""A Python environment for each peer, so that their packages do not conflict."""

import json
import subprocess
import sys
from pathlib import Path

from .table import Peer

COMMON = ("numpy", "onnx")
BASE = "base"  # the environment in which the tool itself runs


class SetupError(Exception):
    pass


def python_of(folder: Path, name: str) -> Path:
    return folder / name / "bin" / "python"


def ensure(folder: Path, name: str, say, packages=(), alone=()) -> Path:
    """Returns the environment's Python; creates the environment if it is missing."""
    python = python_of(folder, name)
    wanted = sorted((*packages, *COMMON))
    stamp = folder / name / "installed.txt"
    everything = [*wanted, *alone]
    if stamp.exists() and stamp.read_text().split() == everything:
        return python
    say(f"{name}: installing {' '.join(everything)} into {folder / name}")
    # Debian's python3 has pip but not ensurepip, so packages are installed from outside.
    outside = getattr(sys, "_base_executable", sys.executable)
    install = [outside, "-m", "pip", "--python", str(python), "install", "--quiet"]
    commands = [
        [outside, "-m", "venv", "--clear", "--without-pip", str(folder / name)],
        [*install, *wanted],
    ]
    if alone:
        commands.append([*install, "--no-deps", *alone])
    for command in commands:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines()
            raise SetupError(f"{' '.join(command)} failed: {lines[-1] if lines else 'no output'}")
    stamp.write_text("\n".join(everything) + "\n")
    return python


def versions(python: Path, peer: Peer) -> dict[str, str]:
    names = [package.split("[")[0] for package in (*peer.packages, *peer.alone)]
    code = (
        "import importlib.metadata as m, json, sys\n"
        "print(json.dumps({n: m.version(n) for n in sys.argv[1:]}))"
    )
    command = [str(python), "-c", code, *names]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        return {}
    return json.loads(done.stdout)
