"""States of packages: tensors that sessions keep from run to run."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from . import proto
from .dtypes import elem_type, raw_bytes

#: The next value of a state is the output with this suffix.
NEXT = ".next"
#: The state that random numbers come from.
SEED = "seed"


def with_values(model: bytes, values: Mapping[str, torch.Tensor]) -> bytes:
    """Returns a model in which inputs have these initial values."""
    # Fields of a protobuf message that are repeated may be appended to it.
    parts = [
        proto.initializer(proto.tensor(n, elem_type(v.dtype), v.shape, raw_bytes(v)))
        for n, v in values.items()
    ]
    return model + b"".join(parts)
