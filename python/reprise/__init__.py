"""Reprise compiles ONNX models to fused kernels and replays them on Vulkan, CUDA and the host.

    package = reprise.compile("model.onnx")
    session = reprise.Session(package)          # the best device
    y = session(x)                              # NumPy arrays, DLPack, reprise.Tensor

`reprise.devices()` lists devices, `package.explain()` tells what was fused and why not more, and
`python -m reprise` is the command line. Errors are subclasses of `reprise.Error`.
"""

from . import errors
from ._compile import compile
from ._devices import DeviceList, devices, open_device
from ._explain import Explanation, HostNode, KeptNode, Launch, Unfused
from ._native import (
    Device,
    DeviceInfo,
    RunTimes,
    Slot,
    Tensor,
    pass_names,
    version,
)
from ._package import Package
from ._session import Session
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

__all__ = [
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
    "Slot",
    "Tensor",
    "Timeout",
    "Unfused",
    "Unsupported",
    "UsageError",
    "__version__",
    "compile",
    "devices",
    "errors",
    "open_device",
    "pass_names",
]
