"""Finds what the table cannot take, and cuts a graph into compiled regions and the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.fx.passes.utils.fuser_utils import fuse_by_partitions

from .complexes import PARTS, Complex
from .errors import MISFITS, Unsupported
from .graph import Value
from .lowering import Lowering, is_size
from .results import fake_value

PREFIX = "reprise_region_"


class _Probe(Lowering):
    """Lowers every node on its own; a node that cannot be lowered becomes an input of the rest."""

    def __init__(self, gm: GraphModule, refused: Mapping[str, str]) -> None:
        super().__init__(gm)
        self.reasons: dict[Node, str] = {}
        self._refused = refused

    def stand_in(self, node: Node) -> None:
        """Gives a node that is not lowered the values that later nodes read."""
        self.env[node] = self._stand_in(node.name, fake_value(node))

    def _stand_in(self, name: str, fake: Any) -> Any:
        if isinstance(fake, torch.Tensor):
            try:
                return self._input(name, fake)
            except Unsupported as error:
                return error
        if isinstance(fake, (list, tuple)):
            return [self._stand_in(name, f) for f in fake]
        return fake

    def _input(self, name: str, fake: torch.Tensor) -> Value | Complex:
        part = PARTS.get(fake.dtype)
        if part is None:
            return self.graph.add_input(name, fake.dtype, tuple(fake.shape))
        parts = [self.graph.add_input(name, part, tuple(fake.shape)) for _ in (0, 1)]
        return Complex(parts[0], parts[1], fake.dtype)

    def argument(self, argument: Any) -> Any:
        found = super().argument(argument)
        if isinstance(found, Unsupported):
            raise found
        return found

    def check(self, node: Node) -> Any:
        raise Unsupported("PyTorch asserts it, because the graph is cut")

    def visit(self, node: Node) -> None:
        """Lowers a node or notes why it cannot be."""
        try:
            if node.name in self._refused:
                raise Unsupported(self._refused[node.name])
            if node.op == "get_attr":
                self.attribute(node)
            elif node.op == "call_function":
                self.call(node)
            else:
                raise Unsupported(f"calls of kind {node.op} are not supported")
        except Unsupported as error:
            self.reasons[node] = str(error)
            self.stand_in(node)
        except MISFITS as error:
            self.reasons[node] = (
                f"its arguments have a form that is not supported ({error})"
            )
            self.stand_in(node)


def unsupported(gm: GraphModule, refused: Mapping[str, str]) -> dict[Node, str]:
    """Returns the nodes that cannot be compiled, with reasons. `refused` are known ones by name."""
    probe = _Probe(gm, refused)
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            probe.stand_in(node)
        elif node.op != "output":
            probe.visit(node)
    return probe.reasons


class _Support(OperatorSupportBase):
    def __init__(self, gm: GraphModule, reasons: Mapping[Node, str]) -> None:
        self._names = {n.name for n in reasons} | {n.name for n in _bodies(gm)}

    def is_node_supported(
        self, submodules: Mapping[str, torch.nn.Module], node: Node
    ) -> bool:
        if node.op == "get_attr":
            return node.name not in self._names
        if node.op != "call_function" or node.name in self._names:
            return False
        return not is_size(fake_value(node))


def cut(gm: GraphModule, reasons: Mapping[Node, str]) -> GraphModule:
    """Moves supported nodes to submodules whose names begin with PREFIX. Each returns a tuple."""
    partitioner = CapabilityBasedPartitioner(
        gm, _Support(gm, reasons), allows_single_node_partition=True
    )
    regions = [
        p.nodes
        for p in partitioner.propose_partitions()
        if any(_computes(n) for n in p.nodes)
    ]
    for node in _bodies(gm):
        for region in regions:
            _join(node, region)
    return fuse_by_partitions(gm, regions, prefix=PREFIX, always_return_tuple=True)


def _bodies(gm: GraphModule) -> list[Node]:
    """Returns the nodes that read graphs, which operators such as `cond` take."""
    attributes = gm.graph.find_nodes(op="get_attr")
    return [
        n
        for n in attributes
        if isinstance(getattr(gm, str(n.target), None), GraphModule)
    ]


def _join(node: Node, region: dict[Node, int | None]) -> None:
    """Moves the graph that a node reads to the region of the operator that takes it."""
    if any(user in region for user in node.users):
        region[node] = None


def _computes(node: Node) -> bool:
    return node.op == "call_function" and isinstance(
        fake_value(node), (torch.Tensor, list, tuple)
    )


__all__ = ["PREFIX", "Value", "cut", "unsupported"]
