"""Compilation, packages, explanations and the command line."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import reprise
import support


class Compile(unittest.TestCase):
    def test_takes_bytes_paths_and_protos(self) -> None:
        class Proto:
            def SerializeToString(self) -> bytes:
                return support.unary("Relu")

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.onnx"
            path.write_bytes(support.unary("Relu"))
            for source in (support.unary("Relu"), path, str(path), Proto()):
                package = reprise.compile(source, device="host")
                self.assertEqual([slot.name for slot in package.inputs], ["x"])

    def test_keeps_the_metadata_of_the_model(self) -> None:
        def field(number: int, value: bytes) -> bytes:
            return bytes([number << 3 | 2, len(value)]) + value

        properties = {"names": "{0: 'Hündin'}", "stride": "32"}
        model = support.unary("Relu")
        for name, value in properties.items():
            model += field(14, field(1, name.encode()) + field(2, value.encode()))
        package = reprise.compile(model, device="host")
        self.assertEqual(package.metadata, properties)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.rpk"
            package.save(path)
            self.assertEqual(reprise.Package.open(path).metadata, properties)
        damaged = support.unary("Relu") + field(14, field(1, b"\xff"))
        self.assertEqual(
            reprise.compile(damaged, device="host").metadata, {"\ufffd": ""}
        )

    def test_sessions_open_packages(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.rpk"
            reprise.compile(support.unary("Relu", dims=(2,)), device="cpu").save(path)
            for name in (path, str(path)):
                y = reprise.Session(name, "cpu")(np.array([-1, 2], np.float32))
                np.testing.assert_array_equal(y, [0, 2])

    def test_missing_files(self) -> None:
        for call in (
            lambda: reprise.Session("/nowhere/m.rpk"),
            lambda: reprise.Package.open("/nowhere/m.rpk"),
            lambda: reprise.compile("/nowhere/m.rpk"),
            lambda: reprise.compile("/nowhere/m.onnx"),
        ):
            with self.assertRaisesRegex(FileNotFoundError, "/nowhere/m") as caught:
                call()
            self.assertIsInstance(caught.exception, reprise.FileError)
        with self.assertRaises(reprise.FileError) as other:
            reprise.Package.open("/")
        self.assertNotIsInstance(other.exception, FileNotFoundError)

    def test_devices_as_pytorch_calls_them(self) -> None:
        class Device:  # like a torch.device
            def __init__(self, kind: str, index: int | None) -> None:
                self.type, self.index = kind, index

        self.assertEqual(reprise.open_device("cpu").id, "host")
        package = reprise.compile(support.unary("Relu"), device=Device("cpu", None))  # type: ignore[arg-type]
        for device in ("cpu", "cpu:0", Device("cpu", None), Device("cpu", 0)):
            session = reprise.Session(package, device)  # type: ignore[arg-type]
            self.assertEqual(session.device.id, "host")
        with self.assertRaises(reprise.Error):
            reprise.Session(package, Device("cuda", 99))  # type: ignore[arg-type]

    def test_describes_slots(self) -> None:
        slot = reprise.compile(support.pointwise()).inputs[0]
        self.assertEqual(
            (slot.name, slot.dtype, slot.shape), ("x", "float32", ("batch", 4))
        )

    def test_makes_inputs_and_outputs_images(self) -> None:
        model = support.unary("Relu", dims=(1, 3, 2, 2))
        package = reprise.compile(
            model, device="host", images={"x": "rgba8,resize=nearest", "y": "bgra8"}
        )
        self.assertEqual(
            (package.inputs[0].image, package.outputs[0].image), ("rgba8", "bgra8")
        )
        self.assertEqual(package.inputs[0].dtype, "uint8")
        self.assertIsNone(reprise.compile(model, device="host").inputs[0].image)
        pixels = np.arange(4 * 4 * 4, dtype=np.uint8).reshape(4, 4, 4)
        (result,) = reprise.Session(package, "host").run({"x": pixels}).values()
        expected = pixels[1::2, 1::2, [2, 1, 0, 3]].copy()
        expected[..., 3] = 255
        np.testing.assert_array_equal(result, expected)
        with self.assertRaisesRegex(reprise.UsageError, "rgb9"):
            reprise.compile(model, images={"x": "rgb9"})

    def test_fixes_shapes(self) -> None:
        package = reprise.compile(support.pointwise(), shapes={"x": (3, 4)})
        self.assertEqual(package.outputs[0].shape, (3, 4))

    def test_raises_by_status(self) -> None:
        unknown = support.unary("NoSuchOperator")
        self.assertRaises(reprise.InvalidModel, reprise.compile, b"\xff\xff")
        self.assertRaisesRegex(
            reprise.Unsupported, "NoSuchOperator", reprise.compile, unknown
        )
        relu = support.unary("Relu")
        for wrong in (
            {"precision": "fp7"},
            {"mode": "fast"},
            {"disabled_passes": ["no-such-pass"]},
            {"device": "no-such-device"},
            {"device": "host", "targets": "vulkan"},
        ):
            with self.subTest(wrong), self.assertRaises(reprise.UsageError):
                reprise.compile(relu, **wrong)
        self.assertRaises(reprise.FileError, reprise.compile, "/no/such/model.onnx")
        self.assertRaises(TypeError, reprise.compile, 7)
        self.assertTrue(issubclass(reprise.InvalidModel, reprise.Error))

    def test_reports_progress_and_its_exceptions(self) -> None:
        seen: list[str] = []
        reprise.compile(
            support.pointwise(), progress=lambda what, done, total: seen.append(what)
        )
        self.assertIn("decompose", seen)

        calls: list[str] = []

        def fail(what: str, done: int, total: int) -> None:
            calls.append(what)
            raise KeyError(what)

        self.assertRaises(KeyError, reprise.compile, support.pointwise(), progress=fail)
        self.assertEqual(len(calls), 1, "an exception ends the compilation")


class Packages(unittest.TestCase):
    def test_are_saved_and_opened(self) -> None:
        package = reprise.compile(support.pointwise())
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.rpk"
            package.save(path)
            for again in (
                reprise.Package.open(path),
                reprise.compile(path),
                reprise.Package.from_bytes(path.read_bytes()),
            ):
                self.assertEqual(again.variants, package.variants)
                y = reprise.Session(again, "host")(np.full((2, 4), 2, np.float32))
                np.testing.assert_array_equal(y, np.full((2, 4), 6, np.float32))
            damaged = path.read_bytes()[:-40]
        self.assertRaises(reprise.InvalidModel, reprise.Package.from_bytes, damaged)
        self.assertRaises(reprise.FileError, reprise.Package.open, "/no/such.rpk")
        self.assertRaises(reprise.FileError, package.save, "/no/such/folder/m.rpk")

    def test_explain_what_is_fused(self) -> None:
        e = reprise.compile(support.pointwise()).explain()
        self.assertEqual(
            (e.model_nodes, e.launches_unfused, len(e.launches)), (3, 3, 1)
        )
        self.assertEqual(len(e.launches[0].nodes), 3)
        self.assertIn("mul", e.kernels[0])
        self.assertIn(e.kernels[0], str(e))
        self.assertIn(f"<td>{e.kernels[0]}</td>", e._repr_html_())
        host = reprise.compile(support.pointwise(), device="host").explain()
        self.assertEqual((host.variant, host.launches), ("host", []))

    def test_explain_names_why(self) -> None:
        unfused = reprise.compile(
            support.pointwise(), disabled_passes=["fusion"]
        ).explain()
        self.assertEqual(len(unfused.launches), 3)


class Tables(unittest.TestCase):
    def test_list_devices(self) -> None:
        devices = reprise.devices()
        self.assertEqual(devices[-1].id, "host")
        self.assertIn("host", str(devices))
        self.assertIn("<table>", devices._repr_html_())


class CommandLine(unittest.TestCase):
    def run_it(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "reprise", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_runs_in_process(self) -> None:
        version = self.run_it("--version")
        self.assertEqual(version.stdout.strip(), f"reprise {reprise.__version__}")
        self.assertIn("host", self.run_it("devices").stdout)
        wrong = self.run_it("no-such-command")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("no-such-command", wrong.stderr)


if __name__ == "__main__":
    unittest.main()
