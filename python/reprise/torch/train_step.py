"""Training steps that are one recording, and packages that train without Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

import reprise

from . import profiling
from .capture import (
    Arguments,
    Captured,
    Group,
    capture,
    own_tensors,
    scalar_name,
    slot_name,
)
from .complexes import PARTS
from .dtypes import ELEM_TYPES
from .engine import PackageEngine, open_engine
from .optimizers import Tensors, rules_of
from .options import Options
from .settings import Settings
from .states import SEED, restored, stored


def _tensor(value: Any, dtype: str) -> torch.Tensor:
    """Returns an array of this dtype as a tensor. NumPy has no bfloat16, but arrays with its bits."""
    array = np.array(value)
    if array.dtype.name == dtype and array.dtype.isbuiltin == 1:
        return torch.from_numpy(array)
    bits = torch.from_numpy(array.view(f"i{array.dtype.itemsize}"))
    return bits.view(getattr(torch, dtype))


class _Program:
    """A captured step in a session."""

    def __init__(self, captured: Captured, engine: PackageEngine) -> None:
        self.captured = captured
        self.package = engine.package(captured.model({}), captured.pairs)
        self._engine = engine
        self.session = engine.session(self.package)
        self._order = [slot.name for slot in self.session.inputs]

    def run(self, arguments: Sequence[torch.Tensor], rates: Sequence[float]) -> Any:
        inputs: list[object] = []
        for name in self._order:
            if name in self.captured.rates:
                inputs.append(
                    np.array(rates[self.captured.rates[name]], dtype=np.float32)
                )
            else:
                argument = arguments[self.captured.inputs[name]].detach()
                inputs.append(stored(argument.cpu().contiguous()))
        if not profiling.enabled():
            return self.session.run_raw(inputs)[0]
        if not self.session.timestamps:
            self._move(self._engine.session(self.package, timestamps=True))
        return profiling.run(self.session, inputs)[0]

    def _move(self, session: reprise.Session) -> None:
        """Moves the states to another session."""
        for slot in session.states:
            session.write_state(slot.name, self.session.read_state(slot.name))
        self.session = session


class TrainStep:
    """A training step whose parameters, gradients and optimiser state stay on the device.

    The first call captures forward, loss, backward and the optimiser's update as one program, and
    each call replays one recording. The PyTorch model and optimiser keep their old values until
    `synchronize()` is called; `reload()` takes over values that were changed in PyTorch.

        step = reprise.torch.TrainStep(model, torch.nn.functional.cross_entropy, optimizer)
        for x, y in batches:
            loss = step(x, y)
        step.synchronize()

    Args:
        model: a module in training mode. Parameters that need no gradient, and buffers that the step
            does not change, are constants of the program.
        loss: a function of the model's result and the target, which is the last positional argument
            of a call. None: the model itself returns the loss, or a result that has it as the attribute
            or key "loss", as the models of transformers do.
        optimizer: torch.optim.SGD, Adam or AdamW of the model's parameters. Learning rates are read
            at each call, so schedulers work; other settings are constants.
        clip_grad_norm: the largest norm of all gradients together; None: they are not clipped.
        mode, options: as for torch.compile with this backend ("device", "precision", "cache_dir").

    Raises:
        reprise.Unsupported: the message lists the operators that cannot be compiled.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        loss: Callable[..., Any] | None,
        optimizer: torch.optim.Optimizer,
        *,
        clip_grad_norm: float | None = None,
        mode: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        rules_of(optimizer)
        self._model, self._loss, self._optimizer = model, loss, optimizer
        self._clip = clip_grad_norm
        engine = open_engine(Options.of(mode, options))
        assert isinstance(engine, PackageEngine)
        self._engine = engine
        self._settings = (Settings(model), Settings(loss))
        self._programs: dict[object, _Program] = {}
        self._current: _Program | None = None
        self._key: object = None  # of the current program
        self._fresh = False  # whether the session has the values of the training so far
        self._seed = torch.empty(2, dtype=torch.int32).random_().view(torch.uint32)

    def __call__(
        self, *arguments: torch.Tensor, **keywords: torch.Tensor
    ) -> torch.Tensor:
        """Takes a step with the model's arguments, and the target after them; returns the loss.

        Keyword arguments are the model's. Other shapes than before, and other settings of the
        optimiser, compile another program, to which the states move.
        """
        given = Arguments.of(arguments, keywords)
        program = self._program(given)
        rates = [float(g["lr"]) for g in self._optimizer.param_groups]
        loss = _tensor(
            program.run(given.tensors, rates), program.session.outputs[0].dtype
        )
        # Schedulers of learning rates warn where the optimiser has taken no step.
        self._optimizer._opt_called = True  # type: ignore[attr-defined]
        return loss

    @property
    def package(self) -> reprise.Package:
        """The package of the last step."""
        return self._used().package

    def synchronize(self) -> None:
        """Copies parameters, buffers and the optimiser's state from the device to PyTorch."""
        session = self._used().session
        values = {
            slot.name: _tensor(session.read_state(slot.name), slot.dtype)
            for slot in session.states
        }
        self._seed = values.get(SEED, self._seed)
        own = self._tensors()
        with torch.no_grad():
            for name, value in values.items():
                if name in own:
                    own[name].copy_(restored(value, own[name].dtype))
        for number, group in enumerate(self._groups()):
            slots: dict[torch.Tensor, Tensors] = {}
            for name, parameter in group.parameters.items():
                kept = {
                    s: restored(values[slot_name(s, name)].clone(), like.dtype)
                    for s, like in group.rule.slots(parameter).items()
                    if slot_name(s, name) in values
                }
                if name in values:
                    slots[parameter] = kept
            scalars = {
                s: values[scalar_name(s, number)]
                for s in group.rule.scalars(list(group.parameters.values()))
                if scalar_name(s, number) in values
            }
            group.rule.store(slots, scalars)

    def reload(self) -> None:
        """Takes over the values that the PyTorch model and optimiser have now."""
        self._programs.clear()  # what needs no gradient is a constant of the programs
        self._current, self._fresh = None, False

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the model and of the optimiser, after copying it from the device."""
        if self._current is not None:
            self.synchronize()
        return {
            "model": self._model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "seed": self._seed.view(torch.int32).clone(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Loads what `state_dict()` returned into the model, the optimiser and the device."""
        self._model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._seed = state["seed"].clone().view(torch.uint32)
        self.reload()

    def export(
        self,
        path: str | os.PathLike[str] | None,
        *arguments: torch.Tensor,
        targets: str | Sequence[str] | None = None,
        **keywords: torch.Tensor,
    ) -> reprise.Package:
        """Makes a package that trains further without Python, from the values so far.

        Its inputs are the model's arguments, "target" and the learning rate "lr" ("lr.0", "lr.1" and
        so on if the optimiser has several groups), its output is "loss". Its states have the names
        of parameters and buffers, or begin with "optimizer.".

        Args:
            path: where to save the package; None: it is not saved.
            arguments, keywords: as for a step; by default tensors like those of the last step.
            targets: as in `reprise.compile`.
        """
        if self._current is not None:
            self.synchronize()
        given = Arguments.of(arguments, keywords)
        if given.tensors:
            self._check(given)
            captured = self._capture(given)
        else:
            captured = self._used().captured
        model = captured.model(self._values(captured))
        package = reprise.compile(
            model,
            targets=targets,
            precision=self._engine.precision,
            states=captured.pairs,
        )
        if path is not None:
            package.save(path)
        return package

    def load_states(self, path: str | os.PathLike[str]) -> None:
        """Loads what a session with the exported package saved into the model and the optimiser."""
        session = self._used().session
        session.load_states(path)
        self.synchronize()

    def _program(self, arguments: Arguments) -> _Program:
        self._check(arguments)
        constants = tuple(rule.constants for rule in rules_of(self._optimizer))
        forms = tuple((a.dtype, tuple(a.shape)) for a in arguments.tensors)
        settings = tuple(part.current() for part in self._settings)
        key = (forms, arguments.keywords, constants, settings)
        if self._current is not None and self._fresh:
            if key == self._key:
                return self._current
            self.synchronize()
        found = self._programs.get(key)
        if found is None:
            found = _Program(self._capture(arguments), self._engine)
            self._programs[key] = found
        for name, value in self._values(found.captured).items():
            found.session.write_state(name, stored(value.cpu().contiguous()))
        self._current, self._key, self._fresh = found, key, True
        return found

    def _check(self, arguments: Arguments) -> None:
        places = [*range(arguments.positional), *map(repr, arguments.keywords)]
        for number, argument in zip(places, arguments.tensors, strict=True):
            kind = getattr(argument, "dtype", type(argument).__name__)
            known = kind in ELEM_TYPES or kind in PARTS
            if not isinstance(argument, torch.Tensor) or not known:
                raise reprise.InvalidInput(
                    f"the arguments of a training step must be tensors, but argument {number} is "
                    f"{kind}; make other values attributes of the model"
                )

    def _capture(self, arguments: Arguments) -> Captured:
        return capture(self._model, self._loss, self._groups(), arguments, self._clip)

    def _used(self) -> _Program:
        if self._current is None:
            raise reprise.UsageError("take a step first")
        return self._current

    def _tensors(self) -> Tensors:
        return own_tensors(self._model)

    def _groups(self) -> list[Group]:
        names = {p: n for n, p in self._model.named_parameters()}
        groups = []
        for rule, group in zip(
            rules_of(self._optimizer), self._optimizer.param_groups, strict=True
        ):
            missing = [p for p in group["params"] if p not in names]
            if missing:
                raise reprise.UsageError(
                    "the optimiser has parameters that the model does not have"
                )
            groups.append(Group(rule, {names[p]: p for p in group["params"]}))
        return groups

    def _values(self, captured: Captured) -> Tensors:
        """The values of the states as PyTorch has them."""
        known: Tensors = {SEED: self._seed, **self._tensors()}
        for number, group in enumerate(self._groups()):
            for name, parameter in group.parameters.items():
                for slot, value in group.rule.slots(parameter).items():
                    known[slot_name(slot, name)] = value
            scalars = group.rule.scalars(list(group.parameters.values()))
            for name, value in scalars.items():
                known[scalar_name(name, number)] = value
        return {name: known[name].detach() for name in captured.states}
