"""Random numbers on the device.

Element i of a tensor is a hash of i, of the number of the random node in its graph, and of two
words that each run draws from PyTorch's generator: `torch.manual_seed` decides them, and nothing
needs to be stored or ordered. The hash is three rounds of multiplications and shifts over 32 bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ..errors import Unsupported
from ..graph import Graph, Operand, Value
from ..symbols import Size, static
from ..table import row
from .common import compute_dtype, is_float, positions

_ROUNDS = ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 0x9E3779B1))
_WORD = 1 << 32


def _word(g: Graph, value: int) -> Value:
    return g.constant(torch.tensor(value % _WORD, dtype=torch.int64).to(torch.uint32))


def _mixed(g: Graph, x: Value) -> Value:
    for shift, factor in _ROUNDS:
        shifted = g.op("BitShift", x, _word(g, shift), direction="RIGHT")
        x = g.op("Mul", g.op("BitwiseXor", x, shifted), _word(g, factor))
    shifted = g.op("BitShift", x, _word(g, 15), direction="RIGHT")
    return g.op("BitwiseXor", x, shifted)


def _multiples(g: Graph, count: Size, step: Size) -> Value:
    """Returns 0, `step`, ... as uint32, which wrap around."""
    if static(count) and static(step):
        multiples = torch.arange(int(count)) * int(step) % _WORD
        return g.constant(multiples.to(torch.uint32))
    line = g.cast(positions(g, count), torch.uint32)
    return g.op("Mul", line, g.cast(g.size(step), torch.uint32))


def _bits(g: Graph, dims: Sequence[Size]) -> Value:
    """Returns 32 random bits for each element, as uint32."""
    first, second = g.seed_words()
    g.streams += 1
    # The seed comes first, so that no step is a constant as large as the result.
    index = g.op("Add", first, _word(g, g.streams * 0x9E3779B9))
    step: Size = 1
    for axis in reversed(range(len(dims))):
        line = _multiples(g, dims[axis], step)
        other = [a for a in range(len(dims)) if a != axis]
        index = g.op("Add", index, g.unsqueeze(line, other) if other else line)
        step = step * dims[axis]
    mixed = _mixed(g, index)
    return _mixed(g, g.op("BitwiseXor", mixed, second))


def uniform(g: Graph, dims: Sequence[Size], dtype: torch.dtype) -> Value:
    """Returns numbers in [0, 1): multiples of 2**-24, or of 2**-10 and 2**-7 in half precision."""
    digits = {torch.float16: 10, torch.bfloat16: 7}.get(dtype, 24)
    kept = g.op("BitShift", _bits(g, dims), _word(g, 32 - digits), direction="RIGHT")
    wide = g.cast(kept, compute_dtype(dtype))
    return g.cast(g.op("Mul", wide, g.scalar(2.0**-digits, wide.dtype)), dtype)


def normal(g: Graph, dims: Sequence[Size], dtype: torch.dtype) -> Value:
    """Returns numbers of the standard normal distribution, by the method of Box and Muller."""
    wide = compute_dtype(dtype)
    one = g.scalar(1.0, wide)
    radius = g.op("Log", g.op("Sub", one, uniform(g, dims, wide)))
    radius = g.op("Sqrt", g.op("Mul", radius, g.scalar(-2.0, wide)))
    angle = g.op("Mul", uniform(g, dims, wide), g.scalar(2 * math.pi, wide))
    return g.cast(g.op("Mul", radius, g.op("Cos", angle)), dtype)


def _refuse_generator(options: dict[str, object]) -> None:
    if options.get("generator") is not None:
        raise Unsupported("a generator of its own is not supported")


@row("aten.rand.default", "aten.rand_like.default")
def _rand(g: Graph, *_: object, **options: object) -> Value:
    _refuse_generator(options)
    return uniform(g, g.out.shape, g.out.dtype)


@row("aten.randn.default", "aten.randn_like.default")
def _randn(g: Graph, *_: object, **options: object) -> Value:
    _refuse_generator(options)
    return normal(g, g.out.shape, g.out.dtype)


def _scaled(g: Graph, x: Value, scale: Operand, offset: Operand) -> Value:
    scaled = g.op("Mul", x, g.scalar(scale, x.dtype))
    return g.op("Add", scaled, g.scalar(offset, x.dtype))


@row("aten.uniform.default")
def _uniform(
    g: Graph, x: Value, low: float = 0.0, high: float = 1.0, **options: object
) -> Value:
    _refuse_generator(options)
    return _scaled(g, uniform(g, g.out.shape, g.out.dtype), high - low, low)


@row("aten.normal_functional.default")
def _normal(
    g: Graph, x: Value, mean: float = 0.0, std: float = 1.0, **options: object
) -> Value:
    _refuse_generator(options)
    return _scaled(g, normal(g, g.out.shape, g.out.dtype), std, mean)


@row("aten.bernoulli.p")
def _bernoulli(g: Graph, x: Value, p: float = 0.5, **options: object) -> Value:
    _refuse_generator(options)
    numbers = uniform(g, g.out.shape, torch.float32)
    return g.compare("Less", numbers, g.scalar(p, torch.float32))


@row("aten.bernoulli.default")
def _bernoulli_tensor(g: Graph, x: Value, **options: object) -> Value:
    _refuse_generator(options)
    numbers = uniform(g, g.out.shape, torch.float32)
    return g.compare("Less", numbers, g.cast(x, torch.float32))


@row("aten.exponential.default")
def _exponential(g: Graph, x: Value, rate: float = 1.0, **options: object) -> Value:
    _refuse_generator(options)
    numbers = uniform(g, g.out.shape, torch.float32)
    logarithm = g.op("Log", g.op("Sub", g.scalar(1.0, torch.float32), numbers))
    return g.op("Mul", logarithm, g.scalar(-1.0 / rate, torch.float32))


@row("aten.randint.default", "aten.randint.low", "aten.randint_like.default")
@row("aten.randint_like.low_dtype")
def _randint(
    g: Graph, *arguments: Operand | Sequence[Size], **options: object
) -> Value:
    _refuse_generator(options)
    bounds = [a for a in arguments if isinstance(a, int)]
    low, high = (0, bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[1])
    if high - low > 1 << 24 or not bounds:
        raise Unsupported("integers from a range of more than 2**24 are not supported")
    numbers = uniform(g, g.out.shape, torch.float32)
    scaled = g.op("Mul", numbers, g.scalar(float(high - low), torch.float32))
    if is_float(g.out.dtype):
        return g.op(
            "Add",
            g.cast(g.op("Floor", scaled), g.out.dtype),
            g.scalar(low, g.out.dtype),
        )
    whole = g.op("Cast", scaled, dtype=torch.int32, to=6)
    return g.op("Add", g.cast(whole, torch.int64), g.constant(torch.tensor(low)))


@row("aten.cauchy.default")
def _cauchy(
    g: Graph, x: Value, median: float = 0.0, sigma: float = 1.0, **options: object
) -> Value:
    _refuse_generator(options)
    wide = compute_dtype(g.out.dtype)
    numbers = uniform(g, g.out.shape, wide)
    angle = _scaled(g, numbers, math.pi, -math.pi / 2)
    return _scaled(g, g.op("Tan", angle), sigma, median)


@row("aten.log_normal.default")
def _log_normal(
    g: Graph, x: Value, mean: float = 1.0, std: float = 2.0, **options: object
) -> Value:
    _refuse_generator(options)
    numbers = normal(g, g.out.shape, compute_dtype(g.out.dtype))
    return g.op("Exp", _scaled(g, numbers, std, mean))


@row("aten.geometric.default")
def _geometric(g: Graph, x: Value, p: float, **options: object) -> Value:
    """The number of trials until the first success, at least one."""
    _refuse_generator(options)
    numbers = uniform(g, g.out.shape, torch.float32)
    one = g.scalar(1.0, torch.float32)
    logarithm = g.op("Log", g.op("Sub", one, numbers))
    each = math.log1p(-p) if p < 1 else float("-inf")
    trials = g.op("Ceil", g.op("Div", logarithm, g.scalar(each, torch.float32)))
    return g.cast(g.op("Max", trials, one), g.out.dtype)


@row(
    "aten.normal.Tensor_Tensor", "aten.normal.Tensor_float", "aten.normal.float_Tensor"
)
@row("aten.normal.float_float")
def _normal_of(
    g: Graph, mean: Operand, std: Operand = 1.0, *_: object, **options: object
) -> Value:
    _refuse_generator(options)
    wide = compute_dtype(g.out.dtype)
    return _scaled(g, normal(g, g.out.shape, wide), std, mean)


@row("aten.rrelu_with_noise_functional.default")
def _rrelu(
    g: Graph, x: Value, noise: Value, lower: float = 1 / 8, upper: float = 1 / 3,
    training: bool = False, generator: object = None,
) -> Sequence[Value]:  # fmt: skip
    """Multiplies negative numbers by random factors; the second result are the factors."""
    _refuse_generator({"generator": generator})
    negative = g.compare("LessOrEqual", x, g.scalar(0.0, x.dtype))
    if not training:
        slope = g.scalar((lower + upper) / 2, x.dtype)
        return [g.where(negative, g.op("Mul", x, slope), x), noise]
    numbers = uniform(g, g.out.shape, x.dtype)
    factors = _scaled(g, numbers, upper - lower, lower)
    factors = g.where(negative, factors, g.scalar(1.0, x.dtype))
    return [g.op("Mul", x, factors), factors]
