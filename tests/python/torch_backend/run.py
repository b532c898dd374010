"""Runs the tests of reprise.torch: `run.py quick|full|MODULE [RESULTS.xml]`.

`run.py --list quick|full` prints the modules of a tier.

Continues in the interpreter that REPRISE_TEST_TORCH names if this one has no PyTorch. Ends with 77,
which CTest reports as skipped, where the packages that the tests need are not installed.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import results

SKIPPED = 77
MODULES = {
    "quick": [
        "test_attention",
        "test_backend",
        "test_docstring_examples",
        "test_engine",
        "test_dynamic",
        "test_explain",
        "test_export",
        "test_higher_order",
        "test_launches",
        "test_parameters",
        "test_profiler",
        "test_programs",
        "test_stored",
        "test_train_runs",
        "test_train_step",
        "test_training",
    ],
    "full": [
        "test_dynamic_models",
        "test_export_models",
        "test_models",
        "test_operators",
        "test_example_programs",
    ],
}
NEEDED = {
    "quick": ("torch",),
    "full": ("torch", "torchvision", "transformers", "diffusers"),
}


def main() -> int:
    if sys.argv[1] == "--list":
        print("\n".join(MODULES[sys.argv[2]]))
        return 0
    part = sys.argv[1]
    modules = MODULES.get(part, [part])
    tier = "full" if set(modules) & set(MODULES["full"]) else "quick"
    path = Path(sys.argv[2] if len(sys.argv) > 2 else f"torch_backend.{part}.xml")
    other = os.environ.pop("REPRISE_TEST_TORCH", "")
    if importlib.util.find_spec("torch") is None and os.access(other, os.X_OK):
        os.execv(other, [other, *sys.argv])
    missing = [n for n in NEEDED[tier] if importlib.util.find_spec(n) is None]
    if missing:
        option = " --full" if tier == "full" else ""
        reason = f"{', '.join(missing)} not installed: run tools/torch{option}"
        print(f"skipped: {reason}")
        results.skip_all(path, "torch_backend", reason)
        return SKIPPED
    suite = unittest.defaultTestLoader.loadTestsFromNames(modules)
    return results.run(suite, path)


if __name__ == "__main__":
    sys.exit(main())
