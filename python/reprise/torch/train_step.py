"""Training steps that are one recording, and packages that train without Python."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.fx import Node

import reprise

from . import phases, profiling
from .blame import detailed
from .capture import (
    NUMBERS,
    Arguments,
    Captured,
    Group,
    Varying,
    capture,
    own_tensors,
    scalar_name,
    slot_name,
    uncompiled,
)
from .compiler import note_sources
from .complexes import PARTS
from .dtypes import ELEM_TYPES
from .engine import PackageEngine, open_engine
from .optimizers import Rule, Tensors, rules_of
from .options import Options
from .region import owners_of
from .settings import Settings
from .states import SEED, restored, stored


def _tensor(value: Any, dtype: str) -> torch.Tensor:
    """Returns an array of this dtype as a tensor. NumPy has no bfloat16, but arrays with its bits."""
    array = np.array(value)
    if array.dtype.name == dtype and array.dtype.isbuiltin == 1:
        return torch.from_numpy(array)
    bits = torch.from_numpy(array.view(f"i{array.dtype.itemsize}"))
    return bits.view(getattr(torch, dtype))


log = logging.getLogger("reprise.torch")

#: How many programs of a step are kept, and the how manieth brings a warning.
_MOST_PROGRAMS = 8
_MANY_PROGRAMS = 3


@dataclass(frozen=True)
class _Key:
    """What a program depends on."""

    forms: tuple[tuple[torch.dtype, tuple[int, ...]], ...]
    keywords: tuple[str, ...]
    constants: tuple[dict[str, object], ...]
    settings: tuple[tuple[object, ...], ...]

    def without(self, varying: Varying) -> _Key:
        """Returns the same without the sizes of these dims."""
        forms = tuple(
            (d, tuple(-1 if (n, a) in varying else s for a, s in enumerate(dims)))
            for n, (d, dims) in enumerate(self.forms)
        )
        return _Key(forms, self.keywords, self.constants, self.settings)

    def varying(self, other: _Key) -> Varying | None:
        """Returns the dims whose sizes differ; None if anything else differs."""
        if [(d, len(s)) for d, s in self.forms] != [
            (d, len(s)) for d, s in other.forms
        ]:
            return None
        found = frozenset(
            (n, a)
            for n, (mine, its) in enumerate(zip(self.forms, other.forms, strict=True))
            for a, (s, t) in enumerate(zip(mine[1], its[1], strict=True))
            if s != t
        )
        return found if self.without(found) == other.without(found) else None

    def changes(self, other: _Key) -> str:
        """Tells in what it differs from another one."""
        found = []
        if (self.forms, self.keywords) != (other.forms, other.keywords):
            shapes, before = ([list(s) for _, s in k.forms] for k in (self, other))
            found.append(f"the arguments have the shapes {shapes} instead of {before}")
        for number, (now, then) in enumerate(
            zip(self.constants, other.constants, strict=False)
        ):
            found += [
                f"{name} of the optimiser's group {number} is now {value}"
                for name, value in now.items()
                if value != then.get(name)
            ]
        if self.settings != other.settings:
            found.append(_changed_setting(self.settings, other.settings))
        return "; ".join(found)


def _changed_setting(now: Sequence[Any], before: Sequence[Any]) -> str:
    """Names the first setting of the model or the loss that differs."""
    for new, old in zip(now, before, strict=False):
        for entry in new:
            if entry not in old and isinstance(entry, tuple) and len(entry) == 3:
                return f"'{entry[1]}' of the module '{entry[0]}' is now {entry[2]}"
    return "a module or function was replaced, or reads another value"


class _Program:
    """A captured step in a session. The sizes of the dims `varying` may differ from the key's."""

    def __init__(
        self, captured: Captured, engine: PackageEngine, key: _Key, varying: Varying
    ) -> None:
        self.captured, self.key, self.varying = captured, key, varying
        self._form = key.without(varying)
        self.package = engine.package(captured.model({}), captured.pairs)
        self._engine = engine
        self.session = engine.session(self.package)
        self._order = [slot.name for slot in self.session.inputs]
        self._has_run = False

    def serves(self, key: _Key) -> bool:
        """Whether it is the program of a step."""
        if key == self.key:
            return True
        if not self.varying or key.without(self.varying) != self._form:
            return False
        return self.captured.admits([s for _, s in key.forms])

    def example(self) -> Arguments:
        """Returns arguments that it was captured for, without values."""
        tensors = tuple(torch.zeros(s, dtype=d) for d, s in self.key.forms)
        return Arguments(tensors, self.key.keywords)

    def run(
        self, arguments: Sequence[torch.Tensor], rates: Sequence[float],
        numbers: Sequence[float],
    ) -> Any:  # fmt: skip
        inputs: list[object] = []
        for name in self._order:
            if name == NUMBERS:
                inputs.append(np.array(numbers, dtype=np.float32))
            elif name in self.captured.rates:
                inputs.append(
                    np.array(rates[self.captured.rates[name]], dtype=np.float32)
                )
            else:
                argument = arguments[self.captured.inputs[name]].detach()
                inputs.append(stored(argument.cpu().contiguous()))
        if not profiling.enabled():
            if self._has_run:
                return self.session.run_raw(inputs)[0]
            with phases.phase("first run"):
                result = self.session.run_raw(inputs)[0]
            self._has_run = True
            return result
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

        >>> model = torch.nn.Linear(4, 3)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> step = reprise.torch.TrainStep(model, torch.nn.functional.cross_entropy, optimizer)
        >>> for x, y in [(torch.randn(2, 4), torch.tensor([0, 2])) for batch in range(3)]:
        ...     loss = step(x, y)
        >>> step.synchronize()

    Args:
        model: a module in training mode. Parameters that need no gradient, and buffers that the step
            does not change, are constants of the program.
        loss: a function of the model's result and the target, which is the last positional argument
            of a call. None: the model itself returns the loss, or a result that has it as the attribute
            or key "loss", as the models of transformers do.
        optimizer: torch.optim.SGD, Adam or AdamW of the model's parameters. Its numbers (learning
            rates, momentum, betas, weight decay) are read at each call, so schedulers work.
        clip_grad_norm: the largest norm of all gradients together; None: they are not clipped.
        mode: as for torch.compile with this backend.
        options: likewise: "device", "precision" and "cache_dir".

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
        model = uncompiled(model)
        self._model, self._loss, self._optimizer = model, loss, optimizer
        self._clip = clip_grad_norm
        engine = open_engine(Options.of(mode, options))
        assert isinstance(engine, PackageEngine)
        self._engine = engine
        self._settings = (Settings(model), Settings(loss))
        self._programs: list[_Program] = []  # the last one was used last
        self._made = 0  # how many programs were compiled
        self._current: _Program | None = None
        self._fresh = False  # whether the session has the values of the training so far
        self._steps: list[
            float
        ] = []  # that groups have taken when the session got its values
        self._since = 0  # steps since then
        self._seed = torch.empty(2, dtype=torch.int32).random_().view(torch.uint32)

    def __call__(
        self, *arguments: torch.Tensor, **keywords: torch.Tensor
    ) -> torch.Tensor:
        """Takes a step with the model's `arguments`, and the target after them; returns the loss.

        The `keywords` are the model's. Where sizes differ from those before, a second program is
        compiled, in which they vary. A step that fails, such as for an index out of range, changes
        nothing.
        """
        given = Arguments.of(arguments, keywords)
        rules = rules_of(self._optimizer)
        program = self._program(given, rules)
        rates = [float(g["lr"]) for g in self._optimizer.param_groups]
        numbers = [
            number
            for rule, steps in zip(rules, self._steps, strict=True)
            for number in rule.numbers(steps + self._since + 1).values()
        ]
        try:
            result = program.run(given.tensors, rates, numbers)
        except reprise.Error as error:
            raise self._described(error, program, given) from None
        self._since += 1
        loss = _tensor(result, program.session.outputs[0].dtype)
        # Schedulers of learning rates warn where the optimiser has taken no step.
        self._optimizer._opt_called = True  # type: ignore[attr-defined]
        return loss

    def _described(
        self, error: reprise.Error, program: _Program, arguments: Arguments
    ) -> reprise.Error:
        """Returns an error of a step with the user's lines and the index that it is about."""
        captured = program.captured
        error.nodes = owners_of(captured.owners, error.nodes)
        note_sources(captured.trace, error)
        names = dict(
            zip(
                captured.trace.graph.find_nodes(op="placeholder"),
                captured.names,
                strict=True,
            )
        )

        def value(node: Node) -> torch.Tensor:
            number = captured.inputs.get(names[node])
            return (
                self._values(captured)[names[node]]
                if number is None
                else arguments.tensors[number]
            )

        return detailed(error, captured.trace, value, names)

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
                for s in group.scalars(values)
                if scalar_name(s, number) in values
            }
            group.rule.store(slots, scalars)
        self._count_steps()

    def reload(self) -> None:
        """Takes over the values that the PyTorch model and optimiser have now."""
        self._programs.clear()  # what needs no gradient is a constant of the programs
        self._current, self._fresh, self._made = None, False, 0

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
        """Loads the `state` that `state_dict()` returned into the model, the optimiser and the device."""
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
            arguments: as for a step; by default tensors like those of the last step.
            keywords: likewise.
            targets: as in `reprise.compile`.
        """
        if self._current is not None:
            self.synchronize()
        given = Arguments.of(arguments, keywords)
        if not given.tensors:
            given = self._used().example()
        self._check(given)
        captured = self._capture(given, fixed=True)
        model = captured.model(self._values(captured))
        package = model.compile(
            captured.pairs, targets=targets, precision=self._engine.precision
        )
        if path is not None:
            package.save(path)
        return package

    def load_states(self, path: str | os.PathLike[str]) -> None:
        """Loads what a session with the exported package saved at `path` into model and optimiser."""
        session = self._used().session
        session.load_states(path)
        self.synchronize()

    def _program(self, arguments: Arguments, rules: Sequence[Rule]) -> _Program:
        self._check(arguments)
        key = _Key(
            tuple((a.dtype, tuple(a.shape)) for a in arguments.tensors),
            arguments.keywords,
            tuple(rule.constants for rule in rules),
            tuple(part.current() for part in self._settings),
        )
        if self._current is not None and self._fresh:
            if self._current.serves(key):
                return self._current
            self.synchronize()
        found = next((p for p in self._programs if p.serves(key)), None)
        if found is None:
            seconds: dict[str, float] = {}
            with phases.shown("training step"), phases.noted(seconds):
                found = self._made_for(arguments, key)
            log.info("a training step: %s", phases.listed(seconds))
        else:
            self._programs.remove(found)
        self._programs.append(found)
        for name, value in self._values(found.captured).items():
            found.session.write_state(name, stored(value.cpu().contiguous()))
        self._current, self._fresh = found, True
        self._count_steps()
        return found

    def _made_for(self, arguments: Arguments, key: _Key) -> _Program:
        """Compiles a program. Sizes that other programs have otherwise vary in it."""
        self._warn(key)
        self._made += 1
        varying: Varying = frozenset()
        for program in self._programs:
            differing = key.without(program.varying).varying(
                program.key.without(program.varying)
            )
            if differing is not None:
                varying |= differing | program.varying
        made = self._varying(arguments, key, varying) if varying else None
        if made is None:
            made = _Program(self._capture(arguments), self._engine, key, frozenset())
        # What serves the same sizes is not needed any more.
        self._programs = [p for p in self._programs if not made.serves(p.key)]
        del self._programs[: -_MOST_PROGRAMS + 1]
        return made

    def _varying(
        self, arguments: Arguments, key: _Key, varying: Varying
    ) -> _Program | None:
        """Compiles a program in which these dims vary, if that is possible."""
        for example in (arguments.resized(varying), arguments):
            try:
                captured = self._capture(example, varying=varying)
                if captured.admits([s for _, s in key.forms]):
                    return _Program(captured, self._engine, key, varying)
            except (reprise.Error, RuntimeError, ValueError, TypeError) as error:
                log.info("sizes of a training step cannot vary: %s", error)
        return None

    def _warn(self, key: _Key) -> None:
        if self._made + 1 < _MANY_PROGRAMS or not self._programs:
            return
        text = (
            f"program {self._made + 1} of a training step is compiled, because "
            f"{key.changes(self._programs[-1].key)}"
        )
        if self._made + 1 == _MANY_PROGRAMS:
            warnings.warn(text, stacklevel=4)
        else:
            log.info("%s", text)

    def _count_steps(self) -> None:
        """Notes how many steps PyTorch's optimiser, which has the values of the session, has taken."""
        trained = self._used().captured.states
        self._steps = [group.steps(trained) for group in self._groups()]
        self._since = 0

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

    def _capture(
        self,
        arguments: Arguments,
        *,
        fixed: bool = False,
        varying: Varying | None = None,
    ) -> Captured:
        return capture(
            self._model, self._loss, self._groups(), arguments, self._clip, fixed=fixed,
            varying=varying,
        )  # fmt: skip

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
            for name, value in group.scalars(captured.states).items():
                known[scalar_name(name, number)] = value
        return {name: known[name].detach() for name in captured.states}
