"""Operators with inputs that op_db does not have: NaN, infinities, empty and strided tensors.

Each case is an operator and its operands. Results, dtypes, shapes and gradients must be eager's,
and nothing may fall back to PyTorch.
"""

from __future__ import annotations

import math
import os
import unittest
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._dynamo
import torch.nn.functional as F
from reprise.torch import backend, report
from torch.utils import _pytree as pytree

DEVICE = os.environ.get("REPRISE_TEST_DEVICE", "host")
INF, NAN = math.inf, math.nan
LOW, HIGH = -(2**63), 2**63 - 1
Special = torch.special
#: A name, the operator, its operands, and the largest difference in parts of the largest value.
Sample = tuple[str, Callable[..., Any], tuple[Any, ...], float]


def floats(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


def _tails() -> Iterator[Sample]:
    # The tail vanishes beside erfc(0); its quotient by exp(-x * x) shows its digits.
    tail = torch.linspace(0.25, 8.5, 100)
    yield "erfc, tail", lambda v: Special.erfc(v) / torch.exp(-v * v), (tail,), 1e-5


def _bits() -> Iterator[Sample]:
    tiny = 1.4e-45
    x = floats(0.0, -0.0, 1.0, -3.75, INF, -INF, NAN, 3e38, tiny, -1e-40, 0.5)
    yield "frexp", torch.frexp, (x,), 0.0
    yield "frexp of halves", torch.frexp, (x.half(),), 0.0
    yield "nextafter", torch.nextafter, (x.unsqueeze(-1), x), 0.0
    yield "nextafter, strided", torch.nextafter, (x[::2], x[::2].flip(0)), 0.0
    extremes = ints(LOW, HIGH, 0, -1, 5, 7, LOW + 1)
    yield "hash_tensor of ints", torch.hash_tensor, (extremes,), 0.0
    grid = torch.randn(3, 4, 5)
    yield "hash_tensor", lambda v: torch.hash_tensor(v, 1), (grid,), 0.0
    a, b = torch.meshgrid(extremes, extremes, indexing="ij")
    yield "gcd of extremes", torch.gcd, (a, b), 0.0
    yield "lcm", torch.lcm, (ints(0, 4, -6, 21), ints(3, 6, 4, 0)), 0.0
    yield "gcd of int32", torch.gcd, (ints(12, -18, 0).int(), ints(8, 12, 5).int()), 0.0


def _groups() -> Iterator[Sample]:
    data = floats(3.0, 1.0, NAN, 2.0, -5.0, 0.0, 0.0, 4.0).unsqueeze(-1) * floats(1, 2)
    for how in ("sum", "mean", "max", "min", "prod"):
        yield (
            f"segments, {how}", lambda d, n, h=how: torch.segment_reduce(d, h, lengths=n),
            (data.clone().requires_grad_(), ints(3, 0, 4, 1)), 1e-5,
        )  # fmt: skip
        yield (
            f"segments by offsets, {how}",
            lambda d, n, h=how: torch.segment_reduce(d, h, offsets=n, initial=2.0),
            (data[3:].clone().requires_grad_(), ints(0, 2, 2, 5)), 1e-5,
        )  # fmt: skip
    x = torch.rand(200) * 4 - 1
    x[3], x[5], x[7] = 0.0, 2.0, 2.5
    yield (
        "histc",
        lambda v: torch.histc(v, 8, 0, 2),
        (torch.cat([x, floats(NAN)]),),
        0.0,
    )
    yield "histc of its own range", lambda v: torch.histc(v, 7), (x,), 0.0
    yield "histc of equal values", lambda v: torch.histc(v, 5), (torch.ones(4),), 0.0
    yield "histogram", lambda v: tuple(torch.histogram(v, 6, density=True)), (x,), 1e-6
    yield (
        "histogram with weights",
        lambda v, w: tuple(torch.histogram(v, 6, range=(0.0, 2.0), weight=w)),
        (x, torch.rand(200)), 1e-6,
    )  # fmt: skip
    repeated = torch.randint(-3, 3, (4, 9))
    yield "mode", lambda v: torch.mode(v, -1).values, (repeated,), 0.0
    yield "mode, place", torch.mode, (ints(2, 1, 2, 1, 0),), 0.0
    yield "mode of extremes", torch.mode, (ints(HIGH, LOW, HIGH, LOW),), 0.0
    mask = torch.rand(3, 4) > 0.5
    for size in (0, 3, 20):
        yield (
            f"nonzero_static {size}", lambda m, s=size: torch.nonzero_static(m, size=s),
            (mask,), 0.0,
        )  # fmt: skip
    weight = torch.randn(6, 3)
    weight[2, 1] = NAN
    index, offsets = ints(0, 2, 2, 5, 1, 3), ints(0, 3, 3, 4)
    for how in ("sum", "mean", "max"):
        for padding in (None, 2):
            yield (
                f"embedding_bag, {how}, {padding}",
                lambda i, w, o, h=how, p=padding: F.embedding_bag(
                    i, w, o, mode=h, padding_idx=p
                ),
                (index, weight.clone().requires_grad_(), offsets), 1e-5,
            )  # fmt: skip


def _integers() -> Iterator[Sample]:
    image = torch.randint(-9, 9, (2, 4, 7, 6))
    kernel = torch.randint(-9, 9, (6, 2, 3, 2))
    big = torch.tensor([[[LOW, LOW, HIGH, 0, LOW, 3]]])
    yield (
        "convolution of ints",
        lambda x, w: F.conv2d(x, w, stride=2, padding=1, dilation=(1, 2), groups=2),
        (image, kernel), 0.0,
    )  # fmt: skip
    yield (
        "transposed convolution of ints",
        lambda x, w: F.conv_transpose2d(
            x, w, stride=(2, 3), padding=1, output_padding=1, dilation=(1, 2), groups=2
        ),
        (image, torch.randint(-9, 9, (4, 3, 3, 2))), 0.0,
    )  # fmt: skip
    yield (
        "average of ints",
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        (image,), 0.0,
    )  # fmt: skip
    yield (
        "maxima of ints",
        lambda x: F.max_pool2d(x, 3, 2, 1, 2, ceil_mode=True, return_indices=True),
        (image.transpose(2, 3),), 0.0,
    )  # fmt: skip
    yield (
        "maxima of extremes",
        lambda x: F.max_pool1d(x, 3, 2, 1, return_indices=True), (big,), 0.0,
    )  # fmt: skip


def _complex() -> Iterator[Sample]:
    a = torch.randn(3, 4, dtype=torch.complex64)
    b = torch.randn(4, dtype=torch.complex64)
    odd = torch.tensor([complex(0, 0), complex(INF, 1), complex(NAN, 2), 1e-30 + 1e30j])
    for name, function in {
        "mul": torch.mul, "div": torch.div, "add": torch.add, "sub": torch.sub,
    }.items():  # fmt: skip
        yield f"complex {name}", function, (a.clone().requires_grad_(), b), 1e-5
        yield f"complex {name} with reals", function, (a, torch.randn(4)), 1e-5
    for name, function in {
        "abs": torch.abs, "angle": torch.angle, "sgn": torch.sgn, "exp": torch.exp,
        "conj": lambda v: v.conj() * 2, "real": lambda v: v.real + v.imag,
        "reciprocal": torch.reciprocal, "sum": lambda v: v.sum(0), "roll": lambda v: v.roll(1),
        "transpose": lambda v: v.t().contiguous() * 1j, "eq": lambda v: v == v.t().t(),
    }.items():  # fmt: skip
        yield f"complex {name}", function, (a.clone().requires_grad_(),), 1e-5
    for power in (-3, -1, 0, 1, 2, 5):
        yield (
            f"complex power {power}",
            lambda v, p=power: v**p,
            (a.clone().requires_grad_(),),
            1e-5,
        )
    yield "complex abs of special numbers", torch.abs, (odd,), 1e-6
    yield "complex matmul", torch.matmul, (a, b), 1e-5
    yield "complex conjugate view", lambda v: v * 2, (a.conj(),), 1e-6
    yield "complex strided", lambda v: v * 2, (a.t()[::2],), 1e-6
    yield "complex, no element", lambda v: v * 2, (a[:0],), 1e-6
    signal = torch.randn(3, 9, 10)
    for norm in ("forward", "backward", "ortho"):
        yield (
            f"fft2, {norm}", lambda x, n=norm: torch.fft.fft2(x, (6, 12), norm=n),
            (signal.clone().requires_grad_(),), 1e-5,
        )  # fmt: skip
        yield (
            f"irfftn, {norm}", lambda x, n=norm: torch.fft.irfftn(x, (5, 11), norm=n),
            (signal.to(torch.complex64),), 1e-5,
        )  # fmt: skip
    yield "rfft of a long line", torch.fft.rfft, (torch.randn(2, 720),), 1e-5
    zeros = floats(0.0, -0.0, 1.0, -1.0, INF, -INF, NAN)
    yield "atan2", torch.atan2, (zeros.unsqueeze(-1), zeros), 1e-6


def _matrices() -> Iterator[Sample]:
    eye = torch.eye(5)
    a = torch.randn(2, 5, 5) + 4 * eye
    spd = a @ a.mT + eye
    b = torch.randn(2, 5, 3)
    for name, function, operands in (
        ("inv", torch.linalg.inv, (a,)), ("det", torch.linalg.det, (a,)),
        ("slogdet", torch.linalg.slogdet, (a,)), ("solve", torch.linalg.solve, (a, b)),
        ("cholesky", torch.linalg.cholesky, (spd,)), ("qr", torch.linalg.qr, (a,)),
        ("wide qr", lambda x: torch.linalg.qr(x).R, (torch.randn(3, 6),)),
        ("lu", torch.linalg.lu, (a,)), ("strided inv", torch.linalg.inv, (a.mT,)),
        ("no matrix", torch.linalg.inv, (a[:0],)),
        ("matrix of no size", torch.linalg.det, (a[:, :0, :0],)),
        ("16 rows", torch.linalg.inv, (torch.randn(16, 16) + 8 * torch.eye(16),)),
        ("exp", torch.linalg.matrix_exp, (torch.randn(3, 4, 4),)),
        ("exp of large numbers", torch.linalg.matrix_exp, (9 * torch.randn(3, 3),)),
    ):  # fmt: skip
        given = tuple(
            t.clone().requires_grad_(name not in ("wide qr",)) for t in operands
        )
        yield f"linalg, {name}", function, given, 1e-4


def _sampling() -> Iterator[Sample]:
    image = torch.randn(2, 3, 4, 5)
    grid = torch.rand(2, 3, 3, 2) * 3 - 1.5
    edges = floats(-1.0, 1.0, 0.0, NAN, INF, -INF, 7.0, -1.2).reshape(1, 2, 2, 2)
    finite = floats(-1.0, 1.0, 0.0, 1e6, 7.0, -1.2).reshape(1, 1, 3, 2)
    for padding in ("zeros", "border", "reflection"):
        for mode in ("bilinear", "nearest", "bicubic"):
            yield (
                f"grid_sample, {mode}, {padding}",
                lambda x, g, m=mode, p=padding: F.grid_sample(x, g, m, p, False),
                (image.clone().requires_grad_(), grid.clone().requires_grad_()), 1e-4,
            )  # fmt: skip
    yield (
        "grid_sample at no number", lambda x, g: F.grid_sample(x, g, align_corners=True),
        (image[:1], edges), 1e-4,
    )  # fmt: skip
    yield (
        "grid_sample at edges", lambda x, g: F.grid_sample(x, g, align_corners=True),
        (image[:1].clone().requires_grad_(), finite.clone().requires_grad_()), 1e-4,
    )  # fmt: skip
    for mode in ("bilinear", "bicubic"):
        yield (
            f"smooth {mode}",
            lambda x, m=mode: F.interpolate(x, (3, 9), mode=m, antialias=True),
            (image.clone().requires_grad_(),), 1e-5,
        )  # fmt: skip
    for mode in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        for given in ({"size": (3, 9)}, {"scale_factor": (2.0, 1.5)}):
            yield (
                f"interpolate {mode}, {given}",
                lambda x, m=mode, g=given: F.interpolate(x, mode=m, **g),
                (image.clone().requires_grad_(),), 1e-5,
            )  # fmt: skip
    spoiled = torch.randn(1, 2, 7, 7)
    spoiled[0, 0, 0, 0], spoiled[0, 1, 6, 3] = INF, NAN
    for name, pool in {
        "adaptive": lambda x: F.adaptive_avg_pool2d(x, (3, 4)),
        "area": lambda x: F.interpolate(x, size=(4, 3), mode="area"),
    }.items():
        yield f"{name}, not finite", pool, (spoiled,), 1e-5
        yield (
            f"{name}, gradient not finite",
            lambda x, w, p=pool: p(x) * w[..., : p(x).shape[-2], : p(x).shape[-1]],
            (torch.randn(1, 2, 7, 7, requires_grad=True), spoiled.repeat(1, 1, 2, 2)), 1e-5,
        )  # fmt: skip


def _views() -> Iterator[Sample]:
    x = torch.randn(2, 6, 4)

    def chunks(x: torch.Tensor) -> torch.Tensor:
        turned = (x * 2).transpose(0, 1)
        size = (turned.shape[0] - 1, *turned.shape[1:])
        return turned.as_strided(size, turned.stride()) + 1

    yield "as_strided of a transposed tensor", chunks, (x.requires_grad_(),), 1e-6
    number = torch.randn(3, dtype=torch.complex64)
    yield (
        "imag of a conjugate",
        lambda x, y: (x * y).conj().imag,
        (number, number),
        1e-6,
    )


def _words() -> Iterator[Sample]:
    table, index = torch.randn(7, 5), ints(3, 1, 3, 3, 0, 6)
    for padding in (None, 3, 1):
        yield (
            f"embedding, scaled by frequency, padding {padding}",
            lambda w, i, p=padding: F.embedding(i, w, padding_idx=p, scale_grad_by_freq=True),
            (table.clone().requires_grad_(), index), 1e-5,
        )  # fmt: skip
    for norm in (1.0, 2.0, INF):
        for limit in (1.0, 100.0):

            def renormed(
                w: torch.Tensor, i: torch.Tensor, n: float = norm, m: float = limit
            ) -> Any:
                words = w.clone()
                return F.embedding(i, words, max_norm=m, norm_type=n), words

            yield f"embedding, norm {norm}, {limit}", renormed, (table, index), 1e-5


def _experts() -> Iterator[Sample]:
    ends = torch.tensor([3, 3, 9, 16], dtype=torch.int32)
    rows, columns = torch.randn(16, 8), torch.randn(8, 16)
    weight, bare = torch.randn(4, 8, 24), torch.randn(4, 16, 8)
    for dtype, part in ((torch.float32, 1e-5), (torch.bfloat16, 8e-3)):
        for name, a, b, offsets in (
            ("rows", rows, weight, ends), ("columns", bare, columns, ends),
            ("inner", columns, torch.randn(16, 24), ends), ("batches", bare, weight, None),
        ):  # fmt: skip
            operands = (a.to(dtype).requires_grad_(), b.to(dtype).requires_grad_())
            yield (
                f"grouped product, {name}, {dtype}",
                lambda a, b, o=offsets: F.grouped_mm(a, b, offs=o), operands, part,
            )  # fmt: skip


def _vision() -> Iterator[Sample]:
    from torchvision.ops import deform_conv2d, roi_align

    x = torch.randn(2, 4, 9, 11)
    corners = torch.rand(6, 2) * 20 - 2
    image = torch.tensor([[0.0], [1.0], [1.0], [0.0], [1.0], [0.0]])
    regions = torch.cat([image, corners, corners + torch.rand(6, 2) * 15 - 1], 1)
    for samples in (-1, 0, 2):
        for aligned in (False, True):
            yield (
                f"roi_align, {samples} samples, {aligned}",
                lambda x, r, s=samples, a=aligned: roi_align(x, r, (3, 5), 0.5, s, a),
                (x, regions), 1e-5,
            )  # fmt: skip
    for groups, stride, pad, masked in ((1, 1, 1, False), (2, 2, 0, True)):
        size = [(d + 2 * pad - 3) // stride + 1 for d in x.shape[2:]]
        offset, mask = torch.randn(2, 36, *size) * 2, torch.rand(2, 18, *size)
        yield (
            f"deform_conv2d, {groups} groups, stride {stride}",
            lambda x, w, b, o, m, s=stride, p=pad: deform_conv2d(x, o, w, b, s, p, mask=m),
            (x, torch.randn(6, 4 // groups, 3, 3), torch.randn(6), offset, mask if masked else None),
            1e-5,
        )  # fmt: skip


FAMILIES = {
    "vision": _vision, "views": _views,
    "words": _words, "experts": _experts,
    "tails": _tails, "bits": _bits, "groups": _groups, "integers": _integers,
    "complex": _complex, "matrices": _matrices, "sampling": _sampling,
}  # fmt: skip


def _copied(operands: Any) -> Any:
    return pytree.tree_map_only(
        torch.Tensor, lambda t: t.detach().requires_grad_(t.requires_grad), operands
    )


def _run(function: Callable[..., Any], operands: Any) -> tuple[Any, list[Any]]:
    """Returns results and gradients."""
    given = _copied(operands)
    results = function(*given)
    outputs = [
        t
        for t in pytree.tree_leaves(results)
        if isinstance(t, torch.Tensor) and t.requires_grad
    ]
    inputs = [
        t
        for t in pytree.tree_leaves(given)
        if isinstance(t, torch.Tensor) and t.requires_grad
    ]
    if not outputs or not inputs:
        return results, []
    seeds = [torch.full_like(o, 0.5) for o in outputs]
    return results, list(torch.autograd.grad(outputs, inputs, seeds, allow_unused=True))


class Operators(unittest.TestCase):
    def close(self, got: Any, want: Any, part: float) -> None:
        mine, theirs = pytree.tree_leaves(got), pytree.tree_leaves(want)
        self.assertEqual(len(mine), len(theirs))
        for a, b in zip(mine, theirs, strict=True):
            if not isinstance(b, torch.Tensor):
                self.assertEqual(a, b)
                continue
            a, b = a.detach().resolve_conj(), b.detach().resolve_conj()
            self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype))
            if a.is_complex():
                a, b = torch.view_as_real(a), torch.view_as_real(b)
            if not b.is_floating_point():
                self.assertTrue(torch.equal(a.long(), b.long()), f"{a} instead of {b}")
                continue
            finite = b[b.isfinite()].double().abs()
            scale = float(finite.max()) if finite.numel() else 1.0
            same = torch.isclose(
                a.double(), b.double(), rtol=1e-4 if part else 0.0, atol=part * max(scale, 1e-6),
                equal_nan=True,
            )  # fmt: skip
            self.assertTrue(bool(same.all()), f"{a[~same]} instead of {b[~same]}")

    def family(self, name: str) -> None:
        torch.manual_seed(0)
        for title, function, operands, part in FAMILIES[name]():
            with self.subTest(title):
                torch._dynamo.reset()
                want, expected = _run(function, operands)
                program = torch.compile(
                    function, backend=backend, dynamic=False, options={"device": DEVICE}
                )
                with report.collect() as graphs:
                    got, gradients = _run(program, operands)
                self.close(got, want, part)
                self.close(gradients, expected, max(part, 1e-6))
                self.assertEqual([f for g in graphs for f in g.fallbacks], [])


#: Functions that have no row.
LEFT_TO_PYTORCH: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "special_airy_ai": Special.airy_ai,
    "special_bessel_j1": Special.bessel_j1,
    "special_bessel_y0": Special.bessel_y0,
    "special_modified_bessel_k0": Special.modified_bessel_k0,
    "special_spherical_bessel_j0": Special.spherical_bessel_j0,
    "special_chebyshev_polynomial_t": lambda v: Special.chebyshev_polynomial_t(v, 5),
    "special_hermite_polynomial_he": lambda v: Special.hermite_polynomial_he(v, 3),
    "special_zeta": lambda v: Special.zeta(v + 2, 0.5),
}


class LeftToPyTorch(unittest.TestCase):
    def test_special_functions(self) -> None:
        x = torch.linspace(0.1, 6.0, 50)
        for name, function in LEFT_TO_PYTORCH.items():
            with self.subTest(name):
                torch._dynamo.reset()

                def program(
                    v: torch.Tensor,
                    f: Callable[[torch.Tensor], torch.Tensor] = function,
                ) -> torch.Tensor:
                    return f(v * 0.5) + v.square()

                compiled = torch.compile(
                    program, backend=backend, options={"device": DEVICE}
                )
                with report.collect() as graphs:
                    got = compiled(x)
                torch.testing.assert_close(got, program(x))
                left = [f.operator for g in graphs for f in g.fallbacks]
                self.assertEqual(len(left), 1, left)
                self.assertIn(name, left[0])


for _name in FAMILIES:
    setattr(
        Operators,
        f"test_{_name}",
        lambda self, name=_name: Operators.family(self, name),
    )

if __name__ == "__main__":
    unittest.main()
