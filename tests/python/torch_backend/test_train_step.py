"""What TrainStep takes from models: their own gradients, hooks, settings and dtypes."""

from __future__ import annotations

import copy
import subprocess
import sys
import types
import unittest
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import reprise
import torch
import torch.nn.functional as F
from reprise.torch import TrainStep
from torch import nn
from torch.utils.checkpoint import checkpoint


class _Sign(torch.autograd.Function):
    """Its gradient is that of the identity, times a factor."""

    factor: ClassVar[float] = -2.0

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.sign()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * _Sign.factor


class _Layers(nn.Module):
    """Two layers with something in between."""

    def __init__(self, between: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 3)
        self.between = between

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.between(self.a(x)))


def _hooked(x: torch.Tensor) -> torch.Tensor:
    y = torch.tanh(x)
    if y.requires_grad:
        y.register_hook(lambda g: g * 3)
    return y


def _spectrum(x: torch.Tensor) -> torch.Tensor:
    z = torch.fft.rfft(x)
    z = torch.cat([z[:, 1:], z[:, :1] * 2], 1)
    return torch.fft.irfft(z, x.shape[-1])


class _FourierLayer(nn.Module):
    """A layer with complex weights, and a complex buffer that it changes."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, dtype=torch.complex64))
        self.register_buffer("seen", torch.zeros(4, dtype=torch.complex64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = torch.fft.rfft(x) * self.weight
        with torch.no_grad():
            self.seen += z[0]
        return torch.fft.irfft(z + 0.1 * z**2, x.shape[-1])


def _recurrent() -> nn.Module:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells = nn.LSTM(6, 5, batch_first=True)
            self.head = nn.Linear(5, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out, _ = self.cells(x[:, None].expand(-1, 4, -1))
            return self.head(out[:, -1])

    return Last()


def _with_parameter_hook() -> nn.Module:
    model = _Layers(torch.tanh)
    model.a.weight.register_hook(lambda g: g * 5)
    return model


def _with_module_hook() -> nn.Module:
    model = _Layers(torch.tanh)
    model.b.register_full_backward_hook(lambda _, given, __: (given[0] * 4,))
    return model


MODELS: dict[str, Callable[[], nn.Module]] = {
    "autograd function": lambda: _Layers(_Sign.apply),
    "hook of a tensor": lambda: _Layers(_hooked),
    "hook of a parameter": _with_parameter_hook,
    "hook of a module": _with_module_hook,
    "complex slices": lambda: _Layers(_spectrum),
    "complex weights": lambda: _Layers(_FourierLayer()),
    "LSTM": _recurrent,
}


def _batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(7, 6, generator=generator), torch.tensor([0, 2, 1, 1, 0, 2, 2])


class TrainSteps(unittest.TestCase):
    def follows(
        self, model: nn.Module, loss: Callable[..., torch.Tensor],
        changes: Sequence[Callable[[nn.Module], None]] = (),
    ) -> None:  # fmt: skip
        """Compares steps with eager's. Before each further step, both models are changed."""
        twin = copy.deepcopy(model)
        for mine, other in zip(model.modules(), twin.modules(), strict=True):
            other._backward_hooks = mine._backward_hooks
        for mine, other in zip(model.parameters(), twin.parameters(), strict=True):
            other._backward_hooks = mine._backward_hooks
        optimisers = [torch.optim.SGD(m.parameters(), 0.1) for m in (model, twin)]
        step = TrainStep(model, loss, optimisers[0], options={"device": "host"})
        x, target = _batch()
        for change in (lambda _: None, lambda _: None, *changes):
            change(model)
            change(twin)
            optimisers[1].zero_grad()
            expected = loss(twin(x), target)
            expected.backward()
            optimisers[1].step()
            self.assertAlmostEqual(float(step(x, target)), float(expected), places=4)
        step.synchronize()
        for name, value in twin.state_dict().items():
            mine = model.state_dict()[name]
            self.assertTrue(torch.allclose(mine, value, atol=1e-5), name)

    def test_gradients_are_those_of_the_model(self) -> None:
        for name, build in MODELS.items():
            with self.subTest(name):
                torch.manual_seed(0)
                self.follows(build(), F.cross_entropy)

    def test_an_export_may_follow(self) -> None:
        # In a process of its own, because PyTorch keeps what it first asks for.
        program = """
import reprise.torch, torch
model = torch.nn.Linear(3, 2)
optimiser = torch.optim.SGD(model.parameters(), 0.1)
options = {"device": "host"}
step = reprise.torch.TrainStep(model, torch.nn.functional.mse_loss, optimiser, options=options)
step(torch.ones(4, 3), torch.ones(4, 2))
reprise.torch.export(torch.nn.BatchNorm1d(3), (torch.ones(4, 3),), targets="host")
"""
        subprocess.run([sys.executable, "-c", program], check=True)

    def test_complex_states_and_arguments(self) -> None:
        class Filter(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = nn.Parameter(torch.randn(5, dtype=torch.complex64))

            def forward(self, z: torch.Tensor) -> torch.Tensor:
                return (z * self.weight).abs()

        torch.manual_seed(0)
        z, target = torch.randn(3, 5, dtype=torch.complex64), torch.ones(3, 5)
        models = [Filter(), Filter()]
        models[1].load_state_dict(models[0].state_dict())
        adams = [torch.optim.Adam(m.parameters(), 0.1) for m in models]
        step = TrainStep(
            models[0], F.mse_loss, adams[0], clip_grad_norm=0.1, options={"device": "host"}
        )  # fmt: skip
        for _ in range(3):
            adams[1].zero_grad()
            expected = F.mse_loss(models[1](z), target)
            expected.backward()
            nn.utils.clip_grad_norm_(models[1].parameters(), 0.1)
            adams[1].step()
            loss = step(z, target)
            self.assertAlmostEqual(float(loss), float(expected.detach()), places=5)
        step.synchronize()
        mine, other = (
            {"weight": m.weight, **{k: torch.as_tensor(v) for k, v in a.state[m.weight].items()}}
            for m, a in zip(models, adams, strict=True)
        )  # fmt: skip
        self.assertEqual(mine.keys(), other.keys())
        for name, value in other.items():
            self.assertEqual(mine[name].dtype, value.dtype, name)
            self.assertTrue(torch.allclose(mine[name], value, atol=1e-5), name)
        (state,) = (s for s in step.export(None).states if s.name == "weight")
        self.assertEqual(state.shape, (5, 2))

    def test_keyword_arguments(self) -> None:
        class Result(NamedTuple):
            logits: torch.Tensor
            loss: torch.Tensor

        class Labelled(_Layers):
            def forward(  # type: ignore[override]
                self, x: torch.Tensor, scale: torch.Tensor, labels: torch.Tensor
            ) -> Result:
                logits = super().forward(x) * scale
                return Result(logits, F.cross_entropy(logits, labels))

        torch.manual_seed(0)
        model, (x, labels) = Labelled(torch.tanh), _batch()
        scale = torch.tensor(2.0)
        optimiser = torch.optim.SGD(model.parameters(), 0.1)
        step = TrainStep(model, None, optimiser, options={"device": "host"})
        expected = model(x, scale, labels).loss.detach()
        loss = step(x, labels=labels, scale=scale)
        self.assertAlmostEqual(float(loss), float(expected), places=5)
        inputs = {slot.name for slot in step.export(None).inputs}
        self.assertEqual(inputs, {"x", "scale", "labels", "lr"})

        def distance(result: Result, target: torch.Tensor) -> torch.Tensor:
            return F.mse_loss(result.logits, target)

        step.synchronize()
        step = TrainStep(model, distance, optimiser, options={"device": "host"})
        expected = F.mse_loss(model(x, scale, labels).logits.detach(), torch.ones(7, 3))
        loss = step(x, torch.ones(7, 3), labels=labels, scale=scale)
        self.assertAlmostEqual(float(loss), float(expected), places=5)
        with self.assertRaisesRegex(reprise.UsageError, "last positional argument"):
            step(x=x, labels=labels, scale=scale)

    def test_losses_in_results(self) -> None:
        results: dict[str, Callable[[torch.Tensor], Any]] = {
            "alone": lambda loss: loss,
            "as an attribute": lambda loss: types.SimpleNamespace(loss=loss),
            "as a key": lambda loss: {"loss": loss},
        }

        class Model(nn.Module):
            def __init__(self, result: Callable[[torch.Tensor], Any]) -> None:
                super().__init__()
                self.layer, self.result = nn.Linear(6, 3), result

            def forward(self, x: torch.Tensor) -> Any:
                return self.result(self.layer(x).square().mean())

        def first(result: Callable[[torch.Tensor], Any]) -> float:
            torch.manual_seed(0)
            model = Model(result)
            optimiser = torch.optim.SGD(model.parameters(), 0.1)
            step = TrainStep(model, None, optimiser, options={"device": "host"})
            return float(step(_batch()[0]))

        self.assertEqual(len({first(result) for result in results.values()}), 1)
        with self.assertRaisesRegex(reprise.UsageError, "it returns tuple"):
            first(lambda loss: (loss, loss))

    def test_tensors_of_the_loss_are_constants(self) -> None:
        weight = torch.tensor([1.0, 2.0, 0.5])
        torch.manual_seed(0)
        model = _Layers(torch.tanh)
        self.follows(copy.deepcopy(model), nn.CrossEntropyLoss(weight=weight))
        self.follows(model, lambda y, t: F.cross_entropy(y, t, weight=weight))

    def test_settings_may_change(self) -> None:
        class Scaled(_Layers):
            beta = 1.0

            def __init__(self, between: nn.Module) -> None:
                super().__init__(between)
                self.scales = [0.5, 1.0]

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return super().forward(x) * self.beta * self.scales[0]

        annealed = {"factor": 1.0}

        def loss(y: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(y, target) * annealed["factor"]

        def beta(model: nn.Module) -> None:
            model.beta = 3.0  # type: ignore[assignment]

        def scale(model: nn.Module) -> None:
            model.scales[0] = 2.0  # type: ignore[operator,index]

        def replace(model: nn.Module) -> None:
            model.get_submodule("between")[1] = nn.ReLU()  # type: ignore[index,operator]

        def freeze(model: nn.Module) -> None:
            for parameter in model.get_submodule("a").parameters():
                parameter.requires_grad_(requires_grad=False)

        def anneal(_: nn.Module) -> None:
            annealed["factor"] = 0.25

        torch.manual_seed(0)
        model = Scaled(nn.Sequential(nn.BatchNorm1d(6), nn.Tanh()))
        self.follows(
            model, loss,
            [
                lambda m: m.get_submodule("between.0").eval() and None,
                beta, scale, replace, freeze, anneal,
            ],
        )  # fmt: skip

    def test_bfloat16_comes_back(self) -> None:
        torch.manual_seed(0)
        model = _Layers(torch.tanh).bfloat16()
        before = model.a.weight.detach().clone()
        optimiser = torch.optim.SGD(model.parameters(), 0.1)
        step = TrainStep(model, F.mse_loss, optimiser, options={"device": "host"})
        x = torch.randn(7, 6).bfloat16()
        loss = step(x, torch.zeros(7, 3, dtype=torch.bfloat16))
        self.assertEqual(loss.dtype, torch.bfloat16)
        step.synchronize()
        self.assertEqual(model.a.weight.dtype, torch.bfloat16)
        self.assertLess(float((model.a.weight - before).detach().abs().max()), 0.5)
        self.assertFalse(torch.equal(model.a.weight, before))

    def refused(
        self, model: nn.Module, error: type[Exception], text: str, *more: Any
    ) -> None:
        optimiser = torch.optim.SGD(model.parameters(), 0.1)
        step = TrainStep(model, F.cross_entropy, optimiser, options={"device": "host"})
        x, target = _batch()
        with self.assertRaisesRegex(error, text):
            step(x, *more, target)

    def test_models_may_ask_whether_they_are_compiled(self) -> None:
        class Masked(_Layers):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                if not torch.compiler.is_compiling() and bool((x == 0).all()):
                    return self.b(x)
                return super().forward(x)

        torch.manual_seed(0)
        self.follows(Masked(torch.tanh), F.cross_entropy)

    def test_refuses_what_a_graph_cannot_have(self) -> None:
        class Counting(_Layers):
            calls = 0

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                self.calls += 1
                return super().forward(x) * self.calls

        self.refused(Counting(torch.tanh), reprise.Unsupported, "attribute 'calls'")
        self.refused(
            _Layers(lambda x: x * float(x.max())),
            reprise.Unsupported,
            r"values of tensors.*test_train_step.py:\d+, _Layers\(lambda x: x \* float",
        )
        self.refused(
            _Layers(lambda x: checkpoint(torch.tanh, x, use_reentrant=True)),
            reprise.Unsupported,
            "use_reentrant=False",
        )
        late = _Layers(torch.tanh)
        late.a.weight.register_post_accumulate_grad_hook(lambda _: None)
        self.refused(late, reprise.Unsupported, "'a.weight' has a hook that runs after")
        self.refused(
            _Layers(torch.tanh), reprise.InvalidInput, "argument 1 is float", 0.5
        )
        whole = _Layers(torch.tanh)
        step = TrainStep(
            whole,
            lambda y, _: y,
            torch.optim.SGD(whole.parameters()),
            options={"device": "host"},
        )
        with self.assertRaisesRegex(reprise.UsageError, r"its shape is \[7, 3\]"):
            step(*_batch())


if __name__ == "__main__":
    unittest.main()
