#!/usr/bin/env python3
"""Trains the model of reprise-live and writes upscale.onnx.

The model doubles the size of pictures of the scene in scene.frag. It learns from pairs of one: drawn
at half the size with one sample for each pixel, as the program draws it, and at full size with nine.
Input and output are the bytes of RGBA pixels, so that a renderer's images need no conversion.

Needs the Python packages numpy and onnx. Takes a few minutes.
"""

from pathlib import Path

import numpy as np
import onnx
from numpy.lib.stride_tricks import sliding_window_view
from onnx import TensorProto, helper, numpy_helper

CHANNELS = 16
STEPS = 2500
PATCH, BATCH, BORDER = 32, 8, 6
RATIO = 16 / 9


def scene(x, y, t):
    """The colours at points, in heights of the picture from its centre, as scene.frag has them."""

    def put(colour, where, over):
        return np.where(where[..., None], np.asarray(colour, np.float64), over)

    k = np.clip(y + 0.5, 0, 1)[..., None]
    picture = np.array([0.16, 0.35, 0.62]) * (1 - k) + np.array([0.95, 0.72, 0.5]) * k
    picture = put([1.0, 0.93, 0.66], np.hypot(x - 0.52, y + 0.26) < 0.11, picture)
    picture = put(
        [0.16, 0.33, 0.24], y > 0.06 + 0.05 * np.sin(4 * x + 0.3 * t), picture
    )
    depth = 0.12 / np.maximum(y - 0.12, 0.02)
    odd = (np.floor(8 * x * depth) + np.floor(8 * depth + 1.5 * t)) % 2 > 0.5
    floor = np.where(odd[..., None], [0.87, 0.82, 0.7], [0.42, 0.27, 0.2])
    picture = np.where((y > 0.2)[..., None], floor, picture)
    wx, wy = x + 0.42, y + 0.04
    r, angle = np.hypot(wx, wy), np.arctan2(wy, wx)
    wheel = (np.abs(r - 0.3) < 0.018) | (
        (np.abs(np.sin(5 * (angle + 0.6 * t))) * r < 0.03) & (r < 0.3)
    )
    picture = put([0.55, 0.12, 0.12], wheel, picture)
    picture = put([0.95, 0.95, 0.92], r < 0.06, picture)
    bx, by = x - 0.3 * np.sin(0.5 * t) - 0.25, y + 0.12 - 0.06 * np.sin(1.3 * t)
    ropes = (np.abs(np.abs(bx) - 0.05) < 0.004) & (by > 0) & (by < 0.21)
    picture = put([0.1, 0.1, 0.12], ropes, picture)
    picture = put(
        [0.45, 0.3, 0.15], (np.abs(bx) < 0.055) & (np.abs(by - 0.225) < 0.025), picture
    )
    striped = np.floor(bx / 0.035) % 2 > 0.5
    balloon = np.where(striped[..., None], [0.9, 0.25, 0.2], [0.98, 0.95, 0.9])
    return np.where((np.hypot(bx, by) < 0.15)[..., None], balloon, picture)


def picture(left, top, width, height, lines, t, samples):
    """Part of a frame of `lines` lines, as [3, height, width], rounded to bytes."""
    offsets = (np.arange(samples) + 0.5) / samples
    total = np.zeros((height, width, 3))
    for dy in offsets:
        for dx in offsets:
            x = (np.arange(width) + left + dx) / lines - RATIO / 2
            y = (np.arange(height) + top + dy) / lines - 0.5
            grid_x, grid_y = np.meshgrid(x, y)
            total += scene(grid_x, grid_y, t)
    rounded = np.round(total / samples**2 * 255) / 255
    return rounded.transpose(2, 0, 1).astype(np.float32)


def pairs(rng):
    small, large = [], []
    for _ in range(BATCH):
        lines = int(rng.integers(120, 280))
        left = int(rng.integers(0, int(lines * RATIO) - PATCH))
        top = int(rng.integers(0, lines - PATCH))
        t = rng.uniform(0, 60)
        small.append(picture(left, top, PATCH, PATCH, lines, t, 1))
        large.append(picture(2 * left, 2 * top, 2 * PATCH, 2 * PATCH, 2 * lines, t, 3))
    return np.stack(small), np.stack(large)


def columns(x):
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = sliding_window_view(padded, (3, 3), axis=(2, 3))
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(-1, x.shape[1] * 9)


def forward(x, layers):
    """The results of all layers, and what each was multiplied with."""
    kept = []
    for i, (weight, bias) in enumerate(layers):
        cols = columns(x)
        y = (
            (cols @ weight.T + bias)
            .reshape(x.shape[0], *x.shape[2:], -1)
            .transpose(0, 3, 1, 2)
        )
        if i + 1 < len(layers):
            y = np.maximum(y, 0)
        kept.append((cols, y))
        x = y
    return kept


def backward(kept, layers, grad):
    grads = []
    for i in reversed(range(len(layers))):
        cols, y = kept[i]
        if i + 1 < len(layers):
            grad = grad * (y > 0)
        n, _, h, w = grad.shape
        flat = grad.transpose(0, 2, 3, 1).reshape(n * h * w, -1)
        grads.append((flat.T @ cols, flat.sum(0)))
        if i > 0:
            back = (flat @ layers[i][0]).reshape(n, h, w, -1, 3, 3)
            padded = np.zeros((n, back.shape[3], h + 2, w + 2), np.float32)
            for dy in range(3):
                for dx in range(3):
                    padded[:, :, dy : dy + h, dx : dx + w] += back[
                        ..., dy, dx
                    ].transpose(0, 3, 1, 2)
            grad = padded[:, :, 1:-1, 1:-1]
    return grads[::-1]


def to_space(x):
    n, c, h, w = x.shape
    return (
        x.reshape(n, c // 4, 2, 2, h, w)
        .transpose(0, 1, 4, 2, 5, 3)
        .reshape(n, c // 4, 2 * h, 2 * w)
    )


def to_depth(x):
    n, c, h, w = x.shape
    return (
        x.reshape(n, c, h // 2, 2, w // 2, 2)
        .transpose(0, 1, 3, 5, 2, 4)
        .reshape(n, c * 4, h // 2, w // 2)
    )


def double(x):
    """Linear interpolation, as the operator Resize does it."""
    for axis in (2, 3):
        before = np.concatenate([np.take(x, [0], axis), np.delete(x, -1, axis)], axis)
        after = np.concatenate([np.delete(x, 0, axis), np.take(x, [-1], axis)], axis)
        both = np.stack([0.75 * x + 0.25 * before, 0.75 * x + 0.25 * after], axis + 1)
        x = both.reshape([2 * s if a == axis else s for a, s in enumerate(x.shape)])
    return x


def psnr(a, b):
    return -10 * np.log10(np.mean((a - b) ** 2))


def train():
    rng = np.random.default_rng(1)
    layers = []
    for inputs, outputs in ((3, CHANNELS), (CHANNELS, CHANNELS), (CHANNELS, 12)):
        scale = np.sqrt(2 / (inputs * 9)) * (1 if outputs == CHANNELS else 0.1)
        weight = rng.normal(0, scale, (outputs, inputs * 9)).astype(np.float32)
        layers.append([weight, np.zeros(outputs, np.float32)])
    first = [[np.zeros_like(p) for p in layer] for layer in layers]
    second = [[np.zeros_like(p) for p in layer] for layer in layers]
    inside = np.zeros((2 * PATCH, 2 * PATCH), np.float32)
    inside[BORDER:-BORDER, BORDER:-BORDER] = 1
    for step in range(1, STEPS + 1):
        small, large = pairs(rng)
        kept = forward(small, layers)
        error = (to_space(kept[-1][1]) + double(small) - large) * inside
        grad = to_depth(error) * (2 / error.size)
        rate = 3e-3 * min(1, step / 100) * (0.5 + 0.5 * np.cos(np.pi * step / STEPS))
        for l, gradients in enumerate(backward(kept, layers, grad)):
            for p, g in enumerate(gradients):
                first[l][p] += 0.1 * (g - first[l][p])
                second[l][p] += 0.01 * (g * g - second[l][p])
                corrected = first[l][p] / (1 - 0.9**step)
                root = np.sqrt(second[l][p] / (1 - 0.99**step))
                layers[l][p] -= (rate * corrected / (root + 1e-8)).astype(np.float32)
        if step % 250 == 0:
            plain = (double(small) - large) * inside
            print(
                f"step {step}: {psnr(error, 0):.2f} dB, linear interpolation {psnr(plain, 0):.2f} dB",
                flush=True,
            )
    return layers


def write(layers, path):
    weights, nodes = [], []

    def constant(name, value):
        weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(op, inputs, output, **attributes):
        nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    # Bytes of [height, width, 4] to [1, 3, height, width] between 0 and 1.
    x = node("Cast", ["rgba"], "pixels", to=TensorProto.FLOAT)
    x = node("Div", [x, constant("largest", np.float32(255))], "unit")
    x = node("Transpose", [x], "planes", perm=[2, 0, 1])
    x = node("Unsqueeze", [x, constant("axis_0", np.array([0]))], "batch")
    colours = constant("colours", np.array([3]))
    x = node(
        "Slice",
        [
            x,
            constant("begin", np.array([0])),
            colours,
            constant("axis_1", np.array([1])),
        ],
        "rgb",
    )
    doubled = node(
        "Resize",
        [x, "", constant("scales", np.array([1, 1, 2, 2], np.float32))],
        "doubled",
        mode="linear",
        coordinate_transformation_mode="half_pixel",
    )
    # Beyond the picture its edge continues, for all convolutions at once.
    around = constant("around", np.array([0, 0, 3, 3, 0, 0, 3, 3]))
    x = node("Pad", [x, around], "padded", mode="edge")
    for i, (weight, bias) in enumerate(layers):
        w = constant(f"weight_{i}", weight.reshape(len(weight), -1, 3, 3))
        x = node("Conv", [x, w, constant(f"bias_{i}", bias)], f"conv_{i}")
        if i + 1 < len(layers):
            x = node("Relu", [x], f"relu_{i}")
    x = node("DepthToSpace", [x], "detail", blocksize=2, mode="CRD")
    x = node("Add", [x, doubled], "sum")
    # Back to bytes, with an alpha of 255.
    x = node(
        "Pad",
        [
            x,
            constant("pads", np.array([0, 0, 0, 0, 0, 1, 0, 0])),
            constant("opaque", np.float32(1)),
        ],
        "with_alpha",
    )
    x = node("Mul", [x, "largest"], "scaled")
    x = node("Round", [x], "rounded")
    x = node("Clip", [x, constant("lowest", np.float32(0)), "largest"], "clipped")
    x = node("Squeeze", [x, "axis_0"], "no_batch")
    x = node("Transpose", [x], "interleaved", perm=[1, 2, 0])
    x = node("Cast", [x], "upscaled", to=TensorProto.UINT8)
    graph = helper.make_graph(
        nodes,
        "upscale",
        [
            helper.make_tensor_value_info(
                "rgba", TensorProto.UINT8, ["height", "width", 4]
            )
        ],
        [
            helper.make_tensor_value_info(
                "upscaled", TensorProto.UINT8, ["height_2", "width_2", 4]
            )
        ],
        weights,
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=8,
        producer_name="apps/live/train.py",
    )
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString())


if __name__ == "__main__":
    write(train(), Path(__file__).resolve().parent / "upscale.onnx")
