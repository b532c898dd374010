"""Reprise compiles ONNX models to fused kernels and replays them on Vulkan, CUDA and the host.

A model of y = relu(x * x + x), whose input x has the shape [batch, 4], runs like this:

    >>> import numpy as np
    >>> import reprise
    >>> package = reprise.compile("model.onnx")
    >>> session = reprise.Session(package, "host")  # without a name: on the best device
    >>> session(np.array([[1, 2, 3, -0.5]], np.float32))
    array([[ 2.,  6., 12.,  0.]], dtype=float32)

`devices` lists devices, `Package.explain` tells what was fused and why not more, and `python -m
reprise` is the command line. Errors are subclasses of `Error`. Any thread may call any function.
"""

from . import errors
from ._compile import compile
from ._devices import DeviceList, devices, open_device
from ._explain import Explanation, HostNode, KeptNode, Launch, Unfused
from ._native import (
    BuiltGraph,
    Device,
    DeviceInfo,
    GraphBody,
    GraphBuilder,
    GraphValue,
    RunTimes,
    Size,
    Slot,
    States,
    Tensor,
    Tokenizer,
    open_tokenizer,
    pass_names,
    version,
)
from ._package import Package
from ._session import Session, StateRows
from .errors import (
    Cancelled,
    CorruptPackage,
    DeviceError,
    DeviceLost,
    Error,
    FileError,
    FileMissing,
    IncompatiblePackage,
    IndexOutOfRange,
    InternalError,
    InvalidInput,
    InvalidModel,
    OutOfMemory,
    Timeout,
    Unsupported,
    UsageError,
)

__version__ = version()
"""The version, such as '0.1.0'."""

__all__ = [
    "BuiltGraph",
    "Cancelled",
    "CorruptPackage",
    "Device",
    "DeviceError",
    "DeviceInfo",
    "DeviceList",
    "DeviceLost",
    "Error",
    "Explanation",
    "FileError",
    "FileMissing",
    "GraphBody",
    "GraphBuilder",
    "GraphValue",
    "HostNode",
    "IncompatiblePackage",
    "IndexOutOfRange",
    "InternalError",
    "InvalidInput",
    "InvalidModel",
    "KeptNode",
    "Launch",
    "OutOfMemory",
    "Package",
    "RunTimes",
    "Session",
    "Size",
    "Slot",
    "StateRows",
    "States",
    "Tensor",
    "Timeout",
    "Tokenizer",
    "Unfused",
    "Unsupported",
    "UsageError",
    "__version__",
    "compile",
    "devices",
    "errors",
    "open_device",
    "open_tokenizer",
    "pass_names",
]
