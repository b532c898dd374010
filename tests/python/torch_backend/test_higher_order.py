"""Operators that take graphs: branches, loops, scans and flexible attention, against eager."""

from __future__ import annotations

import os
import unittest
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import torch
import torch._dynamo
import torch.nn.attention.flex_attention as flex_module
import torch.nn.functional as F
from reprise.torch import backend, report
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils import _pytree as pytree

OPTIONS = {"device": os.environ.get("REPRISE_TEST_DEVICE", "vulkan:0")}
Tensors = Sequence[torch.Tensor]


class HigherOrder(unittest.TestCase):
    def setUp(self) -> None:
        torch._dynamo.reset()
        torch.manual_seed(0)

    def check(
        self, function: Callable[..., Any], *inputs: torch.Tensor, gradients: bool = True,
        dynamic: bool | None = None,
    ) -> None:  # fmt: skip
        """Compares results and gradients with eager's. PyTorch must not run any operator."""
        compiled = torch.compile(
            function, backend=backend, options=OPTIONS, fullgraph=True, dynamic=dynamic
        )
        torch._dynamo.reset()
        with report.collect() as graphs:
            got = self.run_once(compiled, inputs, gradients)
        self.assertGreater(len(graphs), 0)
        want = self.run_once(function, inputs, gradients)
        self.assertEqual([f for g in graphs for f in g.fallbacks], [])
        for g, w in zip(got, want, strict=True):
            torch.testing.assert_close(g, w, rtol=1e-4, atol=1e-5)

    def run_once(
        self, function: Callable[..., Any], inputs: Tensors, gradients: bool
    ) -> list[torch.Tensor]:
        leaves = [
            i.clone().requires_grad_(gradients and i.is_floating_point())
            for i in inputs
        ]
        with torch.set_grad_enabled(gradients):
            results = pytree.tree_leaves(function(*leaves))
        found = [r.detach() for r in results]
        if gradients:
            total = sum(
                (r * torch.arange(1, r.numel() + 1).view_as(r)).sum()
                for r in results
                if r.requires_grad
            )
            total.backward()  # type: ignore[union-attr]
            found += [i.grad for i in leaves if i.grad is not None]
        return found

    # Branches

    def test_cond(self) -> None:
        def function(x: torch.Tensor, y: torch.Tensor) -> Any:
            return torch.cond(
                x.sum() > 0, lambda a, b: a.sin() + b, lambda a, b: a.cos() - b, (x, y)
            )

        for sign in (1, -1):
            with self.subTest(sign=sign):
                self.check(function, torch.rand(4) * sign, torch.randn(4))

    def test_cond_of_several_results_and_captured_tensors(self) -> None:
        weight = torch.randn(3, 5)

        def function(x: torch.Tensor) -> Any:
            return torch.cond(
                x[0, 0] > 100,
                lambda a: (a @ weight, a.sum()),
                lambda a: ((a * 2) @ weight, a.amax()),
                (x,),
            )

        self.check(function, torch.randn(2, 3))

    def test_cond_in_cond(self) -> None:
        def inner(x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.max() > 1, lambda a: a - 1, lambda a: a * 3, (x,))

        def function(x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.min() < 0, inner, lambda a: a.exp(), (x,))

        for values in ([-1.0, 2.0], [-1.0, 0.5], [0.5, 0.7]):
            with self.subTest(values=values):
                self.check(function, torch.tensor(values))

    def test_cond_on_a_size(self) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            return torch.cond(
                x.shape[0] > 4, lambda a: a.sum(0), lambda a: a.prod(0), (x,)
            )

        for rows in (3, 6):
            with self.subTest(rows=rows):
                self.check(
                    function, torch.randn(rows, 2), gradients=False, dynamic=True
                )

    def test_dropout_in_a_branch(self) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            return torch.cond(
                x.sum() > 0, lambda a: F.dropout(a, 0.5), lambda a: a * 2, (x,)
            ) + F.dropout(x, 0.5)

        run = torch.compile(function, backend=backend, options=OPTIONS)
        with torch.no_grad(), report.collect() as graphs:
            found = run(torch.ones(1000))
        self.assertEqual([f for g in graphs for f in g.fallbacks], [])
        for value, share in ((0, 0.25), (2, 0.5), (4, 0.25)):
            self.assertAlmostEqual(
                float((found == value).float().mean()), share, delta=0.07
            )

    # Loops

    def test_while_loop(self) -> None:
        def function(x: torch.Tensor) -> Any:
            return while_loop(
                lambda i, a: (i < 7) & (a.norm() < 100),
                lambda i, a: (i + 1, a * 1.5 + 0.1),
                (torch.tensor(0), x),
            )

        for size in (0.1, 20.0, 1000.0):
            with self.subTest(size=size):
                self.check(function, torch.ones(3) * size, gradients=False)

    def test_scan(self) -> None:
        def function(start: torch.Tensor, rows: torch.Tensor) -> Any:
            return scan(lambda c, x: (c.cos() + x, (c * x).sin()), start, rows)

        self.check(function, torch.randn(3), torch.randn(5, 3))

    def test_scan_with_weights(self) -> None:
        """A recurrent network with gates, whose weights are captured."""
        gate, value = torch.randn(8, 4) * 0.3, torch.randn(8, 4) * 0.3

        def function(
            start: torch.Tensor, rows: torch.Tensor, g: torch.Tensor, v: torch.Tensor
        ) -> Any:
            def step(state: torch.Tensor, row: torch.Tensor) -> Any:
                both = torch.cat([state, row], -1)
                z = torch.sigmoid(both @ g)
                state = z * state + (1 - z) * torch.tanh(both @ v)
                return state, state.clone()

            return scan(step, start, rows)

        self.check(function, torch.randn(2, 4), torch.randn(6, 2, 4), gate, value)

    def test_scan_backwards(self) -> None:
        def function(start: torch.Tensor, rows: torch.Tensor) -> Any:
            return scan(lambda c, x: (c * 0.5 + x, c - x), start, rows, reverse=True)

        self.check(function, torch.randn(3), torch.randn(5, 3))

    def test_scan_of_a_dynamic_count(self) -> None:
        def function(start: torch.Tensor, rows: torch.Tensor) -> Any:
            return scan(lambda c, x: (c * 0.5 + x, c * x), start, rows)

        self.check(function, torch.randn(3), torch.randn(5, 3), dynamic=True)

    def test_map(self) -> None:
        def function(rows: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = map_rows(lambda x, y: x.softmax(-1) * y, rows, y)
            return found

        self.check(function, torch.randn(4, 3), torch.randn(3))

    def test_associative_scan(self) -> None:
        def function(x: torch.Tensor) -> Any:
            return associative_scan(
                lambda a, b: a * b + a, x, 0, combine_mode="generic"
            )

        self.check(function, torch.randn(6, 3), gradients=False)

    def test_random_numbers_differ_between_iterations(self) -> None:
        def function(start: torch.Tensor, rows: torch.Tensor) -> Any:
            return scan(lambda c, x: (c + 1, F.dropout(x, 0.5)), start, rows)

        run = torch.compile(function, backend=backend, options=OPTIONS)
        with torch.no_grad(), report.collect() as graphs:
            stacked = run(torch.zeros(1), torch.ones(4, 500))[1]
        self.assertEqual([f for g in graphs for f in g.fallbacks], [])
        kept = stacked != 0
        for i in range(4):
            self.assertTrue(200 < int(kept[i].sum()) < 300)
            for j in range(i):
                self.assertTrue(180 < int((kept[i] == kept[j]).sum()) < 320)

    # Flexible attention

    def attention(self, **options: Any) -> Callable[..., torch.Tensor]:
        def function(*qkv: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = flex_attention(*qkv, **options)
            return found

        return function

    def check_attention(self, *qkv: torch.Tensor, **options: Any) -> None:
        """PyTorch refuses gradients on CPUs before it asks a backend, which this leaves out."""
        function = self.attention(**options)
        with mock.patch.object(flex_module, "_validate_device", lambda *_: None):
            self.check(function, *qkv)

    def qkv(self, heads: int = 2, length: int = 16) -> list[torch.Tensor]:
        return [torch.randn(1, h, length, 8) for h in (2, heads, heads)]

    def test_flex_attention_with_changed_scores(self) -> None:
        def near(score: torch.Tensor, b: Any, h: Any, q: Any, k: Any) -> torch.Tensor:
            return score - (q - k).abs() * 0.1 * (h + 1)

        self.check_attention(*self.qkv(), score_mod=near)

    def test_flex_attention_with_a_captured_table(self) -> None:
        table = torch.randn(2, 40)

        def biased(score: torch.Tensor, b: Any, h: Any, q: Any, k: Any) -> torch.Tensor:
            return score + table[h, q - k + 20]

        self.check_attention(*self.qkv(), score_mod=biased)

    def test_flex_attention_with_a_causal_mask(self) -> None:
        mask = create_block_mask(
            lambda b, h, q, k: q >= k, None, None, 16, 16, device="cpu"
        )
        self.check_attention(*self.qkv(), block_mask=mask)

    def test_flex_attention_of_grouped_heads(self) -> None:
        self.check_attention(*self.qkv(heads=1), enable_gqa=True)

    # What is refused

    def test_a_branch_with_an_unknown_operator_runs_in_pytorch(self) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            y = torch.cond(
                x.sum() > 0,
                lambda a: torch.linalg.svdvals(a),
                lambda a: a[0] * 2,
                (x * 2,),
            )
            return y + 1

        x = torch.rand(3, 3)
        with torch.no_grad(), report.collect() as graphs:
            run = torch.compile(function, backend=backend, options=OPTIONS)
            torch.testing.assert_close(run(x), function(x))
        reasons = [f.reason for g in graphs for f in g.fallbacks]
        self.assertTrue(any("svd" in r for r in reasons), reasons)
        self.assertEqual(sum(len(g.regions) for g in graphs), 2)


if __name__ == "__main__":
    unittest.main()
