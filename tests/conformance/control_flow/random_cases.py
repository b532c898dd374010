#!/usr/bin/env python3
"""Writes random models with control flow, and what ONNX Runtime makes of them.

    random_cases.py --seed 7 --count 200 FOLDER
    reprise conformance FOLDER --device vulkan:0 --validation

Run it with a Python that has onnx and onnxruntime. Bodies are random graphs of a few operators on
small tensors. They capture values, nest, pass values on unchanged or in another order, and stack
results. Conditions depend on integers and Booleans alone, so that rounding decides nothing.
"""

import argparse
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from case_writer import write_case

OPSET = 16
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Dim = int | str
Shape = tuple[Dim, ...]


@dataclass
class Value:
    """A tensor with its dims: numbers, or names of dims."""

    name: str
    dtype: int
    shape: Shape


@dataclass
class Body:
    """A graph under construction, and what it can read."""

    values: list[Value]
    nodes: list[onnx.NodeProto] = field(default_factory=list)


class Generator:
    """Makes one random model."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        self.columns = self.random.choice([1, 2, 3, 4, 4, 8])
        rows: list[Dim] = [1, 2, 3, "n"]
        self.rows = self.random.choice(rows)
        self.size = self.random.randint(1, 5)
        self.inputs: list[Value] = []
        self.arrays: dict[str, np.ndarray] = {}
        self.numbers = np.random.default_rng(seed)

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def dims(self, shape: Shape) -> tuple[int, ...]:
        return tuple(self.size if isinstance(d, str) else d for d in shape)

    def input(self, dtype: int, shape: Shape, array: np.ndarray) -> Value:
        v = Value(self.name("in"), dtype, shape)
        self.inputs.append(v)
        self.arrays[v.name] = array
        return v

    def float_input(self, shape: Shape) -> Value:
        array = self.numbers.uniform(-1, 1, self.dims(shape)).astype(np.float32)
        return self.input(FLOAT, shape, array)

    def node(
        self,
        body: Body,
        op: str,
        inputs: list[str],
        dtype: int,
        shape: Shape,
        **attrs: Any,
    ) -> Value:
        out = Value(self.name(op.lower()), dtype, shape)
        body.nodes.append(
            helper.make_node(op, inputs, [out.name], name=out.name, **attrs)
        )
        body.values.append(out)
        return out

    def constant(self, body: Body, array: np.ndarray) -> Value:
        dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
        return self.node(
            body,
            "Constant",
            [],
            dtype,
            array.shape,
            value=numpy_helper.from_array(array),
        )

    def pick(self, body: Body, dtype: int, shape: Shape) -> Value | None:
        fits = [v for v in body.values if v.dtype == dtype and v.shape == shape]
        return self.random.choice(fits) if fits else None

    def floats(self, body: Body, shape: Shape) -> Value:
        known = self.pick(body, FLOAT, shape)
        if known is not None:
            return known
        if all(isinstance(d, int) for d in shape):
            return self.constant(
                body, self.numbers.uniform(-1, 1, self.dims(shape)).astype(np.float32)
            )
        like = next(
            v for v in body.values if v.dtype == FLOAT and v.shape[-1:] == shape[-1:]
        )
        return self.node(body, "Identity", [like.name], FLOAT, like.shape)

    def add_operators(self, body: Body, shape: Shape, number: int) -> Value:
        """Adds operators, and returns the last result, which has the shape."""
        v = self.floats(body, shape)
        for _ in range(number):
            v = self.add_operator(body, v)
        return v

    def add_operator(self, body: Body, v: Value) -> Value:
        choices = ["unary", "binary", "binary", "where", "scale"]
        if len(v.shape) == 2:
            choices += ["matmul", "softmax", "reduce", "concat"]
        kind = self.random.choice(choices)
        if kind == "unary":
            op = self.random.choice(["Tanh", "Sigmoid", "Neg", "Abs", "Relu", "Cos"])
            return self.node(body, op, [v.name], FLOAT, v.shape)
        if kind == "binary":
            op = self.random.choice(["Add", "Sub", "Mul", "Max", "Min"])
            other = self.floats(body, v.shape)
            return self.node(body, op, [v.name, other.name], FLOAT, v.shape)
        if kind == "where":
            condition = self.pick(body, BOOL, ())
            other = self.floats(body, v.shape)
            if condition is not None:
                return self.node(
                    body, "Where", [condition.name, v.name, other.name], FLOAT, v.shape
                )
        if kind == "matmul":
            w = self.floats(body, (self.columns, self.columns))
            out = self.node(body, "MatMul", [v.name, w.name], FLOAT, v.shape)
            return self.node(body, "Tanh", [out.name], FLOAT, v.shape)
        if kind == "softmax":
            return self.node(body, "Softmax", [v.name], FLOAT, v.shape, axis=-1)
        if kind == "reduce":
            total = self.node(
                body,
                "ReduceMean",
                [v.name],
                FLOAT,
                (v.shape[0], 1),
                axes=[1],
                keepdims=1,
            )
            return self.node(body, "Sub", [v.name, total.name], FLOAT, v.shape)
        if kind == "concat":
            axis = self.constant(body, np.array([1], np.int64))
            begin = self.constant(
                body, np.array([self.random.randint(0, self.columns)], np.int64)
            )
            end = self.constant(body, np.array([10**6], np.int64))
            both = self.node(
                body,
                "Concat",
                [v.name, v.name],
                FLOAT,
                (v.shape[0], 2 * self.columns),
                axis=1,
            )
            tail = self.node(
                body,
                "Slice",
                [both.name, begin.name, end.name, axis.name],
                FLOAT,
                (v.shape[0], "tail"),
            )
            zero = self.constant(body, np.array([0], np.int64))
            width = self.constant(body, np.array([self.columns], np.int64))
            return self.node(
                body,
                "Slice",
                [tail.name, zero.name, width.name, axis.name],
                FLOAT,
                v.shape,
            )
        half = self.constant(
            body, np.array(self.random.choice([0.5, -0.25]), np.float32)
        )
        return self.node(body, "Mul", [v.name, half.name], FLOAT, v.shape)

    def shape(self) -> Shape:
        return self.random.choice(
            [(self.rows, self.columns), (self.columns,), (), (self.rows, self.columns)]
        )

    def graph(
        self, body: Body, inputs: list[Value], outputs: list[Value], name: str
    ) -> onnx.GraphProto:
        """A body whose outputs have names of their own."""
        listed = []
        for v in outputs:
            listed.append(self.node(body, "Identity", [v.name], v.dtype, v.shape))
        return helper.make_graph(
            body.nodes,
            name,
            [self.info(v) for v in inputs],
            [self.info(v) for v in listed],
        )

    def info(self, v: Value) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(v.name, v.dtype, v.shape)

    def inner(self, outer: Body) -> Body:
        return Body([v for v in outer.values if self.random.random() < 0.7])

    def add_control_flow(self, body: Body, depth: int) -> None:
        self.random.choice([self.add_if, self.add_loop, self.add_scan])(body, depth)

    def fill(self, body: Body, depth: int) -> None:
        self.add_operators(body, self.shape(), self.random.randint(1, 4))
        if depth > 0 and self.random.random() < 0.5:
            self.add_control_flow(body, depth - 1)

    def add_if(self, body: Body, depth: int) -> None:
        condition = self.pick(body, BOOL, ())
        if condition is None:
            flag = np.array(self.random.random() < 0.5)
            condition = self.input(BOOL, (), flag)
            body.values.append(condition)
        shapes = [self.shape() for _ in range(self.random.randint(1, 3))]
        branches = []
        for label in ("then", "else"):
            own = self.inner(body)
            if not any(v.dtype == FLOAT and len(v.shape) == 2 for v in own.values):
                own.values += [v for v in body.values if v.dtype == FLOAT]
            self.fill(own, depth)
            outputs = [
                self.add_operators(own, s, self.random.randint(0, 2)) for s in shapes
            ]
            branches.append(self.graph(own, [], outputs, self.name(label)))
        outs = [Value(self.name("if"), FLOAT, s) for s in shapes]
        body.nodes.append(
            helper.make_node(
                "If",
                [condition.name],
                [v.name for v in outs],
                name=outs[0].name,
                then_branch=branches[0],
                else_branch=branches[1],
            )
        )
        body.values += outs

    def carried(self, body: Body) -> list[Value]:
        values = [
            self.floats(body, self.shape()) for _ in range(self.random.randint(0, 3))
        ]
        if self.random.random() < 0.3:
            values.append(self.constant(body, np.array([3, -2], np.int64)))
        return values

    def next_of(self, own: Body, states: list[Value]) -> list[Value]:
        """What an iteration returns for the values that it takes."""
        out = []
        for v in states:
            if v.dtype == INT64:
                out.append(self.node(own, "Add", [v.name, v.name], INT64, v.shape))
            elif self.random.random() < 0.2:
                out.append(
                    self.random.choice(
                        [s for s in states if s.shape == v.shape and s.dtype == v.dtype]
                    )
                )
            else:
                new = self.add_operators(own, v.shape, self.random.randint(1, 3))
                mixed = self.node(own, "Add", [new.name, v.name], FLOAT, v.shape)
                out.append(self.node(own, "Tanh", [mixed.name], FLOAT, v.shape))
        return out

    def add_outputs(
        self, into: Body, op: str, inputs: list[str], outs: list[Value], **attrs: Any
    ) -> None:
        keep = [i for i in range(len(outs)) if self.random.random() < 0.9] or [0]
        names = [v.name for v in outs]
        into.nodes.append(
            helper.make_node(op, inputs, names, name=outs[0].name, **attrs)
        )
        into.values += [v for i, v in enumerate(outs) if i in keep]

    def add_loop(self, body: Body, depth: int) -> None:
        initial = self.carried(body)
        # Without iterations, ONNX Runtime returns 0 for dims that are not numbers in the model.
        least = 0 if isinstance(self.rows, int) else 1
        trips = self.input(INT64, (), np.array(self.random.randint(least, 6), np.int64))
        own = self.inner(body)
        own.values += [
            v for v in body.values if v.dtype == FLOAT and v not in own.values
        ]
        number, going = (
            Value(self.name("i"), INT64, ()),
            Value(self.name("going"), BOOL, ()),
        )
        states = [Value(self.name("state"), v.dtype, v.shape) for v in initial]
        own.values += [number, going, *states]
        if self.random.random() < 0.5:
            two = self.constant(own, np.array(2, np.int64))
            rest = self.node(own, "Mod", [number.name, two.name], INT64, ())
            self.node(own, "Cast", [rest.name], BOOL, (), to=BOOL)
        index = self.node(own, "Cast", [number.name], FLOAT, (), to=FLOAT)
        self.fill(own, depth)
        after = self.next_of(own, states)
        again = going
        if self.random.random() < 0.5:
            limit = self.input(
                INT64, (), np.array(self.random.randint(-1, 5), np.int64)
            )
            again = self.node(own, "Less", [number.name, limit.name], BOOL, ())
        stacked = [
            self.add_operators(own, self.shape(), 1)
            for _ in range(self.random.randint(0 if initial else 1, 2))
        ]
        if stacked and self.random.random() < 0.3:
            stacked.append(index)
        graph = self.graph(
            own, [number, going, *states], [again, *after, *stacked], self.name("body")
        )
        length = self.name("length")
        outs = [Value(self.name("loop"), v.dtype, v.shape) for v in initial]
        outs += [Value(self.name("all"), v.dtype, (length, *v.shape)) for v in stacked]
        condition = self.constant(
            body, np.array(least == 1 or self.random.random() < 0.95)
        )
        first = (
            condition.name if again is not going or self.random.random() < 0.5 else ""
        )
        self.add_outputs(
            body,
            "Loop",
            [trips.name, first, *[v.name for v in initial]],
            outs,
            body=graph,
        )

    def add_scan(self, body: Body, depth: int) -> None:
        initial = self.carried(body)
        length = self.name("steps")
        count = self.random.randint(1, 5)
        own = self.inner(body)
        own.values += [
            v for v in body.values if v.dtype == FLOAT and v not in own.values
        ]
        states = [Value(self.name("state"), v.dtype, v.shape) for v in initial]
        scanned, elements, axes = [], [], []
        for _ in range(self.random.randint(1, 2)):
            shape = self.shape()
            axis = (
                self.random.randint(0, len(shape)) if self.random.random() < 0.4 else 0
            )
            whole = (*shape[:axis], length, *shape[axis:])
            dims = tuple(count if d == length else d for d in whole)
            array = self.numbers.uniform(-1, 1, self.dims(dims)).astype(np.float32)
            scanned.append(self.input(FLOAT, whole, array))
            elements.append(Value(self.name("element"), FLOAT, shape))
            axes.append(axis)
        own.values += [*states, *elements]
        self.fill(own, depth)
        after = self.next_of(own, states)
        stacked = [
            self.add_operators(own, self.shape(), 1)
            for _ in range(self.random.randint(0 if initial else 1, 2))
        ]
        out_axes = [
            self.random.randint(0, len(v.shape)) if self.random.random() < 0.4 else 0
            for v in stacked
        ]
        graph = self.graph(
            own, [*states, *elements], [*after, *stacked], self.name("body")
        )
        outs = [Value(self.name("scan"), v.dtype, v.shape) for v in initial]
        outs += [
            Value(self.name("all"), v.dtype, (*v.shape[:a], length, *v.shape[a:]))
            for v, a in zip(stacked, out_axes, strict=True)
        ]
        attrs: dict[str, Any] = {
            "num_scan_inputs": len(scanned),
            "scan_input_axes": axes,
            "scan_input_directions": [self.random.randint(0, 1) for _ in scanned],
        }
        if stacked:
            attrs["scan_output_axes"] = out_axes
            attrs["scan_output_directions"] = [
                self.random.randint(0, 1) for _ in stacked
            ]
        self.add_outputs(
            body,
            "Scan",
            [v.name for v in [*initial, *scanned]],
            outs,
            body=graph,
            **attrs,
        )

    def model(self) -> onnx.ModelProto:
        body = Body(
            [
                self.float_input((self.rows, self.columns)),
                self.float_input((self.columns, self.columns)),
                self.float_input((self.columns,)),
                self.float_input(()),
            ]
        )
        self.add_operators(body, self.shape(), self.random.randint(0, 3))
        for _ in range(self.random.randint(1, 3)):
            self.add_control_flow(body, 2)
            self.add_operators(body, self.shape(), self.random.randint(0, 2))
        made = {o for n in body.nodes for o in n.output}
        outputs = [
            v
            for v in body.values
            if v.name in made and v.name[:2] in ("if", "lo", "al", "sc")
        ]
        outputs.append(body.values[-1])
        listed = [
            self.node(body, "Identity", [v.name], v.dtype, v.shape)
            if self.random.random() < 0.3
            else v
            for v in {v.name: v for v in outputs}.values()
            if v.name in made
        ]
        graph = helper.make_graph(
            body.nodes,
            "random",
            [self.info(v) for v in self.inputs],
            [self.info(v) for v in listed],
        )
        return helper.make_model(
            graph, ir_version=8, opset_imports=[helper.make_opsetid("", OPSET)]
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    for seed in range(options.seed, options.seed + options.count):
        generator = Generator(seed)
        model = generator.model()
        try:
            write_case(options.folder / f"random_{seed}", model, generator.arrays)
        except Exception as e:  # noqa: BLE001
            print(f"random_{seed} skipped: {e}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
