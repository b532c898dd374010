"""States of packages: tensors that sessions keep from run to run."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from .model import Model

#: The next value of a state is the output with this suffix.
NEXT = ".next"
#: The state that random numbers come from.
SEED = "seed"


def stored(value: torch.Tensor) -> torch.Tensor:
    """Returns a tensor as packages have it: a complex one is a real one with a last dim of 2."""
    return torch.view_as_real(value.resolve_conj()) if value.is_complex() else value


def restored(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Returns a tensor of a package as PyTorch has it, given PyTorch's dtype."""
    return torch.view_as_complex(value) if dtype.is_complex else value


def with_values(model: Model, values: Mapping[str, torch.Tensor]) -> Model:
    """Returns a model in which states have these first values."""
    return model.with_values({name: stored(value) for name, value in values.items()})
