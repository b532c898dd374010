// Writes at data-dependent indices, with an optional reduction.
#include <algorithm>

#include "runtime/host/indices.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

enum class Reduction : uint8_t { None, Add, Mul, Max, Min };

Result<Reduction> read_reduction(const Call& c, DType t) {
  const std::string r = c.attrs.get_string("reduction", "none");
  if (r == "none") return Reduction::None;
  if (!is_float(t) && !is_int(t) && t != DType::Bool) {
    return unsupported("reduction '" + r + "' of " + std::string(name_of(t)));
  }
  if (r == "add") return Reduction::Add;
  if (r == "mul") return Reduction::Mul;
  if (r == "max") return Reduction::Max;
  if (r == "min") return Reduction::Min;
  return invalid_model("attribute 'reduction' is '" + r + "', must be none, add, mul, max or min");
}

template <typename T>
T combine(Reduction r, T a, T b) {
  using Bits = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
  switch (r) {
    case Reduction::Add:
      return static_cast<T>(static_cast<Bits>(a) + static_cast<Bits>(b));
    case Reduction::Mul:
      return static_cast<T>(static_cast<Bits>(a) * static_cast<Bits>(b));
    case Reduction::Max:
      return a != a || a > b ? a : b;
    case Reduction::Min:
      return a != a || a < b ? a : b;
    case Reduction::None:
      break;
  }
  return b;
}

template <typename T>
void combine_at(Reduction r, HostTensor& y, int64_t to, const HostTensor& updates, int64_t from,
                int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    T a{};
    T b{};
    load(y, to + i, 1, 1, &a);
    load(updates, from + i, 1, 1, &b);
    a = combine(r, a, b);
    store(y, to + i, 1, &a);
  }
}

/// Blocks of elements in order, each of which goes to an offset.
struct ScatterBlocks {
  const HostTensor& updates;
  int64_t size = 1;
  std::span<const int64_t> order = {};  // the block that is taken; empty: one after another
};

void scatter_blocks(Reduction r, HostTensor& y, const Dims& offsets, const ScatterBlocks& blocks) {
  const Domain domain = domain_of(y.dtype());
  const int64_t n = blocks.size;
  for (int64_t i = 0; i < static_cast<int64_t>(offsets.size()); ++i) {
    const int64_t from = n * (blocks.order.empty() ? i : blocks.order[static_cast<size_t>(i)]);
    if (r == Reduction::None) {
      copy_block(y, at(offsets, i), blocks.updates, from, n);
    } else if (domain == Domain::Float) {
      combine_at<double>(r, y, at(offsets, i), blocks.updates, from, n);
    } else if (domain == Domain::Signed) {
      combine_at<int64_t>(r, y, at(offsets, i), blocks.updates, from, n);
    } else {
      combine_at<uint64_t>(r, y, at(offsets, i), blocks.updates, from, n);
    }
  }
}

Result<HostTensor> copy_of(const HostTensor& x) {
  RP_ASSIGN(auto y, allocate(x.dtype(), x.dims()));
  copy_block(y, 0, x, 0, x.count());
  return y;
}

/// Scatter (before version 11) and ScatterElements.
KernelResult scatter_elements(const Call& c) {
  RP_TRY(check_arity(c, 3, 3));
  RP_TRY(require_same_dtype(c, 0, 2));
  const HostTensor& x = input(c, 0);
  const HostTensor& index = input(c, 1);
  const HostTensor& updates = input(c, 2);
  RP_ASSIGN(const int64_t axis, normalize_axis(c.attrs.get_int("axis", 0), x.rank()));
  RP_TRY(check_elements_shape(x.dims(), index.dims(), axis));
  if (updates.dims() != index.dims()) {
    return invalid_input("updates " + dims_str(updates.dims()) + " and indices " +
                         dims_str(index.dims()) + " have different shapes");
  }
  RP_ASSIGN(const Reduction reduction, read_reduction(c, x.dtype()));
  RP_ASSIGN(const Dims indices, read_indices(index, "indices"));
  RP_ASSIGN(const Dims offsets, element_offsets(x.dims(), index.dims(), indices, axis));
  RP_ASSIGN(auto y, copy_of(x));
  scatter_blocks(reduction, y, offsets, {updates});
  return one(std::move(y));
}

KernelResult scatter_nd(const Call& c) {
  RP_TRY(check_arity(c, 3, 3));
  RP_TRY(require_same_dtype(c, 0, 2));
  RP_TRY(require_rank(c, 1, "indices", 1, std::numeric_limits<int64_t>::max()));
  const HostTensor& x = input(c, 0);
  const HostTensor& index = input(c, 1);
  const HostTensor& updates = input(c, 2);
  const int64_t tuple = index.dims().back();
  if (tuple < 1 || tuple > x.rank()) {
    return invalid_input("indices " + dims_str(index.dims()) + " do not fit data " +
                         dims_str(x.dims()));
  }
  Dims expected(index.dims().begin(), index.dims().end() - 1);
  expected.insert(expected.end(), x.dims().begin() + tuple, x.dims().end());
  if (updates.dims() != expected) {
    return invalid_input("updates are " + dims_str(updates.dims()) + ", must be " +
                         dims_str(expected));
  }
  RP_ASSIGN(const Reduction reduction, read_reduction(c, x.dtype()));
  RP_ASSIGN(const Dims indices, read_indices(index, "indices"));
  RP_ASSIGN(const Dims offsets, tuple_offsets(x.dims(), indices, tuple, 0));
  RP_ASSIGN(auto y, copy_of(x));
  scatter_blocks(reduction, y, offsets, {updates, product_range(x.dims(), tuple, x.rank())});
  return one(std::move(y));
}

/// The row-major positions of indices in a tensor with the dims of the attribute.
KernelResult flat_index(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  const HostTensor& index = input(c, 0);
  const Dims dims = c.attrs.get_ints("dims");
  const int64_t axis = c.attrs.get_int("axis", -1);
  RP_ASSIGN(const Dims indices, read_indices(index, "indices"));
  Dims out = index.dims();
  if (axis < 0 && (out.empty() || out.back() != static_cast<int64_t>(dims.size())))
    return invalid_input("indices " + dims_str(out) + " do not fit data " + dims_str(dims));
  if (axis >= 0) RP_TRY(check_elements_shape(dims, out, axis));
  if (axis < 0) out.pop_back();
  RP_ASSIGN(const Dims offsets,
            axis >= 0 ? element_offsets(dims, index.dims(), indices, axis)
                      : tuple_offsets(dims, indices, static_cast<int64_t>(dims.size()), 0));
  RP_ASSIGN(auto y, allocate(DType::I32, std::move(out)));
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (offsets[i] > std::numeric_limits<int32_t>::max())
      return unsupported("data " + dims_str(dims) + " has more than 2^31 elements");
    y.mutable_data<int32_t>()[i] = static_cast<int32_t>(offsets[i]);
  }
  return one(std::move(y));
}

/// Scatters blocks of the data whose targets are known: numbers of blocks, in ascending order if
/// the updates' positions are given.
KernelResult scatter_sorted(const Call& c) {
  RP_TRY(check_arity(c, 3, 4));
  const HostTensor& x = input(c, 0);
  const HostTensor& targets = input(c, 1);
  RP_TRY(require_same_dtype(c, 0, 2));
  const int64_t depth = c.attrs.get_int("depth", 0);
  if (depth < 0 || depth > x.rank()) return invalid_model("attribute 'depth' exceeds the rank");
  const int64_t blocks = product_range(x.dims(), 0, depth);
  const int64_t block = product_range(x.dims(), depth, x.rank());
  const int64_t count = targets.count();
  if (input(c, 2).count() != count * block)
    return invalid_input("there is not one update for each target");
  RP_ASSIGN(Dims offsets, read_indices(targets, "targets"));
  for (int64_t& target : offsets) {
    RP_ASSIGN(target, wrap_index(target, blocks, 0, &target - offsets.data()));
    target *= block;
  }
  Dims order;
  if (has_input(c, 3)) {
    RP_ASSIGN(order, read_indices(input(c, 3), "positions"));
  }
  for (int64_t& position : order) {
    RP_ASSIGN(position, wrap_index(position, count, 0, &position - order.data()));
  }
  if (!order.empty() && order.size() != offsets.size())
    return invalid_input("there is not one position for each target");
  RP_ASSIGN(const Reduction reduction, read_reduction(c, x.dtype()));
  RP_ASSIGN(auto y, copy_of(x));
  scatter_blocks(reduction, y, offsets, {input(c, 2), block, order});
  return one(std::move(y));
}

/// The dims must be equal except for the axis, where the update must not be longer.
Status check_update(const Call& c, int64_t axis) {
  const Dims& cache = input(c, 0).dims();
  Dims fits = input(c, 1).dims();
  if (fits.size() == cache.size() && at(fits, axis) <= at(cache, axis)) {
    at(fits, axis) = at(cache, axis);
    if (fits == cache) return {};
  }
  return invalid_input("update " + dims_str(input(c, 1).dims()) + " does not fit past_cache " +
                       dims_str(cache) + " along axis " + std::to_string(axis));
}

/// The first position of the update in each element of the batch; in a ring, within the cache.
Result<Dims> first_positions(const Call& c, int64_t length, int64_t written, bool ring) {
  const int64_t batch = input(c, 0).dims()[0];
  if (!has_input(c, 2)) return Dims(static_cast<size_t>(batch), 0);
  RP_ASSIGN(Dims first, tensor_ints(input(c, 2), "write_indices"));
  if (static_cast<int64_t>(first.size()) != batch) {
    return invalid_input(describe_input(c, 2, "write_indices") + " does not have one index for " +
                         "each element of the batch (" + std::to_string(batch) + ")");
  }
  for (int64_t& i : first) {
    if (ring && length > 0) i = (i % length + length) % length;
    if (!ring && (i < 0 || i > length - written)) {
      return invalid_input("write index " + std::to_string(i) + " is out of range for an update " +
                           "of " + std::to_string(written) + " in a cache of " +
                           std::to_string(length));
    }
  }
  return first;
}

KernelResult tensor_scatter(const Call& c) {
  RP_TRY(check_arity(c, 2, 3));
  RP_TRY(require_same_dtype(c, 0, 1));
  RP_TRY(require_rank(c, 0, "past_cache", 2, std::numeric_limits<int64_t>::max()));
  const HostTensor& x = input(c, 0);
  const HostTensor& update = input(c, 1);
  RP_ASSIGN(const int64_t axis, normalize_axis(c.attrs.get_int("axis", -2), x.rank()));
  if (axis == 0) return invalid_model("axis is 0, the axis of the batch");
  const std::string mode = c.attrs.get_string("mode", "linear");
  if (mode != "linear" && mode != "circular")
    return invalid_model("attribute 'mode' is '" + mode + "', must be linear or circular");
  RP_TRY(check_update(c, axis));
  const AxisSplit s = split_at(x.dims(), axis);
  const int64_t written = at(update.dims(), axis);
  RP_ASSIGN(const Dims first, first_positions(c, s.size, written, mode == "circular"));
  RP_ASSIGN(auto y, copy_of(x));
  if (update.count() == 0) return one(std::move(y));
  const int64_t per_batch = s.outer / x.dims()[0];
  for (int64_t o = 0; o < s.outer; ++o) {
    for (int64_t i = 0; i < written; ++i) {
      const int64_t to = (at(first, o / per_batch) + i) % s.size;
      copy_block(y, (o * s.size + to) * s.inner, update, (o * written + i) * s.inner, s.inner);
    }
  }
  return one(std::move(y));
}

}  // namespace

Table scatter_table() {
  static constexpr Entry kTable[] = {
      {"Scatter", scatter_elements},     {"ScatterElements", scatter_elements},
      {"ScatterND", scatter_nd},         {"FlatIndex", flat_index},
      {"ScatterSorted", scatter_sorted}, {"TensorScatter", tensor_scatter}};
  return kTable;
}

}  // namespace reprise::host
