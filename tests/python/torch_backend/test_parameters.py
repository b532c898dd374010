"""Parameters on the device: which changes are seen, and when their copies are freed."""

from __future__ import annotations

import copy
import gc
import unittest
from collections.abc import Callable

import numpy as np
import torch
from reprise.torch import backend, counters
from test_backend import DEVICE, OPTIONS, Case, Mlp, compiled
from torch import nn


def uploads(call: Callable[[], object]) -> int:
    """Returns how many copies to the device a call makes."""
    before = counters().uploads
    call()
    return counters().uploads - before


class Parameters(Case):
    def test_changes_are_read_again(self) -> None:
        model = nn.Linear(4, 4)
        run = compiled(model)
        x = torch.randn(2, 4)
        with torch.no_grad():
            self.close(run(x), model(x))
            model.weight.mul_(2)
            self.close(run(x), model(x))

    def test_uncounted_changes_are_read_again(self) -> None:
        changes: list[Callable[[nn.Parameter], object]] = [
            lambda p: p.data.mul_(3),
            lambda p: np.copyto(p.detach().numpy(), 0.5),
            lambda p: setattr(p, "data", p.data.flip(0)),
        ]
        for form in (torch.contiguous_format, torch.channels_last):
            model = nn.Conv2d(8, 8, 3).to(memory_format=form)
            for options in (OPTIONS, {**OPTIONS, "freeze": True}):
                torch._dynamo.reset()
                run = torch.compile(model, backend=backend, options=options)
                x = torch.randn(2, 8, 5, 5)
                with torch.no_grad():
                    self.close(run(x), model(x))
                    for change in changes:
                        change(model.weight)
                        self.close(run(x), model(x))

    def test_swapped_tensors(self) -> None:
        model = nn.Linear(4, 4)
        run = compiled(model)
        x = torch.randn(2, 4)
        run(x).sum().backward()
        for make in (torch.zeros_like, torch.ones_like, torch.randn_like):
            other = nn.Parameter(make(model.weight))
            model.weight.grad = None
            torch.utils.swap_tensors(model.weight, other)
            self.close(run(x).detach(), model(x).detach())
            torch.utils.swap_tensors(model.weight, other)
            self.close(run(x).detach(), model(x).detach())

    def test_conversions_that_swap_tensors(self) -> None:
        model = Mlp()
        run = compiled(model)
        x = torch.randn(8, 16)
        self.close(run(x).detach(), model(x).detach())
        torch.__future__.set_swap_module_params_on_conversion(True)
        self.addCleanup(torch.__future__.set_swap_module_params_on_conversion, False)
        model.double()
        self.close(run(x.double()).detach(), model(x.double()).detach())
        model.float()
        state = {k: v * 2 for k, v in model.state_dict().items()}
        model.load_state_dict(state)
        self.close(run(x).detach(), model(x).detach())

    def test_shared_memory(self) -> None:
        model = nn.Linear(4, 4)
        run = compiled(model)
        x = torch.randn(2, 4)
        with torch.no_grad():
            self.close(run(x), model(x))
            model.share_memory()
            self.close(run(x), model(x))
            model.weight.data.fill_(3)
            self.close(run(x), model(x))

    @unittest.skipIf(DEVICE == "host", "the host has no copies")
    def test_they_are_copied_once(self) -> None:
        model = Mlp()
        run = compiled(model)
        x = torch.randn(8, 16)
        run(x).sum().backward()
        self.assertEqual(uploads(lambda: run(x).sum().backward()), 0)
        with torch.no_grad():
            model.first.weight.mul_(2)
        self.assertEqual(uploads(lambda: run(x).sum().backward()), 1)

    @unittest.skipIf(DEVICE == "host", "the host has no copies")
    def test_tensors_in_the_same_memory(self) -> None:
        first, second = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
        second.weight = nn.Parameter(first.weight.data)
        run = compiled(lambda x: second(first(x)))
        x = torch.randn(2, 4)
        with torch.no_grad():
            for tensor in (first.weight, second.weight, first.weight):
                tensor.add_(1)
                self.assertGreater(uploads(lambda: run(x)), 0)
                self.close(run(x), second(first(x)))
                self.assertEqual(uploads(lambda: run(x)), 0)

    def test_new_tensors_at_old_addresses(self) -> None:
        """Neither ids nor addresses of tensors that have died mislead."""
        model = nn.Linear(64, 64, bias=False)
        run = compiled(model)
        x = torch.randn(2, 64)
        with torch.no_grad():
            for step in range(20):
                weight = torch.zeros(64, 64)
                weight[1, step] = 1  # not in the sample
                model.weight = nn.Parameter(weight)
                del weight
                self.close(run(x), model(x))

    def test_buffers_of_changing_sizes_in_the_same_memory(self) -> None:
        memory = torch.randn(10, 4)
        model = nn.Module()
        model.register_buffer("lines", memory[:3])
        run = compiled(lambda x: model.lines @ x, dynamic=True)
        x = torch.randn(4, 2)
        for count in (3, 5, 7, 4, 9, 3):
            model.lines = memory[:count]
            self.close(run(x), memory[:count] @ x)

    @unittest.skipIf(DEVICE == "host", "the host has no copies")
    def test_copies_are_freed(self) -> None:
        torch._dynamo.reset()
        gc.collect()  # what other tests have left
        model = Mlp()
        run = compiled(model)
        x = torch.randn(8, 16)
        run(x)
        residents = self._residents()
        before = len(residents)
        other = copy.deepcopy(model)
        compiled(other)(x)
        self.assertGreater(len(residents), before)
        held = [r for k in residents.values() for r in k.copies.values()]
        del other
        torch._dynamo.reset()
        gc.collect()
        self.assertEqual(len(residents), before)
        self.assertTrue(any(r.copy is None for r in held))

    def _residents(self) -> dict[int, object]:
        from reprise.torch import engine, options

        opened = engine.open_engine(options.Options(device=DEVICE))
        return opened.residents._kept  # type: ignore[attr-defined,no-any-return]


if __name__ == "__main__":
    unittest.main()
