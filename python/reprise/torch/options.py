"""The options of `torch.compile(model, backend="reprise", options={...})`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


@dataclass(frozen=True)
class Options:
    """`device` is an id as in `reprise.devices()`; "auto" takes the best one.

    `precision` is that of tensors and weights in device memory: fp32, fp16 or bf16. `freeze` makes
    parameters constants of the compiled program when no gradient is needed.
    """

    mode: str = "default"
    device: str = "auto"
    precision: str = "fp32"
    freeze: bool = False
    cache_dir: str | None = None

    @staticmethod
    def of(mode: str | None, options: Mapping[str, object] | None) -> Options:
        """Checks what torch.compile passed."""
        given: dict[str, object] = dict(options or {})
        known = {f.name for f in fields(Options)}
        for name in given:
            if name not in known:
                raise ValueError(
                    f"the backend 'reprise' has no option {name!r}; it has {sorted(known)}"
                )
        kinds: dict[str, Any] = {
            "freeze": bool,
            "cache_dir": (str, os.PathLike, type(None)),
        }
        for name, value in given.items():
            if not isinstance(value, kinds.get(name, str)):
                raise TypeError(
                    f"the option {name!r} of the backend 'reprise' cannot be {value!r}"
                )
        if mode is not None:
            given["mode"] = mode
        if given.get("mode", "default") not in MODES:
            raise ValueError(f"the mode must be one of {MODES}, not {given['mode']!r}")
        return Options(**given)  # type: ignore[arg-type]
