"""The folder on disk in which compiled packages are kept for later processes."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from pathlib import Path

import torch

import reprise
from reprise import _native

#: How many bytes of packages the folder keeps.
MAX_BYTES = 1 << 30


@functools.lru_cache(maxsize=1)
def build_id() -> str:
    """Returns what tells this build from all others: versions, and a hash of the compiler.

    A version alone does not, because a compiler under development changes without it.
    """
    compiler = Path(str(_native.__file__)).read_bytes()
    digest = hashlib.sha256(compiler).hexdigest()
    return f"{reprise.__version__} {torch.__version__} {digest}"


def folder_of(cache_dir: str | None) -> Path | None:
    """Returns the folder that the option "cache_dir" names, or None if there is to be none."""
    if cache_dir is not None:
        return Path(cache_dir) if cache_dir else None
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(
        os.path.expanduser("~"), ".cache"
    )
    return Path(base) / "reprise" / "torch"


class Shelf:
    """Packages by key. A folder that cannot be read or written is an empty one."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def _path(self, key: bytes) -> Path | None:
        return None if self._folder is None else self._folder / f"{key.hex()}.rpk"

    def find(self, key: bytes) -> reprise.Package | None:
        """Returns a package, or None if there is none that can be read."""
        path = self._path(key)
        if path is None:
            return None
        try:
            package = reprise.Package.open(path)
            path.touch()
        except (reprise.Error, OSError):
            self.drop(key)
            return None
        return package

    def drop(self, key: bytes) -> None:
        """Deletes a package that is damaged."""
        path = self._path(key)
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def keep(self, key: bytes, package: reprise.Package) -> None:
        """Saves a package. If the folder is full, those last used longest ago are deleted."""
        path = self._path(key)
        if path is None:
            return
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            package.save(path)
            files = [(p.stat(), p) for p in path.parent.glob("*.rpk")]
        except (reprise.Error, OSError):
            return
        total = 0
        for status, file in sorted(files, key=lambda f: f[0].st_mtime, reverse=True):
            total += status.st_size
            if total > MAX_BYTES and file != path:
                file.unlink(missing_ok=True)
