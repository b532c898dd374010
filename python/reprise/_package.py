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

    Attributes:
        inputs, outputs, states: lists of Slot with name, dtype and shape (in elements).
        variants: the kinds of devices that it has kernels for. Every package runs on the host.
        mode: of sessions that name none.
    """

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Package:
        """Opens a package (.rpk). Its kernels run on the device: open only files that you trust."""
        with file_errors(path):
            return cls(_native.Package._open(os.fspath(path)))

    @classmethod
    def from_bytes(cls, data: bytes) -> Package:
        """Reads a package from the contents of its file, which it copies."""
        return cls(_native.Package._from_bytes(data))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the package to a file, completely or not at all."""
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
        """
        return Explanation._of(self._explain(device))

    def _repr_html_(self) -> str:
        return self.explain()._repr_html_()


def _unpickled(data: bytes, mode: str) -> Package:
    package = Package.from_bytes(data)
    package.mode = mode
    return package
