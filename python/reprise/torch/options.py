"""The options of `torch.compile(model, backend="reprise", options={...})`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from .._devices import device_id

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
WEIGHTS = ("watch", "sample", "frozen")
#: What precisions are also called.
_PRECISIONS = {
    "fp32": "fp32", "float32": "fp32", "float": "fp32", "fp16": "fp16", "float16": "fp16",
    "half": "fp16", "bf16": "bf16", "bfloat16": "bf16",
}  # fmt: skip


@dataclass(frozen=True)
class Options:
    """`device` is an id as in `reprise.devices()`; "auto" takes the best one.

    `precision` is that of tensors and weights in device memory: fp32, fp16 or bf16. `freeze` makes
    parameters constants of the compiled program when no gradient is needed. `weights` says how
    changes of parameters are noticed: "watch" reads all of them in each run, "sample" a few words,
    "frozen" takes them to never change.
    """

    mode: str = "default"
    device: str = "auto"
    precision: str = "fp32"
    freeze: bool = False
    cache_dir: str | None = None
    weights: str = "watch"

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
        if "device" in given:
            given["device"] = device_id(given["device"])
        if "precision" in given:
            name = str(given["precision"]).removeprefix("torch.")
            if name not in _PRECISIONS:
                raise ValueError(
                    f"the precision must be fp32, fp16 or bf16, not {given['precision']!r}"
                )
            given["precision"] = _PRECISIONS[name]
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
        device = str(given.get("device", "auto"))
        if not re.fullmatch(r"auto|host|(vulkan|cuda)(:\d+)?", device):
            raise ValueError(
                f"there are no devices like {device!r}; reprise.devices() lists those of this machine"
            )
        for name, values in (("mode", MODES), ("weights", WEIGHTS)):
            if given.get(name, values[0]) not in values:
                raise ValueError(f"{name} must be one of {values}, not {given[name]!r}")
        return Options(**given)  # type: ignore[arg-type]
