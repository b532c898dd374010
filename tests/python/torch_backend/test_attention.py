"""Gradients of `scaled_dot_product_attention`, which kernels of their own compute, against eager's."""

from __future__ import annotations

import contextlib
import os
import unittest
from typing import Any

import torch
import torch._dynamo
import torch.nn.functional as F
from reprise.torch import backend, report

OPTIONS = {"device": os.environ.get("REPRISE_TEST_DEVICE", "vulkan:0")}
#: Lengths and sizes of heads. Short ones may be computed by a formula, the last three never.
SHAPES = ((1, 16), (7, 32), (64, 64), (130, 128), (130, 32), (270, 64), (520, 128))


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None,
    causal: bool = False, scale: float | None = None, grouped: bool = False,
) -> torch.Tensor:  # fmt: skip
    return F.scaled_dot_product_attention(
        q, k, v, mask, is_causal=causal, scale=scale, enable_gqa=grouped
    )


def attend_by_length(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:  # fmt: skip
    """Attention of two heads of 16, which are parts of each row."""
    heads = [x.unflatten(2, (2, 16)).transpose(1, 2) for x in (q, k, v)]
    return (
        attend(heads[0], heads[1], heads[2], causal=causal).transpose(1, 2).flatten(2)
    )


class Gradients(unittest.TestCase):
    def setUp(self) -> None:
        torch._dynamo.reset()
        torch.manual_seed(0)

    def operands(
        self, rows: int, keys: int, size: int, heads: tuple[int, int] = (2, 2)
    ) -> list[torch.Tensor]:
        dims = [(2, heads[0], rows, size), *[(2, heads[1], keys, size)] * 2]
        return [torch.randn(d, requires_grad=True) for d in dims]

    def gradients(self, function: Any, qkv: list[torch.Tensor], **options: Any) -> Any:
        """Returns the gradients of a weighted sum of the results."""
        for x in qkv:
            x.grad = None
        result = function(*qkv, **options)
        weights = torch.linspace(-1, 1, result.numel()).reshape(result.shape)
        (result.float() * weights).sum().backward()
        return [x.grad for x in qkv]

    def check(
        self, qkv: list[torch.Tensor], part: float = 1e-4,
        context: Any = contextlib.nullcontext, **options: Any,
    ) -> list[report.GraphReport]:  # fmt: skip
        """Compares gradients with eager's, to a part of each gradient's largest value."""
        function = torch.compile(attend, backend=backend, options=OPTIONS)
        with report.collect() as graphs, context():
            got = self.gradients(function, qkv, **options)
        with context():
            want = self.gradients(attend, qkv, **options)
        self.assertEqual([f for g in graphs for f in g.fallbacks], [])
        largest = max(float(w.abs().max()) for w in want)
        for mine, theirs in zip(got, want, strict=True):
            self.assertEqual(mine.dtype, theirs.dtype)
            # With one key, the gradients of queries and keys are 0 but for rounding.
            scale = max(float(theirs.abs().max()), 1e-2 * largest)
            worst = float((mine.double() - theirs.double()).abs().max())
            self.assertLessEqual(worst, part * scale, str((qkv[0].shape, qkv[1].shape)))
        return graphs

    def kernels(self, graphs: list[report.GraphReport]) -> list[str]:
        """Returns the kernels of backward."""
        return [
            name
            for g in graphs
            if g.kind == "backward"
            for r in g.regions
            for name in r.kernels().names
        ]

    def test_three_launches(self) -> None:
        """The scores have a million elements, more than all else together: no kernel makes them."""
        graphs = self.check(self.operands(512, 512, 16))
        names = self.kernels(graphs)
        self.assertLessEqual(len(names), 3, names)
        self.assertEqual(sum("attentiongrad" in n for n in names), 2, names)

    def test_lengths_and_sizes(self) -> None:
        for length, size in SHAPES:
            for causal in (False, True):
                with self.subTest(length=length, size=size, causal=causal):
                    torch._dynamo.reset()
                    self.check(self.operands(length, length, size), causal=causal)

    def test_cross_attention(self) -> None:
        for rows, keys, size in ((7, 130, 64), (130, 7, 32), (1, 64, 16), (64, 1, 128)):
            for causal in (False, True):
                with self.subTest(rows=rows, keys=keys, size=size, causal=causal):
                    torch._dynamo.reset()
                    self.check(self.operands(rows, keys, size), causal=causal)

    def test_masks(self) -> None:
        keep = torch.rand(33, 40) > 0.3
        keep[:, 0] = True
        heads = (torch.rand(2, 2, 33, 40) > 0.3) | (torch.arange(40) == 3)
        padding = torch.arange(40) < torch.tensor([40, 25]).reshape(2, 1, 1, 1)
        numbers = torch.randn(2, 1, 33, 40).masked_fill(~keep, -torch.inf)
        for name, mask in {
            "keep": keep, "heads": heads, "padding": padding, "numbers": numbers,
        }.items():  # fmt: skip
            with self.subTest(name):
                torch._dynamo.reset()
                self.check(self.operands(33, 40, 32), mask=mask)

    def test_hidden_rows_get_zero(self) -> None:
        keep = torch.rand(20, 24) > 0.3
        keep[3], keep[:, 5] = False, False
        qkv = self.operands(20, 24, 16)
        function = torch.compile(attend, backend=backend, options=OPTIONS)
        of_queries, of_keys, of_values = self.gradients(function, qkv, mask=keep)
        for gradient in (of_queries, of_keys, of_values):
            self.assertTrue(bool(gradient.isfinite().all()))
        self.assertEqual(float(of_queries[:, :, 3].abs().max()), 0.0)
        for gradient in (of_keys, of_values):
            self.assertEqual(float(gradient[:, :, 5].abs().max()), 0.0)

    def test_scale_and_grouped_heads(self) -> None:
        self.check(self.operands(17, 17, 32), scale=0.3)
        torch._dynamo.reset()
        self.check(self.operands(17, 21, 32, heads=(6, 2)), grouped=True)

    def test_autocast(self) -> None:
        """Eager rounds as often as the compiled program, at other places."""
        for dtype, part in ((torch.float16, 5e-3), (torch.bfloat16, 4e-2)):
            for causal in (False, True):
                with self.subTest(dtype=dtype, causal=causal):
                    torch._dynamo.reset()
                    qkv = [x.detach().to(dtype).requires_grad_() for x in self.operands(33, 33, 32)]  # fmt: skip
                    self.check(qkv, part, causal=causal)

                    def autocast(dtype: torch.dtype = dtype) -> Any:
                        return torch.autocast("cpu", dtype=dtype)

                    torch._dynamo.reset()
                    self.check(
                        self.operands(33, 33, 32), part, context=autocast, causal=causal
                    )

    def test_dynamic_sizes(self) -> None:
        """One program for all batches and lengths."""
        compiled = torch.compile(
            attend_by_length, backend=backend, options=OPTIONS, dynamic=True
        )
        for causal in (False, True):
            for batch, rows, keys in ((2, 9, 12), (3, 40, 33), (4, 5, 70)):
                with self.subTest(rows=rows, keys=keys, causal=causal):
                    qkv = [
                        torch.randn(batch, n, 32, requires_grad=True)
                        for n in (rows, keys, keys)
                    ]
                    got = self.gradients(compiled, qkv, causal=causal)
                    want = self.gradients(attend_by_length, qkv, causal=causal)
                    for mine, theirs in zip(got, want, strict=True):
                        worst = float((mine - theirs).abs().max())
                        self.assertLessEqual(worst, 1e-4 * float(theirs.abs().max()))

    def test_dynamic_heads(self) -> None:
        """One program for all numbers and sizes of heads."""
        compiled = torch.compile(attend, backend=backend, options=OPTIONS, dynamic=True)
        with report.collect() as graphs:
            for heads, size in ((3, 8), (2, 20), (4, 5)):
                for dtype, part in ((torch.float32, 1e-4), (torch.float64, 1e-12)):
                    with self.subTest(heads=heads, size=size, dtype=dtype):
                        dims = (2, heads, 7, size)
                        qkv = [
                            torch.randn(dims, dtype=dtype, requires_grad=True)
                            for _ in range(3)
                        ]
                        got = self.gradients(compiled, qkv, causal=True)
                        want = self.gradients(attend, qkv, causal=True)
                        for mine, theirs in zip(got, want, strict=True):
                            worst = float((mine - theirs).abs().max())
                            self.assertLessEqual(
                                worst, part * float(theirs.abs().max())
                            )
        self.assertEqual([f for g in graphs for f in g.fallbacks], [])
        self.assertEqual(len(graphs), 4)  # forward and backward of each dtype


if __name__ == "__main__":
    unittest.main()
