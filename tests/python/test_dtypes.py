"""Element types that NumPy lacks, as ml_dtypes has them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import unittest

import numpy as np
import reprise
import support

DEVICES = [d.id for d in reprise.devices() if d.usable]
# The number of each type in ONNX, and values that it has.
TYPES = {
    "bfloat16": (16, [1.5, -2.0, 384.0, 0.0]),
    "float8_e4m3fn": (17, [1.5, -2.0, 448.0, 0.0]),
    "float8_e4m3fnuz": (18, [1.5, -2.0, 240.0, 0.0]),
    "float8_e5m2": (19, [1.5, -2.0, 57344.0, 0.0]),
    "float8_e5m2fnuz": (20, [1.5, -2.0, 57344.0, 0.0]),
    "uint4": (21, [1, 2, 15, 0]),
    "int4": (22, [1, -8, 7, 0]),
    "float4_e2m1fn": (23, [1.5, -2.0, 6.0, 0.0]),
}
HAS_THEM = importlib.util.find_spec("ml_dtypes") is not None


def cast(source: int, target: int, to: int) -> bytes:
    """A model that casts four numbers."""
    return support.model(
        [support.node("Cast", ["x"], ["y"], support.attribute("to", to))],
        [support.value("x", source, (4,))],
        [support.value("y", target, (4,))],
        opset=23,
    )


@unittest.skipUnless(HAS_THEM, "ml_dtypes is not installed")
class MlDtypes(unittest.TestCase):
    def test_are_inputs_and_results(self) -> None:
        import ml_dtypes

        for name, (number, values) in TYPES.items():
            dtype = np.dtype(getattr(ml_dtypes, name))
            numbers = np.array(values, np.float32)
            narrow = reprise.compile(cast(support.FLOAT, number, number))
            wide = reprise.compile(cast(number, support.FLOAT, support.FLOAT))
            for device in DEVICES:
                with self.subTest(name, device=device):
                    y = reprise.Session(narrow, device)(numbers)
                    self.assertEqual(y.dtype, dtype)
                    np.testing.assert_array_equal(y.astype(np.float32), numbers)
                    session = reprise.Session(wide, device)
                    for x in (y, numbers.astype(dtype)):
                        np.testing.assert_array_equal(session(x), numbers)

    def test_are_those_of_tensors(self) -> None:
        import ml_dtypes

        for name, (_, values) in TYPES.items():
            dtype = np.dtype(getattr(ml_dtypes, name))
            x = np.array(values, np.float32).astype(dtype)
            for device in DEVICES:
                with self.subTest(name, device=device):
                    tensor = reprise.Tensor(x, device)
                    self.assertEqual((tensor.dtype, tensor.shape), (name, (4,)))
                    y = tensor.numpy()
                    self.assertEqual(y.dtype, dtype)
                    np.testing.assert_array_equal(
                        y.astype(np.float32), np.array(values, np.float32)
                    )

    def test_must_be_those_of_the_model(self) -> None:
        import ml_dtypes

        session = reprise.Session(
            reprise.compile(support.unary("Neg", support.BFLOAT16)), "host"
        )
        for wrong in (np.float16, ml_dtypes.float8_e5m2, ml_dtypes.int4):
            x = np.ones((2, 3)).astype(wrong)
            with self.assertRaisesRegex(reprise.InvalidInput, "expected bfloat16"):
                session.run_raw([x])


class WithoutMlDtypes(unittest.TestCase):
    def test_bits_are_results(self) -> None:
        """In a process that cannot import ml_dtypes."""
        model = cast(support.FLOAT, support.BFLOAT16, support.BFLOAT16)
        text = (
            "import sys; sys.modules['ml_dtypes'] = None\n"
            "import numpy as np, reprise\n"
            f"session = reprise.Session(reprise.compile({model!r}), 'host')\n"
            "y = session(np.array([1.5, -2, 384, 0], np.float32))\n"
            "print(y.dtype, [hex(v) for v in y])"
        )
        done = subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, check=False
        )
        self.assertEqual(
            done.stdout.strip(),
            "uint16 ['0x3fc0', '0xc000', '0x43c0', '0x0']",
            done.stderr,
        )


if __name__ == "__main__":
    unittest.main()
