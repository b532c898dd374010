"""What happens to a training with TrainStep: bad batches, schedules, new sizes, compiled models."""

from __future__ import annotations

import copy
import os
import unittest
import warnings
from collections.abc import Callable
from typing import Any

import reprise
import torch
import torch.nn.functional as F
from reprise.torch import TrainStep, backend, counters
from torch import nn

DEVICE = os.environ.get("REPRISE_TEST_DEVICE", "vulkan:0")
DEVICES = sorted({DEVICE, "host"})


class Tagger(nn.Module):
    """Words in, one of three classes out; dropout and BatchNorm have states of their own."""

    def __init__(self, dropout: float = 0.25) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(10, 8), nn.BatchNorm1d(8)
        self.head, self.dropout = nn.Linear(8, 3), nn.Dropout(dropout)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        hidden = self.norm(self.words(words).mean(1))
        return self.head(self.dropout(torch.tanh(hidden)))


def _loss(result: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(result, target)


def _batch(length: int = 4, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(0, 10, (6, length), generator=generator)
    return words, torch.randint(0, 3, (6,), generator=generator)


def _optimiser(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), 0.05)


class BadBatches(unittest.TestCase):
    def _twins(self, device: str, make: Callable[[nn.Module], Any]) -> list[Any]:
        found = []
        for _ in range(2):
            torch.manual_seed(0)
            model = Tagger()
            options = {"device": device}
            found.append(TrainStep(model, _loss, make(model), options=options))
        return found

    def test_a_step_after_one_continues_from_the_same_state(self) -> None:
        words, labels = _batch()
        bad = {
            "word": (words.clone().index_fill_(1, torch.tensor([1]), 99), labels),
            "negative word": (words - 20, labels),
            "label": (words, labels + 7),
        }
        makes: list[Callable[[nn.Module], Any]] = [
            _optimiser,
            lambda m: torch.optim.SGD(m.parameters(), 0.1, momentum=0.9),
            lambda m: torch.optim.SGD(m.parameters(), 0.1),
        ]
        for device in DEVICES:
            for make in makes:
                with self.subTest(device):
                    tried, other = self._twins(device, make)
                    for batch in bad.values():
                        self.assertEqual(
                            float(tried(words, labels)), float(other(words, labels))
                        )
                        for _ in range(2):
                            with self.assertRaises(reprise.InvalidInput):
                                tried(*batch)
                    self.assertEqual(
                        float(tried(words, labels)), float(other(words, labels))
                    )
                    self._same(tried.state_dict(), other.state_dict())
                    self.assertEqual(
                        float(tried(words, labels)), float(other(words, labels))
                    )

    def _same(self, mine: Any, other: Any) -> None:
        if isinstance(mine, torch.Tensor):
            self.assertTrue(torch.equal(mine, other))
        elif isinstance(mine, dict):
            self.assertEqual(mine.keys(), other.keys())
            for key, value in mine.items():
                self._same(value, other[key])

    def test_they_tell_index_and_line(self) -> None:
        words, labels = _batch()
        for device in DEVICES:
            step = self._twins(device, _optimiser)[0]
            for batch, text in (
                ((words + 40, labels), r"index 4\d .*'words.weight'.* size 10"),
                ((words, labels + 7), "3"),
            ):
                with self.subTest(device), self.assertRaises(IndexError) as caught:
                    step(*batch)
                self.assertIsInstance(caught.exception, reprise.InvalidInput)
                self.assertRegex(str(caught.exception), text)
                notes = "\n".join(getattr(caught.exception, "__notes__", []))
                self.assertRegex(notes, r"line \d+", str(caught.exception))


class Schedules(unittest.TestCase):
    def _follow(
        self, make: Callable[[nn.Module], Any], schedule: Callable[[Any], Any]
    ) -> None:
        torch.manual_seed(0)
        model = Tagger(0.0)
        twin = copy.deepcopy(model)
        mine, other = make(model), make(twin)
        step = TrainStep(
            model, F.cross_entropy, mine, options={"device": DEVICE, "cache_dir": ""}
        )
        schedules = [schedule(mine), schedule(other)]
        before = counters().compiled
        for number in range(7):
            words, labels = _batch(seed=number)
            other.zero_grad()
            expected = F.cross_entropy(twin(words), labels)
            expected.backward()
            other.step()
            self.assertAlmostEqual(
                float(step(words, labels)), float(expected.detach()), places=4
            )
            for each in schedules:
                each.step()
        self.assertEqual(counters().compiled - before, 1)
        step.synchronize()
        for name, value in twin.state_dict().items():
            near = torch.allclose(model.state_dict()[name], value, atol=1e-4, rtol=1e-3)
            self.assertTrue(near, name)

    def test_one_cycle(self) -> None:
        def schedule(optimiser: Any) -> Any:
            return torch.optim.lr_scheduler.OneCycleLR(
                optimiser, max_lr=0.05, total_steps=8
            )

        for make in (
            _optimiser,
            lambda m: torch.optim.Adam(m.parameters(), 1e-3, weight_decay=0.01),
            lambda m: torch.optim.SGD(m.parameters(), 0.1, momentum=0.9, nesterov=True),
            lambda m: torch.optim.SGD(
                [
                    {"params": m.head.parameters(), "weight_decay": 0.1},
                    {"params": m.words.parameters(), "dampening": 0.5},
                ],
                0.1,
                momentum=0.9,
            ),
        ):
            self._follow(make, schedule)

    def test_cyclic(self) -> None:
        self._follow(
            lambda m: torch.optim.SGD(m.parameters(), 0.1, momentum=0.9),
            lambda o: torch.optim.lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=3),
        )

    def test_weight_decay_may_change(self) -> None:
        class Decay:
            def __init__(self, optimiser: Any) -> None:
                self.groups = optimiser.param_groups

            def step(self) -> None:
                for group in self.groups:
                    group["weight_decay"] *= 0.5

        self._follow(_optimiser, Decay)


class Programs(unittest.TestCase):
    def test_lengths_vary_in_the_second_program(self) -> None:
        torch.manual_seed(0)
        model = Tagger(0.0)
        twin = copy.deepcopy(model)
        mine, other = _optimiser(model), _optimiser(twin)
        step = TrainStep(
            model, F.cross_entropy, mine, options={"device": DEVICE, "cache_dir": ""}
        )
        before = counters().compiled
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for length in (4, 7, 5, 12, 4, 9):
                words, labels = _batch(length, seed=length)
                other.zero_grad()
                expected = F.cross_entropy(twin(words), labels)
                expected.backward()
                other.step()
                loss = float(step(words, labels))
                self.assertAlmostEqual(loss, float(expected.detach()), places=4)
        self.assertEqual(counters().compiled - before, 2)
        names = {slot.name for slot in step.export(None, targets="host").inputs}
        self.assertEqual(names, {"words", "target", "lr"})

    def test_batches_vary_with_lengths(self) -> None:
        torch.manual_seed(0)
        model = Tagger(0.0)
        step = TrainStep(
            model,
            F.cross_entropy,
            _optimiser(model),
            options={"device": DEVICE, "cache_dir": ""},
        )
        words, labels = _batch(12)
        before = counters().compiled
        for count, length in ((6, 4), (3, 4), (5, 4), (4, 7), (6, 9), (2, 5)):
            self.assertGreater(float(step(words[:count, :length], labels[:count])), 0)
        self.assertEqual(counters().compiled - before, 3)

    def test_the_third_program_is_told_and_few_are_kept(self) -> None:
        class Scaled(Tagger):
            scale = 1.0

            def forward(self, words: torch.Tensor) -> torch.Tensor:
                return super().forward(words) * self.scale

        torch.manual_seed(0)
        model = Scaled(0.0)
        step = TrainStep(
            model, F.cross_entropy, _optimiser(model), options={"device": "host"}
        )
        batch = _batch()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for number in range(11):
                model.scale = 1.0 + number  # type: ignore[assignment]
                step(*batch)
        texts = [
            str(w.message) for w in caught if "of a training step" in str(w.message)
        ]
        self.assertEqual(len(texts), 1)
        self.assertRegex(texts[0], "program 3 .* 'scale' of the module '' is now 3.0")
        self.assertLessEqual(len(step._programs), 8)


class CompiledModels(unittest.TestCase):
    def test_the_step_takes_the_model_inside(self) -> None:
        def whole(model: Any) -> Any:
            return torch.compile(model, backend=backend, options={"device": "host"})

        def in_place(model: Any) -> Any:
            model.compile(backend=backend, options={"device": "host"})
            return model

        def regional(model: Any) -> Any:
            model.head = torch.compile(
                model.head, backend=backend, options={"device": "host"}
            )
            return model

        def with_aot_eager(model: Any) -> Any:
            model.words.compile(backend="aot_eager")
            return torch.compile(model, backend="aot_eager")

        batch = _batch()
        losses = []
        for change in (lambda m: m, whole, in_place, regional, with_aot_eager):
            torch.manual_seed(0)
            model = change(Tagger(0.0))
            loss = torch.compile(
                F.cross_entropy, backend=backend, options={"device": "host"}
            )
            step = TrainStep(model, loss, _optimiser(model), options={"device": "host"})
            losses.append([float(step(*batch)) for _ in range(2)])
            step.synchronize()
            step.load_state_dict(step.state_dict())
            losses[-1].append(float(step(*batch)))
        for other in losses[1:]:
            self.assertEqual(other, losses[0])

    def test_tensors_without_memory_are_refused(self) -> None:
        from torch._subclasses import FakeTensorMode

        session = reprise.torch.engine.open_engine  # the module is loaded
        self.assertTrue(session)
        run = torch.compile(
            nn.Linear(4, 4), backend=backend, options={"device": "host"}
        )
        x = torch.randn(2, 4)
        run(x)
        with self.assertRaisesRegex(reprise.InvalidInput, "has no memory"):
            reprise.Tensor(FakeTensorMode().from_tensor(x), device="host")


if __name__ == "__main__":
    unittest.main()
