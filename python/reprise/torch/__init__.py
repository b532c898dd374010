"""`torch.compile(model, backend="reprise")`: PyTorch models, forward and backward, on devices."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .train_step import TrainStep


def backend(
    gm: Any,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, object] | None = None,
    name: str | None = None,
) -> Callable[..., Any]:
    """The backend that `torch.compile(..., backend="reprise")` finds by its entry point.

    `options` may have "device", "precision", "freeze", "weights" and "cache_dir"; see `Options`.
    `name` is what PyTorch calls the program in its logs.
    """
    from .aot import compile_module, register

    register(backend)
    return compile_module(gm, example_inputs, mode=mode, options=options)


def _check_options() -> None:
    """Refuses wrong options when torch.compile() is called, before the program is traced.

    PyTorch calls this hook of a backend without arguments, so they are read from its caller.
    """
    from .options import Options

    given = getattr(sys._getframe(1).f_locals.get("backend"), "kwargs", None)
    if isinstance(given, dict):
        Options.of(given.get("mode"), given.get("options"))


backend._dynamo_backend_init = _check_options  # type: ignore[attr-defined]


def __getattr__(name: str) -> Any:
    if name != "TrainStep":  # importing it imports torch
        raise AttributeError(f"module 'reprise.torch' has no attribute {name!r}")
    from .train_step import TrainStep

    return TrainStep


__all__ = ["TrainStep", "backend", "explain", "export"]


def explain(
    model: Callable[..., Any],
    *inputs: Any,
    mode: str | None = None,
    options: Mapping[str, object] | None = None,
    **keywords: Any,
) -> Any:
    """Compiles a model for these inputs and returns an `Explanation` of what became of it.

    It lists each compiled graph with its kernels and launches, each operator that PyTorch runs with
    the reason and the line of the model, and graph breaks.
    """
    from .explanation import explain as explain_model

    return explain_model(
        backend, model, *inputs, mode=mode, options=options, **keywords
    )


def export(
    model: Any,
    args: Sequence[Any],
    path: Any = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    targets: str | Sequence[str] | None = None,
    precision: str = "fp32",
) -> Any:
    """Compiles a model for inference and returns the package, which it saves at `path` if given.

    Args:
        model: a module, in the state (eval or not) in which it is to run.
        args, kwargs: example inputs, for `torch.export.export`; one tensor stands for a tuple of
            it. Tensors are inputs of the package, with the names of the arguments. Parameters are
            constants, and buffers that the model changes are states. Results are outputs, with the
            names of their keys in dicts.
        dynamic_shapes: which dims may vary, as in `torch.export.export`. Sizes have the names of
            `Dim`s, and runs with sizes outside of their limits are refused.
        targets, precision: as in `reprise.compile`.

    Raises:
        reprise.Unsupported: the message lists each operator that cannot be compiled.
    """
    from .exporting import export_model

    return export_model(
        model, args, path, kwargs=kwargs, dynamic_shapes=dynamic_shapes, targets=targets,
        precision=precision,
    )  # fmt: skip


def counters() -> Any:
    """Returns the `Counters` of this process now.

    They tell how many packages were compiled or found on disk, and the seconds of each phase.
    """
    import dataclasses

    from .tally import counters as now

    return dataclasses.replace(now, seconds=dict(now.seconds))
