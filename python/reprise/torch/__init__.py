"""`torch.compile(model, backend="reprise")`: PyTorch models, forward and backward, on devices.

PyTorch need not be imported before, and `import reprise` does not import it.

    >>> import torch
    >>> model = torch.compile(torch.nn.Linear(4, 3), backend="reprise")
    >>> model(torch.ones(2, 4)).shape
    torch.Size([2, 3])
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .._package import Package
    from .explanation import Explanation
    from .tally import Counters
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

    PyTorch calls it; users pass `mode` and `options` to torch.compile.

    Args:
        gm: the program, a torch.fx.GraphModule.
        example_inputs: tensors like those of the first call.
        mode: "default", "reduce-overhead", "max-autotune" or "max-autotune-no-cudagraphs".
        options: "device" is an id as in `reprise.devices`, or "auto". "precision" is that of tensors
            and weights in device memory: "fp32", "fp16" or "bf16". "freeze": True makes parameters
            constants when no gradient is needed. "weights" says how changes of parameters are
            noticed: "watch" reads all of them in each run, "sample" a few words, and "frozen" takes
            them to never change. "cache_dir" is the folder that keeps compiled packages.
        name: what PyTorch calls the program in its logs.

    Returns:
        A function that runs the program.

    Raises:
        ValueError: there is no such option, or it has no such value.
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


#: The modules of public classes. Importing them would import torch.
_MODULES = {
    "Counters": "tally",
    "Explanation": "explanation",
    "TrainStep": "train_step",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'reprise.torch' has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)


__all__ = [
    "Counters",
    "Explanation",
    "TrainStep",
    "backend",
    "counters",
    "explain",
    "export",
]


def explain(
    model: Callable[..., Any],
    *inputs: Any,
    mode: str | None = None,
    options: Mapping[str, object] | None = None,
    **keywords: Any,
) -> Explanation:
    """Compiles a model for these inputs, runs it, and returns an `Explanation` of what became of it.

    It lists each compiled graph with its kernels and launches, each operator that PyTorch runs with
    the reason and the line of the model, and graph breaks. If a result needs a gradient, the
    backward graph is compiled and run as well. Gradients, buffers and random numbers are left as
    they were.

        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
        >>> reprise.torch.explain(model, torch.ones(2, 4)).fallbacks
        []

    Args:
        model: a module or a function.
        inputs: its arguments.
        mode: as for torch.compile.
        options: likewise; see `backend`.
        keywords: its keyword arguments.
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
) -> Package:
    """Compiles a model for inference and returns the package, which it saves at `path` if given.

    Args:
        model: a module, in the state (eval or not) in which it is to run.
        args: example inputs, for `torch.export.export`; one tensor stands for a tuple of it. Tensors
            are inputs of the package, with the names of the arguments. Parameters are
            constants, and buffers that the model changes are states. Results are outputs, with the
            names of their keys in dicts.
        path: where to save the package, or None.
        kwargs: example inputs by the names of the arguments.
        dynamic_shapes: which dims may vary, as in `torch.export.export`. Sizes have the names of
            `Dim`s, and runs with sizes outside of their limits are refused.
        targets: as in `reprise.compile`.
        precision: likewise.

    Raises:
        reprise.Unsupported: the message lists each operator that cannot be compiled.

    Example:
        >>> model = torch.nn.Linear(4, 3).eval()
        >>> package = reprise.torch.export(model, torch.ones(2, 4), "model.rpk")
        >>> [(slot.name, slot.shape) for slot in package.inputs]
        [('input', (2, 4))]
    """
    from .exporting import export_model

    return export_model(
        model, args, path, kwargs=kwargs, dynamic_shapes=dynamic_shapes, targets=targets,
        precision=precision,
    )  # fmt: skip


def counters() -> Counters:
    """Returns the `Counters` of this process now.

    They tell how many packages were compiled or found on disk, and the seconds of each phase.
    """
    import dataclasses

    from .tally import counters as now

    return dataclasses.replace(now, seconds=dict(now.seconds))
