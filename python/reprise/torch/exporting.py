"""`reprise.torch.export`: from a PyTorch model to a package, without a file in between."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

import reprise

from .decompositions import decompositions
from .errors import Unsupported
from .lowering import lower
from .partition import unsupported

_CONSTANTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def _frozen(program: ExportedProgram) -> dict[int, torch.Tensor]:
    """Returns the arguments of the graph that are the model's own, by position."""
    found: dict[int, torch.Tensor] = {}
    for number, spec in enumerate(program.graph_signature.input_specs):
        if spec.kind in _CONSTANTS:
            assert spec.target is not None
            value = program.state_dict.get(spec.target)
            value = program.constants[spec.target] if value is None else value
            found[number] = value.detach()
    return found


def _model_of(program: ExportedProgram) -> bytes:
    for spec in program.graph_signature.output_specs:
        if spec.kind is not OutputKind.USER_OUTPUT:
            raise reprise.Unsupported(
                f"the model changes {spec.target}, which a package for inference cannot keep; "
                "call model.eval() before the export"
            )
    gm = program.graph_module
    try:
        lowered = lower(gm, _frozen(program), in_order=True)
    except Unsupported as error:
        reasons = unsupported(gm, {})
        listed = "; ".join(
            f"{node.target}: {reason}" for node, reason in reasons.items()
        )
        raise reprise.Unsupported(listed or str(error)) from error
    if lowered.checks:
        names = ", ".join(sorted({str(c.operator) for c in lowered.checks}))
        raise reprise.Unsupported(f"a package cannot make assertions: {names}")
    return lowered.model


def export_model(
    model: torch.nn.Module,
    args: Sequence[Any],
    path: str | os.PathLike[str] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    targets: str | Sequence[str] | None = None,
    precision: str = "fp32",
) -> reprise.Package:
    """Compiles a model; see `reprise.torch.export`."""
    program = torch.export.export(
        model, tuple(args), dict(kwargs or {}), dynamic_shapes=dynamic_shapes
    ).run_decompositions(decompositions())
    package = reprise.compile(_model_of(program), targets=targets, precision=precision)
    if path is not None:
        package.save(path)
    return package
