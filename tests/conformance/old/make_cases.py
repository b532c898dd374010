#!/usr/bin/env python3
"""Writes the cases of this folder: versions 1 to 6 of ONNX, and operators it had until version 9.

The expected results are formulas in NumPy. Where onnx.version_converter can convert the model, or
ONNX Runtime still has the version, what it computes must agree. Run it with a Python that has onnx
and onnxruntime. The tests read cases.tar.xz, which it wrote.
"""

import contextlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, version_converter

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from case_writer import archived, run_model, write_case

CASES = Path(__file__).resolve().parent / "cases"
Arrays = list[np.ndarray]


def type_of(x: np.ndarray) -> int:
    return int(helper.np_dtype_to_tensor_dtype(x.dtype))


def others(
    model: onnx.ModelProto, inputs: dict[str, np.ndarray]
) -> list[tuple[str, Arrays]]:
    """What other implementations make of the model."""
    found = []
    for name in ("ONNX Runtime", "converted"):
        try:
            asked = model if name == "ONNX Runtime" else converted(model)
            found.append((name, run_model(asked, inputs)))
        except Exception as error:  # noqa: BLE001  each refuses in a way of its own
            reason = (
                str(error).splitlines()[0][:90] if str(error) else type(error).__name__
            )
            print(f"    {name}: {reason}")
    return found


def converted(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in the oldest version from 7 to 10 to which it can be converted."""
    for opset in (7, 8, 9):
        with contextlib.suppress(Exception):
            return version_converter.convert_version(model, opset)
    return version_converter.convert_version(model, 10)


def write(
    name: str,
    opset: int,
    op: str,
    inputs: Arrays,
    expected: np.ndarray | Arrays,
    constants: tuple[int, ...] = (),
    alone: bool = False,
    **attrs: Any,
) -> None:
    """With `alone`, the formula is not compared: the converter forgets defaults of Selu 1."""
    outputs = expected if isinstance(expected, list) else [expected]
    names = [f"x{i}" for i in range(len(inputs))]
    node = helper.make_node(op, names, [f"y{i}" for i in range(len(outputs))], name=op)
    node.attribute.extend(helper.make_attribute(k, v) for k, v in attrs.items())
    given = dict(zip(names, inputs, strict=True))
    fixed = {f"x{i}" for i in constants}
    # Files with an old version list their initialisers as inputs.
    graph = helper.make_graph(
        [node],
        name,
        [
            helper.make_tensor_value_info(n, type_of(x), x.shape)
            for n, x in given.items()
            if n not in fixed
        ],
        [
            helper.make_tensor_value_info(f"y{i}", type_of(y), y.shape)
            for i, y in enumerate(outputs)
        ],
        [numpy_helper.from_array(x, n) for n, x in given.items() if n in fixed],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=4
    )
    variable = {n: x for n, x in given.items() if n not in fixed}
    for who, results in [] if alone else others(model, variable):
        for y, result in zip(outputs, results, strict=True):
            np.testing.assert_allclose(result, y, 1e-5, 1e-5, err_msg=f"{name}: {who}")
        print(f"    {who} agrees")
    write_case(CASES / name, model, variable, outputs)


def floats(*dims: int) -> np.ndarray:
    return (
        np.random.default_rng(sum(dims) + len(dims))
        .standard_normal(dims)
        .astype(np.float32)
    )


def f32(x: Any) -> np.ndarray:
    return np.asarray(x, np.float32)


def broadcasts() -> None:
    a, row, column, middle = floats(2, 3, 4, 5), floats(5), floats(2), floats(3, 4)
    column, spread = np.abs(column) + 0.5, middle[None, :, :, None]
    write("add_1_consumed", 1, "Add", [a, a * 2], a + a * 2, consumed_inputs=[0, 0])
    write("add_6_axis", 6, "Add", [a, middle], a + spread, broadcast=1, axis=1)
    write("add_6_suffix", 6, "Add", [a, row], a + row, broadcast=1)
    write("add_6_last_axis", 6, "Add", [a, row], a + row, broadcast=1, axis=-1)
    write("add_6_scalar", 6, "Add", [a, f32(2.5)], a + f32(2.5), broadcast=1)
    write("sub_6_axis", 6, "Sub", [a, middle], a - spread, broadcast=1, axis=1)
    write(
        "mul_1_axis_0",
        1,
        "Mul",
        [a, column],
        a * column[:, None, None, None],
        broadcast=1,
        axis=0,
    )
    write(
        "div_6_axis_0",
        6,
        "Div",
        [a, column],
        a / column[:, None, None, None],
        broadcast=1,
        axis=0,
    )
    write(
        "pow_1_axis",
        1,
        "Pow",
        [np.abs(a), middle],
        np.abs(a) ** spread,
        broadcast=1,
        axis=1,
    )
    write("pow_1", 1, "Pow", [np.abs(a), a], np.abs(a) ** a)
    p, q = a > 0, middle > 0
    for op, function in (
        ("And", np.logical_and),
        ("Or", np.logical_or),
        ("Xor", np.logical_xor),
    ):
        y = function(p, q[None, :, :, None])
        write(f"{op.lower()}_1_axis", 1, op, [p, q], y, broadcast=1, axis=1)
    write("less_1_axis", 1, "Less", [a, middle], a < spread, broadcast=1, axis=1)
    write("greater_1", 1, "Greater", [a, a.copy()[::-1].copy()], a > a[::-1])
    n, m = (a * 2).astype(np.int32), (middle * 2).astype(np.int32)
    write(
        "equal_1_axis",
        1,
        "Equal",
        [n, m],
        n == m[None, :, :, None],
        broadcast=1,
        axis=1,
    )
    slope = floats(3)
    leaky = np.where(a < 0, a * slope[:, None, None], a)
    write("prelu_6_channels", 6, "PRelu", [a, slope], leaky)
    write(
        "prelu_1_one", 1, "PRelu", [a, f32([0.25])], np.where(a < 0, a * f32(0.25), a)
    )
    x, w, b, c = floats(3, 4), floats(4, 5), floats(5), floats(3, 5)
    write(
        "gemm_6_broadcast",
        6,
        "Gemm",
        [x, w, b],
        0.5 * (x @ w) + 2 * b,
        alpha=0.5,
        beta=2.0,
        broadcast=1,
    )
    write("gemm_1", 1, "Gemm", [x.T.copy(), w, c], x @ w + c, transA=1)


def functions() -> None:
    a = floats(2, 3, 4)
    write("relu_1_consumed", 1, "Relu", [a], np.maximum(a, 0), consumed_inputs=[0])
    write(
        "elu_1", 1, "Elu", [a], np.where(a < 0, np.exp(a) - 1, a), consumed_inputs=[0]
    )
    selu = f32(1.0507) * np.where(a > 0, a, f32(1.6732) * np.exp(a) - f32(1.6732))
    write("selu_1", 1, "Selu", [a], f32(selu), alone=True)
    write("hard_sigmoid_1", 1, "HardSigmoid", [a], np.clip(0.2 * a + f32(0.5), 0, 1))
    write(
        "clip_1",
        1,
        "Clip",
        [a],
        np.clip(a, -0.5, 0.5),
        min=-0.5,
        max=0.5,
        consumed_inputs=[0],
    )
    write("clip_6_min", 6, "Clip", [a], np.maximum(a, f32(0.1)), min=0.1)
    write("sum_1", 1, "Sum", [a, a, a], a * 3, consumed_inputs=[0, 0, 0])
    write("mean_1", 1, "Mean", [a, a + 1], a + f32(0.5))
    write("max_1", 1, "Max", [a, -a], np.abs(a))
    e = np.exp(a.reshape(2, -1) - a.reshape(2, -1).max(1, keepdims=True))
    write(
        "softmax_1", 1, "Softmax", [a], (e / e.sum(1, keepdims=True)).reshape(a.shape)
    )
    write(
        "log_softmax_1",
        1,
        "LogSoftmax",
        [a],
        np.log(e / e.sum(1, keepdims=True)).reshape(a.shape),
    )
    hard = np.zeros((2, 12), np.float32)
    hard[[0, 1], a.reshape(2, -1).argmax(1)] = 1
    write("hardmax_1", 1, "Hardmax", [a], hard.reshape(a.shape))
    write(
        "top_k_1", 1, "TopK", [a], [-np.sort(-a)[..., :2], np.argsort(-a)[..., :2]], k=2
    )


def shapes() -> None:
    a = floats(2, 3, 4, 5)
    write("cast_1", 1, "Cast", [a * 9], (a * 9).astype(np.int32), to="INT32")
    write(
        "cast_5_bool",
        5,
        "Cast",
        [a.astype(np.int64)],
        a.astype(np.int64) != 0,
        to="BOOL",
    )
    write("concat_1", 1, "Concat", [a, a[:, :2]], np.concatenate([a, a[:, :2]], 1))
    write("concat_1_axis", 1, "Concat", [a, a], np.concatenate([a, a], 3), axis=3)
    write("split_1", 1, "Split", [a], [a[:, :1], a[:, 1:]], axis=1, split=[1, 2])
    write("split_1_equal", 1, "Split", [a], [a[:1], a[1:]])
    write(
        "split_1_input",
        1,
        "Split",
        [a, f32([3, 1])],
        [a[:, :, :3], a[:, :, 3:]],
        (1,),
        axis=2,
    )
    write("split_2", 2, "Split", [a], [a[..., :2], a[..., 2:]], axis=3, split=[2, 3])
    write(
        "reshape_1",
        1,
        "Reshape",
        [a],
        a.reshape(2, 15, 4),
        shape=[0, -1, 4],
        consumed_inputs=[0],
    )
    pads = [0, 0, 1, 2, 0, 0, 0, 1]
    widths = [(0, 0), (0, 0), (1, 0), (2, 1)]
    padded = np.pad(a, widths, constant_values=1.5)
    write("pad_1", 1, "Pad", [a], padded, paddings=pads, value=1.5)
    write(
        "pad_1_reflect",
        1,
        "Pad",
        [a],
        np.pad(a, widths, "reflect"),
        paddings=pads,
        mode="reflect",
    )
    write(
        "pad_2_edge", 2, "Pad", [a], np.pad(a, widths, "edge"), pads=pads, mode="edge"
    )
    write(
        "tile_1", 1, "Tile", [a, f32([3]), f32([1])], np.tile(a, (1, 3, 1, 1)), (1, 2)
    )
    up = a.repeat(2, 2).repeat(3, 3)
    write(
        "upsample_1",
        1,
        "Upsample",
        [a],
        up,
        height_scale=2.0,
        width_scale=3.0,
        mode="nearest",
    )
    write(
        "slice_1",
        1,
        "Slice",
        [a],
        a[:, 1:3, :, 0:-1],
        axes=[1, 3],
        starts=[1, 0],
        ends=[9, -1],
    )
    write("squeeze_1", 1, "Squeeze", [a[:1]], a[0], axes=[0])
    write("unsqueeze_1", 1, "Unsqueeze", [a], a[:, None], axes=[1])
    write("flatten_1", 1, "Flatten", [a], a.reshape(6, 20), axis=2)
    index = np.array([[2, 0]], np.int64)
    write("gather_1", 1, "Gather", [a, index], a.take(index, 1), axis=1)
    write(
        "reduce_mean_1", 1, "ReduceMean", [a], a.mean((1, 3)), axes=[1, 3], keepdims=0
    )
    write("arg_max_1", 1, "ArgMax", [a], a.argmax(1)[:, None], axis=1)


def layers() -> None:
    x = floats(2, 3, 4, 4)
    scale, bias, mean, variance = (
        floats(3),
        floats(3) + 1,
        floats(3) / 2,
        np.abs(floats(3)) + 0.5,
    )

    def norm(s: np.ndarray, b: np.ndarray, m: np.ndarray, v: np.ndarray) -> np.ndarray:
        return f32((x - m) / np.sqrt(v + 1e-5) * s + b)

    each = [v[:, None, None] for v in (scale, bias, mean, variance)]
    names = [x, scale, bias, mean, variance]
    op = "BatchNormalization"
    write(
        "batch_norm_1",
        1,
        op,
        names,
        norm(*each),
        is_test=1,
        consumed_inputs=[0, 0, 0, 1, 1],
    )
    write("batch_norm_6", 6, op, names, norm(*each), is_test=1)
    whole = [
        floats(3, 4, 4),
        floats(3, 4, 4) + 1,
        floats(3, 4, 4),
        np.abs(floats(3, 4, 4)) + 0.5,
    ]
    write("batch_norm_6_each", 6, op, [x, *whole], norm(*whole), is_test=1, spatial=0)
    write("batch_norm_7_each", 7, op, [x, *whole], norm(*whole), spatial=0)
    centred = x - x.mean((2, 3), keepdims=True)
    instance = centred / np.sqrt((centred**2).mean((2, 3), keepdims=True) + f32(1e-5))
    instance = instance * scale[:, None, None] + bias[:, None, None]
    op = "InstanceNormalization"
    write(
        "instance_norm_1",
        1,
        op,
        [x, scale, bias],
        f32(instance),
        consumed_inputs=[0, 0, 0],
    )
    write("dropout_1", 1, "Dropout", [x], x, is_test=1, ratio=0.3, consumed_inputs=[0])
    write("dropout_6", 6, "Dropout", [x], x, is_test=1)
    blocks = x.reshape(2, 3, 2, 2, 2, 2)
    shape: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
    write("average_pool_1", 1, "AveragePool", [x], f32(blocks.mean((3, 5))), **shape)
    write("max_pool_1", 1, "MaxPool", [x], blocks.max((3, 5)), **shape)
    lp = f32(np.sqrt((blocks.astype(float) ** 2).sum((3, 5))))
    write("lp_pool_1", 1, "LpPool", [x], lp, p=2.0, **shape)
    total = f32(np.abs(x).sum((2, 3), keepdims=True))
    write("global_lp_pool_1", 1, "GlobalLpPool", [x], total, p=1.0)
    sides = [1, 1, 1, 1]
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    ones = np.pad(np.ones_like(x), [(0, 0), (0, 0), (1, 1), (1, 1)])

    def windows(v: np.ndarray) -> np.ndarray:
        view = np.lib.stride_tricks.sliding_window_view(v, (2, 2), (2, 3))
        return np.asarray(view.sum((4, 5)))

    average = f32(windows(padded) / windows(ones))
    write(
        "average_pool_1_pads",
        1,
        "AveragePool",
        [x],
        average,
        kernel_shape=[2, 2],
        pads=sides,
    )


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


def recurrent() -> None:
    steps, batch, size, hidden = 4, 2, 3, 5
    x = floats(steps, batch, size)

    def weights(gates: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        n = gates * hidden
        return floats(1, n, size) / 2, floats(1, n, hidden) / 2, floats(1, 2 * n) / 4

    w, r, b = weights(1)
    h, y = np.zeros((batch, hidden)), []
    for step in x:
        h = np.tanh(step @ w[0].T + h @ r[0].T + b[0, :hidden] + b[0, hidden:])
        y.append(h)
    results = [f32(y)[:, None], f32(h)[None]]
    write(
        "rnn_1", 1, "RNN", [x, w, r, b], results, hidden_size=hidden, output_sequence=1
    )
    w, r, b = weights(4)
    h, c, y = np.zeros((batch, hidden)), np.zeros((batch, hidden)), []
    for step in x:
        gates = step @ w[0].T + h @ r[0].T + b[0, : 4 * hidden] + b[0, 4 * hidden :]
        i, o, f, g = np.split(gates, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        y.append(h)
    results = [f32(y)[:, None], f32(h)[None], f32(c)[None]]
    write(
        "lstm_1",
        1,
        "LSTM",
        [x, w, r, b],
        results,
        hidden_size=hidden,
        output_sequence=1,
    )
    w, r, b = weights(3)
    wb, rb = np.split(b[0], 2)
    for opset, linear in ((1, 0), (3, 1)):
        h, y = np.zeros((batch, hidden)), []
        for step in x:
            wz, wr, wh = np.split(step @ w[0].T + wb, 3, 1)
            rz, rr, rh = np.split(r[0], 3)
            bz, br, bh = np.split(rb, 3)
            z, t = sigmoid(wz + h @ rz.T + bz), sigmoid(wr + h @ rr.T + br)
            inner = t * (h @ rh.T + bh) if linear else (t * h) @ rh.T + bh
            h = (1 - z) * np.tanh(wh + inner) + z * h
            y.append(h)
        results = [f32(y)[:, None], f32(h)[None]]
        more: dict[str, Any] = {"linear_before_reset": 1} if linear else {}
        write(
            f"gru_{opset}",
            opset,
            "GRU",
            [x, w, r, b],
            results,
            hidden_size=hidden,
            **more,
        )


def experiments() -> None:
    x = floats(2, 3, 4, 5)
    write("affine", 6, "Affine", [x], f32(x * 0.5 + 2), alpha=0.5, beta=2.0)
    soft = f32(2 * np.log1p(np.exp(0.5 * x.astype(float))))
    write(
        "parametric_softplus", 6, "ParametricSoftplus", [x], soft, alpha=2.0, beta=0.5
    )
    write(
        "scaled_tanh",
        6,
        "ScaledTanh",
        [x],
        f32(2 * np.tanh(0.5 * x)),
        alpha=2.0,
        beta=0.5,
    )
    write("scale", 6, "Scale", [x], x * f32(0.25), scale=0.25)
    row = f32([1, 2, 3])[:, None, None]
    write(
        "image_scaler",
        6,
        "ImageScaler",
        [x],
        x * f32(0.5) + row,
        scale=0.5,
        bias=[1.0, 2.0, 3.0],
    )
    write("crop", 6, "Crop", [x], x[:, :, 1:3, 2:4], border=[2, 1, 1, 1])
    write(
        "crop_size",
        6,
        "Crop",
        [x],
        x[:, :, 1:3, 2:5],
        border=[2, 1, 0, 0],
        scale=[2, 3],
    )
    leaky = np.where(x > 0.5, x, 0)
    write("thresholded_relu", 6, "ThresholdedRelu", [x], f32(leaky), alpha=0.5)
    for across in (0, 1):
        axes = (0, 1, 2, 3) if across else (0, 2, 3)
        centred = x - x.mean(axes, keepdims=True, dtype=float)
        y = centred / np.sqrt((centred**2).mean(axes, keepdims=True))
        op = "MeanVarianceNormalization"
        write(f"mean_variance_{across}", 6, op, [x], f32(y), across_channels=across)
        write(
            f"mean_only_{across}",
            6,
            op,
            [x],
            f32(centred),
            across_channels=across,
            normalize_variance=0,
        )
    starts, ends = np.array([1, 0], np.int64), np.array([3, 2], np.int64)
    which = np.array([1, 3], np.int64)
    write(
        "dynamic_slice",
        6,
        "DynamicSlice",
        [x, starts, ends, which],
        x[:, 1:3, :, 0:2],
        (1, 2, 3),
    )
    values = floats(2, 3)
    flat: dict[str, Any] = {"values": values.ravel().tolist(), "shape": [2, 3]}
    write("given_tensor_fill", 6, "GivenTensorFill", [], values, **flat)
    size = np.array([2, 4], np.int64)
    full = np.full((2, 4, 3), 1.5, np.float32)
    write(
        "constant_fill",
        6,
        "ConstantFill",
        [size],
        full,
        (0,),
        value=1.5,
        input_as_shape=1,
        extra_shape=[3],
    )
    write(
        "constant_fill_shape",
        6,
        "ConstantFill",
        [],
        np.full((2, 2), 7, np.int32),
        shape=[2, 2],
        dtype=6,
        value=7.0,
    )
    write(
        "constant_fill_like",
        6,
        "ConstantFill",
        [x],
        np.full(x.shape, 2, np.float32),
        value=2.0,
    )


def main() -> None:
    with archived(CASES):
        broadcasts()
        functions()
        shapes()
        layers()
        recurrent()
        experiments()


if __name__ == "__main__":
    main()
