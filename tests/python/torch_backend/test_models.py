"""Well-known models, small: results, all gradients and 20 steps of AdamW against eager.

A result may differ from eager's by 1e-4 of its largest value. Where it differs by more, eager in
float64 decides: the error of the compiled model must then not exceed eager's own error by more than
half. This concerns models that amplify rounding: normalisations of few elements, and ReLU where an
element is so close to 0 that rounding decides its gradient. Eager's error is the largest of those
that it has when it adds in other orders and when each parameter moves by a unit in the last place,
because any of these is a right result in float32. An element of a ReLU may change its side in one of
many such runs, so the test makes 16 of them before it fails. Losses of training may differ by 1e-3, or by 1e-3
of eager's if that is above 1; else the same rule decides.
"""

from __future__ import annotations

import copy
import functools
import math
import os
import time
import unittest
from collections.abc import Iterator
from typing import Any

import torch
import torch._dynamo
from models import MODELS
from more_models import MORE_MODELS
from reprise.torch import backend, report
from torch.utils import _pytree as pytree

DEVICE = os.environ.get("REPRISE_TEST_DEVICE", "vulkan:0")
STEPS = int(os.environ.get("REPRISE_TEST_STEPS", "20"))
#: Models of which PyTorch may run some operators.
WITH_FALLBACKS: tuple[str, ...] = ()


ALL_MODELS = MODELS | MORE_MODELS


def _doubled(value: Any) -> Any:
    """Inputs in float64."""
    return pytree.tree_map_only(
        torch.Tensor, lambda t: t.double() if t.is_floating_point() else t, value
    )


def _error(got: torch.Tensor, want: torch.Tensor) -> float:
    return float((got.double() - want.double()).abs().max()) if want.numel() else 0.0


def _in_format(value: Any, form: torch.memory_format) -> Any:
    return pytree.tree_map_only(
        torch.Tensor,
        lambda t: t.contiguous(memory_format=form) if t.dim() == 4 else t,
        value,
    )


def _gradients(model: Any, args: Any, kwargs: Any) -> dict[str, torch.Tensor]:
    """The loss and the gradients of all parameters."""
    loss = _loss(model(*args, **kwargs))
    loss.backward()
    found = {k: p.grad for k, p in model.named_parameters() if p.grad is not None}
    return found | {"loss": loss.detach()}


class Exact:
    """Loss and gradients in float64, computed when they are needed."""

    def __init__(self, model: torch.nn.Module, args: Any, kwargs: Any) -> None:
        self._model, self._args, self._kwargs = model, args, kwargs

    @functools.cached_property
    def _found(self) -> dict[str, torch.Tensor]:
        model = copy.deepcopy(self._model).double()
        return _gradients(model, _doubled(self._args), _doubled(self._kwargs))

    def _twins(self) -> Iterator[tuple[torch.nn.Module, Any]]:
        """Yields models and inputs in float32; eager's results of each are as exact as of any other."""
        form = torch.channels_last
        model = copy.deepcopy(self._model)
        yield model.to(memory_format=form), _in_format(self._args, form)  # type: ignore[call-overload]
        with torch.backends.mkldnn.flags(enabled=False):
            yield copy.deepcopy(self._model), self._args
        for moved in self._moved(range(3)):
            yield moved, self._args

    def _moved(self, seeds: range) -> Iterator[torch.nn.Module]:
        """Yields models whose parameters have moved by a unit in the last place."""
        for seed in seeds:
            generator = torch.Generator().manual_seed(seed)
            moved = copy.deepcopy(self._model)
            with torch.no_grad():
                for p in moved.parameters():
                    up = torch.rand(p.shape, generator=generator) < 0.5
                    p.copy_(torch.nextafter(p, torch.where(up, math.inf, -math.inf)))
            yield moved

    @functools.cached_property
    def _others(self) -> list[dict[str, torch.Tensor]]:
        return [_gradients(m, args, self._kwargs) for m, args in self._twins()]

    @functools.cached_property
    def _more(self) -> list[dict[str, torch.Tensor]]:
        moved = self._moved(range(3, 14))
        return [_gradients(m, self._args, self._kwargs) for m in moved]

    def __getitem__(self, key: str) -> torch.Tensor:
        return self._found[key]

    def errors(self, key: str, more: bool = False) -> list[float]:
        """Errors of eager in float32: 5, or those of 11 more runs."""
        runs = self._more if more else self._others
        return [_error(other[key], self[key]) for other in runs]

    def history(self) -> list[float]:
        """Losses of training in float64."""
        model = copy.deepcopy(self._model).double()
        return _history(model, model, _doubled(self._args), _doubled(self._kwargs))

    def histories(self) -> Iterator[list[float]]:
        """Losses of training of eager in float32."""
        return (_history(m, m, args, self._kwargs) for m, args in self._twins())


def _history(call: Any, model: torch.nn.Module, args: Any, kwargs: Any) -> list[float]:
    """Trains with AdamW and returns the loss of each step."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    history = []
    for _ in range(STEPS):
        optimiser.zero_grad()
        loss = _loss(call(*args, **kwargs))
        loss.backward()
        optimiser.step()
        history.append(float(loss.detach()))
    return history


def _loss(result: Any) -> torch.Tensor:
    tensors = [
        t
        for t in pytree.tree_leaves(dict(result) if hasattr(result, "keys") else result)
        if isinstance(t, torch.Tensor) and t.is_floating_point()
    ]
    first = tensors[0]
    target = torch.rand(first.shape, generator=torch.Generator().manual_seed(7))
    return (first - target.to(first.dtype)).square().mean()


class Models(unittest.TestCase):
    def close(
        self,
        key: str,
        got: torch.Tensor,
        want: torch.Tensor,
        scale: float,
        exact: Exact,
    ) -> None:
        """Compares a tensor with eager's, and in case of doubt both with the exact one."""
        if _error(got, want) <= 1e-4 * scale:
            return
        mine, theirs = _error(got, exact[key]), _error(want, exact[key])
        if mine > 1.5 * theirs:
            theirs = max(theirs, *exact.errors(key))
        if mine > 1.5 * theirs:
            theirs = max(theirs, *exact.errors(key, more=True))
        print(f"  {key}: error {mine / scale:.2g}, eager's error {theirs / scale:.2g}")
        self.assertLessEqual(mine, 1.5 * theirs, key)

    def check(self, name: str) -> None:
        torch._dynamo.reset()
        torch.manual_seed(0)
        model, args, kwargs = ALL_MODELS[name]()
        model.train()
        twin = copy.deepcopy(model)
        exact = Exact(copy.deepcopy(model), args, kwargs)
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
        self.close("loss", loss.detach(), want.detach(), float(want.detach()), exact)
        self._gradients(model, twin, exact)
        if name not in WITH_FALLBACKS:
            self.assertEqual(fallbacks, [])
        self._train(run, model, twin, args, kwargs, exact)

    def _gradients(self, model: Any, twin: Any, exact: Exact) -> None:
        theirs = {k: p.grad for k, p in twin.named_parameters() if p.grad is not None}
        largest = max(float(g.abs().max()) for g in theirs.values())
        for key, parameter in model.named_parameters():
            if key not in theirs:
                # AOTAutograd gives zeros where eager has no gradient: of results without a use.
                self.assertFalse(
                    parameter.grad is not None and parameter.grad.any(), key
                )
            else:
                assert parameter.grad is not None, key
                # Gradients that vanish in exact arithmetic are judged by the largest of all.
                scale = max(float(theirs[key].abs().max()), 1e-3 * largest)
                self.close(key, parameter.grad, theirs[key], scale, exact)

    def _train(
        self, run: Any, model: Any, twin: Any, args: Any, kwargs: Any, exact: Exact
    ) -> None:
        mine = _history(run, model, args, kwargs)
        theirs = _history(twin, twin, args, kwargs)
        scales = [max(abs(t), 1) for t in theirs]
        parts = zip(mine, theirs, scales, strict=True)
        if all(abs(m - t) <= 1e-3 * s for m, t, s in parts):
            return
        # Each step amplifies the rounding errors of the steps before. Training in float64 shows how
        # large they are.
        right = exact.history()

        def error(history: list[float]) -> float:
            parts = zip(history, right, scales, strict=True)
            return max(abs(h - r) / s for h, r, s in parts)

        found, allowed = error(mine), error(theirs)
        if found > 1.5 * allowed:
            allowed = max(allowed, *map(error, exact.histories()))
        print(f"  steps: error {found:.2g}, eager's error {allowed:.2g}")
        self.assertLessEqual(found, 1.5 * allowed)


def _add(name: str) -> None:
    def test(self: Models) -> None:
        self.check(name)

    setattr(Models, f"test_{name}", test)


for _name in ALL_MODELS:
    _add(_name)


if __name__ == "__main__":
    unittest.main()
