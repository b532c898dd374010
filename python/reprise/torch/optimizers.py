"""The steps of PyTorch's optimisers as functions of tensors, for training steps that are captured whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch

import reprise

from .states import stored

Tensors = dict[str, torch.Tensor]
#: Settings of an optimiser by name: inputs of a program, or constants of one that is exported.
Numbers = Mapping[str, torch.Tensor | float]


class Rule(Protocol):
    """How one group of parameters is updated."""

    @property
    def constants(self) -> dict[str, object]:
        """What the captured program depends on, besides the names of `numbers`."""

    def numbers(self, step: float | None) -> dict[str, float]:
        """Returns the settings as they are now, for the step of this number, from 1.

        None: for all steps. What differs between steps is computed on the device then.
        """

    def slots(self, parameter: torch.Tensor) -> Tensors:
        """Returns what the optimiser keeps for a parameter, as it is now."""

    def scalars(self, parameters: Sequence[torch.Tensor]) -> Tensors:
        """Returns what it keeps for the group."""

    def next_scalars(self, scalars: Tensors, numbers: Numbers) -> Tensors:
        """Returns the scalars of this step, which `update` reads, from those of the last one."""

    def update(
        self, parameter: torch.Tensor, gradient: torch.Tensor, slots: Tensors,
        scalars: Tensors, numbers: Numbers, lr: torch.Tensor,
    ) -> tuple[torch.Tensor, Tensors]:  # fmt: skip
        """Returns the parameter and its slots after the step."""

    def store(
        self, parameters: Mapping[torch.Tensor, Tensors], scalars: Tensors
    ) -> None:
        """Writes slots and scalars to the state of the optimiser."""


class _Sgd:
    """Stochastic gradient descent. `dampening` does not apply to the first step."""

    def __init__(
        self, group: Mapping[str, Any], state: Mapping[torch.Tensor, Any]
    ) -> None:
        self._state: Any = state
        self._momentum = float(group["momentum"])
        self._dampening = float(group["dampening"])
        self._decay = float(group["weight_decay"])
        self._nesterov, self._maximize = (
            bool(group["nesterov"]),
            bool(group["maximize"]),
        )
        self.constants: dict[str, object] = {
            "optimizer": "SGD",
            "momentum": self._momentum != 0,
            "dampening": self._dampening != 0,
            "weight_decay": self._decay != 0,
            "nesterov": self._nesterov,
            "maximize": self._maximize,
        }

    def numbers(self, step: float | None) -> dict[str, float]:
        found = {"weight_decay": self._decay} if self._decay else {}
        if self._momentum:
            found |= {"momentum": self._momentum, "share": 1 - self._dampening}
        return found

    def _buffer(self, parameter: torch.Tensor) -> torch.Tensor | None:
        found = self._state.get(parameter, {}).get("momentum_buffer")
        return None if found is None else found.detach()

    def slots(self, parameter: torch.Tensor) -> Tensors:
        if not self._momentum:
            return {}
        buffer = self._buffer(parameter)
        zeros = torch.zeros_like(parameter, memory_format=torch.contiguous_format)
        return {"momentum_buffer": zeros if buffer is None else buffer}

    def scalars(self, parameters: Sequence[torch.Tensor]) -> Tensors:
        if not self._momentum or not self._dampening:
            return {}
        begun = [self._buffer(p) is not None for p in parameters]
        if any(begun) != all(begun):
            raise reprise.Unsupported(
                "some parameters of a group have taken steps and others none"
            )
        return {"steps": torch.tensor(float(all(begun)))}

    def next_scalars(self, scalars: Tensors, numbers: Numbers) -> Tensors:
        return {name: value + 1 for name, value in scalars.items()}

    def update(
        self, parameter: torch.Tensor, gradient: torch.Tensor, slots: Tensors,
        scalars: Tensors, numbers: Numbers, lr: torch.Tensor,
    ) -> tuple[torch.Tensor, Tensors]:  # fmt: skip
        if self._maximize:
            gradient = -gradient
        if self._decay:
            gradient = gradient + numbers["weight_decay"] * parameter
        if not self._momentum:
            return parameter - lr * gradient, {}
        momentum = numbers["momentum"]
        share: torch.Tensor | float = 1.0  # also if the setting is 0 now
        if "steps" in scalars:
            share = torch.where(scalars["steps"] > 1, numbers["share"], 1.0)
        buffer = momentum * slots["momentum_buffer"] + share * gradient
        step = gradient + momentum * buffer if self._nesterov else buffer
        return parameter - lr * step, {"momentum_buffer": buffer}

    def store(
        self, parameters: Mapping[torch.Tensor, Tensors], scalars: Tensors
    ) -> None:
        for parameter, slots in parameters.items():
            if slots:
                self._state[parameter]["momentum_buffer"] = slots["momentum_buffer"]


class _Adam:
    """Adam and AdamW. The corrections 1 - beta**step are given or kept, because a device with 32 bits
    would lose digits of them in the first steps.
    """

    def __init__(
        self, group: Mapping[str, Any], state: Mapping[torch.Tensor, Any]
    ) -> None:
        self._state: Any = state
        self._betas = (float(group["betas"][0]), float(group["betas"][1]))
        self._eps, self._decay = float(group["eps"]), float(group["weight_decay"])
        self._decoupled = bool(group.get("decoupled_weight_decay", False))
        self._amsgrad, self._maximize = bool(group["amsgrad"]), bool(group["maximize"])
        self._names = ("exp_avg", "exp_avg_sq") + (
            ("max_exp_avg_sq",) if self._amsgrad else ()
        )
        self.constants: dict[str, object] = {
            "optimizer": "AdamW" if self._decoupled else "Adam",
            "weight_decay": self._decay != 0,
            "amsgrad": self._amsgrad,
            "maximize": self._maximize,
        }

    def numbers(self, step: float | None) -> dict[str, float]:
        # 1 - beta, because a float32 near 1 has lost digits of it.
        one, two = self._betas
        found = {"rest1": 1 - one, "rest2": 1 - two, "eps": self._eps}
        if self._decay:
            found["weight_decay"] = self._decay
        if step is not None:
            found |= {"correction1": 1 - one**step, "correction2": 1 - two**step}
        return found

    def slots(self, parameter: torch.Tensor) -> Tensors:
        found = self._state.get(parameter, {})
        zeros = torch.zeros_like(parameter, memory_format=torch.contiguous_format)
        return {
            name: found[name].detach() if name in found else zeros
            for name in self._names
        }

    def scalars(self, parameters: Sequence[torch.Tensor]) -> Tensors:
        steps = {float(self._state.get(p, {}).get("step", 0)) for p in parameters}
        if len(steps) > 1:
            raise reprise.Unsupported(
                "the parameters of a group have taken different numbers of steps"
            )
        step = steps.pop() if steps else 0.0
        return {
            "step": torch.tensor(step),
            "correction1": torch.tensor(1 - self._betas[0] ** step),
            "correction2": torch.tensor(1 - self._betas[1] ** step),
        }

    def next_scalars(self, scalars: Tensors, numbers: Numbers) -> Tensors:
        new = {"step": scalars["step"] + 1}
        for number in ("1", "2"):
            name, rest = "correction" + number, numbers["rest" + number]
            given = numbers.get(name)
            if isinstance(given, torch.Tensor):
                new[name] = given.clone()
            else:
                new[name] = scalars[name] * (1 - rest) + rest
        return new

    def update(
        self, parameter: torch.Tensor, gradient: torch.Tensor, slots: Tensors,
        scalars: Tensors, numbers: Numbers, lr: torch.Tensor,
    ) -> tuple[torch.Tensor, Tensors]:  # fmt: skip
        rest = numbers["rest2"]
        if self._maximize:
            gradient = -gradient
        if self._decay and self._decoupled:
            parameter = parameter * (1 - lr * numbers["weight_decay"])
        elif self._decay:
            gradient = gradient + numbers["weight_decay"] * parameter
        first = slots["exp_avg"] + (gradient - slots["exp_avg"]) * numbers["rest1"]
        second = slots["exp_avg_sq"] * (1 - rest) + gradient * gradient * rest
        new = {"exp_avg": first, "exp_avg_sq": second}
        if self._amsgrad:
            second = new["max_exp_avg_sq"] = torch.maximum(
                slots["max_exp_avg_sq"], second
            )
        root = torch.sqrt(second) / torch.sqrt(scalars["correction2"]) + numbers["eps"]
        return parameter - (lr / scalars["correction1"]) * first / root, new

    def store(
        self, parameters: Mapping[torch.Tensor, Tensors], scalars: Tensors
    ) -> None:
        for parameter, slots in parameters.items():
            kept = self._state[parameter]
            kept["step"] = scalars["step"].clone()
            kept.update(slots)


def rules_of(optimizer: torch.optim.Optimizer) -> list[Rule]:
    """Returns the rule of each group of parameters.

    Raises:
        reprise.Unsupported: the optimiser is none of SGD, Adam and AdamW.
    """
    kind = type(optimizer)
    if kind is torch.optim.SGD:
        return [_Sgd(g, optimizer.state) for g in optimizer.param_groups]
    if kind in (torch.optim.Adam, torch.optim.AdamW):
        decoupled = (
            {"decoupled_weight_decay": True} if kind is torch.optim.AdamW else {}
        )
        return [
            _Adam({**g, **decoupled}, optimizer.state) for g in optimizer.param_groups
        ]
    raise reprise.Unsupported(
        f"training steps with {kind.__name__} are not supported; use SGD, Adam or AdamW"
    )


def clipped(gradients: Sequence[torch.Tensor], limit: float) -> list[torch.Tensor]:
    """Scales gradients so that their norm is at most `limit`, as clip_grad_norm_ does."""
    parts = [stored(g).float() for g in gradients]
    total = torch.stack([(p * p).sum() for p in parts]).sum()
    scale = torch.clamp(limit / (torch.sqrt(total) + 1e-6), max=1.0)
    return [g * scale.to(stored(g).dtype) for g in gradients]
