"""The exceptions of Reprise, one for each status of the library.

A message names the node, tensor or file, and says what was expected, what was found and what helps.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


class Error(Exception):
    """The base of all exceptions of this package."""

    nodes: tuple[str, ...] = ()
    """The names of the model's nodes that the error concerns; empty if it concerns none."""


class UsageError(Error, ValueError):
    """The caller asked for something that does not exist: an option, a device, a freed tensor."""


class InvalidModel(Error, ValueError):
    """The model is malformed."""


class InvalidInput(Error, ValueError):
    """An input or output has a wrong name, shape, dtype, memory or value."""


class IndexOutOfRange(InvalidInput, IndexError):
    """An element of an input is an index that does not exist."""


class Unsupported(Error, NotImplementedError):
    """The request is well-formed, but this build or device cannot do it."""


class FileError(Error, OSError):
    """A file could not be read or written."""


class FileMissing(FileError, FileNotFoundError):
    """There is no file of this name."""


class DeviceError(Error, RuntimeError):
    """A call of a driver failed, or the device reported an error."""


class OutOfMemory(DeviceError, MemoryError):
    """The memory of the host or of the device is exhausted."""


class Timeout(DeviceError, TimeoutError):
    """A run did not end within its time limit."""


class DeviceLost(DeviceError):
    """Nothing works on the device any more: open it again, or another one."""


class Cancelled(Error):
    """The caller asked to stop."""


class CorruptPackage(InvalidModel):
    """The package is damaged, truncated, or not a package."""


class IncompatiblePackage(Unsupported):
    """The package has another format version, or no variant for the device."""


class InternalError(Error, RuntimeError):
    """A bug of Reprise. Please report it with the model."""


@contextlib.contextmanager
def file_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """In this block, the error for a file that does not exist is a FileMissing."""
    try:
        yield
    except FileError as error:
        if os.path.lexists(path):
            raise
        raise FileMissing(str(error)) from None


__all__ = [
    "Cancelled",
    "CorruptPackage",
    "DeviceError",
    "DeviceLost",
    "Error",
    "FileError",
    "FileMissing",
    "IncompatiblePackage",
    "IndexOutOfRange",
    "InternalError",
    "InvalidInput",
    "InvalidModel",
    "OutOfMemory",
    "Timeout",
    "Unsupported",
    "UsageError",
]
