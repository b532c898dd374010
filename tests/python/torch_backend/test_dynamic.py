"""A small encoder whose batch size and length of text change."""

from __future__ import annotations

import copy
import unittest
from collections.abc import Callable

import torch
import torch.nn.functional as F
from dynamic_shapes import DEVICE, Call, DynamicCase
from reprise.torch import backend, report
from torch import nn


class Encoder(nn.Module):
    """A layer of a transformer after embeddings of words and places."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 16), nn.Embedding(32, 16)
        self.all, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.attended, self.normed = nn.LayerNorm(16), nn.LayerNorm(16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        rows, length = tokens.shape
        x = self.words(tokens) + self.places(torch.arange(length))
        heads = self.all(x).view(rows, length, 3, 2, 8).permute(2, 0, 3, 1, 4)
        hidden = F.scaled_dot_product_attention(heads[0], heads[1], heads[2])
        hidden = hidden.transpose(1, 2).reshape(rows, length, 16)
        x = self.attended(x + self.out(hidden))
        return self.normed(x + self.down(F.gelu(self.up(x))))


class Dynamic(DynamicCase):
    def test_inference(self) -> None:
        self.check(Encoder(), lambda net, tokens: net(tokens), training=False)

    def test_training(self) -> None:
        self.check(Encoder(), lambda net, tokens: net(tokens), training=True)


class Images(DynamicCase):
    """Windows over images whose height and width change."""

    part = 1e-5

    def agree(self, function: Call, shapes: list[tuple[int, ...]]) -> list[str]:
        """Compares results and gradients with eager's; returns what PyTorch has run."""
        run = torch.compile(
            function, backend=backend, options={"device": DEVICE}, dynamic=True
        )
        with report.collect() as graphs:
            for shape in shapes:
                mine = torch.randn(shape, requires_grad=True)
                theirs = mine.detach().clone().requires_grad_()
                results = [_listed(run(mine)), _listed(function(theirs))]
                for got, want in zip(*results, strict=True):
                    self.close(got.detach(), want.detach(), 1e-6)
                    self.assertEqual(got.stride(), want.stride())
                for found in results:
                    sum(t.square().sum() for t in found if t.requires_grad).backward()  # type: ignore[union-attr]
                assert mine.grad is not None and theirs.grad is not None
                self.close(mine.grad, theirs.grad, 1e-6)
        return [f.operator for g in graphs for f in g.fallbacks]

    def test_pooling(self) -> None:
        images: list[tuple[int, ...]] = [(2, 3, 9, 12), (2, 3, 8, 11), (1, 3, 13, 10)]
        volumes = [(2, 3, 5, 7, 8), (2, 3, 6, 5, 9)]
        lines = [(2, 3, 9), (4, 3, 12), (3, 3, 17)]
        pools: list[nn.Module] = [
            nn.MaxPool2d(3, 2, 1), nn.MaxPool2d(2, 3, ceil_mode=True),
            nn.MaxPool2d(3, 1, dilation=2), nn.MaxPool2d(2, return_indices=True),
            nn.MaxPool1d(2), nn.MaxPool3d(2), nn.AvgPool2d(2), nn.AvgPool1d(3, 2, 1),
            nn.AvgPool2d(3, 2, 1, count_include_pad=False), nn.AvgPool2d(3, 2, 1, ceil_mode=True),
            nn.AvgPool2d(2, 3, ceil_mode=True, count_include_pad=False),
            nn.AvgPool2d((2, 3), 2, 1, divisor_override=5), nn.AvgPool3d(2, ceil_mode=True),
        ]  # fmt: skip
        for pool in pools:
            rank = int(type(pool).__name__[-2])
            shapes = {1: lines, 2: images, 3: volumes}[rank]
            with self.subTest(str(pool)):
                torch._dynamo.reset()
                self.assertEqual(self.agree(lambda x, p=pool: p(x * 1.5), shapes), [])

    def test_convolutions(self) -> None:
        shapes: list[tuple[int, ...]] = [(2, 4, 9, 11), (3, 4, 12, 10), (2, 4, 13, 14)]
        layers: list[nn.Module] = [
            nn.Conv2d(4, 6, 3, padding=1), nn.Conv2d(4, 6, 3, 3, 2, groups=2),
            nn.Conv2d(4, 6, 3, 2, dilation=2), nn.ConvTranspose2d(4, 6, 3, 2, 1, groups=2),
            nn.Sequential(nn.Conv2d(4, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU()),
        ]  # fmt: skip
        for layer in layers:
            with self.subTest(str(layer)):
                torch._dynamo.reset()
                copied = copy.deepcopy(layer)
                run = torch.compile(
                    layer, backend=backend, options={"device": DEVICE}, dynamic=True
                )
                with report.collect() as graphs:
                    for shape in shapes:
                        x = torch.randn(shape)
                        for program in (run, copied):
                            program(x).square().mean().backward()
                for mine, theirs in zip(
                    layer.parameters(), copied.parameters(), strict=True
                ):
                    assert mine.grad is not None and theirs.grad is not None
                    self.close(mine.grad, theirs.grad, 1e-6)
                self.assertEqual([f for g in graphs for f in g.fallbacks], [])

    def test_numbers_made_of_sizes(self) -> None:
        functions: list[Call] = [
            lambda x: x + torch.arange(x.shape[0], dtype=torch.float32)[:, None],
            lambda x: x * torch.arange(1, 1 + 3 * x.shape[0], 3, dtype=torch.float32)[:, None],
            lambda x: torch.eye(x.shape[0], x.shape[1]) * x,
            lambda x: x.std(1) * x.shape[0] ** 0.5 + x.shape[1] / 3,
            # The ratio of the sizes is 3 as Python computes it, and less in 32 bits.
            lambda x: F.interpolate(x[None], scale_factor=1 / 3, mode="nearest"),
            lambda x: x.t().mul(2), lambda x: x[None].transpose(1, 2).exp(),
        ]  # fmt: skip
        for number, function in enumerate(functions):
            with self.subTest(number):
                torch._dynamo.reset()
                self.assertEqual(self.agree(function, [(9, 12), (5, 14), (6, 13)]), [])

    def test_random_numbers(self) -> None:
        """Dropout is the same in backward, and as where sizes are known, given the seed."""

        def function(x: torch.Tensor) -> torch.Tensor:
            return F.dropout(x, 0.25, True) * torch.rand_like(x)

        def masked(dynamic: bool, shape: tuple[int, int]) -> torch.Tensor:
            run = torch.compile(
                function, backend=backend, options={"device": DEVICE}, dynamic=dynamic
            )
            torch.manual_seed(5)
            x = torch.ones(shape, requires_grad=True)
            result = run(x)
            result.sum().backward()
            assert x.grad is not None
            self.close(x.grad, result.detach(), 1e-7)
            return result.detach()

        torch._dynamo.reset()
        with report.collect() as graphs:
            found = [masked(True, s) for s in ((40, 50), (61, 33), (17, 9))]
        self.assertEqual([f for g in graphs for f in g.fallbacks], [])
        self.assertAlmostEqual(float((found[0] == 0).float().mean()), 0.25, delta=0.05)
        torch._dynamo.reset()
        self.assertTrue(torch.equal(masked(False, (61, 33)), found[1]))

    def test_sizes_in_parts_of_a_graph(self) -> None:
        """A part of a graph that is cut may need a size that its own arguments do not have."""

        def function(x: torch.Tensor) -> list[torch.Tensor]:
            y = x.exp()[:, ::2]
            z = torch.linalg.svdvals(y)
            return [z * x.shape[1], y.sum(0) * x.shape[0], F.max_pool1d(z[None], 2)]

        found = self.agree(function, [(9, 12), (5, 7), (6, 13)])
        self.assertIn("aten._linalg_svd.default", found)

    def test_diagonals_windows_and_medians(self) -> None:
        def read(x: torch.Tensor) -> list[torch.Tensor]:
            diagonals = [
                x.diagonal().exp(),
                x.diagonal(1).sin(),
                x.diagonal(-1, 1, 0) * 2,
            ]
            windows = [x.unfold(0, 3, 2).sum(-1), x.unfold(1, 2, 1).mean(-1)]
            medians = [x.median(0).values, x.median(1, True)[0], x.median()]
            return [*diagonals, *windows, *medians]

        def write(x: torch.Tensor) -> list[torch.Tensor]:
            made = [x * (i + 1) for i in range(10)]
            made[0].diagonal().fill_(3)
            made[1].diagonal(1, 1, 0).mul_(2)
            made[2][-1:] = 1.5
            made[3][x.shape[0] - 2 :] = 0
            made[4][1:] += 1
            made[5][-2] = 7
            made[6][::2] = 4
            made[7][:, 1::3] *= 2
            made[8][-3::2, ::2] = x[-3::2, ::2].flip(1)
            made[9][x.shape[0] // 2 :: 2] += x[0]
            return made

        for function in (read, write):
            torch._dynamo.reset()
            found = self.agree(function, [(5, 7), (8, 6), (4, 4), (9, 13)])
            self.assertEqual(found, [])

    def test_numbers_that_may_be_negative(self) -> None:
        x = torch.arange(40.0).view(5, 8) - 7
        functions: dict[str, tuple[Callable[..., torch.Tensor], tuple[int, ...]]] = {
            "roll": (lambda x, n: x.roll(n, 1) * 1, (3, -2, 0, 11, -9)),
            "pad": (lambda x, n: F.pad(x, (n, 1)), (3, -2, 4)),
            "slice": (lambda x, n: x[:, n:] * 2, (3, -2, 2)),
            "slice to": (lambda x, n: x[:, :n].sum(1), (3, 5, -3)),
            "select": (lambda x, n: x[n] * 2, (3, -2, 2)),
            "index_add": (lambda x, n: x.index_add(0, torch.tensor([1]), x[:1], alpha=n), (3, -2)),
            "add": (lambda x, n: x + n, (3, -2, 10**6, 10**11, -(10**11), 5)),
            "tril": (lambda x, n: x.tril(n) * 2, (3, -2)),
        }  # fmt: skip
        for name, (function, numbers) in functions.items():
            torch._dynamo.reset()
            run = torch.compile(
                function, backend=backend, options={"device": DEVICE}, dynamic=True
            )
            for n in numbers:
                with self.subTest(f"{name} {n}"):
                    self.close(run(x, n), function(x, n), 1e-6)

    def test_a_factor_that_is_zero_removes_what_is_no_number(self) -> None:
        a, b = torch.ones(5, 2), torch.ones(2, 8)
        x = torch.full((5, 8), float("nan"))

        def function(x: torch.Tensor, beta: float) -> torch.Tensor:
            return torch.addmm(x, a, b, beta=beta)

        run = torch.compile(
            function, backend=backend, options={"device": DEVICE}, dynamic=True
        )
        for beta in (0.0, 0.5):
            self.assertTrue(run(x, beta).equal(function(x, beta)) or beta)
            self.close(run(a @ b, beta), function(a @ b, beta), 1e-6)

    def test_nested_tensors(self) -> None:
        """The size of a ragged dim is no number: programs have the values of all rows."""
        linear = nn.Linear(8, 8)

        def function(ragged: torch.Tensor) -> torch.Tensor:
            return F.layer_norm(linear(ragged).sin(), (8,)) + ragged.softmax(-1)

        run = torch.compile(function, backend=backend, options={"device": DEVICE})
        with report.collect() as graphs:
            for rows in ((3, 5), (2, 7, 1), (4,)):
                ragged = torch.nested.nested_tensor(
                    [torch.randn(n, 8) for n in rows],
                    layout=torch.jagged,
                    requires_grad=True,
                )
                got, want = run(ragged), function(ragged)
                self.assertTrue(got.is_nested)
                self.close(got.values().detach(), want.values().detach(), 1e-6)
                gradients = [
                    torch.autograd.grad((r.values() ** 2).sum(), ragged)[0].values()
                    for r in (got, want)
                ]
                self.close(gradients[0], gradients[1], 1e-5)
        self.assertEqual([f for g in graphs for f in g.fallbacks], [])


def _listed(result: object) -> list[torch.Tensor]:
    return list(result) if isinstance(result, (list, tuple)) else [result]  # type: ignore[list-item]


if __name__ == "__main__":
    unittest.main()
