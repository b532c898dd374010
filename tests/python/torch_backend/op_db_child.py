"""The child process of op_db.py: runs the samples of entries and compares them with eager."""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import op_db_checks as checks
import reprise
import torch
import torch._dynamo
from op_db_checks import Wrong, compare
from reprise.torch import backend, export, report
from torch._dynamo.utils import counters
from torch.autograd.gradcheck import GradcheckError
from torch.testing._internal import common_methods_invocations as invocations
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree


def _differentiable(result: Any) -> list[torch.Tensor]:
    return [
        t
        for t in pytree.tree_leaves(result)
        if isinstance(t, torch.Tensor) and t.requires_grad
    ]


def _seeds(outputs: list[torch.Tensor]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.rand(o.shape, generator=generator).to(o.dtype) + 0.5 for o in outputs]


def _gradients(result: Any, inputs: list[torch.Tensor]) -> list[torch.Tensor | None]:
    outputs = _differentiable(result)
    seeds = _seeds(outputs)
    return list(torch.autograd.grad(outputs, inputs, seeds, allow_unused=True))


def _as_torch(array: Any) -> torch.Tensor:
    """Returns an array of a run as a tensor; NumPy has no bfloat16."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view("int16").copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


class _OfTensors(torch.nn.Module):
    """A call as a model whose arguments are the tensors of the call."""

    def __init__(self, call: Any, given: Any) -> None:
        super().__init__()
        self._call = call
        self._leaves, self._spec = pytree.tree_flatten(given)
        self.tensors = [t.detach() for t in self._leaves if isinstance(t, torch.Tensor)]

    def forward(self, *tensors: torch.Tensor) -> Any:
        left = iter(tensors)
        leaves = [
            next(left) if isinstance(t, torch.Tensor) else t for t in self._leaves
        ]
        return self._call(*pytree.tree_unflatten(leaves, self._spec))


class Entry:
    """One entry of op_db, with what its runs found."""

    def __init__(self, info: Any, options: argparse.Namespace) -> None:
        self.info, self.options = info, options
        self.reasons: list[str] = []
        #: Why samples left nothing to compile.
        self.idle: set[str] = set()
        #: Results whose strides differ from those of eager and of `aot_eager`.
        self.strides: list[str] = []
        self.compiled = self.fallbacks = self.samples = 0

    def run(self) -> None:
        for dtype_name in self.options.dtypes.split(","):
            dtype = getattr(torch, dtype_name)
            if dtype not in self.info.supported_dtypes("cpu"):
                continue
            backward = (
                dtype.is_floating_point
                and self.info.supports_autograd
                and dtype in self.info.supported_backward_dtypes("cpu")
            )
            for sample in self._samples(dtype, backward):
                if self.options.export:
                    self._exported(sample, dtype)
                else:
                    self._sample(sample, dtype, backward)

    def _samples(self, dtype: torch.dtype, backward: bool) -> Iterator[Any]:
        options = self.options
        make = self.info.sample_inputs
        if options.reference:
            make = self.info.reference_inputs
        samples = _spread(make("cpu", dtype, requires_grad=backward))
        for sample in itertools.islice(samples, options.samples):
            yield sample.noncontiguous() if options.strided else sample

    def _call(self, x: Any, args: Any, kwargs: Any) -> Any:
        return self.info.op(x, *args, **kwargs)

    def _expected(self, given: Any, backward: bool) -> tuple[Any, Any]:
        """Returns eager's results and gradients; those are None where it has none."""
        theirs = _copied(given)
        torch.manual_seed(0)
        want = self._call(*theirs)
        gradients = None
        if backward and _differentiable(want):
            # Some cannot be differentiated at this point.
            with contextlib.suppress(Exception):
                gradients = _gradients(want, _tensors(theirs))
        return pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, want), gradients

    def _sample(self, sample: Any, dtype: torch.dtype, backward: bool) -> None:
        given = (sample.input, sample.args, sample.kwargs)
        try:
            want, gradients = self._expected(given, backward)
        except Exception:  # noqa: BLE001
            self.idle.add("eager PyTorch refuses its samples")
            return
        torch._dynamo.reset()
        counters.clear()
        function = torch.compile(
            self._call,
            backend=backend,
            dynamic=self.options.dynamic,
            options={"device": self.options.device},
        )
        with report.collect() as graphs:
            mine = _copied(given)
            torch.manual_seed(0)
            got = function(*mine)
            found = None if gradients is None else _gradients(got, _tensors(mine))
        what = f"{dtype} {_described(given)}"
        if not self._random(given, got, function, (found, gradients), dtype):
            self._compare(given, (got, want), dtype, what, gradient=False)
            if found is not None:
                self._compare(given, (found, gradients), dtype, what, gradient=True)
        self._note(graphs)
        self._compare_strides(given, checks.layouts(got), checks.layouts(want), what)

    def _exported(self, sample: Any, dtype: torch.dtype) -> None:
        """Runs a package of the operator and compares its results with eager's."""
        given = (sample.input, sample.args, sample.kwargs)
        module = _OfTensors(self._call, given)
        try:
            want, _ = self._expected(given, False)
            torch.manual_seed(0)
            torch.export.export(module, tuple(module.tensors))
        except Exception:  # noqa: BLE001
            self.idle.add("PyTorch refuses or does not export its samples")
            return
        self.samples += 1
        device = self.options.device
        try:
            package = export(
                module, module.tensors, targets=device.partition(":")[0] or device
            )
        except reprise.Unsupported as error:
            self.fallbacks += 1
            self.reasons.append(str(error))
            return
        named = zip(package.inputs, module.tensors, strict=True)
        session = reprise.Session(package, device=device)
        found = session.run({slot.name: t.detach() for slot, t in named})
        listed = iter([_as_torch(found[slot.name]) for slot in package.outputs])
        got = pytree.tree_map_only(
            torch.Tensor,
            lambda t: torch.view_as_complex(next(listed)) if t.is_complex() else next(listed),
            want,
        )  # fmt: skip
        self.compiled += 1
        what = f"{dtype} {_described(given)}"
        if self.info.name not in checks.RANDOM:
            self._compare(given, (got, want), dtype, what, gradient=False)

    def _compare_strides(
        self, given: Any, mine: list[Any], theirs: list[Any], what: str
    ) -> None:
        """Notes other strides than eager's, unless PyTorch itself has others when it compiles."""
        if mine == theirs:
            return
        torch._dynamo.reset()
        function = torch.compile(self._call, backend="aot_eager", dynamic=False)
        if checks.layouts(function(*_copied(given))) == theirs:
            self.strides.append(f"{mine} instead of {theirs}: {what}")

    def _compare(
        self, given: Any, results: tuple[Any, Any], dtype: torch.dtype, what: str, gradient: bool
    ) -> None:  # fmt: skip
        """Compares values with eager's, or with those of eager in a wider dtype, which rounds less."""
        name = self.info.name
        wide = None
        if dtype in _WIDER:
            # Some refuse it here, because an argument names the dtype.
            with contextlib.suppress(Exception):
                found = self._expected(
                    _converted(given, dtype, _WIDER[dtype]), gradient
                )
                wide = _converted(found[int(gradient)], _WIDER[dtype], dtype)
        listed = [*results, wide]
        for i, found in enumerate(listed):
            if found is None:
                continue
            if name in checks.LOW_RANK and not gradient:
                listed[i] = checks.products(found)
            elif name in checks.PLACES and gradient:
                listed[i] = checks.summed_over_equals(name, given, found)
            elif name in checks.PLACES:
                listed[i] = checks.by_places(name, given, found)
        what = f"gradient, {what}" if gradient else what
        low_rank = name in checks.LOW_RANK
        values = not (low_rank and (gradient or given[2].get("M") is not None))
        compare(listed[0], listed[1], dtype, what, values, listed[2])

    def check_gradients(self) -> None:
        """Compares gradients of compiled programs with numerical derivatives, in float64."""
        info = self.info
        if not info.supports_autograd or torch.float64 not in info.supported_dtypes(
            "cpu"
        ):
            return
        attention = info.name in checks.ATTENTION
        if (info.name in checks.RANDOM and not attention) or (
            info.name in checks.LOW_RANK
        ):
            return  # each run has other random numbers, so there is no derivative
        samples = info.sample_inputs("cpu", torch.float64, requires_grad=True)
        for sample in itertools.islice(_spread(samples), self.options.samples):
            given = (sample.input, sample.args, sample.kwargs)
            if attention and checks.has_dropout(given):
                continue
            if _tensors(given) and self._has_derivative(given, sample, self._call):
                torch._dynamo.reset()
                function = torch.compile(
                    self._call, backend=backend, dynamic=False,
                    options={"device": self.options.device},
                )  # fmt: skip
                with report.collect() as graphs:
                    self._gradcheck(given, sample, function)
                self._note(graphs)

    def _has_derivative(self, given: Any, sample: Any, function: Any) -> bool:
        """Returns whether eager passes the same check at this point."""
        try:
            self._gradcheck(given, sample, function)
        except Exception:  # noqa: BLE001
            return False
        return True

    def _gradcheck(self, given: Any, sample: Any, function: Any) -> None:
        inputs = _tensors(given)

        def call(*values: torch.Tensor) -> Any:
            replaced = iter(values)
            arguments = pytree.tree_map(
                lambda t: (
                    next(replaced)
                    if isinstance(t, torch.Tensor) and t.requires_grad
                    else t
                ),
                given,
            )
            wrapped = self.info.gradcheck_wrapper
            result = wrapped(
                lambda x, *args, **kwargs: function(x, args, kwargs),
                arguments[0], *arguments[1], **arguments[2],
            )  # fmt: skip
            result = sample.output_process_fn_grad(result)
            return tuple(_differentiable(result))

        values = [t.detach().clone().requires_grad_() for t in inputs]
        if not call(*values):
            return
        try:
            torch.autograd.gradcheck(
                call, values, fast_mode=True, check_undefined_grad=False,
                check_batched_grad=False, nondet_tol=self.info.gradcheck_nondet_tol,
            )  # fmt: skip
        except GradcheckError as error:
            what = f"{_described(given)}: {str(error).strip()[:200]}"
            raise Wrong(f"derivative, {what}") from error

    def _random(
        self, given: Any, got: Any, function: Any, gradients: tuple[Any, Any], dtype: torch.dtype
    ) -> bool:  # fmt: skip
        """Checks a result that is random or undefined; returns whether that was all to check."""
        name, what = self.info.name, f"{dtype} {_described(given)}"
        if name not in checks.RANDOM or (
            name in checks.ATTENTION and not checks.has_dropout(given)
        ):
            return False
        found, theirs = gradients
        compare(got, self._call(*_copied(given)), dtype, what, values=False)
        if found is not None:
            compare(found, theirs, dtype, f"gradient, {what}", values=False)
        if name in checks.DISTRIBUTED:
            checks.same_distribution(
                lambda: function(*_copied(given)), lambda: self._call(*_copied(given)), what
            )  # fmt: skip
            if found is not None:
                compare(found, theirs, dtype, f"gradient, {what}")
        if name in checks.SCALED and found is not None:
            seeds = _seeds(_differentiable(got))
            checks.same_factor(given, got, found, seeds, what)
        if name == "nn.functional.rrelu":
            checks.slopes_inside(given, got, what)
        if name == "multinomial":
            checks.distinct(given, got, what)
        if name in checks.CHOSEN:
            checks.among_outcomes(got, lambda: self._again(given, False), dtype, what)
            if found is not None:
                checks.among_outcomes(
                    found, lambda: self._again(given, True), dtype, f"gradient, {what}"
                )
        return True

    def _again(self, given: Any, backward: bool) -> Any:
        """Returns results or gradients of a run with other random numbers."""
        theirs = _copied(given)
        result = self._call(*theirs)
        return _gradients(result, _tensors(theirs)) if backward else result

    def _note(self, graphs: list[report.GraphReport]) -> None:
        self.samples += 1
        breaks = {str(b).partition("\n")[0] for b in counters["graph_break"]}
        if not graphs and breaks:
            self.idle |= {f"PyTorch captures no graph: {b}" for b in breaks}
        elif not any(g.regions or g.fallbacks for g in graphs):
            self.idle.add("no operator is left")
        for graph in graphs:
            self.compiled += len(graph.regions)
            self.fallbacks += len(graph.fallbacks)
            for fallback in graph.fallbacks:
                text = f"{fallback.operator}: {fallback.reason}"
                if text not in self.reasons:
                    self.reasons.append(text)


_WIDER = {
    torch.bfloat16: torch.float32,
    torch.float16: torch.float32,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


def _converted(given: Any, source: torch.dtype, to: torch.dtype) -> Any:
    """Gives the tensors of one dtype another."""

    def convert(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.dtype != source:
            return leaf
        return leaf.detach().to(to).requires_grad_(leaf.requires_grad)

    return pytree.tree_map(convert, given)


def _spread(samples: Any) -> Iterator[Any]:
    """Takes the samples in an order that begins with the first, the last and the middle one."""
    listed = list(itertools.islice(samples, 64))
    order = [0, len(listed) - 1, len(listed) // 2]
    order += [i for i in range(len(listed)) if i not in order]
    seen: set[int] = set()
    for i in order:
        if 0 <= i < len(listed) and i not in seen:
            seen.add(i)
            yield listed[i]


def _copied(given: Any) -> Any:
    def copy(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        plain = leaf.detach()
        if leaf.layout != torch.strided or leaf.is_conj() or leaf.is_neg():
            return plain.clone().requires_grad_(leaf.requires_grad)
        # The copy of a tensor with gaps has gaps as well, which `clone` removes.
        memory = plain.untyped_storage().clone()
        same = torch.empty(0, dtype=leaf.dtype).set_(
            memory, leaf.storage_offset(), leaf.shape, leaf.stride()
        )
        return same.requires_grad_(leaf.requires_grad)

    return pytree.tree_map(copy, given)


def _tensors(given: Any) -> list[torch.Tensor]:
    return [
        t
        for t in pytree.tree_leaves(given)
        if isinstance(t, torch.Tensor) and t.requires_grad
    ]


def _described(given: Any) -> str:
    parts = [
        str(list(x.shape)) if isinstance(x, torch.Tensor) else repr(x)[:20]
        for x in pytree.tree_leaves(given)
    ]
    return " ".join(parts)[:160]


def _run(info: Any, options: argparse.Namespace) -> dict[str, Any]:
    entry = Entry(info, options)
    return {**_outcome(entry, info, options), "strides": entry.strides}


def _outcome(entry: Entry, info: Any, options: argparse.Namespace) -> dict[str, Any]:
    try:
        if options.gradcheck:
            entry.check_gradients()
        else:
            entry.run()
    except Wrong as wrong:
        return {"status": "wrong", "reasons": [str(wrong), *entry.reasons]}
    except Exception as error:  # noqa: BLE001
        last = traceback.format_exc().strip().splitlines()
        where = [line.strip() for line in last if "reprise/torch" in line][-1:]
        text = f"{type(error).__name__}: {str(error)[:300]}"
        return {"status": "crash", "reasons": [text, *where]}
    if entry.fallbacks:
        return {
            "status": "partly" if entry.compiled else "fallback",
            "reasons": entry.reasons,
        }
    if not entry.compiled:
        why = entry.idle or {"it has no samples of these dtypes"}
        return {"status": "nothing", "reasons": sorted(why)}
    return {"status": "kernels", "reasons": []}


def serve(options: argparse.Namespace) -> int:
    """Reads names of entries from standard input; writes a line of JSON for each."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    out = os.fdopen(os.dup(1), "w")
    if options.device == "onnxruntime":
        from ort_engine import OrtEngine
        from reprise.torch import engine

        engine.open_engine = lambda _: OrtEngine()
        options.device = "auto"
    # Entries with random numbers set a seed around their operator, which cuts the graph in two.
    invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    table: dict[str, Any] = {}
    for info in op_db:
        name = (
            f"{info.name}|{info.variant_test_name}"
            if info.variant_test_name
            else info.name
        )
        table[name] = info
    print("ready", file=out, flush=True)
    for line in sys.stdin:
        name = line.strip()
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            found = _run(table[name], options)
        print(json.dumps({"name": name, **found}), file=out, flush=True)
    return 0
