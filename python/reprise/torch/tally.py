"""What the backend has done in this process."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Counters:
    """What the backend has done in this process.

    Attributes:
        compiled: packages that the compiler made.
        from_memory: packages that were found in memory instead.
        from_disk: packages that were found on disk instead.
        uploads: copies of parameters to devices.
        seconds: how long each phase of first calls took, such as "traced" and "compiled".
    """

    compiled: int = 0
    from_memory: int = 0
    from_disk: int = 0
    uploads: int = 0
    seconds: dict[str, float] = field(default_factory=dict)


counters = Counters()
