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

    def _missed(self, weights: str, side: int) -> int:
        """How many of some small changes that PyTorch does not count are missed."""
        missed = 0
        for freeze in (False, True):
            torch._dynamo.reset()
            model = nn.Linear(side, side)
            options = {**OPTIONS, "weights": weights, "freeze": freeze}
            run = torch.compile(model, backend=backend, options=options)
            z = torch.randn(4, side)
            with torch.no_grad():
                run(z)
                for row in range(0, side, max(side // 7, 1)):
                    model.weight.data[row, row // 2] += 3
                    missed += not torch.allclose(run(z), model(z), atol=1e-4)
                smallest = model.weight.data.abs().flatten().kthvalue(side).values
                model.weight.data[model.weight.data.abs() <= smallest] = 0.5
                missed += not torch.allclose(run(z), model(z), atol=1e-4)
        return missed

    def test_small_uncounted_changes(self) -> None:
        self.assertEqual(self._missed("watch", 32), 0)
        self.assertEqual(self._missed("watch", 640), 0)  # hashed during the run
        if DEVICE != "host":
            self.assertGreater(self._missed("sample", 640), 0)

    @unittest.skipIf(DEVICE == "host", "the host has no copies")
    def test_weights_that_are_said_to_stay(self) -> None:
        model = nn.Linear(8, 8)
        options = {**OPTIONS, "weights": "frozen"}
        run = torch.compile(model, backend=backend, options=options)
        x = torch.randn(2, 8)
        with torch.no_grad():
            before = run(x)
            model.weight.mul_(2)
            self.assertTrue(torch.equal(run(x), before))

    def test_watched_training(self) -> None:
        """Values that change while they are counted, and others that are not."""
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(600, 600), nn.Tanh(), nn.Linear(600, 3))
        twin = copy.deepcopy(model)
        run = compiled(model)
        x = torch.randn(5, 600)
        for _ in range(3):
            for net, call in ((model, run), (twin, twin)):
                net.zero_grad()
                call(x).square().sum().backward()
                with torch.no_grad():
                    for p in net.parameters():
                        assert p.grad is not None
                        p.data.sub_(p.grad, alpha=1e-3)
        with torch.no_grad():
            self.close(run(x), twin(x), 1e-4)

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
