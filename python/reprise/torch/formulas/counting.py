"""Formulas of operators that put elements into groups: histograms, segments, bags, repetitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..symbols import is_always
from .registry import aten, formula


def _asserted(condition: torch.Tensor, message: str) -> None:
    aten._assert_async.msg(condition, message)


# Histograms


def _outer_edges(
    x: torch.Tensor, low: float | None, high: float | None, widen: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the first and the last edge; those of the data if none are given."""
    if low is None or high is None:
        if x.numel() == 0:
            low, high = 0.0, 1.0
        else:
            first, last = x.amin(), x.amax()
            finite = first.isfinite() & last.isfinite()
            _asserted(finite, "histogram: the range of the values is not finite")
            same = first == last
            return (
                torch.where(same, first - widen, first),
                torch.where(same, last + widen, last),
            )
    if low == high:
        low, high = low - widen, high + widen
    ends = torch.full((2,), low, dtype=x.dtype), torch.full((2,), high, dtype=x.dtype)
    return ends[0][0], ends[1][0]


def _edges(first: torch.Tensor, last: torch.Tensor, bins: int) -> torch.Tensor:
    """Returns bins + 1 numbers at equal distances; the second half is counted from the end."""
    at = torch.arange(bins + 1)
    step = (last - first) / bins
    upward = first + step * at.to(first.dtype)
    downward = last - step * (bins - at).to(first.dtype)
    return torch.where(at < (bins + 1) // 2, upward, downward)


def _bin_of(x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    """Returns the bin of each element, and the number of bins where it is in none."""
    bins = edges.shape[0] - 1
    place = (edges <= x.unsqueeze(-1)).sum(-1) - 1
    inside = (x >= edges[0]) & (x <= edges[-1])
    return torch.where(inside, place.clamp(0, bins - 1), bins)


def _totals(
    places: torch.Tensor, weight: torch.Tensor | None, count: int, dtype: torch.dtype
) -> torch.Tensor:
    """Returns how many places, or how much weight, there is of each number below count."""
    if weight is None:
        share = torch.ones(places.shape, dtype=dtype)
    else:
        share = weight.reshape(-1).to(dtype)
    return torch.zeros(count + 1, dtype=dtype).scatter_add(0, places, share)[:count]


@formula("histc")
def _histc(x: torch.Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    if not x.is_floating_point():
        return NotImplemented
    flat = x.reshape(-1).to(torch.float32 if x.itemsize < 4 else x.dtype)
    low, high = (None, None) if min == max else (float(min), float(max))
    if min == max and x.numel() == 0:
        low = high = float(min)
    first, last = _outer_edges(flat, low, high, 1.0)
    inside = (flat >= first) & (flat <= last)
    place = torch.where(inside, (flat - first) * bins / (last - first), 0)
    place = torch.where(inside, place.to(torch.int64).clamp(0, bins - 1), bins)
    return _totals(place, None, bins, x.dtype)


def _density(hist: torch.Tensor, edges: Sequence[torch.Tensor]) -> torch.Tensor:
    result = hist / hist.sum()
    for axis, edge in enumerate(edges):
        shape = [1] * hist.dim()
        shape[axis] = -1
        result = result / (edge[1:] - edge[:-1]).reshape(shape)
    return result


@formula("histogram.bin_ct")
def _histogram(
    x: torch.Tensor, bins: int = 100, *, range: Sequence[float] | None = None,
    weight: torch.Tensor | None = None, density: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    low, high = (None, None) if not range else (range[0], range[1])
    flat = x.reshape(-1)
    edges = _edges(*_outer_edges(flat, low, high, 0.5), bins)
    return _histogram_of_edges(flat, edges, weight=weight, density=density)


@formula("histogram.bins_tensor")
def _histogram_of_edges(
    x: torch.Tensor, bins: torch.Tensor, *, weight: torch.Tensor | None = None,
    density: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    places = _bin_of(x.reshape(-1), bins)
    hist = _totals(places, weight, bins.shape[0] - 1, x.dtype)
    return (_density(hist, [bins]) if density else hist), bins.clone()


@formula("_histogramdd_bin_edges")
def _histogramdd_edges(
    x: torch.Tensor, bins: Sequence[int], *, range: Sequence[float] | None = None,
    weight: torch.Tensor | None = None, density: bool = False,
) -> list[torch.Tensor]:  # fmt: skip
    columns = x.reshape(-1, x.shape[-1])
    found = []
    for axis, count in enumerate(bins):
        low, high = (None, None) if not range else range[2 * axis : 2 * axis + 2]
        ends = _outer_edges(columns[:, axis], low, high, 0.5)
        found.append(_edges(*ends, int(count)))
    return found


@formula("_histogramdd_from_bin_cts")
def _histogramdd(
    x: torch.Tensor, bins: Sequence[int], *, range: Sequence[float] | None = None,
    weight: torch.Tensor | None = None, density: bool = False,
) -> torch.Tensor:  # fmt: skip
    edges = _histogramdd_edges(x, bins, range=range)
    return _histogramdd_of_edges(x, edges, weight=weight, density=density)


@formula("_histogramdd_from_bin_tensors")
def _histogramdd_of_edges(
    x: torch.Tensor, bins: Sequence[torch.Tensor], *, weight: torch.Tensor | None = None,
    density: bool = False,
) -> torch.Tensor:  # fmt: skip
    columns = x.reshape(-1, x.shape[-1])
    number = torch.zeros(columns.shape[:1], dtype=torch.int64)
    outside = torch.zeros(columns.shape[:1], dtype=torch.bool)
    counts = [int(edge.shape[0]) - 1 for edge in bins]
    for axis, edge in enumerate(bins):
        place = _bin_of(columns[:, axis], edge)
        outside = outside | (place == counts[axis])
        number = number * counts[axis] + place
    total = math.prod(counts)
    number = torch.where(outside, total, number)
    hist = _totals(number, weight, total, x.dtype).reshape(counts)
    return _density(hist, bins) if density else hist


# Segments


def _segments(
    data: torch.Tensor,
    lengths: torch.Tensor | None,
    offsets: torch.Tensor | None,
    axis: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the segment of each element, and how long each segment is.

    The shapes are those of the data and of the result. An element of no segment has the number of
    segments.
    """
    at = torch.arange(data.shape[axis]).unsqueeze(-1)
    if lengths is not None:
        ends = lengths.cumsum(-1)
        length, inside = lengths, at.squeeze(-1) >= 0
    else:
        assert offsets is not None
        ends = offsets[..., 1:]
        length = ends - offsets[..., :-1]
        inside = at.squeeze(-1) >= offsets[..., :1]
    count = ends.shape[-1]
    number = (ends.unsqueeze(-2) <= at).sum(-1)
    number = torch.where(inside, number, count)
    tail = [1] * (data.dim() - axis - 1)
    wide = number.reshape([*number.shape, *tail]).expand(data.shape)
    kept = length.reshape([*length.shape, *tail])
    shape = [*data.shape[:axis], count, *data.shape[axis + 1 :]]
    return wide, kept.expand(shape)


_SEGMENT_STARTS = {
    "sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf,
}  # fmt: skip
_SEGMENT_REDUCTIONS = {
    "sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin",
}  # fmt: skip


@formula("segment_reduce")
def _segment_reduce(
    data: torch.Tensor, reduce: str, *, lengths: torch.Tensor | None = None,
    indices: torch.Tensor | None = None, offsets: torch.Tensor | None = None, axis: int = 0,
    unsafe: bool = False, initial: float | None = None,
) -> Any:  # fmt: skip
    if indices is not None or (lengths is None and offsets is None):
        return NotImplemented
    if offsets is not None:
        lengths = None
    if lengths is not None and not unsafe:
        fits = (lengths.sum(-1) == data.shape[axis]).all() & (lengths >= 0).all()
        _asserted(fits, "segment_reduce: lengths must add up to the size of the axis")
    number, length = _segments(data, lengths, offsets, axis)
    count = int(length.shape[axis])
    room = [*data.shape[:axis], count + 1, *data.shape[axis + 1 :]]
    start = _SEGMENT_STARTS[reduce] if initial is None else float(initial)
    total = torch.full(room, start, dtype=data.dtype)
    how = _SEGMENT_REDUCTIONS[reduce]
    found = total.scatter_reduce(axis, number, data, how).narrow(axis, 0, count)
    if reduce != "mean":
        return found.clone()
    mean = found / length.clamp(min=1).to(data.dtype)
    empty = math.nan if initial is None else start
    return torch.where(length == 0, empty, mean)


@formula("_segment_reduce_backward")
def _segment_reduce_backward(
    grad: torch.Tensor, output: torch.Tensor, data: torch.Tensor, reduce: str, *,
    lengths: torch.Tensor | None = None, offsets: torch.Tensor | None = None, axis: int = 0,
    initial: float | None = None,
) -> Any:  # fmt: skip
    if offsets is not None:
        lengths = None
    number, length = _segments(data, lengths, offsets, axis)
    count = int(length.shape[axis])
    room = [*data.shape[:axis], count + 1, *data.shape[axis + 1 :]]
    place = number.clamp(0, max(count - 1, 0))
    used = number < count
    if count == 0:
        return torch.zeros_like(data)

    def spread(result: torch.Tensor) -> torch.Tensor:
        return result.gather(axis, place)

    def total(values: torch.Tensor, how: str, start: float) -> torch.Tensor:
        blank = torch.full(room, start, dtype=values.dtype)
        return blank.scatter_reduce(axis, number, values, how).gather(axis, number)

    pull = spread(grad)
    if reduce == "mean":
        pull = pull / spread(length.clamp(min=1).to(data.dtype))
    elif reduce in ("max", "min"):
        chosen = (data == spread(output)) | data.isnan()
        ties = total(chosen.to(data.dtype), "sum", 0.0).clamp(min=1)
        pull = torch.where(chosen, pull / ties, 0.0)
    elif reduce == "prod":
        zero, nan = data == 0, data.isnan()
        plain = torch.where(zero | nan, 1.0, data)
        rest = total(plain, "prod", 1.0 if initial is None else float(initial))
        zeros, nans = (total(m.to(data.dtype), "sum", 0.0) for m in (zero, nan))
        others = torch.where(zeros - zero.to(data.dtype) > 0, 0.0 * rest, rest)
        others = torch.where(nans - nan.to(data.dtype) > 0, math.nan, others)
        pull = pull * torch.where(zero | nan, others, spread(output) / plain)
    return torch.where(used, pull, 0.0)


# Repetitions and places


@formula("repeat_interleave.Tensor")
def _repeat_interleave(repeats: torch.Tensor, *, output_size: int | None = None) -> Any:
    if output_size is None:
        return NotImplemented
    ends = repeats.cumsum(0)
    if repeats.numel():
        fits = (ends[-1] == output_size) & (repeats >= 0).all()
        _asserted(fits, "repeat_interleave: repeats must add up to output_size")
    at = torch.arange(output_size).unsqueeze(-1)
    return (ends <= at).sum(-1).to(repeats.dtype)


@formula("nonzero_static")
def _nonzero_static(x: torch.Tensor, *, size: int, fill_value: int = -1) -> Any:
    if x.dim() == 0:
        return torch.empty((size, 0), dtype=torch.int64)
    found = (x != 0).reshape(-1)
    number = found.to(torch.int64).cumsum(0) - 1
    slot = torch.where(found & (number < size), number, size)
    room = torch.full((size + 1,), 0, dtype=torch.int64)
    at = torch.arange(found.shape[0])
    flat = room.scatter(0, slot, at)[:size]
    filled = torch.arange(size) < found.sum()
    columns = []
    for axis in reversed(range(x.dim())):
        extent = x.shape[axis]
        part = flat % extent if extent else flat
        flat = flat // extent if extent else flat
        columns.append(torch.where(filled, part, fill_value))
    return torch.stack(columns[::-1], -1)


@formula("mode")
def _mode(x: torch.Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """Of several values that are equally frequent the least one counts, at its last place."""
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    if x.shape[dim] == 0 or x.dtype == torch.bool:
        return NotImplemented
    values, places = x.movedim(dim, -1).sort(dim=-1, stable=True)
    first = torch.ones_like(values[..., :1], dtype=torch.int64)
    changes = (values[..., 1:] != values[..., :-1]).to(torch.int64)
    run = torch.cat([first, changes], -1).cumsum(-1) - 1
    size = torch.zeros_like(run).scatter_add(-1, run, torch.ones_like(run))
    best = size.argmax(-1, keepdim=True)
    last = (run <= best).sum(-1, keepdim=True) - 1
    value, place = (t.gather(-1, last).movedim(-1, dim) for t in (values, places))
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


# Bags of embeddings


def _bags(
    indices: torch.Tensor, offsets: torch.Tensor, count: int, padding: int
) -> torch.Tensor:
    """Returns the bag of each index, and the number of bags for those that do not count."""
    at = torch.arange(indices.shape[0]).unsqueeze(-1)
    bag = (offsets[:count] <= at).sum(-1) - 1
    return torch.where(indices == padding, count, bag) if padding >= 0 else bag


def _per_bag(bag: torch.Tensor, rows: torch.Tensor, count: int) -> torch.Tensor:
    blank = torch.zeros([count + 1, *rows.shape[1:]], dtype=rows.dtype)
    return blank.index_add(0, bag, rows)[:count]


def _largest_of_bags(
    rows: torch.Tensor, indices: torch.Tensor, bag: torch.Tensor, count: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the largest elements, and the indices whose rows have them.

    A NaN counts only if it is the first of its bag, as in comparisons one after another.
    """
    many = rows.shape[0]
    at = torch.arange(many)
    places = bag.unsqueeze(-1).expand_as(rows)
    begin = torch.full((count + 1,), many).scatter_reduce(0, bag, at, "amin")
    leads = (at == begin[bag]).unsqueeze(-1)
    rows = torch.where(rows.isnan() & ~leads, -math.inf, rows)
    blank = torch.full((count + 1, rows.shape[1]), -math.inf, dtype=rows.dtype)
    largest = blank.scatter_reduce(0, places, rows, "amax")
    best = largest[bag]
    wins = (rows == best) | (rows.isnan() & best.isnan())
    where = torch.where(wins, at.unsqueeze(-1), many)
    winner = torch.full((count + 1, rows.shape[1]), many).scatter_reduce(
        0, places, where, "amin"
    )[:count]
    empty = (begin[:count] == many).unsqueeze(-1)
    chosen = indices[winner.clamp(0, many - 1)]
    return torch.where(empty, 0.0, largest[:count]), torch.where(empty, 0, chosen)


@formula("_embedding_bag", "_embedding_bag_forward_only")
def _embedding_bag(
    weight: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor,
    scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False,
    per_sample_weights: torch.Tensor | None = None, include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:  # fmt: skip
    count = offsets.shape[0] - int(include_last_offset)
    nothing = is_always(count, 0) or is_always(count, -1)
    if nothing or is_always(indices.shape[0], 0) or indices.dim() != 1:
        return NotImplemented
    bag = _bags(indices, offsets, count, padding_idx)
    ones = torch.ones_like(bag)
    size = _per_bag(bag, ones, count).to(offsets.dtype)
    wide = torch.float32 if weight.itemsize < 4 else weight.dtype
    rows = weight.index_select(0, indices).to(wide)
    fast = mode == 0 and weight.dtype in (torch.float32, torch.float16)
    fast = fast and padding_idx < 0 and weight.stride(1) == 1
    of_index = bag[:0] if fast else bag
    chosen = size
    if mode == 2:
        result, chosen = _largest_of_bags(rows, indices, bag, count)
    else:
        if per_sample_weights is not None:
            rows = rows * per_sample_weights.to(rows.dtype).unsqueeze(-1)
        result = _per_bag(bag, rows, count)
        if mode == 1:
            result = result / size.clamp(min=1).unsqueeze(-1).to(rows.dtype)
    return (
        result.to(weight.dtype),
        of_index.to(offsets.dtype),
        size,
        chosen.to(offsets.dtype),
    )


@formula("_embedding_bag_backward")
def _embedding_bag_backward(
    grad: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor, offset2bag: torch.Tensor,
    bag_size: torch.Tensor, maximum_indices: torch.Tensor, num_weights: int,
    scale_grad_by_freq: bool, mode: int, sparse: bool,
    per_sample_weights: torch.Tensor | None, padding_idx: int = -1,
) -> Any:  # fmt: skip
    if sparse or is_always(indices.shape[0], 0) or indices.dim() != 1:
        return NotImplemented
    count = grad.shape[0]
    blank = torch.zeros((num_weights, grad.shape[1]), dtype=grad.dtype)
    if mode == 2:
        filled = (bag_size > 0).unsqueeze(-1)
        rows = torch.where(filled, grad, 0.0)
        return blank.scatter_add(0, maximum_indices.to(torch.int64), rows)
    bag = _bags(indices, offsets, count, padding_idx)
    padded = torch.cat([grad, torch.zeros_like(grad[:1])])
    rows = padded[bag]
    if mode == 1:
        size = torch.cat([bag_size, torch.ones_like(bag_size[:1])]).clamp(min=1)
        rows = rows / size[bag].unsqueeze(-1).to(grad.dtype)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    if scale_grad_by_freq:
        ones = torch.ones_like(indices)
        often = torch.zeros((num_weights,), dtype=indices.dtype)
        often = often.index_add(0, indices, ones)[indices]
        rows = rows / often.unsqueeze(-1).to(grad.dtype)
    return blank.index_add(0, indices, rows)


@formula("_embedding_bag_per_sample_weights_backward")
def _bag_weights_backward(
    grad: torch.Tensor, weight: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor,
    offset2bag: torch.Tensor, mode: int, padding_idx: int = -1,
) -> Any:  # fmt: skip
    if is_always(indices.shape[0], 0) or indices.dim() != 1:
        return NotImplemented
    bag = _bags(indices, offsets, grad.shape[0], padding_idx)
    padded = torch.cat([grad, torch.zeros_like(grad[:1])])
    return (padded[bag] * weight[indices]).sum(-1)
