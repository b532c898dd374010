"""What examples say when packages are missing; test_example_programs runs them."""

from __future__ import annotations

import subprocess
import sys
import unittest
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "apps" / "python"


class WithoutPackages(unittest.TestCase):
    def test_examples_say_what_is_missing(self) -> None:
        """As if the packages of the examples were not installed."""
        for name, package in (
            ("digits.py", "torch"),
            ("fusion.py", "torch"),
            ("scoring.py", "ray"),
        ):
            program = (
                f"import sys, runpy; sys.modules[{package!r}] = None\n"
                f"sys.argv = [{name!r}]\n"
                f"runpy.run_path({str(EXAMPLES / name)!r}, run_name='__main__')"
            )
            with self.subTest(name):
                done = subprocess.run(
                    [sys.executable, "-c", program], capture_output=True, text=True,
                    check=False,
                )  # fmt: skip
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                self.assertRegex(done.stderr, rf"{package}.* is missing.*pip install")
                self.assertEqual(len(done.stderr.strip().splitlines()), 1)

    def test_help_teaches(self) -> None:
        done = subprocess.run(
            [sys.executable, EXAMPLES / "scoring.py", "--help"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        for word in ("--workers", "pip install", "RAY_ADDRESS", "--model model.onnx"):
            self.assertIn(word, done.stdout)


if __name__ == "__main__":
    unittest.main()
