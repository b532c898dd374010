"""Runs: what they take and return, and what they refuse."""

from __future__ import annotations

import gc
import os
import threading
import time
import tracemalloc
import unittest
from typing import Any

import numpy as np
import reprise
import support

DEVICES = [d.id for d in reprise.devices() if d.usable]


def resident_kib() -> int:
    """The memory of this process."""
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


class Dlpack:
    """An object that has only DLPack."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self, **arguments: Any) -> Any:
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


class Conversations(unittest.TestCase):
    def test_have_states_of_their_own(self) -> None:
        rows = support.value("x", support.FLOAT, ("n", 4))
        past = support.value("past", support.FLOAT, ("p", 4))
        present = support.value("present", support.FLOAT, ("q", 4))
        concat = support.node(
            "Concat", ["past", "x"], ["present"], support.attribute("axis", 0)
        )
        result = support.value("y", support.FLOAT, ("q", 4))
        package = reprise.compile(
            support.model(
                [concat, support.node("Neg", ["present"], ["y"])],
                [rows, past],
                [result, present],
            ),
            grow_states="auto",
        )
        for device in DEVICES:
            with self.subTest(device):
                session = reprise.Session(package, device)
                first = session.make_states()
                session.bind_states(first)
                session(np.full((3, 4), 2, np.float32))
                second = first.fork(2)
                self.assertEqual((first.length, second.length), (3, 2))
                self.assertGreaterEqual(first.nbytes, 3 * 16)
                session.bind_states(second)
                self.assertEqual(len(session(np.ones((1, 4), np.float32))), 3)
                session.truncate_states(1)
                self.assertEqual(second.length, 1)
                self.assertEqual(second.shared_nbytes, 0)
                session.bind_states(None)
                self.assertEqual(session.state_rows("past").length, 0)
                with self.assertRaisesRegex(reprise.UsageError, "cannot be truncated"):
                    second.fork(2)


class Waits(unittest.TestCase):
    def test_are_logged(self) -> None:
        sides = [
            support.value("a", support.FLOAT, ("m", 1024)),
            support.value("b", support.FLOAT, (1024, 1024)),
        ]
        result = support.value("c", support.FLOAT, ("m", 1024))
        package = reprise.compile(
            support.model([support.node("MatMul", ["a", "b"], ["c"])], sides, [result])
        )
        b = np.ones((1024, 1024), np.float32)
        quick = reprise.Session(package, "host")
        seconds = []
        for _ in range(3):
            start = time.perf_counter()
            quick(np.ones((64, 1024), np.float32), b)
            seconds.append(time.perf_counter() - start)
        rows = int(64 * 6 / min(seconds))
        with self.assertLogs("reprise", "WARNING") as logs:
            reprise.Session(package, "host")(np.ones((rows, 1024), np.float32), b)
        self.assertIn("longer than 3 s: waiting for the host", logs.output[0])


class OnEachDevice(unittest.TestCase):
    def sessions(self, model: bytes) -> Any:
        package = reprise.compile(model)
        for device in DEVICES:
            with self.subTest(device):
                yield reprise.Session(package, device)

    def test_runs_by_name_and_by_position(self) -> None:
        a = np.arange(6, dtype=np.float32).reshape(2, 3)
        for session in self.sessions(support.binary("Sub")):
            for c in (
                session.run({"a": a, "b": a + 1})["c"],
                session(a, a + 1),
                session(a, b=a + 1),
                session.run_raw((a, a + 1))[0],
            ):
                np.testing.assert_array_equal(c, np.full((2, 3), -1, np.float32))

    def test_takes_every_kind_of_memory(self) -> None:
        x = np.arange(6, dtype=np.float32).reshape(2, 3) - 3
        bytes_of_x = memoryview(x.tobytes()).cast("f", (2, 3))
        read_only = x.copy()
        read_only.flags.writeable = False
        for session in self.sessions(support.unary("Relu")):
            kinds = (x, Dlpack(x), bytes_of_x, x.tolist(), x.T.copy().T, read_only)
            for kind in (*kinds, reprise.Tensor(x, session.device)):
                y = session(kind)
                np.testing.assert_array_equal(y, np.maximum(x, 0))

    def test_writes_into_given_memory(self) -> None:
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        for session in self.sessions(support.unary("Neg")):
            for y in (
                np.zeros((2, 3), np.float32),
                reprise.Tensor.empty((3, 4), "float32", session.device),
            ):
                result = session.run({"x": x}, {"y": y})["y"]
                self.assertIs(result, y)
                self.assertEqual(result.shape, (2, 3))
                np.testing.assert_array_equal(np.asarray(y), -x)

    def test_keeps_results_on_the_device(self) -> None:
        for session in self.sessions(support.unary("Neg")):
            x = reprise.Tensor(np.ones((2, 3), np.float32), session.device)
            y = reprise.Tensor.empty((2, 3), "float32", session.device)
            for _ in range(3):
                session.run_raw([x], [y])
                x, y = y, x
            np.testing.assert_array_equal(x.numpy(), -np.ones((2, 3)))

    def test_follows_dynamic_dims(self) -> None:
        for session in self.sessions(support.pointwise()):
            for batch in (1, 5, 0, 300, 2):
                y = session(np.full((batch, 4), 3, np.float32))
                np.testing.assert_array_equal(y, np.full((batch, 4), 12, np.float32))

    def test_keeps_nan_and_infinity(self) -> None:
        x = np.array([[np.nan, np.inf, -np.inf], [0, -0.0, 1]], np.float32)
        for session in self.sessions(support.unary("Neg")):
            np.testing.assert_array_equal(session(x), -x)

    def test_takes_other_dtypes(self) -> None:
        rows = (
            (support.FLOAT16, np.array([[1, 2, 3], [4, 5, 6]], np.float16)),
            (support.INT64, np.array([[1, 2, 3], [-4, 5, 6]], np.int64)),
        )
        for dtype, x in rows:
            for session in self.sessions(support.binary("Add", dtype)):
                y = session(x, x)
                self.assertEqual(y.dtype, x.dtype)
                np.testing.assert_array_equal(y, x + x)
        flags = np.array([[True, False, True], [False, False, True]])
        for session in self.sessions(support.binary("And", support.BOOL)):
            np.testing.assert_array_equal(session(flags, flags), flags)

    def test_takes_bits_of_bfloat16(self) -> None:
        bits = np.full((2, 3), 0x3FC0, np.uint16)  # 1.5
        for session in self.sessions(support.binary("Add", support.BFLOAT16)):
            y = session(bits, reprise.Tensor(bits, "host", "bfloat16"))
            np.testing.assert_array_equal(y.view(np.uint16), np.full((2, 3), 0x4040))

    def test_times_runs(self) -> None:
        package = reprise.compile(support.pointwise())
        for device in DEVICES:
            session = reprise.Session(package, device, timestamps=True)
            (y,), times = session.run_timed([np.ones((2, 4), np.float32)])
            self.assertEqual(y[0, 0], 2)
            self.assertGreater(times.total_us, 0)
            if device != "host":
                self.assertEqual(len(times.kernel_us), len(session.kernels))

    def test_chooses_plans_by_sizes(self) -> None:
        package = reprise.compile(support.pointwise(), plans=("batch=1", "batch=2..16"))
        for device in DEVICES:
            session = reprise.Session(package, device, timestamps=True)
            for batch, plan in ((1, 1), (7, 2), (40, 0), (1, 1)):
                x = np.full((batch, 4), 3, np.float32)
                (y,), times = session.run_timed([x])
                np.testing.assert_array_equal(y, np.full((batch, 4), 12, np.float32))
                if device == "host":
                    continue
                self.assertEqual(times.plan, plan)
                kernels = session.kernels_of(times.plan)
                self.assertEqual(len(times.kernel_us), len(kernels))
        with self.assertRaises(reprise.UsageError):
            reprise.compile(support.pointwise(), plans=("rows=1",))


class Facts(unittest.TestCase):
    def test_of_inputs_with_values(self) -> None:
        model = support.model(
            [support.node("Add", ["x", "b"], ["y"])],
            [
                support.value("x", support.FLOAT, ("n", 2)),
                support.value("b", support.FLOAT, (2,)),
            ],
            [support.value("y", support.FLOAT, ("n", 2))],
            [support.floats("b", (2,), (10, 20))],
        )
        package = reprise.compile(model, device="host", optional_inputs=["b"])
        self.assertEqual([slot.optional for slot in package.inputs], [False, True])
        session = reprise.Session(package, "host")
        x = np.ones((1, 2), np.float32)
        np.testing.assert_array_equal(session(x), [[11, 21]])
        np.testing.assert_array_equal(session(x, np.zeros(2, np.float32)), x)
        np.testing.assert_array_equal(session(x), [[11, 21]])

    def test_of_known_values(self) -> None:
        model = support.model(
            [support.node("Reshape", ["x", "s"], ["y"])],
            [
                support.value("x", support.FLOAT, ("n",)),
                support.value("s", support.INT64, ("r",)),
            ],
            [support.value("y", support.FLOAT, ("a", "b"))],
        )
        with self.assertRaisesRegex(reprise.Unsupported, "--value"):
            reprise.compile(model, device="host")
        package = reprise.compile(model, device="host", values={"s": (2, -1)})
        session = reprise.Session(package, "host")
        x = np.arange(6, dtype=np.float32)
        np.testing.assert_array_equal(session(x, np.array([2, -1])), x.reshape(2, 3))
        with self.assertRaisesRegex(
            reprise.InvalidInput, "was compiled for the values"
        ):
            session(x, np.array([3, -1]))

    def test_of_scalars(self) -> None:
        model = support.model(
            [support.node("Mul", ["x", "k"], ["y"])],
            [
                support.value("x", support.FLOAT, ("n",)),
                support.value("k", support.FLOAT, ()),
            ],
            [support.value("y", support.FLOAT, ("n",))],
        )
        session = reprise.Session(reprise.compile(model, device="host"), "host")
        x = np.ones(3, np.float32)
        for k in (
            2.0,
            np.float32(2),
            np.full((1,), 2, np.float32),
            np.full((1, 1), 2, np.float32),
        ):
            np.testing.assert_array_equal(session(x, k), 2 * x)


class Strings(unittest.TestCase):
    def test_go_in_and_out(self) -> None:
        model = support.model(
            [support.node("Identity", ["x"], ["y"])],
            [support.value("x", support.STRING, (2,))],
            [support.value("y", support.STRING, (2,))],
        )
        session = reprise.Session(reprise.compile(model), "host")
        for x in (["ä", ""], np.array(["ä", ""]), [b"\xc3\xa4", b""]):
            self.assertEqual(session(x).tolist(), ["ä", ""])
        self.assertRaises(reprise.InvalidInput, session, [1, 2])


class BadInput(unittest.TestCase):
    def setUp(self) -> None:
        package = reprise.compile(support.unary("Relu"))
        self.session = reprise.Session(package, DEVICES[0])
        self.x = np.ones((2, 3), np.float32)

    def test_is_an_exception(self) -> None:
        x, empty = self.x, np.empty((0, 3), np.float32)
        rows: tuple[tuple[Any, str], ...] = (
            (x.astype(np.float64), r"float64\[2,3\], expected float32"),
            (x.astype(">f4"), "expected float32"),
            (x.astype(np.complex64), "expected float32"),
            (np.ones(6, np.float32), "x"),
            (np.ones((3, 2), np.float32), "x"),
            (empty, "x"),
            (np.broadcast_to(np.float32(1), (1 << 20, 1 << 20, 3)), "x"),
            (x[:, ::-1], "not contiguous"),
            (
                np.frombuffer(b"\0" * 25, np.uint8, 24, 1)
                .view(np.float32)
                .reshape(2, 3),
                "aligned",
            ),
        )
        for value, message in rows:
            with (
                self.subTest(message),
                self.assertRaisesRegex(reprise.InvalidInput, message),
            ):
                self.session.run_raw([value])
        for wrong in (None, object(), 7, "text"):
            with (
                self.subTest(wrong),
                self.assertRaises((TypeError, reprise.InvalidInput)),
            ):
                self.session.run_raw([wrong])

    def test_of_wrong_number_or_name(self) -> None:
        for call in (
            lambda: self.session.run_raw([]),
            lambda: self.session.run_raw([self.x, self.x]),
            lambda: self.session.run_raw([self.x], [None, None]),
            lambda: self.session.run({"z": self.x}),
            lambda: self.session.run({}),
            lambda: self.session(self.x, self.x),
            lambda: self.session(self.x, x=self.x),
            lambda: self.session.run({"x": self.x}, {"z": self.x}),
        ):
            self.assertRaises(reprise.InvalidInput, call)
        self.assertRaises(TypeError, self.session.run_raw, 7)

    def test_of_outputs(self) -> None:
        read_only = np.zeros((2, 3), np.float32)
        read_only.flags.writeable = False
        for y in (
            read_only,
            np.zeros((2, 2), np.float32),
            np.zeros((3, 2), np.float32),
            np.zeros((2, 3), np.int32),
            np.zeros((2, 6), np.float32)[:, ::2],
        ):
            self.assertRaises(reprise.InvalidInput, self.session.run_raw, [self.x], [y])

    def test_that_was_freed(self) -> None:
        tensor = reprise.Tensor(self.x, self.session.device)
        tensor.free()
        for call in (
            lambda: self.session(tensor),
            lambda: self.session.run_raw([self.x], [tensor]),
            tensor.numpy,
            lambda: tensor.write(self.x),
            tensor.__dlpack__,
        ):
            self.assertRaisesRegex(reprise.UsageError, "freed", call)
        view = memoryview(bytearray(24))
        view.release()
        self.assertRaises((TypeError, reprise.InvalidInput), self.session, view)

    def test_of_another_device(self) -> None:
        host = reprise.Session(reprise.compile(support.unary("Relu")), "host")
        for device in DEVICES[:-1]:
            tensor = reprise.Tensor(self.x, device)
            self.assertRaises(reprise.InvalidInput, host, tensor)


class Tensors(unittest.TestCase):
    def test_share_their_memory(self) -> None:
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        for device in DEVICES:
            tensor = reprise.Tensor(x, device)
            self.assertEqual(
                (tensor.shape, tensor.dtype, tensor.nbytes), ((2, 3), "float32", 24)
            )
            y = np.from_dlpack(tensor)
            del tensor
            gc.collect()
            np.testing.assert_array_equal(y, x)

    def test_are_written_and_read(self) -> None:
        for device in DEVICES:
            tensor = reprise.Tensor.empty((4,), "int64", device)
            tensor.write(np.arange(3))
            self.assertEqual(tensor.shape, (3,))
            out = np.zeros(3, np.int64)
            tensor.read_into(out)
            np.testing.assert_array_equal(out, np.arange(3))
            for wrong in (np.arange(5), np.arange(3.0), np.arange(8)[::2]):
                self.assertRaises(reprise.InvalidInput, tensor.write, wrong)

    def test_refuse_what_cannot_be(self) -> None:
        for shape, dtype in (((-1,), "float32"), ((1 << 30, 1 << 30), "float32")):
            with self.assertRaises((reprise.InvalidInput, reprise.InvalidModel)):
                reprise.Tensor.empty(shape, dtype, "host")
        self.assertRaises(
            reprise.UsageError, reprise.Tensor.empty, (1,), "float33", "host"
        )
        self.assertRaises(
            reprise.Unsupported, reprise.Tensor.empty, (1,), "string", "host"
        )


class Process(unittest.TestCase):
    def test_threads_share_a_session(self) -> None:
        session = reprise.Session(reprise.compile(support.pointwise()), DEVICES[0])
        wrong: list[int] = []

        def work(value: int) -> None:
            x = np.full((8, 4), value, np.float32)
            for _ in range(50):
                if not (session(x) == value * value + value).all():
                    wrong.append(value)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_a_child_of_fork_gets_an_exception(self) -> None:
        session = reprise.Session(reprise.compile(support.unary("Relu")), DEVICES[0])
        child = os.fork()
        if child == 0:
            try:
                session(np.ones((2, 3), np.float32))
            except reprise.UsageError:
                os._exit(7)
            os._exit(1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)

    def test_runs_leak_nothing(self) -> None:
        session = reprise.Session(
            reprise.compile(support.unary("Relu", dims=(64, 64))), "host"
        )
        x = np.ones((64, 64), np.float32)
        y = np.empty_like(x)
        wrong = np.ones(3, np.float32)

        def loop(runs: int) -> None:
            for _ in range(runs):
                session.run_raw([x], [y])
                session.run_raw([x])
                try:
                    session.run_raw([wrong])
                except reprise.InvalidInput:
                    pass

        loop(200)
        gc.collect()
        tracemalloc.start()
        objects, before = tracemalloc.get_traced_memory()[0], resident_kib()
        loop(10_000)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - objects
        tracemalloc.stop()
        self.assertLess(grown, 50_000)
        self.assertLess(resident_kib() - before, 8_000)

    def test_a_call_costs_little(self) -> None:
        session = reprise.Session(reprise.compile(support.unary("Relu")), "host")
        x, y = np.ones((2, 3), np.float32), np.empty((2, 3), np.float32)
        costs = []
        for _ in range(500):
            start = time.perf_counter()
            _, times = session.run_timed([x], [y])
            costs.append((time.perf_counter() - start) * 1e6 - times.total_us)
        self.assertLess(sorted(costs)[len(costs) // 4], 30)


if __name__ == "__main__":
    unittest.main()
