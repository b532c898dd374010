"""Cases of operators on sequences that models of language have."""

import math
from typing import Any

import numpy as np
import onnxruntime as ort
from writer import FLOAT, f32, floats, lengths, model_of, write


def states() -> None:
    batch, rows, heads, size = 2, 3, 2, 4
    q, k, v = (
        floats(batch, rows, 8),
        floats(batch, rows, 8) / 2,
        floats(batch, rows, 8) + 1,
    )
    state, decay = floats(batch, heads, size, size), -np.abs(floats(batch, rows, heads))
    beta = f32(1 / (1 + np.exp(-floats(batch, rows, heads))))
    op, both = "LinearAttention", [FLOAT, FLOAT]
    attrs: dict[str, Any] = {"q_num_heads": heads, "kv_num_heads": heads}
    write("linear_attention", op, [q, k, v], both, update_rule="linear", **attrs)
    some = [q, k, v, state, decay]
    write(
        "linear_attention_gated",
        op,
        some,
        both,
        update_rule="gated",
        scale=0.7,
        **attrs,
    )
    some = [q, k, v, state, decay, beta]
    write("linear_attention_delta", op, some, both, **attrs)
    x, w = floats(batch, 5, 7), floats(5, 1, 3)
    op = "CausalConvWithState"
    write("causal_conv", op, [x, w], both)
    some = [x, w, floats(5), floats(batch, 5, 2)]
    write("causal_conv_state", op, some, both, activation="silu")


def bucket(distance: int, count: int, most: int) -> int:
    exact = count // 2
    if distance < exact:
        return distance
    share = np.log(f32(distance) / f32(exact)) / np.log(f32(most) / f32(exact))
    return min(count - 1, exact + int(share * f32(count - exact)))


def positions() -> None:
    """ONNX Runtime has RelativePositionBias on GPUs only."""
    buckets, heads, rows, most = 8, 3, 19, 16
    table = floats(buckets, heads)
    by_head = table.reshape(heads, buckets)
    for both in (0, 1):
        count = buckets // 2 if both else buckets
        y = np.zeros((1, heads, rows, rows), np.float32)
        for i in range(rows):
            for j in range(rows):
                distance = abs(j - i) if both else max(i - j, 0)
                chosen = bucket(distance, count, most) + (
                    count if both and j > i else 0
                )
                y[0, :, i, j] = by_head[:, chosen]
        length = np.array(rows, np.int64)
        write(
            f"relative_bias_{both}",
            "RelativePositionBias",
            [table, length, length],
            [FLOAT],
            is_bidirectional=both,
            max_distance=most,
            constants=[1, 2],
            expected=[y],
        )


def regions() -> None:
    x = floats(2, 3, 9, 10)
    boxes = f32(
        [[0, 0, 0, 9, 8], [1, 2, 1, 7, 6], [1, 3.5, 2.5, 3.4, 3], [0, 8, 7, 14, 12]]
    )
    op = "MaxRoiPool"
    write("max_roi_pool", op, [x, boxes], [FLOAT], domain="", pooled_shape=[2, 3])
    attrs: dict[str, Any] = {"pooled_shape": [3, 2], "spatial_scale": math.sqrt(0.5)}
    write("max_roi_pool_scale", op, [x, boxes], [FLOAT], domain="", **attrs)


def in_place(
    op: str, inputs: list[np.ndarray | None], **attrs: Any
) -> list[np.ndarray]:
    """What ONNX Runtime makes of a node whose caches are results, too."""
    model, given = model_of(op, op, inputs, [FLOAT] * 3, **attrs)
    session = ort.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    binding = session.io_binding()
    own = {n: x.copy() for n, x in given.items()}  # the values are in this memory
    values = {n: ort.OrtValue.ortvalue_from_numpy(x) for n, x in own.items()}
    for n, value in values.items():
        binding.bind_ortvalue_input(n, value)
    binding.bind_output("y0")
    for i in (1, 2):
        binding.bind_ortvalue_output(f"y{i}", values[f"x{i + 2}"])
    session.run_with_iobinding(binding)
    return [value.numpy().copy() for value in binding.get_outputs()]


def sparse() -> None:
    """Heads take turns in two layouts, which leave out blocks of keys of 16."""
    batch, cache, size, block = 2, 48, 16, 16
    rows = np.array([[0, 1, 3, 5], [0, 1, 2, 5]], np.int32)
    columns = np.array([[0, 0, 1, 0, 2], [0, 1, 0, 1, 2]], np.int32)
    past = [floats(batch, 2, cache, size), floats(batch, 2, cache, size) - 1]
    angles = [floats(cache, size // 2), floats(cache, size // 2) + 1]
    op = "SparseAttention"
    attrs: dict[str, Any] = {
        "num_heads": 4,
        "kv_num_heads": 2,
        "sparse_block_size": block,
        "constants": [5, 6, 7],
    }
    for name, n, ends, more in (
        ("sparse_prompt", 40, [40, 40], []),
        ("sparse_token", 1, [37, 37], []),
        ("sparse_rotary", 20, [20, 20], angles),
    ):
        given = [
            floats(batch, n, 4 * size),
            floats(batch, n, 2 * size),
            floats(batch, n, 2 * size) + 1,
            *past,
            rows,
            columns,
            np.array(max(ends), np.int32),
            lengths(*ends),
            *more,
        ]
        own = {**attrs, "do_rotary": 1} if more else attrs
        expected = in_place(op, given, **own)
        write(name, op, given, [FLOAT] * 3, expected=expected, **own)


def write_all() -> None:
    sparse()
    states()
    positions()
    regions()
