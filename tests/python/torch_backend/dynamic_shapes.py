"""Compares a compiled model with eager at several shapes, and counts the compilations."""

from __future__ import annotations

import copy
import os
import unittest
from collections.abc import Callable, Sequence

import torch
import torch._dynamo
from reprise.torch import backend, report
from torch import nn

DEVICE = os.environ.get("REPRISE_TEST_DEVICE", "vulkan:0")
#: Batch size and length of the text.
Shape = tuple[int, int]
SHAPES: tuple[Shape, ...] = ((2, 7), (3, 12), (5, 9), (4, 16), (2, 5))
Call = Callable[..., torch.Tensor]


def _loss(result: torch.Tensor) -> torch.Tensor:
    """Distance to random values: the mean square of what LayerNorm returns hardly has a gradient."""
    target = torch.rand(result.shape, generator=torch.Generator().manual_seed(7))
    return (result - target).square().mean()


class DynamicCase(unittest.TestCase):
    words = 50
    part = 1e-4

    def setUp(self) -> None:
        torch._dynamo.reset()
        torch.manual_seed(0)

    def close(self, got: torch.Tensor, want: torch.Tensor, least: float) -> None:
        self.assertEqual(got.shape, want.shape)
        scale = max(float(want.abs().max()), least)
        self.assertLessEqual(float((got - want).abs().max()), self.part * scale)

    def compare(
        self, model: nn.Module, twin: nn.Module, run: Call, eager: Call
    ) -> None:
        """Compares the results, and the gradients if the model trains, at one shape."""
        got, want = run(), eager()
        self.close(got.detach(), want.detach(), 1e-6)
        if not model.training:
            return
        for net, result in ((model, got), (twin, want)):
            net.zero_grad()
            _loss(result).backward()
        theirs = {k: p.grad for k, p in twin.named_parameters() if p.grad is not None}
        # Gradients that vanish in exact arithmetic are judged by the largest of all.
        least = 1e-3 * max(float(g.abs().max()) for g in theirs.values())
        for key, parameter in model.named_parameters():
            if key in theirs:
                assert parameter.grad is not None, key
                with self.subTest(parameter=key):
                    self.close(parameter.grad, theirs[key], least)

    def graphs(
        self,
        model: nn.Module,
        result: Callable[[nn.Module, torch.Tensor], torch.Tensor],
        shapes: Sequence[Shape],
        dynamic: bool | None,
    ) -> list[str]:
        """Runs the model at each shape and returns the kinds of the graphs that it compiled."""
        twin = copy.deepcopy(model)
        run = torch.compile(
            model, backend=backend, dynamic=dynamic, options={"device": DEVICE}
        )
        with report.collect() as found, torch.set_grad_enabled(model.training):
            for shape in shapes:
                tokens = torch.randint(1, self.words, shape)
                with self.subTest(shape=shape):
                    self.compare(
                        model,
                        twin,
                        lambda tokens=tokens: result(run, tokens),  # type: ignore[misc]
                        lambda tokens=tokens: result(twin, tokens),  # type: ignore[misc]
                    )
        self.assertEqual([f for g in found for f in g.fallbacks], [])
        return [g.kind for g in found]

    def check(
        self,
        model: nn.Module,
        result: Callable[[nn.Module, torch.Tensor], torch.Tensor],
        training: bool,
    ) -> None:
        """One compilation for five shapes; of automatic shapes, one more for a new batch size."""
        model.train(training)
        once = ["forward", "backward"] if training else ["inference"]
        with self.subTest("dynamic"):
            self.assertEqual(self.graphs(model, result, SHAPES, True), once)
        with self.subTest("another batch size"):
            torch._dynamo.reset()
            batches = [(rows, 7) for rows in (2, 3, 5, 4, 2)]
            self.assertEqual(self.graphs(model, result, batches, None), 2 * once)
