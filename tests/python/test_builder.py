"""reprise.GraphBuilder: graphs without a model file."""

from __future__ import annotations

import unittest

import numpy as np
import reprise


class Builder(unittest.TestCase):
    def test_a_graph_with_a_symbol(self) -> None:
        b = reprise.GraphBuilder()
        n = b.symbol("n", min=1, max=64)
        x = b.input("x", "float32", [n, 8])
        weights = np.arange(32, dtype=np.float32).reshape(8, 4)
        w = b.constant(weights, name="w")
        (y,) = b.node("MatMul", [x, w], name="product")
        self.assertEqual((y.dtype, y.shape), ("float32", ("n", 4)))
        (z,) = b.node("Softmax", [y], {"axis": -1}, outputs=["z"])
        self.assertEqual((z.name, repr(z)), ("z", "GraphValue('z', float32[n, 4])"))
        b.output("z", z)
        b.output("sizes", b.sizes([n * 2 + 1, n // 2, 7]))
        b.verify()
        session = reprise.Session(reprise.compile(b, device="host"), "host")
        for rows in (1, 5):
            given = np.random.default_rng(0).random((rows, 8), np.float32)
            results = session.run({"x": given})
            product = given @ weights
            expected = np.exp(product - product.max(-1, keepdims=True))
            expected /= expected.sum(-1, keepdims=True)
            np.testing.assert_allclose(results["z"], expected, rtol=1e-5)
            self.assertEqual(list(results["sizes"]), [rows * 2 + 1, rows // 2, 7])
        with self.assertRaises(reprise.InvalidInput):
            session.run({"x": np.zeros((65, 8), np.float32)})

    def test_errors_name_nodes(self) -> None:
        b = reprise.GraphBuilder()
        x = b.input("x", "float32", [2, 3])
        with self.assertRaises(reprise.InvalidModel) as caught:
            b.node("Relu", [x, x], name="broken")
        self.assertEqual(caught.exception.nodes, ("broken",))
        with self.assertRaises(reprise.UsageError) as other:
            b.output("", x)
        self.assertEqual(other.exception.nodes, ())
        (y,) = b.node("NonZero", [x], name="counting")
        b.output("y", y)
        built = b.finish()
        with self.assertRaises(reprise.Unsupported) as host:
            reprise.compile(built, fullgraph=True)
        self.assertEqual(host.exception.nodes, ("counting",))
        with self.assertRaises(reprise.UsageError):
            b.input("z", "float32", [])
        reprise.compile(built, device="host")  # as often as wanted

    def test_states_and_bodies(self) -> None:
        b = reprise.GraphBuilder()
        total = b.state("total", np.array([1.0, 2.0], np.float32))
        count = b.input("count", "int64", [])
        b.begin_body("step")
        b.body_input()
        going, now = b.body_input(), b.body_input("now")
        (doubled,) = b.node("Add", [now, now])
        body = b.end_body([going, doubled])
        (looped,) = b.node("Loop", [count, None, total], {"body": body})
        b.next_state(total, looped, "total.next")
        b.output("y", looped)
        built = b.finish()
        self.assertEqual(built.states, {"total": "total.next"})
        session = reprise.Session(reprise.compile(built, device="host"), "host")
        for factor in (8, 64):
            (y,) = session.run({"count": np.array(3)}).values()
            np.testing.assert_array_equal(y, [factor, 2 * factor])

    def test_constants(self) -> None:
        b = reprise.GraphBuilder()
        shared = np.ones((2, 2), np.float32)
        part = np.arange(8, dtype=np.float32).reshape(2, 4)[:, ::2]  # not contiguous
        half = np.array([[0x3F80, 0x4000]], np.uint16)
        raw = np.array([3, 4], np.float32).tobytes()
        values = [
            b.constant(shared),
            b.constant(part),
            b.constant(raw, dtype="float32", dims=[1, 2]),
            b.node("Cast", [b.constant(half, dtype="bfloat16")], {"to": 1})[0],
            b.node("Cast", [b.constant(np.array([[-2, 7]], np.int8), dtype="int4")], {"to": 1})[0],
        ]  # fmt: skip
        total = values[0]
        for value in values[1:]:
            (total,) = b.node("Add", [total, value])
        b.output("y", total)
        (y,) = (
            reprise.Session(reprise.compile(b, device="host"), "host").run({}).values()
        )
        np.testing.assert_array_equal(y, [[3, 16], [7, 20]])
        with self.assertRaisesRegex(reprise.InvalidInput, "float32"):
            reprise.GraphBuilder().constant(shared, dtype="int64")
        with self.assertRaisesRegex(reprise.UsageError, "16 bytes.* 8 are given"):
            reprise.GraphBuilder().constant(raw, dtype="float32", dims=[4])

    def test_core_form_and_guards(self) -> None:
        b = reprise.GraphBuilder()
        n, m = b.symbol("n"), b.symbol("m")
        x = b.input("x", "float32", [n, 4])
        y = b.input("y", "float32", [m, 2])
        b.guard(n * 2, "==", m, "halves")
        (flat,) = b.core("Reshape", [x], {"shape": [n * 2, 2]}, name="flat")
        (z,) = b.node("Sub", [flat, y])
        self.assertEqual(str(n * 2 + 1), "2*n + 1")
        b.output("z", z)
        session = reprise.Session(reprise.compile(b, device="host"), "host")
        given = np.arange(8, dtype=np.float32)
        (z0,) = session.run(
            {"x": given.reshape(2, 4), "y": given.reshape(4, 2)}
        ).values()
        np.testing.assert_array_equal(z0, np.zeros((4, 2)))
        with self.assertRaises(reprise.InvalidInput):
            session.run({"x": given.reshape(2, 4), "y": np.zeros((3, 2), np.float32)})

    def test_objects_of_other_builders(self) -> None:
        a, b = reprise.GraphBuilder(), reprise.GraphBuilder()
        x, n = a.input("x", "float32", [2]), a.symbol("n")
        for call in (
            lambda: b.node("Relu", [x]),
            lambda: b.output("y", x),
            lambda: b.input("z", "float32", [n]),
        ):
            with self.assertRaisesRegex(reprise.UsageError, "another builder"):
                call()


if __name__ == "__main__":
    unittest.main()
