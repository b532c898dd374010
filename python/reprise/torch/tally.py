"""What the backend has done in this process."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Counters:
    """What the engines of this process have done.

    `compiled` counts packages that the compiler made, `from_memory` and `from_disk` those that were
    found there instead, and `uploads` copies of parameters to devices. `seconds` tells how long each
    phase of first calls took (`phases`).
    """

    compiled: int = 0
    from_memory: int = 0
    from_disk: int = 0
    uploads: int = 0
    seconds: dict[str, float] = field(default_factory=dict)


counters = Counters()
