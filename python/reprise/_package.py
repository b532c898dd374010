"""Compiled models."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from . import _native
from ._explain import Explanation
from .errors import file_errors


class Package(_native.Package):
    """A compiled model: reprise.compile() makes one, and Package.open() reads one from a file.

    A package can be pickled. Any number of sessions can use it.

    Args:
        other: a package, whose contents the new one shares.

    Example:
        >>> package = reprise.compile("model.onnx")
        >>> package.save("model.rpk")
        >>> reprise.Package.open("model.rpk").explain().kernels
        ['fused_add_mul_relu']
    """

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Package:
        """Opens a package (.rpk). Its kernels run on the device: open only files that you trust.

        Args:
            path: of the file, which must not change in place while the package is used.

        Raises:
            FileError: the file cannot be read; FileMissing if there is none.
            CorruptPackage: the file is damaged, or not a package.
            IncompatiblePackage: another version of Reprise compiled it.
        """
        with file_errors(path):
            return cls(_native.Package._open(os.fspath(path)))

    @classmethod
    def from_bytes(cls, data: bytes) -> Package:
        """Reads a package from `data`, the contents of its file, which it copies."""
        return cls(_native.Package._from_bytes(data))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the package to the file `path`, completely or not at all.

        Raises:
            FileError: the file cannot be written.
        """
        self._save(os.fspath(path))

    def to_bytes(self) -> bytes:
        """Returns what save() writes to a file, for from_bytes()."""
        with tempfile.TemporaryDirectory(prefix="reprise-") as folder:
            path = Path(folder) / "model.rpk"
            self.save(path)
            return path.read_bytes()

    def __reduce__(self) -> tuple[Callable[[bytes, str], Package], tuple[bytes, str]]:
        return _unpickled, (self.to_bytes(), self.mode)

    def explain(self, device: str | _native.Device | None = None) -> Explanation:
        """Tells what was fused, and why not more.

        Args:
            device: whose variant to explain; by default the first variant.

        Raises:
            UsageError: there is no such device.
        """
        return Explanation._of(self._explain(device))

    def _repr_html_(self) -> str:
        return self.explain()._repr_html_()


def _unpickled(data: bytes, mode: str) -> Package:
    package = Package.from_bytes(data)
    package.mode = mode
    return package
