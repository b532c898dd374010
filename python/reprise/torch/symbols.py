"""Sizes that only a run knows: PyTorch's SymInts as expressions over symbols."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

#: A size: a number, or an expression of the traced program.
Size = int | torch.SymInt


def expression(size: Size | torch.SymFloat) -> sympy.Expr:
    """Returns a size, or a number made of sizes, in which known symbols have their values."""
    if isinstance(size, (torch.SymInt, torch.SymFloat)):
        expr = size.node.expr
        shape_env = size.node.shape_env
        return (
            shape_env.replace(shape_env.simplify(expr))
            if shape_env is not None
            else expr
        )
    return sympy.Integer(int(size))


def static(size: Size) -> bool:
    """Returns whether a size is the same in all runs."""
    return not isinstance(size, torch.SymInt) or bool(expression(size).is_Integer)


def evaluator(
    sizes: Sequence[Size], symbols: Sequence[sympy.Symbol]
) -> Callable[[Sequence[int]], tuple[int, ...]]:
    """Returns a function from the values of `symbols` to those of `sizes`."""
    exprs = [expression(s) for s in sizes]
    if all(e.is_Integer for e in exprs):
        known = tuple(int(e) for e in exprs)
        return lambda values: known

    places = {symbol: f"values[{number}]" for number, symbol in enumerate(symbols)}
    sources = [_source(e, places) for e in exprs]
    if all(sources):  # much faster than sympy
        code = f"lambda values: ({', '.join(map(str, sources))},)"
        return eval(code, {"min": min, "max": max})  # type: ignore[no-any-return]

    def evaluate(values: Sequence[int]) -> tuple[int, ...]:
        table = dict(zip(symbols, values, strict=True))
        return tuple(int(e) if e.is_Integer else int(e.xreplace(table)) for e in exprs)

    return evaluate


def _source(expr: sympy.Expr, places: Mapping[sympy.Symbol, str]) -> str | None:
    """Returns an expression of sizes in Python, or None if it has other functions."""
    if expr.is_Integer:
        return f"({int(expr)})"
    if expr.is_Symbol:
        return places.get(expr)
    parts = [_source(a, places) for a in expr.args]
    if not parts or not all(parts):
        return None
    name = type(expr).__name__
    joined = {"Add": "+", "Mul": "*", "FloorDiv": "//", "PythonMod": "%", "Mod": "%"}
    if name in joined:
        return f"({joined[name].join(map(str, parts))})"
    return (
        f"{name.lower()}({', '.join(map(str, parts))})"
        if name in ("Max", "Min")
        else None
    )


#: The largest size of a dim.
LARGEST = 2**31 - 1
#: What is added to a number that may be negative, so that a dim of a tensor can carry it.
SHIFT = 2**30


def signed_symbols(fakes: Sequence[Any]) -> set[sympy.Symbol]:
    """Returns the symbols of numbers among the arguments that may be negative, as far as is known."""
    found = set()
    for fake in fakes:
        if isinstance(fake, torch.SymInt) and (expr := expression(fake)).is_Symbol:
            shape_env = fake.node.shape_env
            limits = shape_env.var_to_range.get(expr) if shape_env is not None else None
            if limits is None or not limits.lower >= 0:
                found.add(expr)
    return found


def symbols_of(*sizes: Size | torch.SymFloat) -> set[sympy.Symbol]:
    """Returns the symbols that sizes depend on."""
    found: set[sympy.Symbol] = set()
    return found.union(*(expression(s).free_symbols for s in sizes))


@dataclass(frozen=True)
class Linear:
    """The size `scale` * `symbol` + `offset`, with a scale of at least 1."""

    symbol: sympy.Symbol
    scale: int = 1
    offset: int = 0


def linear(size: sympy.Expr) -> Linear | None:
    """Returns a size as a linear form of one symbol, if it has that form."""
    symbols = size.free_symbols
    if len(symbols) != 1:
        return None
    (symbol,) = symbols
    offset, scaled = size.as_coeff_Add()
    scale, rest = scaled.as_coeff_Mul()
    if rest != symbol or not scale.is_Integer or not offset.is_Integer or scale < 1:
        return None
    return Linear(symbol, int(scale), int(offset))


def find_symbols(
    fakes: Sequence[Any], sums: bool = False
) -> dict[sympy.Symbol, tuple[int, int]]:
    """Returns where the fake values of arguments have symbols: number and axis, or -1 for a SymInt.

    With `sums`, the dim 4*h + 1 has the symbol h, too. The size of a ragged dim of nested tensors is
    no number, so no symbol stands for it.
    """
    found: dict[sympy.Symbol, tuple[int, int]] = {}
    for number, fake in enumerate(fakes):
        if isinstance(fake, torch.SymInt):
            expr = expression(fake)
            if expr.is_Symbol and not fake.node.is_nested_int():
                found.setdefault(expr, (number, -1))
        elif isinstance(fake, torch.Tensor):
            for axis, dim in enumerate(fake.shape):
                expr = expression(dim)
                form = linear(expr) if sums or expr.is_Symbol else None
                if form is not None:
                    found.setdefault(form.symbol, (number, axis))
    return found
