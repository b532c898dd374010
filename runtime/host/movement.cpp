// Operators that move elements by fixed index arithmetic.
#include <algorithm>
#include <numeric>

#include "runtime/host/support.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

Result<HostTensor> transposed(const HostTensor& x, const Dims& perm) {
  const Dims from = strides_of(x.dims());
  Dims dims;
  Dims strides;
  for (int64_t p : perm) {
    dims.push_back(at(x.dims(), p));
    strides.push_back(at(from, p));
  }
  RP_ASSIGN(auto y, allocate(x.dtype(), dims));
  copy_strided(dims, y, {strides_of(dims)}, x, {strides});
  return y;
}

KernelResult transpose(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  const HostTensor& x = input(c, 0);
  Dims perm(static_cast<size_t>(x.rank()));
  std::iota(perm.rbegin(), perm.rend(), 0);
  if (c.attrs.has("perm")) perm = c.attrs.get_ints("perm");
  Dims sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  bool valid = static_cast<int64_t>(sorted.size()) == x.rank();
  for (size_t i = 0; valid && i < sorted.size(); ++i) {
    valid = sorted[i] == static_cast<int64_t>(i);
  }
  if (!valid) {
    return invalid_model("attribute 'perm' " + dims_str(perm) +
                         " is not a permutation of the axes of " + dims_str(x.dims()));
  }
  RP_ASSIGN(auto y, transposed(x, perm));
  return one(std::move(y));
}

KernelResult concat(const Call& c) {
  RP_TRY(check_arity(c, 1, std::numeric_limits<size_t>::max()));
  const HostTensor& first = input(c, 0);
  if (first.rank() == 0) return invalid_input("input 0 has rank 0");
  RP_ASSIGN(const int64_t axis, normalize_axis(c.attrs.get_int("axis", 0), first.rank()));
  Dims dims = first.dims();
  at(dims, axis) = 0;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (!has_input(c, i)) return invalid_model("input " + std::to_string(i) + " is missing");
    RP_TRY(require_same_dtype(c, 0, i));
    Dims expected = input(c, i).dims();
    if (static_cast<int64_t>(expected.size()) == first.rank()) {
      at(expected, axis) = at(first.dims(), axis);
    }
    if (expected != first.dims()) {
      return invalid_input("inputs 0 and " + std::to_string(i) + " differ outside axis " +
                           std::to_string(axis) + ": " + dims_str(first.dims()) + " and " +
                           dims_str(input(c, i).dims()));
    }
    const int64_t more = at(input(c, i).dims(), axis);
    if (more > std::numeric_limits<int64_t>::max() - at(dims, axis)) {
      return invalid_input("the concatenated axis is absurdly large");
    }
    at(dims, axis) += more;
  }
  RP_ASSIGN(auto y, allocate(first.dtype(), dims));
  const AxisSplit split = split_at(dims, axis);
  if (y.count() == 0) return one(std::move(y));
  int64_t begin = 0;
  for (const HostTensor* x : c.inputs) {
    const int64_t block = at(x->dims(), axis) * split.inner;
    for (int64_t o = 0; o < split.outer; ++o) {
      copy_block(y, o * split.size * split.inner + begin, *x, o * block, block);
    }
    begin += block;
  }
  return one(std::move(y));
}

Result<Dims> split_sizes(const Call& c, int64_t dim) {
  Dims sizes;
  if (has_ints(c, "split", 1)) {
    RP_ASSIGN(sizes, read_ints(c, "split", 1));
  } else {
    const int64_t parts = c.attrs.get_int("num_outputs", static_cast<int64_t>(c.output_count));
    if (parts <= 0) return invalid_model("attribute 'num_outputs' must be positive");
    if (parts > static_cast<int64_t>(c.output_count)) {
      return invalid_model("attribute 'num_outputs' is " + std::to_string(parts) +
                           ", but the node has " + std::to_string(c.output_count) + " outputs");
    }
    const int64_t chunk = dim / parts + (dim % parts != 0 ? 1 : 0);
    for (int64_t i = 0; i < parts; ++i) {
      sizes.push_back(std::clamp<int64_t>(dim - i * chunk, 0, chunk));
    }
  }
  int64_t sum = 0;
  for (int64_t s : sizes) {
    if (s < 0 || s > dim - sum) {
      return invalid_input("split " + dims_str(sizes) + " does not fit a dimension of " +
                           std::to_string(dim));
    }
    sum += s;
  }
  if (sum != dim || sizes.size() != c.output_count) {
    return invalid_input("split " + dims_str(sizes) + " does not divide a dimension of " +
                         std::to_string(dim) + " into " + std::to_string(c.output_count) +
                         " outputs");
  }
  return sizes;
}

KernelResult split(const Call& c) {
  RP_TRY(check_arity(c, 1, 2, std::numeric_limits<size_t>::max()));
  const HostTensor& x = input(c, 0);
  RP_ASSIGN(const int64_t axis, normalize_axis(c.attrs.get_int("axis", 0), x.rank()));
  const AxisSplit parts = split_at(x.dims(), axis);
  RP_ASSIGN(const Dims sizes, split_sizes(c, parts.size));
  Tensors out;
  int64_t begin = 0;
  for (int64_t size : sizes) {
    Dims dims = x.dims();
    at(dims, axis) = size;
    RP_ASSIGN(auto y, allocate(x.dtype(), dims));
    const int64_t block = size * parts.inner;
    for (int64_t o = 0; y.count() > 0 && o < parts.outer; ++o) {
      copy_block(y, o * block, x, (o * parts.size + begin) * parts.inner, block);
    }
    begin += size;
    out.push_back(std::move(y));
  }
  return out;
}

KernelResult tile(const Call& c) {
  RP_TRY(check_arity(c, 1, 2));
  const HostTensor& x = input(c, 0);
  RP_ASSIGN(const Dims repeats, read_ints(c, "repeats", 1));
  if (static_cast<int64_t>(repeats.size()) != x.rank()) {
    return invalid_input("repeats " + dims_str(repeats) + " needs one number per axis of " +
                         dims_str(x.dims()));
  }
  // Each axis d of the result is a pair (repeat, index), which is read with strides (0, stride).
  const Dims from = strides_of(x.dims());
  Dims dims;
  Dims pairs;
  Dims strides;
  for (size_t d = 0; d < repeats.size(); ++d) {
    if (repeats[d] < 0) return invalid_input("repeats " + dims_str(repeats) + " are negative");
    dims.push_back(product(std::array<int64_t, 2>{repeats[d], x.dims()[d]}));
    pairs.insert(pairs.end(), {repeats[d], x.dims()[d]});
    strides.insert(strides.end(), {0, from[d]});
  }
  RP_ASSIGN(auto y, allocate(x.dtype(), dims));
  if (y.count() > 0) copy_strided(pairs, y, {strides_of(pairs)}, x, {strides});
  return one(std::move(y));
}

KernelResult depth_to_space(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  RP_TRY(require_rank(c, 0, "input", 4, 4));
  const HostTensor& x = input(c, 0);
  const int64_t b = c.attrs.get_int("blocksize", 0);
  const int64_t n = x.dims()[0], ch = x.dims()[1], h = x.dims()[2], w = x.dims()[3];
  if (b <= 0 || b > (int64_t{1} << 30) || ch % (b * b) != 0) {
    return invalid_input("blocksize " + std::to_string(b) + " does not divide the channels of " +
                         dims_str(x.dims()));
  }
  const std::string mode = c.attrs.get_string("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") {
    return invalid_model("attribute 'mode' is '" + mode + "', must be DCR or CRD");
  }
  const int64_t depth = ch / (b * b);
  const bool dcr = mode == "DCR";
  const HostTensor split =
      x.reshaped(dcr ? Dims{n, b, b, depth, h, w} : Dims{n, depth, b, b, h, w});
  RP_ASSIGN(auto y, transposed(split, dcr ? Dims{0, 3, 4, 1, 5, 2} : Dims{0, 1, 4, 2, 5, 3}));
  return one(y.reshaped({n, depth, h * b, w * b}));
}

KernelResult space_to_depth(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  RP_TRY(require_rank(c, 0, "input", 4, 4));
  const HostTensor& x = input(c, 0);
  const int64_t b = c.attrs.get_int("blocksize", 0);
  const int64_t n = x.dims()[0], ch = x.dims()[1], h = x.dims()[2], w = x.dims()[3];
  if (b <= 0 || h % b != 0 || w % b != 0) {
    return invalid_input("blocksize " + std::to_string(b) +
                         " does not divide height and width of " + dims_str(x.dims()));
  }
  const std::string mode = c.attrs.get_string("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") {
    return invalid_model("attribute 'mode' is '" + mode + "', must be DCR or CRD");
  }
  RP_ASSIGN(auto y, transposed(x.reshaped({n, ch, h / b, b, w / b, b}),
                               mode == "DCR" ? Dims{0, 3, 5, 1, 2, 4} : Dims{0, 1, 3, 5, 2, 4}));
  return one(y.reshaped({n, ch * b * b, h / b, w / b}));
}

KernelResult reverse_sequence(const Call& c) {
  RP_TRY(check_arity(c, 2, 2));
  RP_TRY(require_rank(c, 0, "input", 2, std::numeric_limits<int64_t>::max()));
  const HostTensor& x = input(c, 0);
  RP_ASSIGN(const int64_t batch_axis, normalize_axis(c.attrs.get_int("batch_axis", 1), x.rank()));
  RP_ASSIGN(const int64_t time_axis, normalize_axis(c.attrs.get_int("time_axis", 0), x.rank()));
  if (batch_axis + time_axis != 1) {
    return invalid_model("batch_axis and time_axis must be 0 and 1, in either order");
  }
  RP_ASSIGN(const Dims lengths, tensor_ints(input(c, 1), "input 1 (sequence_lens)"));
  const int64_t batch = at(x.dims(), batch_axis);
  const int64_t time = at(x.dims(), time_axis);
  if (static_cast<int64_t>(lengths.size()) != batch) {
    return invalid_input("sequence_lens has " + std::to_string(lengths.size()) +
                         " elements for a batch of " + std::to_string(batch));
  }
  RP_ASSIGN(auto y, allocate(x.dtype(), x.dims()));
  const int64_t inner = product_range(x.dims(), 2, x.rank());
  const int64_t batch_stride = batch_axis == 0 ? time * inner : inner;
  const int64_t time_stride = time_axis == 0 ? batch * inner : inner;
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = at(lengths, b);
    if (length < 0 || length > time) {
      return invalid_input("sequence length " + std::to_string(length) + " is outside 0 to " +
                           std::to_string(time));
    }
    for (int64_t t = 0; y.count() > 0 && t < time; ++t) {
      const int64_t source = t < length ? length - 1 - t : t;
      copy_block(y, b * batch_stride + t * time_stride, x, b * batch_stride + source * time_stride,
                 inner);
    }
  }
  return one(std::move(y));
}

KernelResult trilu(const Call& c) {
  RP_TRY(check_arity(c, 1, 2));
  RP_TRY(require_rank(c, 0, "input", 2, std::numeric_limits<int64_t>::max()));
  const HostTensor& x = input(c, 0);
  if (x.dtype() == DType::String) return wrong_dtype(c, 0, "input", "numbers and bool");
  int64_t k = 0;
  if (has_ints(c, "k", 1)) {
    RP_ASSIGN(const Dims list, read_ints(c, "k", 1));
    if (list.size() != 1) return invalid_input("k must hold one integer");
    k = list[0];
  }
  const bool upper = c.attrs.get_int("upper", 1) != 0;
  const int64_t rows = at(x.dims(), x.rank() - 2);
  const int64_t columns = at(x.dims(), x.rank() - 1);
  k = std::clamp(k, -rows - 1, columns + 1);
  RP_ASSIGN(auto y, allocate(x.dtype(), x.dims()));
  if (y.count() == 0) return one(std::move(y));
  const int64_t all_rows = x.count() / columns;
  for (int64_t r = 0; r < all_rows; ++r) {
    const int64_t edge = std::clamp<int64_t>(r % rows + k + (upper ? 0 : 1), 0, columns);
    const int64_t begin = upper ? edge : 0;
    copy_block(y, r * columns + begin, x, r * columns + begin, (upper ? columns : edge) - begin);
  }
  return one(std::move(y));
}

}  // namespace

Table movement_table() {
  static constexpr Entry kTable[] = {
      {"Transpose", transpose},
      {"Concat", concat},
      {"Split", split},
      {"Tile", tile},
      {"DepthToSpace", depth_to_space},
      {"SpaceToDepth", space_to_depth},
      {"ReverseSequence", reverse_sequence},
      {"Trilu", trilu},
  };
  return kTable;
}

}  // namespace reprise::host
