"""Well-known models, small: results, all gradients and 20 steps of AdamW against eager."""

from __future__ import annotations

import copy
import os
import time
import unittest
from typing import Any

import torch
import torch._dynamo
from models import MODELS
from reprise.torch import backend, report
from torch.utils import _pytree as pytree

DEVICE = os.environ.get("REPRISE_TEST_DEVICE", "vulkan:0")
STEPS = int(os.environ.get("REPRISE_TEST_STEPS", "20"))
#: Models of which PyTorch may run some operators.
WITH_FALLBACKS: tuple[str, ...] = ()


def _loss(result: Any) -> torch.Tensor:
    tensors = [
        t
        for t in pytree.tree_leaves(dict(result) if hasattr(result, "keys") else result)
        if isinstance(t, torch.Tensor) and t.is_floating_point()
    ]
    first = tensors[0]
    target = torch.rand(first.shape, generator=torch.Generator().manual_seed(7))
    return (first - target).square().mean()


class Models(unittest.TestCase):
    def close(
        self, got: torch.Tensor, want: torch.Tensor, scale: float, what: str
    ) -> None:
        worst = (
            float((got.double() - want.double()).abs().max()) if want.numel() else 0.0
        )
        self.assertLessEqual(worst, 1e-4 * scale, what)

    def check(self, name: str) -> None:
        torch._dynamo.reset()
        torch.manual_seed(0)
        model, args, kwargs = MODELS[name]()
        model.train()
        twin = copy.deepcopy(model)
        start = time.monotonic()
        run = torch.compile(model, backend=backend, options={"device": DEVICE})
        with report.collect() as graphs:
            loss = _loss(run(*args, **kwargs))
            loss.backward()
        seconds = time.monotonic() - start
        want = _loss(twin(*args, **kwargs))
        want.backward()
        fallbacks = [f"{f.operator}: {f.reason}" for g in graphs for f in g.fallbacks]
        print(
            f"{name}: {len(graphs)} graphs, {len(fallbacks)} fallbacks, {seconds:.1f} s",
            flush=True,
        )
        self.close(loss.detach(), want.detach(), float(want.detach().abs()), "loss")
        gradients = [p.grad for p in twin.parameters() if p.grad is not None]
        largest = max(float(g.abs().max()) for g in gradients)
        for (key, mine), theirs in zip(
            model.named_parameters(), twin.parameters(), strict=True
        ):
            if theirs.grad is not None and mine.grad is not None:
                # Gradients that vanish in exact arithmetic are judged by the largest of all.
                scale = max(float(theirs.grad.abs().max()), 1e-3 * largest)
                self.close(mine.grad, theirs.grad, scale, key)
        if name not in WITH_FALLBACKS:
            self.assertEqual(fallbacks, [])
        self._train(run, model, twin, args, kwargs)

    def _train(self, run: Any, model: Any, twin: Any, args: Any, kwargs: Any) -> None:
        histories = []
        for net, call in ((model, run), (twin, twin)):
            optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3)
            history = []
            for _ in range(STEPS):
                optimiser.zero_grad()
                loss = _loss(call(*args, **kwargs))
                loss.backward()
                optimiser.step()
                history.append(float(loss.detach()))
            histories.append(history)
        for mine, theirs in zip(*histories, strict=True):
            self.assertAlmostEqual(mine, theirs, delta=1e-3 * max(abs(theirs), 1e-3))


def _add(name: str) -> None:
    def test(self: Models) -> None:
        self.check(name)

    setattr(Models, f"test_{name}", test)


for _name in MODELS:
    _add(_name)


if __name__ == "__main__":
    unittest.main()
