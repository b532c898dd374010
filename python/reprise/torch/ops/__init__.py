"""The rows of the operator table, one file for each family. Importing them registers them."""

from __future__ import annotations

from . import (  # noqa: F401
    activations,
    arithmetic,
    attention,
    bits,
    complex,
    creation,
    indexing,
    integers,
    matmul,
    pooling,
    random,
    reductions,
    series,
    smooth,
    sorting,
    special,
    unary,
    views,
    vision,
)

from . import prims  # noqa: F401  isort: skip  (it repeats rows of the others)
from ..table import add_copies

add_copies()
