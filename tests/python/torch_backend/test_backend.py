"""The backend on small models: forward, gradients, optimisers, fallbacks, dynamic shapes."""

from __future__ import annotations

import copy
import os
import unittest
from collections.abc import Callable
from typing import Any

import reprise
import torch
import torch._dynamo
import torch.nn.functional as F
from reprise.torch import backend, explain, report
from reprise.torch.tally import counters
from torch import nn

DEVICE = os.environ.get("REPRISE_TEST_DEVICE", "vulkan:0")
OPTIONS = {"device": DEVICE}


def compiled(model: Any, **keywords: Any) -> Any:
    return torch.compile(model, backend=backend, options=OPTIONS, **keywords)


class Case(unittest.TestCase):
    def setUp(self) -> None:
        torch._dynamo.reset()
        torch.manual_seed(0)

    def close(self, got: torch.Tensor, want: torch.Tensor, part: float = 1e-5) -> None:
        self.assertEqual(got.shape, want.shape)
        self.assertEqual(got.dtype, want.dtype)
        scale = float(want.detach().abs().max()) if want.numel() else 1.0
        worst = (
            float((got.double() - want.double()).abs().max()) if want.numel() else 0.0
        )
        self.assertLessEqual(worst, part * max(scale, 1e-6))

    def agree(
        self, model: nn.Module, *inputs: torch.Tensor, part: float = 1e-5
    ) -> None:
        """Compares results and all gradients with eager's; nothing may fall back."""
        twin = copy.deepcopy(model)
        with report.collect() as graphs:
            got = compiled(model)(*inputs)
            got.square().sum().backward()
        self.assertEqual([f for g in graphs for f in g.fallbacks], [])
        self.assertEqual({g.kind for g in graphs}, {"forward", "backward"})
        want = twin(*inputs)
        want.square().sum().backward()
        self.close(got.detach(), want.detach(), part)
        for (name, mine), theirs in zip(
            model.named_parameters(), twin.parameters(), strict=True
        ):
            with self.subTest(name):
                assert mine.grad is not None and theirs.grad is not None
                self.close(mine.grad, theirs.grad, part)


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(16, 32), nn.LayerNorm(32)
        self.second = nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.norm(self.first(x))
        return self.second(F.gelu(hidden) * torch.sigmoid(hidden))


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.depth = nn.Conv2d(8, 16, 3, groups=4, padding=2, dilation=2)
        self.up = nn.ConvTranspose2d(16, 4, 3, stride=2, padding=1, output_padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm(self.first(x)))
        y = F.max_pool2d(self.depth(y), 2)
        return F.avg_pool2d(self.up(y), 2)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 16)
        self.all = nn.Linear(16, 48)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        q, k, v = self.all(self.words(tokens)).chunk(3, dim=-1)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class Models(Case):
    def test_mlp(self) -> None:
        self.agree(Mlp(), torch.randn(8, 16))

    def test_convolutions(self) -> None:
        self.agree(Convolutions(), torch.randn(2, 3, 16, 16))

    def test_channels_last(self) -> None:
        x = torch.randn(2, 3, 16, 16).to(memory_format=torch.channels_last)
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()).to(
            memory_format=torch.channels_last
        )  # type: ignore[call-overload]
        want = model(x)
        got = compiled(model)(x)
        self.close(got.detach(), want.detach())
        self.assertEqual(got.stride(), want.stride())

    def test_weight_norm(self) -> None:
        norm = nn.utils.parametrizations.weight_norm
        for model in (norm(nn.Linear(16, 8)), norm(nn.Linear(16, 8), dim=1)):
            torch._dynamo.reset()
            self.agree(model, torch.randn(4, 16))
        torch._dynamo.reset()
        self.agree(norm(nn.Conv1d(4, 6, 3), dim=2), torch.randn(2, 4, 9))

    def test_attention(self) -> None:
        self.agree(Attention(), torch.randint(11, (2, 5)))

    def test_batch_norm_statistics(self) -> None:
        model = Convolutions()
        twin = copy.deepcopy(model)
        x = torch.randn(2, 3, 16, 16)
        compiled(model)(x)
        twin(x)
        assert model.norm.running_var is not None and twin.norm.running_var is not None
        self.close(model.norm.running_var, twin.norm.running_var)
        self.assertEqual(int(model.norm.num_batches_tracked or 0), 1)

    def test_loss_and_optimiser(self) -> None:
        model = Mlp()
        twin = copy.deepcopy(model)
        x, y = torch.randn(8, 16), torch.randint(4, (8,))
        losses = []
        for net, wrap in ((model, compiled), (twin, lambda f: f)):
            optimiser = torch.optim.AdamW(net.parameters(), lr=1e-2)
            step = wrap(lambda n=net: F.cross_entropy(n(x), y))
            update = wrap(optimiser.step)
            history = []
            for _ in range(5):
                optimiser.zero_grad()
                loss = step()
                loss.backward()
                update()
                history.append(float(loss.detach()))
            losses.append(history)
        for mine, theirs in zip(*losses, strict=True):
            self.assertAlmostEqual(mine, theirs, delta=1e-3 * abs(theirs))


class Behaviour(Case):
    def test_fallback_is_shown(self) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.svdvals(x.sin() + 4 * torch.eye(3)).cos()

        x = torch.randn(3, 3)
        found = explain(function, x, options=OPTIONS)
        self.assertTrue(any("svd" in f.operator for f in found.fallbacks), str(found))
        self.assertIn("svd", found._repr_html_())
        self.assertTrue(
            all("test_backend.py" in f.source for f in found.fallbacks), str(found)
        )
        torch._dynamo.reset()
        self.close(compiled(function)(x), function(x))

    def test_functions_that_pytorch_runs_are_shown(self) -> None:
        def function(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
            return x.sin()[i] + 1

        found = explain(function, torch.randn(4, 3), torch.tensor(2), options=OPTIONS)
        self.assertEqual(found.graphs, [])
        self.assertRegex(str(found), r"function runs in PyTorch: .*_local_scalar_dense")

    def test_dynamic_shapes_compile_once(self) -> None:
        model = Mlp()
        with report.collect() as graphs, torch.no_grad():
            run = compiled(model, dynamic=True)
            for rows in (3, 5, 8, 2):
                x = torch.randn(rows, 16)
                self.close(run(x), model(x))
        self.assertEqual(len(graphs), 1)
        self.assertEqual(graphs[0].fallbacks, [])

    def test_sizes_are_numbers_of_the_program(self) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            return x.reshape(x.shape[0] * 2, -1) * x.shape[0] + x.shape[1]

        run = compiled(function, dynamic=True)
        for rows in (2, 4, 6):
            x = torch.randn(rows, 8)
            self.close(run(x), function(x))

    def test_fused_optimizers_change_parameters(self) -> None:
        for make in (torch.optim.SGD, torch.optim.AdamW, torch.optim.Adagrad):
            losses = []
            for compiles in (False, True):
                torch.manual_seed(0)
                # Most rows of the embedding have no gradient.
                model = nn.Sequential(nn.Embedding(500, 8), nn.Linear(8, 4))
                run = compiled(model) if compiles else model
                optimizer = make(model.parameters(), lr=0.1, fused=True)
                history = []
                for _ in range(4):
                    optimizer.zero_grad()
                    loss = run(torch.tensor([3, 77, 200])).square().sum()
                    loss.backward()
                    optimizer.step()
                    history.append(loss.detach())
                losses.append(torch.stack(history))
            self.close(losses[1], losses[0])

    def test_a_model_may_change_its_dtype(self) -> None:
        model = nn.Linear(4, 8)
        run = compiled(model)
        x = torch.randn(2, 4)
        self.close(run(x), model(x))
        model.double()
        self.close(run(x.double()), model(x.double()))
        model.half()
        self.close(run(x.half()), model(x.half()), 2e-3)
        model.float()
        self.close(run(x), model(x))

    def test_frozen_parameters_are_constants(self) -> None:
        model = Mlp()
        run = torch.compile(model, backend=backend, options={**OPTIONS, "freeze": True})
        x = torch.randn(8, 16)
        with torch.no_grad():
            self.close(run(x), model(x))
            model.first.weight.mul_(2)
            self.close(run(x), model(x))
        run(x).sum().backward()
        self.assertIsNotNone(model.first.weight.grad)

    def test_backward_may_run_again(self) -> None:
        mine = Mlp()
        theirs = copy.deepcopy(mine)
        run = torch.compile(mine, backend=backend, options=OPTIONS)
        x = torch.randn(8, 16)
        run(x).sum().backward()
        mine.zero_grad()
        for program in (run, theirs):
            loss = program(x).square().mean()
            loss.backward(retain_graph=True)
            loss.backward()
        for a, b in zip(mine.parameters(), theirs.parameters(), strict=True):
            assert a.grad is not None and b.grad is not None
            self.close(a.grad, b.grad)

    def test_frozen_statistics_that_change(self) -> None:
        """A frozen graph that updates statistics is not compiled again in every call."""
        mine = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
        theirs = copy.deepcopy(mine)
        run = torch.compile(mine, backend=backend, options={**OPTIONS, "freeze": True})
        with torch.no_grad():
            for i in range(6):
                x = torch.randn(2, 3, 6, 6)
                if i == 3:
                    before = counters.compiled + counters.from_memory
                self.close(run(x), theirs(x))
        self.assertEqual(counters.compiled + counters.from_memory, before)
        for name, value in theirs.state_dict().items():
            self.close(mine.state_dict()[name], value)

    def test_indices_that_eager_refuses_are_errors(self) -> None:
        x, line = torch.arange(24.0).view(6, 4), torch.ones(1, 4)
        functions: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
            "embedding": lambda i: F.embedding(i, x),
            "embedding_bag": lambda i: F.embedding_bag(i.view(1, 1), x),
            "gather": lambda i: x.gather(0, i.view(-1, 1)),
            "index_add": lambda i: x.index_add(0, i, line),
            "index_copy": lambda i: x.index_copy(0, i, line),
            "index_fill": lambda i: x.index_fill(0, i, 7.0),
            "index_fill of a tensor": lambda i: x.index_fill(0, i, torch.tensor(7.0)),
            "index_reduce": lambda i: x.index_reduce(0, i, line, "amax"),
            "index_select": lambda i: x.index_select(0, i),
            "scatter": lambda i: x.scatter(0, i.view(-1, 1), 7.0),
            "scatter_add": lambda i: x.scatter_add(0, i.view(-1, 1), line),
            "index": lambda i: x[i],
            "index of two axes": lambda i: x[i, i],
            "index_put": lambda i: x.index_put((i,), line),
            "put": lambda i: x.put(i, torch.ones(1)),
            "take": lambda i: x.take(i),
            "nll_loss": lambda i: F.cross_entropy(line, i),
        }
        wraps = {
            "index", "index of two axes", "index_put", "index_fill", "index_fill of a tensor", "put", "take"
        }  # fmt: skip
        for name, function in functions.items():
            run = compiled(function)
            for place in (0, 24, -1, -25, -9, 6):
                if name in ("take", "put") and place in (-9, 6):
                    continue  # are elements of x
                with self.subTest(f"{name} {place}"):
                    index = torch.tensor([place])
                    if place == 0 or (place == -1 and name in wraps):
                        self.close(run(index), function(index))
                        continue
                    with self.assertRaises((IndexError, RuntimeError)):
                        function(index)
                    with self.assertRaises(reprise.InvalidInput):
                        run(index)

    def test_errors_of_runs_tell_the_line(self) -> None:
        def function(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            doubled = x * 2
            return doubled.gather(0, index).exp()

        with self.assertRaises(reprise.InvalidInput) as raised:
            compiled(function)(torch.randn(3, 3), torch.tensor([[7, 0, 0]]))
        notes = "\n".join(raised.exception.__notes__)
        self.assertIn("return doubled.gather(0, index).exp()", notes)

    def test_integer_division_by_zero_is_an_error(self) -> None:
        for function in (
            torch.floor_divide,
            torch.remainder,
            torch.fmod,
            lambda a, b: torch.div(a, b, rounding_mode="trunc"),
            lambda a, b: torch.where(b == 0, a, a // torch.where(b == 0, 1, b)),
            torch.lcm,
        ):
            torch._dynamo.reset()
            run = compiled(function)
            for dtype in (torch.int64, torch.int32, torch.int8, torch.uint8):
                a = torch.arange(24).reshape(6, 4).to(dtype)
                b = a.flip(0) + 1
                self.close(run(a, b), function(a, b))
                b[3, 1] = 0
                try:
                    want = function(a, b)
                except RuntimeError:
                    with self.assertRaisesRegex(reprise.InvalidInput, "by zero"):
                        run(a, b)
                    b[3, 1] = 5
                    want = function(a, b)  # the next run is not affected
                self.close(run(a, b), want)

    def test_windows_may_leave_elements_over(self) -> None:
        cases: list[tuple[nn.Module, tuple[int, ...]]] = [
            (nn.MaxPool1d(2), (2, 3, 9)),
            (nn.MaxPool2d(2), (2, 3, 7, 7)),
            (nn.MaxPool2d((3, 2), (2, 3), padding=1), (2, 3, 8, 8)),
            (nn.MaxPool2d(3, 4, dilation=2), (2, 3, 12, 11)),
            (nn.MaxPool3d(2), (1, 2, 5, 7, 4)),
        ]
        for pool, shape in cases:
            with self.subTest(str(pool)):
                torch._dynamo.reset()
                conv = {3: nn.Conv1d, 4: nn.Conv2d, 5: nn.Conv3d}[len(shape)]
                model = nn.Sequential(conv(shape[1], 4, 1), pool)
                self.agree(model, torch.randn(shape))

    def test_results_have_strides_of_eager(self) -> None:
        x = torch.randn(5, 7)
        for function in (
            lambda x: x.cummax(0),
            lambda x: x.T.cummin(0),
            lambda x: [x.T.logcumsumexp(0)],
        ):
            torch._dynamo.reset()
            for got, want in zip(compiled(function)(x), function(x), strict=True):
                self.assertEqual(got.stride(), want.stride())
                self.close(got, want)

    def test_parts_of_arguments_are_views(self) -> None:
        for function in (
            lambda x: x.chunk(3, -1),
            lambda x: x.split([1, 4, 2], 1),
            lambda x: [t.T for t in x.T.split(2)],
            lambda x: x.tensor_split(4, 1)[2].chunk(2),
            lambda x: [x.chunk(2)[1], x * 2, *x.chunk(2)[0].chunk(2, 1)],
        ):
            for trains in (False, True):
                torch._dynamo.reset()
                x = torch.randn(5, 7, requires_grad=trains)
                for got, want in zip(compiled(function)(x), function(x), strict=True):
                    self.assertEqual(got.stride(), want.stride())
                    self.close(got.detach(), want.detach())
                    self.assertEqual(got.data_ptr() - x.data_ptr() in range(140),
                                     want.data_ptr() - x.data_ptr() in range(140))  # fmt: skip

    def test_tensors_without_elements_are_pytorchs(self) -> None:
        def both(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return x * 2, y.sum() + 1, torch.empty(3, device="meta") + 1

        results = compiled(both)(torch.ones(3), torch.ones(4, device="meta"))
        devices = [r.device.type for r in results]
        self.assertEqual(devices, ["cpu", "meta", "meta"])
        self.assertTrue(torch.equal(results[0], torch.full((3,), 2.0)))

    def test_any_and_all_of_nothing(self) -> None:
        def ask(x: torch.Tensor) -> list[torch.Tensor]:
            return [x.any(), x.all(), x.any(0), x.all(1, keepdim=True), x.isnan().any()]

        for dtype in (torch.bool, torch.float32, torch.int64):
            for shape in ((0, 4), (4, 0), (0, 0), (2, 3)):
                x = torch.zeros(shape, dtype=dtype)
                if x.numel():
                    x[0, 1] = 1
                got = torch.compile(ask, backend=backend, options=OPTIONS)(x)
                for mine, theirs in zip(got, ask(x), strict=True):
                    self.assertTrue(torch.equal(mine, theirs), (dtype, shape))

    def test_sign_of_a_nan_is_zero(self) -> None:
        x = torch.tensor([float("nan"), -0.0, 2.0, -3.0, float("-inf")])
        self.close(compiled(torch.sign)(x), torch.sign(x))

    def test_mutations_come_back(self) -> None:
        def function(
            cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor
        ) -> torch.Tensor:
            cache.index_copy_(0, at, x)
            return cache.sum(0)

        mine, theirs = torch.zeros(4, 3), torch.zeros(4, 3)
        at, x = torch.tensor([1, 3]), torch.randn(2, 3)
        self.close(compiled(function)(mine, at, x), function(theirs, at, x))
        self.close(mine, theirs)

    def test_dropout_is_reproducible_and_has_its_rate(self) -> None:
        run = compiled(lambda x: F.dropout(x, 0.25))
        x = torch.ones(200, 500)
        torch.manual_seed(3)
        first = run(x)
        second = run(x)
        torch.manual_seed(3)
        self.assertTrue(torch.equal(first, run(x)))
        self.assertFalse(torch.equal(first, second))
        kept = float((first != 0).double().mean())
        self.assertAlmostEqual(kept, 0.75, delta=5 * (0.25 * 0.75 / x.numel()) ** 0.5)
        self.close(first[first != 0], torch.full_like(first[first != 0], 1 / 0.75))

    def test_dropout_has_one_mask_in_both_directions(self) -> None:
        x = torch.ones(64, 64, requires_grad=True)
        y = compiled(lambda x: F.dropout(x, 0.5))(x)
        y.sum().backward()
        assert x.grad is not None
        self.assertTrue(torch.equal(x.grad, y.detach()))

    def test_options_are_checked(self) -> None:
        for wrong in ({"freeze": "yes"}, {"device": 0}, {"cache_dir": True}):
            torch._dynamo.reset()
            with self.assertRaisesRegex(
                Exception, f"{next(iter(wrong))!r} .* cannot be"
            ):
                torch.compile(nn.Linear(1, 1), backend=backend, options=wrong)(
                    torch.ones(1, 1)
                )
        with self.assertRaisesRegex(Exception, "no option 'speed'"):
            torch.compile(lambda x: x + 1, backend=backend, options={"speed": 1})(
                torch.ones(2)
            )

    def test_wrong_options_are_errors_of_compile(self) -> None:
        for wrong in (
            {"speed": 1},
            {"device": "abacus"},
            {"precision": "fp17"},
            {"weights": "guess"},
            {"freeze": 1},
        ):
            with self.subTest(str(wrong)), self.assertRaises((TypeError, ValueError)):
                torch.compile(nn.Linear(1, 1), backend=backend, options=wrong)

    def test_names_of_pytorch_in_options(self) -> None:
        x = torch.randn(2, 4)
        for options in (
            {"device": "cpu", "precision": "float16"},
            {"device": torch.device("cpu"), "precision": torch.bfloat16},
        ):
            torch._dynamo.reset()
            model = nn.Linear(4, 4)
            run = torch.compile(model, backend=backend, options=options)
            with torch.no_grad():
                self.close(run(x), model(x), 0.05)

    def test_index_errors_tell_the_index(self) -> None:
        table, x = nn.Embedding(10, 8), torch.randn(2, 3)
        words = nn.Sequential(nn.Linear(2, 2), table)
        learned = x.clone().requires_grad_()

        def rows(parts: list[torch.Tensor], i: torch.Tensor) -> torch.Tensor:
            return parts[1][i]

        for call, text in (
            (
                lambda: compiled(table)(torch.tensor([[1, 99]])),
                "index 99 .*'weight' with size 10",
            ),
            (
                lambda: compiled(lambda w, i: w[1](i))(words, torch.tensor([99])),
                "index 99 .*'w.1.weight' with size 10",
            ),
            (
                lambda: compiled(F.cross_entropy)(x, torch.tensor([0, 5])),
                "index 5 .* result of log_softmax with size 3",
            ),
            (
                lambda: compiled(F.cross_entropy)(learned, torch.tensor([0, 5])),
                "index 5 .* result of log_softmax with size 3",
            ),
            (
                lambda: compiled(lambda a, i: a[i])(x, torch.tensor([0, -7])),
                "index -7 .*'a' with size 2",
            ),
            (
                lambda: compiled(rows)([x, learned], torch.tensor([0, -7])),
                r"index -7 .*'parts\[1\]' with size 2",
            ),
        ):
            torch._dynamo.reset()
            with self.assertRaisesRegex(IndexError, text) as caught:
                call()
            self.assertIsInstance(caught.exception, reprise.InvalidInput)
            self.assertNotRegex(str(caught.exception), r"primals_|arg\d+_1")
            notes = "\n".join(getattr(caught.exception, "__notes__", []))
            self.assertRegex(notes, r"test_backend.py|functional.py")


if __name__ == "__main__":
    unittest.main()
