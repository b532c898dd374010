"""Cases of operators on quantised tensors."""

from typing import Any

import numpy as np
from writer import (
    BYTE,
    FLOAT,
    INT,
    INT8,
    TYPES,
    f32,
    floats,
    lengths,
    numbers,
    quantized,
    write,
)


def joined() -> None:
    # These scales avoid ties, which the order of operations in float32 decides.
    for signed in (False, True):
        kind, name, element = (
            (np.int8, "int8", INT8) if signed else (np.uint8, "uint8", BYTE)
        )
        x, y = quantized(signed, 2, 3, 4), quantized(signed, 2, 5, 4)
        zero, other = np.array(3, kind), np.array(7, kind)
        first, second = [x, f32(0.0213), zero], [y, f32(0.0317), other]
        result = [f32(0.0271), other]
        write(
            f"qlinear_concat_{name}",
            "QLinearConcat",
            [*result, *first, *second],
            [element],
            axis=1,
        )
        condition = numbers(2, 3, 4).astype(bool)
        second = [quantized(signed, 3, 1), f32(0.0317), other]
        some = [condition, *first, *second, *result]
        write(f"qlinear_where_{name}", "QLinearWhere", some, [element])
        data = [quantized(signed, 2, 3, 6, 7), f32(0.0513), zero]
        shape: dict[str, Any] = {"kernel_shape": [3, 2], "strides": [2, 1]}
        op = "QLinearAveragePool"
        for last in (0, 1):
            for include in (0, 1):
                write(
                    f"qlinear_average_pool_{name}_{last}{include}",
                    op,
                    [*data, f32(0.0481), other],
                    [element],
                    channels_last=last,
                    count_include_pad=include,
                    pads=[1, 0, 1, 1],
                    **shape,
                )
        op = "QLinearSoftmax"
        some = [
            x,
            f32(0.0371),
            zero,
            f32(1 / 256),
            np.array(-128 if signed else 0, kind),
        ]
        write(f"qlinear_softmax_{name}", op, some, [element], opset=13, axis=1)
        write(f"qlinear_softmax_{name}_last", op, some, [element], opset=13)
        write(f"qlinear_softmax_{name}_12", op, some, [element], opset=12, axis=1)
        # ONNX Runtime has it on no CPU.
        floating = (x.astype(float) - 3) * 0.0513
        mean = np.round(floating.mean((0, 2), keepdims=True) / 0.0207) + 7
        low, high = (-128, 127) if signed else (0, 255)
        y = np.clip(mean, low, high).astype(kind)
        some = [x, f32(0.0513), zero, f32(0.0207), other]
        op = "QLinearReduceMean"
        write(
            f"qlinear_mean_{name}",
            op,
            some,
            [element],
            axes=[0, 2],
            keepdims=1,
            expected=[y],
        )


def convolutions() -> None:
    for signed in (False, True):
        name, kind = ("int8", np.int8) if signed else ("uint8", np.uint8)
        x, w = quantized(signed, 2, 6, 5, 4), quantized(True, 3, 4, 3, 2)
        scales = f32([0.011, 0.013, 0.017])
        zeros = np.zeros(3, np.int8)
        bias = numbers(900, 3)
        given = [
            x,
            f32(0.02),
            np.array(9, kind),
            w,
            scales,
            zeros,
            f32(0.3),
            np.array(11, kind),
            bias,
        ]
        op = "QLinearConv"
        constants = [3, 4, 5, 8]
        attrs: dict[str, Any] = {"pads": [1, 0, 1, 1], "constants": constants}
        write(
            f"qlinear_conv_{name}_last",
            op,
            given,
            [TYPES[name]],
            channels_last=1,
            **attrs,
        )
        given[0] = quantized(signed, 2, 4, 6, 5)
        write(
            f"qlinear_conv_{name}_first",
            op,
            given,
            [TYPES[name]],
            strides=[2, 1],
            **attrs,
        )


def products() -> None:
    a, b, row = quantized(False, 2, 3, 8), quantized(True, 8, 5), floats(5)
    columns = [f32([0.01, 0.02, 0.03, 0.04, 0.05]), np.arange(5).astype(np.int8)]
    one = [f32([0.03]), np.array([4], np.int8)]
    x = floats(2, 3, 8)
    op = "DynamicQuantizeMatMul"
    write("dynamic_matmul", op, [x, b, one[0], one[1], row], [FLOAT])
    write(
        "dynamic_matmul_columns",
        op,
        [x, b, columns[0], None, row],
        [FLOAT],
        constants=[1],
    )
    write("dynamic_matmul_plain", op, [x, quantized(False, 8, 5), one[0]], [FLOAT])
    op = "MatMulIntegerToFloat"
    left = np.array(120, np.uint8)
    write("matmul_to_float", op, [a, b, f32(0.02), one[0], left, one[1], row], [FLOAT])
    write("matmul_to_float_plain", op, [a, b, f32(0.02), one[0]], [FLOAT])
    some = [a, b, f32(0.02), columns[0], left, columns[1], row]
    write("matmul_to_float_columns", op, some, [FLOAT], constants=[1, 3, 5])
    # ONNX Runtime has these on no CPU.
    x, y, zero = (
        quantized(False, 2, 3, 4),
        quantized(False, 3, 1),
        np.array(7, np.uint8),
    )
    whole = (x.astype(np.int32) - 7) * (y.astype(np.int32) - 7)
    write("mul_integer", "MulInteger", [x, zero, y, zero], [INT], expected=[whole])
    whole = quantized(True, 2, 3, 4).sum(1, dtype=np.int32)
    some = [quantized(True, 2, 3, 4)]
    write(
        "sum_integer",
        "ReduceSumInteger",
        some,
        [INT],
        axes=[1],
        keepdims=0,
        expected=[whole],
    )
    p, q = (
        (numbers(2000, 3, 4) - 1000).astype(np.int16),
        (numbers(2000, 4, 5) - 900).astype(np.int16),
    )
    write("matmul_integer16", "MatMulInteger16", [p, q], [INT])


def attention() -> None:
    op = "QAttention"
    x, w, bias = quantized(False, 2, 3, 8), quantized(True, 8, 24), floats(24) / 3
    scales = [f32(0.01), f32(0.012)]
    zeros = [np.array(120, np.uint8), np.array(3, np.int8)]
    some = [x, w, bias, *scales]
    constants = [1, 2, 3, 4, 6, 7]
    write(
        "qattention",
        op,
        [*some, None, *zeros],
        [FLOAT],
        num_heads=2,
        constants=constants,
    )
    keys = np.array([[1, 1, 0], [1, 0, 1]], np.int32)
    write("qattention_keys", op, [*some, keys, *zeros], [FLOAT], num_heads=2)
    write(
        "qattention_lengths", op, [*some, lengths(2, 3), *zeros], [FLOAT], num_heads=4
    )
    past = floats(2, 2, 2, 4, 4)
    both = [FLOAT, FLOAT]
    write(
        "qattention_past",
        op,
        [*some, None, *zeros, past],
        both,
        num_heads=2,
        unidirectional=1,
    )
    columns = f32(np.arange(24) * 0.001 + 0.002)
    some = [x, w, bias, scales[0], columns]
    write(
        "qattention_columns",
        op,
        [*some, None, zeros[0]],
        [FLOAT],
        num_heads=2,
        constants=[1, 4],
    )


def embedding() -> None:
    ids, segments, mask = numbers(10, 2, 5), numbers(2, 2, 5), numbers(2, 2, 5)
    tables = [quantized(False, n, 8) for n in (10, 7, 2)]
    rows = [quantized(False, 8), quantized(False, 8)[::-1].copy()]
    scales = [f32(s) for s in (0.01, 0.02, 0.03, 0.01, 0.02)]
    zeros = [np.array(z, np.uint8) for z in (120, 100, 130, 90, 128)]
    op = "QEmbedLayerNormalization"
    given: list[np.ndarray | None] = [
        ids,
        segments,
        *tables,
        *rows,
        mask,
        *scales,
        *zeros,
    ]
    fixed = list(range(2, 7)) + list(range(8, 18))
    write("qembed", op, given, [FLOAT, INT], constants=fixed)
    given = [
        ids,
        None,
        *tables[:2],
        None,
        *rows,
        None,
        *scales[:2],
        None,
        *scales[3:],
        *zeros[:2],
        None,
    ]
    write("qembed_no_segments", op, [*given, *zeros[3:]], [FLOAT, INT], epsilon=0.01)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


def lstm() -> None:
    """Expected are the results with weights as floats; ONNX Runtime also rounds the operands."""
    x, hidden = floats(4, 2, 3), 5
    w, r, b = (
        quantized(True, 1, 3, 20),
        quantized(False, 1, hidden, 20),
        floats(1, 40) / 4,
    )
    scales = f32(np.arange(20) * 1e-4 + 1e-3)[None]
    zeros = np.zeros((1, 20), np.int8)
    one, zero = f32([0.004]), np.array([128], np.uint8)
    wf, rf = w[0] * scales.astype(float), (r[0].astype(float) - 128) * 0.004
    h, c, y = np.zeros((2, hidden)), np.zeros((2, hidden)), []
    for step in x:
        i, o, f, g = np.split(step @ wf + h @ rf + b[0, :20] + b[0, 20:], 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        y.append(h)
    given = [x, w, r, b, None, None, None, None, scales, zeros, one, zero]
    results = [f32(y)[:, None], f32(h)[None], f32(c)[None]]
    op = "DynamicQuantizeLSTM"
    write("dynamic_lstm", op, given, [FLOAT] * 3, hidden_size=hidden, expected=results)


def linear() -> None:
    x = floats(2, 3, 4) * 3
    scales = f32([0.011, 0.013, 0.017])
    for kind, low in (
        (np.uint16, 30000),
        (np.int16, -7),
        (np.uint8, 100),
        (np.int8, 5),
    ):
        name = np.dtype(kind).name
        zero, zeros = np.array(low, kind), np.full(3, low, kind)
        element = TYPES[name]
        write(f"quantize_{name}", "QuantizeLinear", [x, f32(0.013), zero], [element])
        write(
            f"quantize_{name}_axis",
            "QuantizeLinear",
            [x, scales, zeros],
            [element],
            axis=1,
        )
        q = numbers(200, 2, 3, 4).astype(kind)
        write(f"dequantize_{name}", "DequantizeLinear", [q, f32(0.013), zero], [FLOAT])
        write(
            f"dequantize_{name}_axis",
            "DequantizeLinear",
            [q, scales, zeros],
            [FLOAT],
            axis=1,
        )
    some = [numbers(999, 2, 3) - 400, f32(0.5)]
    write("dequantize_int32", "DequantizeLinear", some, [FLOAT])


def write_all() -> None:
    joined()
    convolutions()
    products()
    attention()
    embedding()
    lstm()
    linear()
