"""Finds what the table cannot take, and cuts a graph into compiled regions and the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.fx.passes.utils.fuser_utils import fuse_by_partitions
from torch.utils import _pytree as pytree

from .complexes import PARTS, Complex
from .errors import MISFITS, Unsupported
from .graph import Value
from .lowering import Lowering, check_elements, is_size, source_of
from .results import fake_value
from .symbols import Size, find_symbols, symbols_of

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
        check_elements(fake)
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


def listed_reasons(gm: GraphModule) -> str:
    """Returns what cannot be lowered of what the results need, with the user's lines; "" if nothing."""
    texts = [
        f"{node.target}: {reason}. {source_of(node)}".rstrip()
        for node, reason in unsupported(gm, {}).items()
        if node.users
    ]
    return "; ".join(dict.fromkeys(texts))


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
    parts = fuse_by_partitions(gm, regions, prefix=PREFIX, always_return_tuple=True)
    for node in parts.graph.find_nodes(op="call_module"):
        if str(node.target).startswith(PREFIX):
            _pass_sizes(parts, node)
    return parts


def _pass_sizes(parts: GraphModule, call: Node) -> None:
    """Passes a region the sizes that its tensors have and none of its arguments shows."""
    region = parts.get_submodule(str(call.target))
    assert isinstance(region, GraphModule)
    inner = region.graph.find_nodes(op="placeholder")
    fakes = pytree.tree_leaves([fake_value(n) for n in region.graph.nodes])
    sizes: list[Size | torch.SymFloat] = [
        d for f in fakes if isinstance(f, torch.Tensor) for d in f.shape
    ]
    sizes += [f for f in fakes if isinstance(f, (torch.SymInt, torch.SymFloat))]
    missing = symbols_of(*sizes) - set(find_symbols([fake_value(n) for n in inner]))
    outer = parts.graph.find_nodes(op="placeholder")
    places = find_symbols([fake_value(n) for n in outer])
    for symbol in sorted(missing & set(places), key=str):
        number, axis = places[symbol]
        size, fake = outer[number], fake_value(outer[number])
        if axis >= 0:
            with parts.graph.inserting_before(call):
                operator = torch.ops.aten.sym_size.int
                size = parts.graph.call_function(operator, (size, axis))
            fake = fake.shape[axis]
            size.meta["val"] = fake
        with region.graph.inserting_after(inner[-1]):
            inner.append(region.graph.placeholder(f"size_{symbol}"))
        inner[-1].meta["val"] = fake
        call.args = (*call.args, size)
    region.recompile()


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
