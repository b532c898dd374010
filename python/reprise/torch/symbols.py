"""Sizes that only a run knows: PyTorch's SymInts as expressions over symbols."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.utils._sympy.functions import FloorDiv, FloorToInt, ToFloat, TruncToInt

#: A size: a number, or an expression of the traced program. In stored graphs it is a sympy.Expr.
Size = int | torch.SymInt
#: The types of sizes that are no numbers.
SYMBOLIC = (torch.SymInt, sympy.Expr)


def expression(size: Size | torch.SymFloat) -> sympy.Expr:
    """Returns a size, or a number made of sizes, in which known symbols have their values."""
    if isinstance(size, (torch.SymInt, torch.SymFloat)):
        expr = size.node.expr
        shape_env = size.node.shape_env
        if shape_env is not None:
            expr = shape_env.replace(shape_env.simplify(expr))
        return _without_floats(expr)
    return size if isinstance(size, sympy.Expr) else sympy.Integer(int(size))


#: The largest denominator of factors of sizes.
_LARGEST_DENOMINATOR = 4096


def _without_floats(expr: sympy.Expr) -> sympy.Expr:
    """Writes a size times a number, rounded down, as a division of integers, where both are equal."""
    if expr.is_Symbol or expr.is_Integer or not expr.has(TruncToInt, FloorToInt):
        return expr
    return expr.replace(
        lambda part: isinstance(part, (TruncToInt, FloorToInt)), _rounded_product
    )


def _rounded_product(rounded: sympy.Expr) -> sympy.Expr:
    """Returns floordiv(n * size, d) for the product of a size and the double nearest to n / d.

    The product is rounded to a double. Where n * size / d is an integer m, it is m(1 + e), with e the
    error of the factor, and becomes m unless e is below -2**-54, as doubles below m are at least
    2**-53 m apart. Where it is none, the next integer is 1 / d away or more, which is much more than
    the error of a product of 31 bits.
    """
    factor, rest = rounded.args[0].as_coeff_Mul()
    if not isinstance(rest, ToFloat) or not factor.is_positive:
        return rounded
    exact = Fraction(float(factor))
    ratio = exact.limit_denominator(_LARGEST_DENOMINATOR)
    error = exact / ratio - 1 if ratio else Fraction(1)
    if not -Fraction(1, 2**54) <= error <= Fraction(1, 2**52):
        return rounded
    return FloorDiv(ratio.numerator * rest.args[0], ratio.denominator)


def static(size: Size) -> bool:
    """Returns whether a size is the same in all runs."""
    return not isinstance(size, SYMBOLIC) or bool(expression(size).is_Integer)


def is_always(size: Size, number: int) -> bool:
    """Returns whether a size is a number in all runs. Comparing a SymInt would fix it instead."""
    return static(size) and int(expression(size)) == number


def quotient(size: Size, part: Size) -> int | None:
    """Returns how many times as large as another a size is in all runs, if it is a multiple."""
    ratio = expression(size) / expression(part)
    return int(ratio) if ratio.is_Integer else None


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
