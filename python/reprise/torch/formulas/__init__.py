"""Formulas of operators in terms of others of PyTorch, one module per family.

Importing the package registers all of them.
"""

from __future__ import annotations

from . import counting, experts, factorisations, losses, resampling, sampling, whole
from .registry import FORMULAS, formulas_of_others

__all__ = [
    "FORMULAS",
    "counting",
    "experts",
    "factorisations",
    "formulas_of_others",
    "losses",
    "resampling",
    "sampling",
    "whole",
]
