"""The devices of this machine."""

from __future__ import annotations

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
    """Lists every device that a session can name, and why one cannot be used."""
    return DeviceList(_native.list_devices())
