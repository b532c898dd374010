"""Training steps that are captured whole, against eager PyTorch."""

from __future__ import annotations

import copy
import os
import re
import subprocess
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import reprise
import torch
import torch.nn.functional as F
from reprise.torch import TrainStep
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

DEVICES = os.environ.get("REPRISE_TEST_DEVICES", "host,vulkan:0").split(",")
STEPS = 22
FINETUNE = Path(reprise.__file__).absolute().parents[2] / "bin" / "reprise-finetune"
Batch = tuple[torch.Tensor, ...]


def _rows(i: int) -> Batch:
    g = torch.Generator().manual_seed(i)
    return torch.randn(8, 16, generator=g), torch.randint(0, 4, (8,), generator=g)


def _images(i: int) -> Batch:
    g = torch.Generator().manual_seed(i)
    images = torch.randn(4, 3, 16, 16, generator=g)
    return images, torch.randint(0, 4, (4,), generator=g)


def _tokens(i: int) -> Batch:
    g = torch.Generator().manual_seed(i)
    text = torch.randint(0, 50, (2, 13), generator=g)
    return text[:, :-1].contiguous(), text[:, 1:].contiguous()


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))


def _cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4),
    )  # fmt: skip


class _Gpt(nn.Module):
    """A decoder whose output layer shares the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.place = nn.Parameter(torch.randn(12, 16) * 0.02)
        layer = nn.TransformerEncoderLayer(
            16, 2, 32, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 50, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        hidden = self.embed(text) + self.place
        mask = nn.Transformer.generate_square_subsequent_mask(12)
        result: torch.Tensor = self.head(self.layers(hidden, mask=mask, is_causal=True))
        return result


def _of_tokens(result: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(result.flatten(0, 1), target.flatten())


Optimiser = Callable[[Any], torch.optim.Optimizer]
CASES: dict[str, tuple[Callable[[], nn.Module], Any, Callable[[int], Batch], Optimiser, Any]] = {
    "mlp, sgd": (_mlp, nn.functional.cross_entropy, _rows,
                 lambda p: torch.optim.SGD(p, lr=0.1), None),
    "mlp, nesterov": (_mlp, nn.functional.cross_entropy, _rows,
                      lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True,
                                                weight_decay=0.01), 0.5),
    "mlp, dampening": (_mlp, nn.functional.cross_entropy, _rows,
                       lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3), None),
    "mlp, adam": (_mlp, nn.functional.cross_entropy, _rows,
                  lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.1, amsgrad=True), None),
    "cnn, adamw": (_cnn, nn.functional.cross_entropy, _images,
                   lambda p: torch.optim.AdamW(p, lr=0.01), None),
    "gpt, adamw": (_Gpt, _of_tokens, _tokens, lambda p: torch.optim.AdamW(p, lr=1e-3), 1.0),
}  # fmt: skip


def _eager(
    model: nn.Module,
    loss: Any,
    optimiser: torch.optim.Optimizer,
    batch: Batch,
    clip: Any,
) -> float:
    optimiser.zero_grad()
    value = loss(model(*batch[:-1]), batch[-1])
    value.backward()
    if clip is not None:
        nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimiser.step()
    return float(value.detach())


def _is_noise(largest: torch.Tensor | None) -> torch.Tensor:
    """The elements whose gradient is nothing but rounding errors.

    Adam makes these as large as any gradient. An example is the bias of an attention's keys, which
    the softmax cancels.
    """
    if largest is None:
        return torch.tensor(False)
    noise = largest <= 1e-5 * largest.max()
    assert noise.float().mean() <= 0.5
    return noise


class Training(unittest.TestCase):
    def check(self, name: str, device: str) -> None:
        build, loss, batches, make, clip = CASES[name]
        torch.manual_seed(0)
        model = build()
        twin = copy.deepcopy(model)
        optimiser, other = make(model.parameters()), make(twin.parameters())
        step = TrainStep(
            model, loss, optimiser, clip_grad_norm=clip, options={"device": device}
        )
        largest: dict[str, torch.Tensor] = {}
        schedules = [
            torch.optim.lr_scheduler.StepLR(o, 5, 0.7) for o in (optimiser, other)
        ]
        for i in range(STEPS):
            got = float(step(*batches(i)))
            want = _eager(twin, loss, other, batches(i), clip)
            self.assertLess(abs(got - want), 1e-3 * max(1.0, abs(want)), f"step {i}")
            for key, parameter in twin.named_parameters():
                assert parameter.grad is not None
                size = parameter.grad.abs()
                largest[key] = torch.maximum(largest.get(key, size), size)
            for schedule in schedules:
                schedule.step()
        step.synchronize()
        for (key, mine), theirs in zip(
            model.state_dict().items(), twin.state_dict().values(), strict=True
        ):
            close = torch.isclose(mine.double(), theirs.double(), 1e-2, 1e-3)
            self.assertTrue(bool((close | _is_noise(largest.get(key))).all()), key)
        # The optimiser's state is PyTorch's: eager goes on with it.
        want = _eager(twin, loss, other, batches(99), clip)
        got = _eager(model, loss, optimiser, batches(99), clip)
        self.assertLess(abs(got - want), 1e-3 * max(1.0, abs(want)))
        after = _eager(twin, loss, other, batches(98), clip)
        step.reload()
        self.assertLess(
            abs(float(step(*batches(98))) - after), 1e-3 * max(1.0, abs(after))
        )

    def test_follows_eager(self) -> None:
        for device in DEVICES:
            for name in CASES:
                with self.subTest(name, device=device):
                    self.check(name, device)

    def test_parameters_without_a_gradient_stay(self) -> None:
        class Partly(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.used, self.unused = nn.Linear(4, 2), nn.Linear(3, 3)
                self.scale = nn.Parameter(torch.ones(2))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.used(x) * self.scale.detach()

        model = Partly()
        before = {n: p.detach().clone() for n, p in model.named_parameters()}
        optimiser = torch.optim.AdamW(model.parameters(), 0.1)
        step = TrainStep(model, F.mse_loss, optimiser, options={"device": "host"})
        step(torch.randn(5, 4), torch.randn(5, 2))
        step.synchronize()
        for name, parameter in model.named_parameters():
            moved = not torch.equal(parameter, before[name])
            self.assertEqual(moved, name.startswith("used"), name)
        with self.assertRaisesRegex(reprise.UsageError, "depends on no parameter"):
            TrainStep(
                model, lambda y, t: (y.detach() - t).sum(), optimiser,
                options={"device": "host"},
            )(torch.randn(5, 4), torch.randn(5, 2))  # fmt: skip

    def test_is_one_recording(self) -> None:
        model = _mlp()
        step = TrainStep(
            model, nn.functional.cross_entropy, torch.optim.AdamW(model.parameters()),
            options={"device": DEVICES[-1]},
        )  # fmt: skip
        for i in range(5):
            step(*_rows(i))
        stats = step._used().session.stats
        if DEVICES[-1] != "host":
            self.assertEqual((stats["recordings"], stats["submits"]), (1, 5))
            self.assertEqual(step.package.explain().host, [])

    def test_dropout_differs_between_steps_and_is_reproducible(self) -> None:
        histories = []
        for _ in range(2):
            torch.manual_seed(3)
            model = nn.Sequential(nn.Linear(16, 64), nn.Dropout(0.5), nn.Linear(64, 4))
            optimiser = torch.optim.SGD(model.parameters(), lr=0.0)
            step = TrainStep(
                model,
                nn.functional.cross_entropy,
                optimiser,
                options={"device": "host"},
            )
            histories.append([float(step(*_rows(0))) for _ in range(4)])
        self.assertEqual(histories[0], histories[1])
        self.assertEqual(len(set(histories[0])), 4)

    def test_shapes_may_change(self) -> None:
        torch.manual_seed(0)
        model = _mlp()
        twin = copy.deepcopy(model)
        make = CASES["mlp, adam"][3]
        optimiser, other = make(model.parameters()), make(twin.parameters())
        loss = nn.functional.cross_entropy
        step = TrainStep(model, loss, optimiser, options={"device": "host"})
        for i, rows in enumerate((8, 5, 8, 5)):
            x, y = _rows(i)
            got = float(step(x[:rows], y[:rows]))
            want = _eager(twin, loss, other, (x[:rows], y[:rows]), None)
            self.assertAlmostEqual(got, want, places=4)

    def test_state_dict_and_back(self) -> None:
        model = _cnn()
        loss = nn.functional.cross_entropy
        optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
        step = TrainStep(model, loss, optimiser, options={"device": "host"})
        step(*_images(0))
        state = copy.deepcopy(step.state_dict())
        want = [float(step(*_images(i))) for i in (1, 2)]
        step.load_state_dict(state)
        got = [float(step(*_images(i))) for i in (1, 2)]
        self.assertEqual(got, want)

    def test_export_trains_without_pytorch(self) -> None:
        torch.manual_seed(0)
        model = _mlp()
        loss = nn.functional.cross_entropy
        optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
        step = TrainStep(model, loss, optimiser, options={"device": "host"})
        step(*_rows(0))
        with tempfile.TemporaryDirectory() as folder:
            path, states = Path(folder) / "train.rpk", Path(folder) / "states.rpk"
            step.export(path)
            package = reprise.Package.open(path)
            self.assertEqual(
                sorted(s.name for s in package.inputs), ["input", "lr", "target"]
            )
            self.assertIn("0.weight", [s.name for s in package.states])
            session = reprise.Session(package, "host")
            want = [float(step(*_rows(i))) for i in (1, 2, 3)]
            got = [
                float(session.run({"input": x.numpy(), "target": y.numpy(),
                                   "lr": np.float32(0.01)})["loss"])
                for x, y in map(_rows, (1, 2, 3))
            ]  # fmt: skip
            self.assertTrue(np.allclose(got, want, 1e-5), (got, want))
            session.save_states(states)
            trained = session.read_state("0.weight")
            fresh = _mlp()
            again = TrainStep(
                fresh, loss, torch.optim.AdamW(fresh.parameters(), lr=0.01),
                options={"device": "host"},
            )  # fmt: skip
            again(*_rows(0))
            again.load_states(states)
            self.assertTrue(np.array_equal(fresh[0].weight.detach().numpy(), trained))
            self.assertAlmostEqual(
                float(again(*_rows(4))), float(step(*_rows(4))), places=4
            )

    @unittest.skipUnless(
        FINETUNE.exists(), "needs the sample, which the C++ build makes"
    )
    def test_the_sample_trains_further(self) -> None:
        torch.manual_seed(0)
        model = _mlp()
        optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
        step = TrainStep(
            model, nn.functional.cross_entropy, optimiser, options={"device": "host"}
        )
        step(*_rows(0))
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            step.export(folder / "train.rpk")
            batches = [_rows(i) for i in range(1, 4)]
            for i, file in enumerate(("x.npy", "y.npy")):
                np.save(folder / file, torch.cat([b[i] for b in batches]).numpy())
            done = subprocess.run(
                [FINETUNE, "train.rpk", "x.npy", "y.npy", "--steps", "11", "--lr", "0.01",
                 "--device", "host", "--save", "states.rpk"],
                cwd=folder, capture_output=True, text=True, check=False,
            )  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stderr)
            got = dict(re.findall(r"step (\d+) loss ([\d.]+)", done.stdout))
            want = [float(step(*batches[i % 3])) for i in range(11)]
            self.assertAlmostEqual(float(got["0"]), want[0], places=5)
            self.assertAlmostEqual(float(got["10"]), want[10], places=5)
            trained = step.state_dict()["model"]["2.weight"].clone()
            step.load_states(folder / "states.rpk")
            self.assertTrue(torch.allclose(model[2].weight, trained, atol=1e-6))

    def test_state_that_a_step_does_not_read(self) -> None:
        """The power iteration of `spectral_norm` begins with one vector and makes the other anew."""
        torch.manual_seed(0)
        theirs = nn.Sequential(
            spectral_norm(nn.Linear(4, 6)), nn.Tanh(), nn.Linear(6, 3)
        )
        mine = copy.deepcopy(theirs)
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (mine, theirs)]
        step = TrainStep(
            mine, F.cross_entropy, optimizers[0], options={"device": DEVICES[-1]}
        )
        x, target = torch.randn(5, 4), torch.tensor([0, 1, 2, 1, 0])
        for _ in range(3):
            optimizers[1].zero_grad()
            loss = F.cross_entropy(theirs(x), target)
            loss.backward()
            optimizers[1].step()
            self.assertAlmostEqual(float(step(x, target)), float(loss), places=5)
        step.synchronize()
        for name, value in theirs.state_dict().items():
            self.assertTrue(
                torch.allclose(mine.state_dict()[name], value, atol=1e-5), name
            )

    def test_refuses(self) -> None:
        model = _mlp()
        with self.assertRaisesRegex(reprise.Unsupported, "use SGD, Adam or AdamW"):
            TrainStep(model, None, torch.optim.Adagrad(model.parameters()))

        class Odd(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = nn.Linear(4, 4)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return torch.linalg.svdvals(self.layer(x))

        odd = Odd()
        step = TrainStep(
            odd, lambda y, t: (y - t).sum(), torch.optim.SGD(odd.parameters()),
            options={"device": "host"},
        )  # fmt: skip
        with self.assertRaisesRegex(reprise.Unsupported, "svd"):
            step(torch.randn(4, 4), torch.zeros(4))

    def test_names_must_differ(self) -> None:
        class Scaled(nn.Module):
            def __init__(self, name: str) -> None:
                super().__init__()
                setattr(self, name, nn.Parameter(torch.ones(4)))
                self._name = name

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                scale: torch.Tensor = getattr(self, self._name)
                return x * scale

        for name in ("x", "target", "lr", "seed"):
            model = Scaled(name)
            step = TrainStep(
                model, nn.functional.mse_loss, torch.optim.SGD(model.parameters()),
                options={"device": "host"},
            )  # fmt: skip
            with self.assertRaisesRegex(reprise.UsageError, f"called '{name}'"):
                step(torch.randn(2, 4), torch.zeros(2, 4))


if __name__ == "__main__":
    unittest.main()
