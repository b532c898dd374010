"""What a training step takes from modules and functions as constants."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Iterable
from typing import Any

import torch

import reprise

_PLAIN = (bool, int, float, str, type(None))


def _constants(values: Iterable[object]) -> tuple[object, ...]:
    """Returns the numbers and strings among the values, also those in lists and dicts."""
    found: list[object] = []
    for value in values:
        parts: Iterable[object] = (value,)
        if isinstance(value, list | tuple):
            parts = value
        elif isinstance(value, dict):
            parts = [part for item in value.items() for part in item]
        found.append(tuple(p for p in parts if isinstance(p, _PLAIN)))
    return tuple(found)


def settings_of(part: object) -> tuple[object, ...]:
    """Returns what a captured step takes from a module or a function as constants.

    These are numbers and strings that modules have as attributes, and those that functions read
    besides their arguments. Values of tensors are not among them.
    """
    if isinstance(part, functools.partial):
        given = _constants([*part.args, part.keywords])
        return (*settings_of(part.func), given)
    if isinstance(part, types.MethodType):
        return settings_of(part.__func__)
    if isinstance(part, types.FunctionType):
        read = [part.__globals__.get(n) for n in part.__code__.co_names]
        for cell in part.__closure__ or ():
            with contextlib.suppress(ValueError):  # it is empty
                read.append(cell.cell_contents)
        return (id(part.__code__), _constants(read))
    if not isinstance(part, torch.nn.Module):
        return (id(part),)
    found: list[object] = []
    for name, module in part.named_modules():
        found.append((name, id(module)))
        for attribute, value in vars(module).items():
            if attribute[0] != "_":
                plain = type(value) in _PLAIN  # most are, and each step asks
                known = value if plain else _constants([value])
                found.append((name, attribute, known))
        for own, parameter in module._parameters.items():
            if parameter is not None:
                found.append((name, own, parameter.requires_grad))
    return tuple(found)


class Settings:
    """The settings of a module or a function, for a step that asks for them at each call.

    Dictionaries of modules are compared with copies of them. They nearly always have the same objects,
    which Python finds without looking into the objects.
    """

    def __init__(self, part: object) -> None:
        self._part = part
        self._found: tuple[object, ...] | None = None
        self._same: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._values: list[tuple[object, tuple[object, ...]]] = []
        self._learned: list[tuple[torch.Tensor, bool]] = []

    def current(self) -> tuple[object, ...]:
        """Returns `settings_of` the part, the same tuple as long as nothing has changed."""
        if not isinstance(self._part, torch.nn.Module):
            return settings_of(self._part)
        if self._found is None or not self._unchanged():
            self._found = settings_of(self._part)
            self._keep(self._part)
        return self._found

    def _keep(self, part: torch.nn.Module) -> None:
        self._same, self._values, self._learned = [], [], []
        for module in part.modules():
            for own in (vars(module), module._modules, module._parameters):
                self._same.append((own, dict(own)))
            for name, value in vars(module).items():
                if name[0] != "_" and isinstance(value, list | dict):
                    self._values.append((value, _constants([value])))
            for parameter in module._parameters.values():
                if parameter is not None:
                    self._learned.append((parameter, parameter.requires_grad))

    def _unchanged(self) -> bool:
        try:
            return (
                all(now == before for now, before in self._same)
                and all(p.requires_grad == before for p, before in self._learned)
                and all(_constants([v]) == before for v, before in self._values)
            )
        except Exception:  # noqa: BLE001 - objects define what == does, and arrays raise
            return False


def check_settings(before: tuple[object, ...], after: tuple[object, ...]) -> None:
    """Raises an error for a model that changes numbers of its own in each call."""
    changed = [a for a in after if a not in before]
    if changed:
        parts = changed[0][:2] if isinstance(changed[0], tuple) else ("?",)
        name = ".".join(map(str, parts)).lstrip(".")
        raise reprise.Unsupported(
            f"the model changes its attribute '{name}' in each call, but a training step runs its "
            "Python code only once; keep the value in a buffer, or use torch.compile"
        )
