"""Runs each example in apps/python as a user does, and looks at what it prints and draws."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[3] / "apps" / "python"


def lacks(*packages: str) -> str:
    """The packages of these that are not installed, as the reason to skip a test; or nothing."""
    missing = [p for p in packages if importlib.util.find_spec(p) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


class Example(unittest.TestCase):
    """Runs programs in a folder of their own."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_it(self, name: str, *arguments: str) -> str:
        command = [sys.executable, str(EXAMPLES / name), *arguments]
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def assert_drawn(self, name: str) -> None:
        """A picture of a plausible size, with axes and at least one coloured curve or bar."""
        import matplotlib.image

        pixels = matplotlib.image.imread(self.folder / name)[..., :3]
        self.assertGreater(min(pixels.shape[:2]), 300)
        coloured = (pixels.max(axis=2) - pixels.min(axis=2)) > 0.3
        self.assertGreater(coloured.mean(), 0.001)


NEEDED = lacks("torch", "sklearn", "matplotlib", "tqdm")


@unittest.skipIf(NEEDED, NEEDED)
class OfPyTorch(Example):
    def test_digits_are_learned(self) -> None:
        printed = self.run_it("digits.py", "--device", "vulkan:0")
        shares = dict(re.findall(r"^(\w+): ([\d.]+) % right", printed, re.MULTILINE))
        self.assertEqual(list(shares), ["eager", "reprise"])
        self.assertGreater(float(shares["reprise"]), 97)
        self.assert_drawn("digits.png")

    def test_fusion_is_measured(self) -> None:
        printed = self.run_it(
            "fusion.py", "--device", "vulkan:0", "--rows", "256", "--columns", "512",
            "--size", "128", "--runs", "3",
        )  # fmt: skip
        pointwise, products = printed.split("\nproducts ")
        for part in (pointwise, products):
            for name in ("eager", "reprise"):
                self.assertRegex(part, rf"  {name} +[\d.]+ ms")
            self.assertIn("  inductor ", part)
        self.assertIn(" operators in 1 launches:", pointwise)
        self.assertRegex(pointwise, r"    fused_\w*sin_tanh")
        self.assertIn(" operators in 4 launches:", products)
        self.assert_drawn("fusion.png")


NEEDED = lacks("ray", "onnx", "matplotlib", "tqdm")


@unittest.skipIf(NEEDED, NEEDED)
class OfRay(Example):
    def test_scoring_uses_all_workers(self) -> None:
        start = time.monotonic()
        printed = self.run_it("scoring.py", "--images", "2048", "--workers", "1,2")
        self.assertLess(time.monotonic() - start, 120)
        rates = re.findall(r"^(\d) workers?: +(\d+) images/s", printed, re.MULTILINE)
        self.assertEqual([n for n, _ in rates], ["1", "2"])
        self.assertTrue(all(int(rate) > 0 for _, rate in rates), printed)
        self.assert_drawn("scoring.png")


if __name__ == "__main__":
    unittest.main()
