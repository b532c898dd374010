"""PyTorch's dtypes and their numbers in ONNX."""

from __future__ import annotations

import torch

from .errors import Unsupported

#: What `TensorProto.DataType` of ONNX calls each dtype that the backend computes with.
ELEM_TYPES: dict[torch.dtype, int] = {
    torch.float32: 1,
    torch.uint8: 2,
    torch.int8: 3,
    torch.uint16: 4,
    torch.int16: 5,
    torch.int32: 6,
    torch.int64: 7,
    torch.bool: 9,
    torch.float16: 10,
    torch.float64: 11,
    torch.uint32: 12,
    torch.uint64: 13,
    torch.bfloat16: 16,
}


def elem_type(dtype: torch.dtype) -> int:
    """Returns the number of a dtype, or refuses one that the compiler does not have."""
    number = ELEM_TYPES.get(dtype)
    if number is None:
        raise Unsupported(
            f"tensors of {str(dtype).removeprefix('torch.')} are not supported"
        )
    return number


def dtype_name(dtype: torch.dtype) -> str:
    """Returns the name that Reprise has for a dtype."""
    return str(dtype).removeprefix("torch.")


def raw_bytes(value: torch.Tensor) -> bytes:
    """Returns the elements of a tensor in C order."""
    flat = value.detach().cpu().contiguous().reshape(-1)
    if flat.numel() == 0:
        return b""
    return bytes(flat.view(torch.uint8).numpy().tobytes())
