"""Packages of `reprise.torch.export` against eager."""

from __future__ import annotations

import copy
import os
import unittest
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest import mock

import numpy as np
import reprise
import reprise.torch
import torch
import torch.nn.functional as F
from models import MODELS
from reprise.torch.decompositions import decompositions
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

DEVICE = os.environ.get("REPRISE_TEST_DEVICE", "vulkan:0")
TARGET = DEVICE.partition(":")[0]


class Of(nn.Module):
    """A function as a model."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return self._function(x, *args, **kwargs)


class Counter(nn.Module):
    """Adds up what it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.ones(3))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64), False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x.sum(0))
        self.calls.add_(1)
        return x + self.total * self.calls


def _slots(slots: Sequence[reprise.Slot]) -> list[tuple[str, tuple[int | str, ...]]]:
    return [(s.name, tuple(s.shape)) for s in slots]


class ExportCase(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(0)
        self.x = torch.randn(4, 3)

    def export(self, model: Any, *args: Any, **options: Any) -> reprise.Package:
        net = model if isinstance(model, nn.Module) else Of(model)
        return reprise.torch.export(net, args, targets=TARGET, **options)

    def run_package(
        self, package: reprise.Package, *tensors: torch.Tensor
    ) -> list[torch.Tensor]:
        """The outputs of a run, in their order."""
        session = reprise.Session(package, device=DEVICE)
        named = zip(package.inputs, tensors, strict=True)
        found = session.run({slot.name: t.numpy() for slot, t in named})
        return [
            torch.from_numpy(np.array(found[slot.name])) for slot in package.outputs
        ]

    def same(self, got: torch.Tensor, want: torch.Tensor, part: float = 1e-5) -> None:
        self.assertEqual(got.shape, want.shape)
        self.assertEqual(got.dtype, want.dtype)
        if want.numel():
            scale = max(1.0, float(want.double().abs().max()))
            difference = (got.double() - want.double()).abs()
            self.assertLessEqual(float(difference.max()), part * scale)

    def agree(self, model: nn.Module, *tensors: torch.Tensor) -> None:
        """Compares all results of a model with eager's."""
        package = self.export(copy.deepcopy(model), *tensors)
        with torch.no_grad():
            want = pytree.tree_leaves(model(*tensors))
        got = self.run_package(package, *tensors)
        self.assertEqual(len(got), len(want))
        for g, w in zip(got, want, strict=True):
            self.same(g, w)

    def agree_on(self, model: nn.Module, args: Any, kwargs: Any) -> None:
        """Compares all results of a model of the lists with eager's."""
        model.eval()
        package = reprise.torch.export(
            copy.deepcopy(model), args, kwargs=kwargs, targets=TARGET
        )
        with torch.no_grad():
            want = _tensors(model(*args, **kwargs))
        got = self.run_package(package, *_tensors((args, kwargs)))
        self.assertEqual(len(got), len(want))
        for g, w in zip(got, want, strict=True):
            self.same(g, w, 1e-4)


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [t for t in pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]


class Interface(ExportCase):
    def test_layers(self) -> None:
        """Operators that PyTorch always writes with others, which an export would keep."""
        image = torch.randn(2, 4, 6, 6)
        text = torch.randn(2, 5, 8)
        models: list[tuple[nn.Module, torch.Tensor]] = [
            (nn.LayerNorm(3), self.x),
            (nn.GroupNorm(2, 4), image),
            (nn.InstanceNorm2d(4, affine=True), image),
            (nn.RMSNorm(8), text),
            (nn.PReLU(4), image),
            (nn.Upsample(scale_factor=2, mode="bicubic"), image),
            (nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True).eval(), text),
            (nn.LSTM(8, 4, batch_first=True), text),
            (nn.GRU(8, 4, 2, bidirectional=True), text),
            (
                nn.Sequential(nn.BatchNorm2d(4), nn.Conv2d(4, 6, 3), nn.SiLU()).eval(),
                image,
            ),
            (Of(lambda x: x.std(0) + x.var()), self.x),
            (Of(lambda x: torch.var_mean(x, 1)), self.x),
            (Of(lambda x: torch.std_mean(x)), self.x),
        ]
        for model, x in models:
            with self.subTest(str(model)):
                self.agree(model, x)

    def test_arguments_that_are_no_tensors(self) -> None:
        def function(x: torch.Tensor, mask: Any, mode: str, count: int) -> torch.Tensor:
            return x * count if mask is None and mode == "scale" else x

        package = self.export(function, self.x, None, "scale", 3)
        self.assertEqual(_slots(package.inputs), [("x", (4, 3))])
        self.same(self.run_package(package, self.x)[0], self.x * 3)

    def test_all_tensors_are_inputs_in_their_order(self) -> None:
        def function(
            x: torch.Tensor, unused: torch.Tensor, parts: Mapping[str, torch.Tensor]
        ) -> torch.Tensor:
            return x + parts["b"]

        parts = {"a": torch.ones(2), "b": torch.ones(3)}
        package = self.export(function, self.x, torch.ones(5), parts)
        shapes = [shape for _, shape in _slots(package.inputs)]
        self.assertEqual(shapes, [(4, 3), (5,), (2,), (3,)])
        inputs = (self.x, torch.ones(5), torch.ones(2), torch.ones(3))
        self.same(self.run_package(package, *inputs)[0], self.x + 1)

    def test_all_results_are_outputs(self) -> None:
        def function(x: torch.Tensor) -> Any:
            y = x + 1
            return {
                "logits": y,
                "hidden": [x, y, y.T],
                "size": 7,
                "none": None,
                "made": torch.arange(3),
            }

        package = self.export(function, self.x)
        names = ["logits", "hidden.0", "hidden.1", "hidden.2", "size", "made"]
        self.assertEqual([s.name for s in package.outputs], names)
        y = self.x + 1
        want = [y, self.x, y, y.T, torch.tensor(7), torch.arange(3)]
        for g, w in zip(self.run_package(package, self.x), want, strict=True):
            self.same(g, w)
        listed = self.export(lambda x: (x, x * 2), self.x)
        self.assertEqual([s.name for s in listed.outputs], ["output", "output.1"])

    def test_complex_results_are_pairs(self) -> None:
        got = self.run_package(self.export(torch.fft.rfft, self.x), self.x)[0]
        self.same(got, torch.view_as_real(torch.fft.rfft(self.x)))

    def test_assertions_are_errors_of_runs(self) -> None:
        def positive(x: torch.Tensor) -> torch.Tensor:
            torch._assert_async((x > 0).all(), "x must be positive")
            return x * 2

        functions: list[tuple[Callable[..., torch.Tensor], torch.Tensor, str]] = [
            (positive, torch.ones(3, 3), "x must be positive"),
            (
                torch.linalg.inv,
                torch.eye(3) * 2,
                r"linalg\.inv: the matrix is singular",
            ),
            (torch.linalg.cholesky, torch.eye(3) * 2, "not positive definite"),
            (lambda x: F.one_hot(x.long(), 4), torch.ones(3, 3), "one_hot"),
        ]
        for function, good, message in functions:
            with self.subTest(message):
                package = self.export(function, good)
                self.same(self.run_package(package, good)[0], function(good))
                with self.assertRaisesRegex(reprise.InvalidInput, message):
                    self.run_package(package, torch.full((3, 3), -1.0))

    def test_what_cannot_be_exported(self) -> None:
        cases: list[tuple[Callable[..., Any], str]] = [
            (lambda x: x.add_(1), "writes to its argument 'x'"),
            (lambda x: None, "returns no tensor"),
            (
                lambda x: torch.igamma(x.abs(), x.abs()),
                r"aten\.igamma.*test_export\.py",
            ),
        ]
        for function, message in cases:
            with (
                self.subTest(message),
                self.assertRaisesRegex(reprise.Unsupported, message),
            ):
                self.export(function, self.x)


class Sizes(ExportCase):
    def test_names_and_limits(self) -> None:
        batch = Dim("batch", min=2, max=9)
        package = self.export(
            lambda x: (x.reshape(-1), x.shape[0]), self.x, dynamic_shapes=({0: batch},)
        )
        self.assertEqual(_slots(package.inputs), [("x", ("batch", 3))])
        for rows in (2, 4, 9):
            x = torch.randn(rows, 3)
            flat, count = self.run_package(package, x)
            self.same(flat, x.reshape(-1))
            self.assertEqual(int(count), rows)
        for rows in (1, 10):
            with self.assertRaisesRegex(
                reprise.InvalidInput, r"'batch'.*expected 2 to 9"
            ):
                self.run_package(package, torch.randn(rows, 3))

    def test_sizes_that_follow_from_others(self) -> None:
        class Pairs(nn.Module):
            def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
                return x.sum(1).repeat(2) + y

        n = Dim("n", min=2, max=8)
        shapes = {"x": {0: n}, "y": {0: 2 * n}}
        package = self.export(Pairs(), self.x, torch.ones(8), dynamic_shapes=shapes)
        x, y = torch.randn(5, 3), torch.randn(10)
        self.same(self.run_package(package, x, y)[0], x.sum(1).repeat(2) + y)
        with self.assertRaises(reprise.InvalidInput):
            self.run_package(package, x, torch.randn(9))

    def test_sizes_that_are_multiples(self) -> None:
        class Blocks(nn.Module):
            def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
                return x.unflatten(1, (4, -1)).mean(1) + y[:, 1:]

        h = Dim("h", min=1, max=9)
        shapes = {"x": {1: 4 * h}, "y": {1: h + 1}}
        model = Blocks()
        package = self.export(
            model, torch.randn(2, 12), torch.randn(2, 4), dynamic_shapes=shapes
        )
        for size in (1, 5, 9):
            x, y = torch.randn(2, 4 * size), torch.randn(2, size + 1)
            self.same(self.run_package(package, x, y)[0], model(x, y))
        wrong = {
            (22, 6): "dimension 1 is 22, expected 20",
            (20, 7): "dimension 1 is 7, expected 6",
            (40, 11): "is 40, expected 4 to 36",
        }
        for (columns, others), message in wrong.items():
            with self.assertRaisesRegex(reprise.InvalidInput, message):
                self.run_package(
                    package, torch.randn(2, columns), torch.randn(2, others)
                )

    def test_relations_of_sizes_are_results(self) -> None:
        def model(x: torch.Tensor) -> tuple[Any, ...]:
            return x, x.shape[0] > 3, x.shape[0] != 4, x.shape[0] * 2

        shapes = ({0: Dim("n", min=2, max=9)},)
        package = self.export(model, self.x, dynamic_shapes=shapes)
        for rows in (3, 4, 5):
            x = torch.randn(rows, 3)
            numbers = [float(n) for n in self.run_package(package, x)[1:]]
            self.assertEqual(numbers, [float(n) for n in model(x)[1:]])

    def test_a_unet_of_multiples(self) -> None:
        class Unet(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.wide, self.down = (
                    nn.Conv2d(3, 4, 3, padding=1),
                    nn.Conv2d(4, 8, 3, 2, 1),
                )
                self.deep, self.up = (
                    nn.Conv2d(8, 8, 3, 2, 1),
                    nn.ConvTranspose2d(8, 8, 2, 2),
                )
                self.join, self.last = (
                    nn.Conv2d(16, 4, 3, padding=1),
                    nn.Conv2d(8, 2, 1),
                )

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                wide = F.silu(self.wide(x))
                down = F.silu(self.down(wide))
                up = self.up(F.silu(self.deep(down)))
                joined = F.silu(self.join(torch.cat([up, down], 1)))
                joined = F.interpolate(joined, scale_factor=2, mode="nearest")
                return self.last(torch.cat([joined, wide], 1))

        sizes = {2: 4 * Dim("h", min=1, max=9), 3: 4 * Dim("w", min=1, max=9)}
        model = Unet()
        x = torch.randn(1, 3, 16, 24)
        package = self.export(model, x, dynamic_shapes=[sizes])
        self.assertEqual(package.outputs[0].shape, (1, 2, "4*h", "4*w"))
        for size in ((4, 4), (8, 12), (36, 20)):
            x = torch.randn(1, 3, *size)
            with torch.no_grad():
                self.same(self.run_package(package, x)[0], model(x))

    def test_pooling_and_resampling_of_any_size(self) -> None:
        models: dict[str, Callable[[torch.Tensor], Any]] = {
            "average to half": lambda x: F.adaptive_avg_pool2d(x, (x.shape[2] // 2, 3)),
            "average": lambda x: F.adaptive_avg_pool3d(x, (2, 3, 4)),
            "maximum": lambda x: F.adaptive_max_pool2d(x, 3, return_indices=True),
            "maximum of rows": lambda x: F.adaptive_max_pool1d(x[0].mT, 3),
            "area": lambda x: F.interpolate(x, scale_factor=0.5, mode="area"),
            "bilinear": lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"),
            "a third": lambda x: F.interpolate(x, scale_factor=1 / 3, mode="nearest"),
            "bicubic": lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
            "bags": lambda x: F.embedding_bag(
                x[0, 0].abs().long() % 5, torch.arange(15.0).view(5, 3), mode="mean"
            ),
        }
        n = Dim("n", min=6, max=20)
        for name, model in models.items():
            with self.subTest(name):
                x = torch.randn(2, 4, 9, 8)
                package = self.export(model, x, dynamic_shapes=({2: n},))
                for size in (6, 9, 14, 20):
                    x = torch.randn(2, 4, size, 8)
                    want = model(x)
                    listed = want if isinstance(want, tuple) else (want,)
                    for got, one in zip(
                        self.run_package(package, x), listed, strict=True
                    ):
                        self.same(got, one)

    def test_formulas_may_fix_no_size(self) -> None:
        def fixing(x: torch.Tensor) -> torch.Tensor:
            return x.clamp(min=0) if x.shape[0] // 2 == 2 else x - 1

        def rows(x: torch.Tensor) -> torch.Tensor:
            # PyTorch compares sizes here, but only to choose strides.
            return x.mT.reshape(-1).clone().reshape(x.mT.shape).mT.clamp(min=0)

        table = {**decompositions(), torch.ops.aten.relu.default: fixing}
        n = Dim("n", min=2, max=9)
        for limits, message in (
            (n, "does not hold for n = 2"),
            (Dim("n", min=4, max=5), ""),
        ):
            shapes = ({0: limits},)
            with mock.patch("reprise.torch.exporting.decompositions", lambda: table):
                if not message:
                    self.export(F.relu, self.x, dynamic_shapes=shapes)
                    continue
                with self.assertRaisesRegex(reprise.Unsupported, message):
                    self.export(F.relu, self.x, dynamic_shapes=shapes)
        table[torch.ops.aten.relu.default] = rows
        with mock.patch("reprise.torch.exporting.decompositions", lambda: table):
            package = self.export(F.relu, self.x, dynamic_shapes=({0: n},))
        x = torch.randn(7, 3)
        self.same(self.run_package(package, x)[0], F.relu(x))

    def test_group_norm_of_any_batch(self) -> None:
        model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.GroupNorm(2, 4), nn.SiLU())
        batch, height = Dim("batch", min=1, max=9), Dim("height", min=2, max=9)
        package = self.export(
            model, torch.randn(2, 3, 4, 4), dynamic_shapes=[{0: batch, 2: height}]
        )
        for shape in ((2, 3, 4, 4), (5, 3, 7, 4)):
            x = torch.randn(shape)
            with torch.no_grad():
                want = model(x)
            self.same(self.run_package(package, x)[0], want)

    def test_numbers_that_change_are_refused(self) -> None:
        shapes: tuple[Any, ...] = ({0: Dim("n", min=2)}, (Dim.DYNAMIC,))
        with self.assertRaisesRegex(reprise.Unsupported, "pass it as a tensor"):
            self.export(lambda x, n: x * n, self.x, 3, dynamic_shapes=shapes)

    def test_automatic_sizes(self) -> None:
        shapes = ({0: Dim.AUTO, 1: Dim.AUTO},)
        package = self.export(lambda x: F.gelu(x @ x.T), self.x, dynamic_shapes=shapes)
        for shape in ((4, 3), (7, 5), (1, 1), (0, 2)):
            x = torch.randn(shape)
            self.same(self.run_package(package, x)[0], F.gelu(x @ x.T))

    def test_numbers_of_tensors(self) -> None:
        models: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
            "row": lambda x, i: x[i] + 1,
            "column": lambda x, i: x[:, i],
            "factor": lambda x, i: x * (i.item() * 2 + 1),
            "quotient": lambda x, i: x * (i.item() / 4),
            "filled": lambda x, i: torch.full((3,), i.item()) + x[0],
            "part": lambda x, i: x.narrow(0, i.item(), 1),
            "truth": lambda x, i: x * (i == 2).item(),
        }
        for name, model in models.items():
            with self.subTest(name):
                package = self.export(model, self.x, torch.tensor(1))
                for number in (0, 2, *(() if name == "part" else (-1, -2))):
                    i = torch.tensor(number)
                    self.same(self.run_package(package, self.x, i)[0], model(self.x, i))
        package = self.export(models["row"], self.x, torch.tensor(1))
        with self.assertRaisesRegex(reprise.InvalidInput, "index"):
            self.run_package(package, self.x, torch.tensor(4))


class States(ExportCase):
    def test_buffers_that_change_are_states(self) -> None:
        model = Counter()
        package = self.export(copy.deepcopy(model), self.x)
        self.assertEqual(sorted(s.name for s in package.states), ["calls", "total"])
        self.assertEqual([s.name for s in package.outputs], ["output"])
        session = reprise.Session(package, device=DEVICE)
        for _ in range(3):
            got = session.run({"x": self.x.numpy()})["output"]
            self.same(torch.from_numpy(np.array(got)), model(self.x))
        self.same(torch.from_numpy(np.array(session.read_state("total"))), model.total)

    def test_a_position_may_be_a_state(self) -> None:
        class Cache(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("cache", torch.zeros(4, 5))
                self.register_buffer("position", torch.zeros((), dtype=torch.int64))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                self.cache[:, self.position] = x[:, 0]
                self.position += 1
                return self.cache.cumsum(1)

        model = Cache()
        package = self.export(copy.deepcopy(model), self.x)
        session = reprise.Session(package, device=DEVICE)
        for _ in range(5):
            x = torch.randn(4, 3)
            got = session.run({"x": x.numpy()})["output"]
            self.same(torch.from_numpy(np.array(got)), model(x))
        with self.assertRaisesRegex(reprise.InvalidInput, "index"):
            session.run({"x": self.x.numpy()})

    def test_complex_states_are_pairs(self) -> None:
        class Total(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("total", torch.zeros(3, dtype=torch.complex64))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                self.total += torch.complex(x[0], x[1])
                return self.total.abs()

        model = Total()
        package = self.export(copy.deepcopy(model), self.x)
        session = reprise.Session(package, device=DEVICE)
        for _ in range(2):
            got = session.run({"x": self.x.numpy()})["output"]
            self.same(torch.from_numpy(np.array(got)), model(self.x))
        total = torch.from_numpy(np.array(session.read_state("total")))
        self.same(total, torch.view_as_real(model.total))

    def test_training_mode_is_kept(self) -> None:
        model = nn.BatchNorm1d(3)
        package = self.export(copy.deepcopy(model), self.x)
        self.same(self.run_package(package, self.x)[0], model(self.x).detach())

    def test_random_numbers(self) -> None:
        torch.manual_seed(3)
        package = self.export(lambda x: x + torch.rand_like(x), self.x)
        self.assertEqual([s.name for s in package.states], ["seed"])
        session = reprise.Session(package, device=DEVICE)
        first, second = (
            np.array(session.run({"x": self.x.numpy()})["output"]) for _ in range(2)
        )
        self.assertGreater(float(np.abs(first - second).max()), 1e-3)
        again = reprise.Session(package, device=DEVICE).run({"x": self.x.numpy()})[
            "output"
        ]
        self.assertTrue(np.array_equal(first, again))


class Models(ExportCase):
    def test_two_models(self) -> None:
        for name in ("gnn", "lstm"):
            with self.subTest(name):
                self.agree_on(*MODELS[name]())


if __name__ == "__main__":
    unittest.main()
