"""Checks the Python package's sources: mypy --strict, ruff, and that the stub is up to date."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

STUB = Path("python/reprise/_native.pyi")
# reprise.torch needs torch, and is checked where that is installed.
FOLDERS = ("python/reprise", "tests/python", "tests/api", "docs/api")
SOURCES = [str(p) for folder in FOLDERS for p in sorted(Path(folder).glob("*.py"))]
# Programs, some of which need torch, are formatted alike.
FORMATTED = [*SOURCES, "apps/python", "tools/wheel"]
CHECKED = [*FORMATTED, "bench", "tests"]


def run(*command: str) -> bool:
    """Runs a module of this interpreter and returns whether it succeeded."""
    return subprocess.run([sys.executable, "-m", *command], check=False).returncode == 0


def stub_is_current() -> bool:
    """Compares the stub in the source tree with what stubgen writes for the built extension."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "stub.pyi"
        if not run(
            "nanobind.stubgen", "-q", "-P", "-m", "reprise._native", "-o", str(made)
        ):
            return False
        if made.read_text() == STUB.read_text():
            return True
    print(
        f"{STUB} is old; write it with: {sys.executable} -m nanobind.stubgen "
        f"-P -m reprise._native -o {STUB}"
    )
    return False


def main() -> int:
    """Returns the exit status."""
    checks = [
        stub_is_current(),
        run("mypy", "--config-file", "pyproject.toml", "--no-incremental", *SOURCES),
        run("ruff", "check", "--no-cache", *CHECKED),
        run("ruff", "format", "--no-cache", "--check", *FORMATTED),
    ]
    return 0 if all(checks) else 1


if __name__ == "__main__":
    sys.exit(main())
