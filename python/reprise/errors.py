"""The exceptions of Reprise, one for each status of the library.

A message names the node, tensor or file, and says what was expected, what was found and what helps.
"""


class Error(Exception):
    """The base of all exceptions of this package."""


class UsageError(Error, ValueError):
    """The caller asked for something that does not exist: an option, a device, a freed tensor."""


class InvalidModel(Error, ValueError):
    """The model or package is malformed."""


class InvalidInput(Error, ValueError):
    """An input or output has a wrong name, shape, dtype, memory or value."""


class Unsupported(Error, NotImplementedError):
    """The request is well-formed, but this build or device cannot do it."""


class FileError(Error, OSError):
    """A file could not be read or written."""


class DeviceError(Error, RuntimeError):
    """A call of a driver failed, or the device reported an error."""


class InternalError(Error, RuntimeError):
    """A bug of Reprise. Please report it with the model."""


__all__ = [
    "DeviceError",
    "Error",
    "FileError",
    "InternalError",
    "InvalidInput",
    "InvalidModel",
    "Unsupported",
    "UsageError",
]
