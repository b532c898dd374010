"""How many kernels well-known layers take, forward and backward."""

from __future__ import annotations

import copy
import os
import unittest
from typing import Any

import torch
import torch._dynamo
import torch.nn.functional as F
from reprise.torch import backend, explain, report
from torch import nn

OPTIONS = {"device": os.environ.get("REPRISE_TEST_DEVICE", "vulkan:0")}


class Pointwise(nn.Module):
    """About 35 elementwise operators after a scale and a bias."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(width) + 0.5)
        self.bias = nn.Parameter(torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * self.scale + self.bias
        for _ in range(3):
            x = torch.sin(x) + torch.cos(x) * torch.tanh(x)
            x = x * torch.sigmoid(x) + F.relu(x)
            x = x / (1 + x.abs())
        return x


class Launches(unittest.TestCase):
    def launches(self, model: Any, *inputs: torch.Tensor) -> dict[str, int]:
        torch._dynamo.reset()
        found = explain(model, *inputs, options=OPTIONS)
        self.assertEqual(found.fallbacks, [], str(found))
        return {
            g.kind: sum(r.kernels().launches for r in g.regions) for g in found.graphs
        }

    def test_pointwise_inference_is_one_launch(self) -> None:
        with torch.no_grad():
            found = self.launches(Pointwise(64), torch.randn(16, 64))
        self.assertEqual(found, {"inference": 1})

    def test_pointwise_training(self) -> None:
        found = self.launches(Pointwise(64), torch.randn(16, 64))
        self.assertEqual(found["forward"], 1)
        self.assertLessEqual(found["backward"], 2)

    def test_linear_norm_gelu_dropout(self) -> None:
        model = nn.Sequential(
            nn.Linear(32, 64), nn.LayerNorm(64), nn.GELU(), nn.Dropout(0.1)
        )
        found = self.launches(model, torch.randn(16, 32))
        self.assertLessEqual(found["forward"], 2)
        self.assertLessEqual(found["backward"], 3)

    def test_mlp_block_of_a_transformer(self) -> None:
        """The gradient of the input takes one product more for each layer."""
        model = nn.Sequential(
            nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)
        )
        found = self.launches(model, torch.randn(2, 8, 32, requires_grad=True))
        self.assertLessEqual(found["forward"], 3)
        self.assertLessEqual(found["backward"], 8)

    def test_attention_inference_is_one_launch(self) -> None:
        qkv = [torch.randn(2, 4, 64, 32) for _ in range(3)]
        mask = torch.rand(64, 64) > 0.2
        for options in ({}, {"is_causal": True}, {"attn_mask": mask}):
            with self.subTest(options=options), torch.no_grad():

                def attend(*qkv: torch.Tensor, options: Any = options) -> torch.Tensor:
                    return F.scaled_dot_product_attention(*qkv, **options)

                self.assertEqual(self.launches(attend, *qkv), {"inference": 1})

    def test_attention_training(self) -> None:
        """Forward stores sums of exponentials from the same kernel, and another one orders dims.

        Backward multiplies results by gradients, then has a kernel for queries and one for the rest.
        """
        qkv = [torch.randn(2, 4, 192, 32, requires_grad=True) for _ in range(3)]
        found = self.launches(F.scaled_dot_product_attention, *qkv)
        self.assertLessEqual(found["forward"], 3)
        self.assertLessEqual(found["backward"], 3)

    def optimizer_launches(self, kind: Any, model: nn.Module, **settings: Any) -> int:
        torch._dynamo.reset()
        optimizer = kind(model.parameters(), lr=torch.tensor(1e-3), **settings)
        step = torch.compile(optimizer.step, backend=backend, options=OPTIONS)
        for p in model.parameters():
            p.grad = torch.randn_like(p)
        with report.collect() as graphs:
            step()
        self.assertEqual([f for g in graphs for f in g.fallbacks], [])
        return sum(r.kernels().launches for g in graphs for r in g.regions)

    def test_optimizer_steps(self) -> None:
        """A launch for each kernel that a size takes, not for each of 134 parameters."""
        layers: list[nn.Module] = [
            nn.Conv2d(3, 5, 3),
            nn.BatchNorm2d(7),
            nn.Linear(33, 1),
        ]
        for width in range(8, 40):
            layers += [nn.Linear(width, 64), nn.LayerNorm(width)]
        model = nn.Sequential(*layers)
        for kind, settings in (
            (torch.optim.SGD, {"momentum": 0.9}),
            (torch.optim.Adam, {"amsgrad": True}),
            (torch.optim.AdamW, {}),
        ):
            with self.subTest(kind=kind.__name__):
                self.assertLessEqual(
                    self.optimizer_launches(kind, model, **settings), 16
                )

    def programs(self, kind: Any, schedule: Any, **settings: Any) -> int:
        """How many programs ten steps with a scheduler take, whose results are as in eager."""
        torch._dynamo.reset()
        models = [nn.Linear(8, 4) for _ in range(2)]
        models[1].load_state_dict(models[0].state_dict())
        made = [kind(m.parameters(), **copy.deepcopy(settings)) for m in models]
        schedules = [schedule(optimizer) for optimizer in made]
        steps = [
            torch.compile(made[0].step, backend=backend, options=OPTIONS),
            made[1].step,
        ]
        with report.collect() as graphs:
            for _ in range(10):
                x = torch.randn(3, 8)
                for model, step in zip(models, steps, strict=True):
                    model.zero_grad()
                    model(x).square().sum().backward()
                    step()
                for each in schedules:
                    each.step()
        for mine, other in zip(*(m.parameters() for m in models), strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)
        return len(graphs)

    def test_schedules_of_optimizers(self) -> None:
        def one_cycle(optimizer: Any) -> Any:
            return torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=20)

        class Betas:
            def __init__(self, optimizer: Any) -> None:
                self.betas = optimizer.param_groups[0]["betas"]

            def step(self) -> None:
                for beta in self.betas:
                    beta.mul_(0.98)

        for kind, settings in (
            (torch.optim.SGD, {"momentum": 0.9}),
            (torch.optim.AdamW, {}),
            (torch.optim.Adam, {"weight_decay": 0.1, "lr": torch.tensor(0.01)}),
            (torch.optim.RMSprop, {"momentum": 0.9}),
        ):
            with self.subTest(kind=kind.__name__):
                # The first one has numbers as constants, the second one as inputs.
                self.assertEqual(self.programs(kind, one_cycle, **settings), 2)
        betas = (torch.tensor(0.9), torch.tensor(0.999))
        settings = {"betas": betas, "foreach": False}
        self.assertEqual(self.programs(torch.optim.Adam, Betas, **settings), 1)

    def test_saved_views_are_not_copied(self) -> None:
        """Backward reads the transposed weight, which PyTorch makes as a view of the parameter."""
        found = self.launches(
            nn.Linear(32, 64), torch.randn(16, 32, requires_grad=True)
        )
        self.assertEqual(found["forward"], 1)


if __name__ == "__main__":
    unittest.main()
