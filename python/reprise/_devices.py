"""The devices of this machine."""

from __future__ import annotations

from typing import Any

from . import _native
from ._tables import html_table, text_table


class DeviceList(list[_native.DeviceInfo]):
    """Devices, the host last. str() gives a table; notebooks show it."""

    def _rows(self) -> list[list[str]]:
        return [[d.id, d.name, d.kind, d.driver, d.reason or "yes"] for d in self]

    def __str__(self) -> str:
        return text_table(["id", "name", "kind", "driver", "usable"], self._rows())

    def _repr_html_(self) -> str:
        header = ["id", "name", "kind", "driver", "usable"]
        return html_table("Devices", header, self._rows())


def devices() -> DeviceList:
    """Lists every device that a session can name, and why one cannot be used.

    Example:
        >>> reprise.devices()[-1].id
        'host'
    """
    return DeviceList(_native.list_devices())


def device_id(device: Any) -> Any:
    """Returns the id of a device by PyTorch's names: "cpu", "cuda" and torch.device objects.

    Anything else is returned as it is.
    """
    kind, index = getattr(device, "type", None), getattr(device, "index", None)
    if isinstance(kind, str) and not isinstance(device, str | _native.Device):
        device = kind if index is None else f"{kind}:{index}"
    if isinstance(device, str) and device.partition(":")[0] == "cpu":
        return "host"
    return device


def open_device(id: str = "auto", stream: int = 0) -> _native.Device:
    """Opens a device, or returns it if it is open.

    Args:
        id: as `devices()` lists them, or as PyTorch calls them: "cpu", torch.device("cuda", 1).
        stream: the handle of a CUDA stream; 0 is CUDA's default stream.

    Raises:
        UsageError: there is no such device.
        DeviceError: it cannot be used; the message says why.
    """
    return _native.open_device(device_id(id), stream)
