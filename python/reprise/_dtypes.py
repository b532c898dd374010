"""NumPy's side of element types; the extension calls these functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import InvalidInput

# The unsigned integers, and for small integers int8, that stand for dtypes that NumPy lacks.
_CARRIERS = {"bfloat16": "uint16", "int4": "int8", "int2": "int8"}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Returns NumPy's dtype of that name, or that of ml_dtypes, or else one that carries its bits."""
    if name == "string":
        return np.dtype(object)
    try:
        return np.dtype(name)
    except TypeError:
        pass
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype(_CARRIERS.get(name, "uint8"))
    known = getattr(ml_dtypes, name, None)
    return np.dtype(known if known is not None else _CARRIERS.get(name, "uint8"))


def strings(values: Any) -> tuple[list[str | bytes], tuple[int, ...]]:
    """Returns the strings of a string, an array or nested lists of them, row by row, and the shape."""
    array = np.asarray(values, dtype=object)
    items = array.ravel().tolist()
    for item in items:
        if not isinstance(item, str | bytes):
            raise InvalidInput(
                f"expected strings, found an element of {type(item).__name__}"
            )
    return items, array.shape
