"""Cases of operators that move, choose or compare elements."""

from typing import Any

import numpy as np
from writer import BOOL, FLOAT, TYPES, f32, floats, numbers, write

INT64 = TYPES["int64"]


def moves() -> None:
    x = floats(2, 3, 4)
    write("sample_op", "SampleOp", [x], [FLOAT])
    square = floats(2, 4, 4)
    write("trilu", "Trilu", [square], [FLOAT])
    write(
        "trilu_lower", "Trilu", [square, np.array(-1)], [FLOAT], upper=0, constants=[1]
    )
    index = np.array([[0, 1], [1, 2]], np.int64)
    write("gather_nd", "GatherND", [x, index], [FLOAT])
    write("gather_nd_int32", "GatherND", [x, index.astype(np.int32)], [FLOAT])
    some = [floats(7, 4), np.array([[1, 6, 0]], np.int64)]
    write(
        "torch_embedding", "TorchEmbedding", some, [FLOAT], expected=[some[0][some[1]]]
    )
    numbers_of = [f32(1), f32(7), f32(2)]
    write("range", "Range", numbers_of, [FLOAT], constants=[0, 1, 2])
    some = [np.array([2], np.int64), np.array([6], np.int64)]
    write("range_default", "Range", some, [INT64], constants=[0, 1])
    pads = np.array([[0, 1, 2, 0, 0, 1]], np.int64)
    write("pad", "Pad", [x, pads, f32([1.5])], [FLOAT], constants=[1])
    write("pad_reflect", "Pad", [x, pads], [FLOAT], mode="reflect", constants=[1])
    for axis in (0, 2, -1):
        some = [x, np.array(axis, np.int32)]
        write(f"expand_dims_{axis}", "ExpandDims", some, [FLOAT], constants=[1])
    write("unfold", "UnfoldTensor", [x], [FLOAT], size=3)
    write(
        "unfold_dim", "UnfoldTensor", [floats(2, 9, 4)], [FLOAT], dim=1, size=3, step=2
    )


def compared() -> None:
    x = floats(3, 4)
    bad, infinite = x.copy(), x.copy()
    bad[1, 2], infinite[2, 0] = np.nan, -np.inf
    op = "IsAllFinite"
    for name, some, flags, finite in (
        ("all_finite", [x, x + 1], {}, True),
        ("all_finite_nan", [x, bad], {}, False),
        ("all_finite_inf", [infinite], {}, False),
        ("all_finite_nan_only", [infinite], {"isnan_only": 1}, True),
        ("all_finite_inf_only", [bad], {"isinf_only": 1}, True),
    ):
        write(name, op, some, [BOOL], expected=[np.array(finite)], **flags)
    y = floats(5, 4)
    write("cdist", "CDist", [x, y], [FLOAT])
    write("cdist_euclidean", "CDist", [x, y], [FLOAT], metric="euclidean")
    a, b = floats(2, 3, 2), floats(3, 2)
    p, q = a[..., 0] + 1j * a[..., 1], b[..., 0] + 1j * b[..., 1]
    for op, z in (("ComplexMul", p * q), ("ComplexMulConj", p * q.conj())):
        pair = f32(np.stack([z.real, z.imag], -1))
        write(op.lower(), op, [a, b], [FLOAT], expected=[pair])
    for n in (1, 2, 3, 4):
        write(
            f"inverse_{n}",
            "Inverse",
            [floats(2, n, n) + 3 * np.eye(n, dtype=np.float32)],
            [FLOAT],
        )


def images() -> None:
    x, grid = floats(2, 3, 5, 6), floats(2, 4, 3, 2)
    for mode in ("bilinear", "nearest", "bicubic"):
        write(f"grid_sample_{mode}", "GridSample", [x, grid], [FLOAT], mode=mode)
    attrs: dict[str, Any] = {"align_corners": 1, "padding_mode": "border"}
    write("grid_sample_border", "GridSample", [x, grid], [FLOAT], **attrs)
    boxes = f32(
        [
            [0, 0, 1, 1],
            [0.1, 0.2, 0.7, 0.9],
            [-0.2, 0.3, 0.5, 1.3],
            [0.8, 0.6, 0.2, 0.1],
        ]
    )
    batch = numbers(2, 4)
    for mode in ("bilinear", "nearest"):
        for size in ((3, 4), (1, 2)):
            some = [x, boxes, batch, np.array(size, np.int32)]
            write(
                f"crop_and_resize_{mode}_{size[0]}",
                "CropAndResize",
                some,
                [FLOAT],
                mode=mode,
                extrapolation_value=0.5,
                constants=[3],
            )


def write_all() -> None:
    moves()
    compared()
    images()
