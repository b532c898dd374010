"""Runs the tests of reprise.torch: `run.py quick` or `run.py full`.

Ends with 77, which CTest reports as skipped, where PyTorch is not installed.
"""

from __future__ import annotations

import importlib.util
import sys
import unittest
from pathlib import Path

SKIPPED = 77
HERE = Path(__file__).resolve().parent


def main() -> int:
    if importlib.util.find_spec("torch") is None:
        print("skipped: PyTorch is not installed (pip install torch)")
        return SKIPPED
    full = sys.argv[1:] == ["full"]
    for name in ("torchvision", "transformers", "diffusers") if full else ():
        if importlib.util.find_spec(name) is None:
            print(f"skipped: {name} is not installed")
            return SKIPPED
    sys.path.insert(0, str(HERE))
    name = "test_models" if full else "test_backend"
    suite = unittest.defaultTestLoader.loadTestsFromName(name)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
