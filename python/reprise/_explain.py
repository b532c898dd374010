"""What Package.explain() returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._tables import bytes_text, html_table, some, text_table


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel in a run.

    Attributes:
        kernel: its name, made of the operators in it.
        nodes: the model's nodes that it computes.
        schedule: how it computes them.
        bytes_read: from device memory; None if that depends on the inputs of a run.
        bytes_written: to device memory, likewise.
        body: the body of control flow that it is in, or empty.
    """

    kernel: str
    nodes: list[str]
    schedule: str
    bytes_read: int | None
    bytes_written: int | None
    body: str


@dataclass(frozen=True)
class HostNode:
    """A node that runs on the host between launches, and why.

    Attributes:
        node: its name.
        op: its operator.
        reason: why no kernel computes it.
        body: the body of control flow that it is in, or empty.
    """

    node: str
    op: str
    reason: str
    body: str


@dataclass(frozen=True)
class Unfused:
    """An edge between two nodes that are in different kernels, and why.

    Attributes:
        source: the node whose result the edge carries.
        target: the node that reads it.
        reason: why one kernel does not compute both.
    """

    source: str
    target: str
    reason: str


@dataclass(frozen=True)
class KeptNode:
    """A node whose result stays fp32 in a package of low precision, and why.

    Attributes:
        node: its name.
        op: its operator.
        reason: what would go wrong.
    """

    node: str
    op: str
    reason: str


@dataclass(frozen=True)
class Explanation:
    """What a run of a package does. str() gives tables; notebooks show them.

    Attributes:
        model: the name of the model's graph.
        variant: the variant that is explained, or 'host'.
        skipped: why the device does not use earlier variants.
        model_nodes: how many nodes the model has.
        launches_unfused: how many launches a run would have without fusion.
        launches: the launches of a run, in order.
        submits: how often a run submits work to the device.
        host: the nodes that run on the host.
        unfused: edges that were not fused, with the reason.
        precision: of tensors in memory, where that is safe.
        kept: nodes whose results stay fp32 although `precision` is lower.
        notes: what the importer assumed or found odd in the model.
    """

    model: str
    variant: str
    skipped: list[str]
    model_nodes: int
    launches_unfused: int
    submits: int
    launches: list[Launch]
    host: list[HostNode]
    unfused: list[Unfused]
    precision: str
    kept: list[KeptNode]
    notes: list[str]

    @classmethod
    def _of(cls, raw: dict[str, Any]) -> Explanation:
        lists = {
            "launches": [Launch(**row) for row in raw["launches"]],
            "host": [HostNode(**row) for row in raw["host"]],
            "unfused": [Unfused(**row) for row in raw["unfused"]],
            "kept": [KeptNode(**row) for row in raw["kept"]],
        }
        return cls(**(raw | lists))

    @property
    def kernels(self) -> list[str]:
        """The names of the kernels, each once, in the order of their first launch."""
        return list(dict.fromkeys(launch.kernel for launch in self.launches))

    def _summary(self) -> str:
        return (
            f"{self.model or 'model'}, variant {self.variant}: {self.model_nodes} nodes, "
            f"{self.launches_unfused} launches without fusion, {len(self.launches)} with"
        )

    def _tables(self) -> list[tuple[str, list[str], list[list[str]]]]:
        launches = [
            [
                launch.kernel,
                launch.schedule,
                bytes_text(launch.bytes_read),
                bytes_text(launch.bytes_written),
                some(launch.nodes),
                launch.body,
            ]
            for launch in self.launches
        ]
        header = ["kernel", "schedule", "read", "written", "nodes", "body"]
        if not any(launch.body for launch in self.launches):
            header, launches = header[:-1], [row[:-1] for row in launches]
        host = [[n.node, n.op, n.reason] for n in self.host]
        unfused = [[u.source, u.target, u.reason] for u in self.unfused]
        kept = [[k.node, k.op, k.reason] for k in self.kept]
        return [
            ("Launches", header, launches),
            ("On the host", ["node", "operator", "reason"], host),
            ("Not fused", ["from", "to", "because"], unfused),
            ("Kept in fp32", ["node", "operator", "because"], kept),
        ]

    def __str__(self) -> str:
        parts = [self._summary()]
        parts += [f"note: {note}" for note in self.notes]
        parts += [
            f"\n{title}:\n{text_table(header, rows)}"
            for title, header, rows in self._tables()
            if rows
        ]
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        tables = (html_table(*table) for table in self._tables() if table[2])
        return html_table(self._summary(), [], []) + "".join(tables)
