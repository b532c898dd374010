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

import torch
import torch._dynamo
from reprise.torch import backend, report
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

#: Largest differences: relative, and absolute in parts of the largest value.
TOLERANCE = {
    torch.float32: (1e-4, 1e-5),
    torch.float16: (5e-3, 5e-3),
    torch.int64: (0.0, 0.0),
}
#: Entries whose results are random or undefined; only dtypes and shapes are compared.
UNDEFINED = (

    "bernoulli", "empty", "empty_like", "empty_permuted", "empty_strided", "exponential",
    "geometric", "log_normal", "multinomial", "new_empty", "new_empty_strided",
    "nn.functional.dropout", "normal", "nn.functional.alpha_dropout", "nn.functional.dropout2d",
    "nn.functional.dropout3d", "cauchy", "nn.functional.feature_alpha_dropout",
    "nn.functional.fractional_max_pool2d", "rand_like", "nn.functional.fractional_max_pool3d",
    "nn.functional.rrelu", "randint", "randint_like", "randn",
    "nn.functional.scaled_dot_product_attention", "randn_like", "uniform", "pca_lowrank",
    "nn.functional.multi_head_attention_forward", "svd_lowrank", "bfloat16",
)  # fmt: skip
#: Entries that return places, too. Which of several equal elements they name is not defined.
PLACES = ("argsort", "kthvalue", "median", "mode", "msort", "nanmedian", "sort", "topk")


class Wrong(Exception):
    """A result differs from eager's."""


def _compare(got: Any, want: Any, dtype: torch.dtype, what: str, values: bool) -> None:
    mine, theirs = pytree.tree_leaves(got), pytree.tree_leaves(want)
    if len(mine) != len(theirs):
        raise Wrong(f"{what}: {len(mine)} results instead of {len(theirs)}")
    for a, b in zip(mine, theirs, strict=True):
        if not isinstance(b, torch.Tensor):
            if values and a != b and str(a) != str(b):  # NaN differs from itself
                raise Wrong(f"{what}: {a} instead of {b}")
            continue
        if a.shape != b.shape or a.dtype != b.dtype:
            raise Wrong(
                f"{what}: {a.dtype} {list(a.shape)} instead of {b.dtype} {list(b.shape)}"
            )
        if values:
            _compare_tensor(a.detach(), b.detach(), dtype, what)


def _compare_tensor(
    a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype, what: str
) -> None:
    if a.is_sparse or b.layout != torch.strided or a.numel() == 0:
        return
    if not (b.dtype.is_floating_point or b.dtype.is_complex):
        if not torch.equal(a, b):
            raise Wrong(f"{what}: {int((a != b).sum())} of {a.numel()} elements differ")
        return
    wide = torch.complex128 if b.dtype.is_complex else torch.float64
    a, b = a.to(wide), b.to(wide)
    rtol, part = TOLERANCE[torch.float16 if dtype == torch.float16 else torch.float32]
    finite = b.abs()[torch.isfinite(b.abs())]
    scale = float(finite.max()) if finite.numel() else 1.0
    close = torch.isclose(a, b, rtol=rtol, atol=part * max(scale, 1.0), equal_nan=True)
    if (
        dtype == torch.float16
    ):  # eager overflows where a kernel does not round every step
        close |= b.isinf() & a.isfinite()
    if not bool(close.all()):
        worst = (a - b).abs()[~close].reshape(-1)[0]
        raise Wrong(
            f"{what}: {int((~close).sum())} of {a.numel()} elements differ, as {a[~close][0]}"
            f" from {b[~close][0]} by {float(worst):.3g}"
        )


def _differentiable(result: Any) -> list[torch.Tensor]:
    return [
        t
        for t in pytree.tree_leaves(result)
        if isinstance(t, torch.Tensor) and t.requires_grad
    ]


def _gradients(result: Any, inputs: list[torch.Tensor]) -> list[torch.Tensor | None]:
    outputs = _differentiable(result)
    generator = torch.Generator().manual_seed(1)
    seeds = [
        torch.rand(o.shape, generator=generator).to(o.dtype) + 0.5 for o in outputs
    ]
    return list(torch.autograd.grad(outputs, inputs, seeds, allow_unused=True))


class Entry:
    """One entry of op_db, with what its runs found."""

    def __init__(self, info: Any, options: argparse.Namespace) -> None:
        self.info, self.options = info, options
        self.reasons: list[str] = []
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
            samples = self.info.sample_inputs("cpu", dtype, requires_grad=backward)
            for sample in itertools.islice(_spread(samples), self.options.samples):
                self._sample(sample, dtype, backward)

    def _call(self, x: Any, args: Any, kwargs: Any) -> Any:
        result = self.info.op(x, *args, **kwargs)
        if self.info.name in PLACES and isinstance(result, tuple):
            return result[0]
        if self.info.name != "argsort" or x.dim() == 0:
            return result
        # The order of equal elements is not defined, but what is in their places is.
        return x.gather(kwargs.get("dim", args[0] if args else -1), result)

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
            return  # eager refuses the sample
        torch._dynamo.reset()
        function = torch.compile(
            self._call,
            backend=backend,
            dynamic=False,
            options={"device": self.options.device},
        )
        with report.collect() as graphs:
            mine = _copied(given)
            torch.manual_seed(0)
            got = function(*mine)
            found = None if gradients is None else _gradients(got, _tensors(mine))
        what = f"{dtype} {_described(given)}"
        exact = self.info.name not in UNDEFINED
        ties = self.info.name in PLACES and dtype == torch.float16
        checks = [(got, want, 0, what, exact)]
        if found is not None:
            checks.append(
                (found, gradients, 1, f"gradient, {what}", exact and not ties)
            )
        for mine, theirs, part, where, values in checks:
            try:
                _compare(mine, theirs, dtype, where, values)
            except Wrong:
                if dtype != torch.float16:
                    raise
                # Eager rounds every step to 16 bits; a kernel may be right where it is not.
                wide = _narrowed(self._expected(_widened(given), backward)[part])
                _compare(mine, wide, dtype, where, values)
        self._note(graphs)

    def _note(self, graphs: list[report.GraphReport]) -> None:
        self.samples += 1
        for graph in graphs:
            self.compiled += len(graph.regions)
            self.fallbacks += len(graph.fallbacks)
            for fallback in graph.fallbacks:
                text = f"{fallback.operator}: {fallback.reason}"
                if text not in self.reasons:
                    self.reasons.append(text)


def _widened(given: Any) -> Any:
    def widen(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.dtype != torch.float16:
            return leaf
        return leaf.detach().float().requires_grad_(leaf.requires_grad)

    return pytree.tree_map(widen, given)


def _narrowed(given: Any) -> Any:
    def narrow(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float32:
            return leaf.detach().half()
        return leaf

    return pytree.tree_map(narrow, given)


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
        return leaf.detach().clone().requires_grad_(leaf.requires_grad)

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
    try:
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
        return {"status": "nothing", "reasons": ["nothing is left to compile"]}
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
