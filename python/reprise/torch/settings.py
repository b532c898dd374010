"""What a training step takes from modules and functions as constants."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Iterable

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
