// Reads at data-dependent indices. Negative indices count from the end. An index out of range is an
// error that names the index and the dimension.
#include <algorithm>

#include "runtime/host/indices.h"
#include "runtime/host/tables.h"

namespace reprise::host {

Result<Dims> read_indices(const HostTensor& t, std::string_view role) {
  return tensor_ints(t, "the tensor of " + std::string(role));
}

Result<int64_t> wrap_index(int64_t index, int64_t dim, int64_t axis, int64_t position) {
  if (index >= -dim && index < dim) return index < 0 ? index + dim : index;
  return invalid_input("index " + std::to_string(index) + " (element " + std::to_string(position) +
                       " of the indices) is out of range for dimension " + std::to_string(axis) +
                       " of size " + std::to_string(dim));
}

namespace {

KernelResult gather(const Call& c) {
  RP_TRY(check_arity(c, 2, 2));
  const HostTensor& x = input(c, 0);
  RP_ASSIGN(const int64_t axis, normalize_axis(c.attrs.get_int("axis", 0), x.rank()));
  RP_ASSIGN(Dims indices, read_indices(input(c, 1), "indices"));
  const AxisSplit split = split_at(x.dims(), axis);
  for (size_t i = 0; i < indices.size(); ++i) {
    RP_ASSIGN(indices[i], wrap_index(indices[i], split.size, axis, static_cast<int64_t>(i)));
  }
  Dims dims(x.dims().begin(), x.dims().begin() + axis);
  dims.insert(dims.end(), input(c, 1).dims().begin(), input(c, 1).dims().end());
  dims.insert(dims.end(), x.dims().begin() + axis + 1, x.dims().end());
  RP_ASSIGN(auto y, allocate(x.dtype(), dims));
  if (y.count() == 0) return one(std::move(y));
  int64_t next = 0;
  for (int64_t o = 0; o < split.outer; ++o) {
    for (int64_t i : indices) {
      copy_block(y, next, x, (o * split.size + i) * split.inner, split.inner);
      next += split.inner;
    }
  }
  return one(std::move(y));
}

KernelResult gather_elements(const Call& c) {
  RP_TRY(check_arity(c, 2, 2));
  const HostTensor& x = input(c, 0);
  const HostTensor& index = input(c, 1);
  RP_ASSIGN(const int64_t axis, normalize_axis(c.attrs.get_int("axis", 0), x.rank()));
  RP_TRY(check_elements_shape(x.dims(), index.dims(), axis));
  RP_ASSIGN(const Dims indices, read_indices(index, "indices"));
  RP_ASSIGN(auto y, allocate(x.dtype(), index.dims()));
  RP_ASSIGN(const Dims offsets, element_offsets(x.dims(), index.dims(), indices, axis));
  with_width(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    for (int64_t i = 0; i < y.count(); ++i) set_element<T>(y, i, element<T>(x, at(offsets, i)));
  });
  return one(std::move(y));
}

KernelResult gather_nd(const Call& c) {
  RP_TRY(check_arity(c, 2, 2));
  const HostTensor& x = input(c, 0);
  const HostTensor& index = input(c, 1);
  RP_TRY(require_rank(c, 1, "indices", 1, std::numeric_limits<int64_t>::max()));
  const int64_t batch = c.attrs.get_int("batch_dims", 0);
  const int64_t tuple = index.dims().back();
  if (batch < 0 || batch >= std::min(x.rank(), index.rank())) {
    return invalid_model("batch_dims " + std::to_string(batch) + " is out of range for " +
                         dims_str(x.dims()) + " and indices " + dims_str(index.dims()));
  }
  if (tuple < 1 || tuple > x.rank() - batch ||
      !std::equal(x.dims().begin(), x.dims().begin() + batch, index.dims().begin())) {
    return invalid_input("indices " + dims_str(index.dims()) + " do not fit data " +
                         dims_str(x.dims()) + " with batch_dims " + std::to_string(batch));
  }
  Dims dims(index.dims().begin(), index.dims().end() - 1);
  dims.insert(dims.end(), x.dims().begin() + batch + tuple, x.dims().end());
  RP_ASSIGN(const Dims indices, read_indices(index, "indices"));
  RP_ASSIGN(auto y, allocate(x.dtype(), dims));
  RP_ASSIGN(const Dims offsets, tuple_offsets(x.dims(), indices, tuple, batch));
  if (y.count() == 0) return one(std::move(y));
  const int64_t block = product_range(x.dims(), batch + tuple, x.rank());
  // The tuples of one batch entry are consecutive.
  const int64_t per_batch = static_cast<int64_t>(offsets.size()) /
                            std::max<int64_t>(1, product_range(x.dims(), 0, batch));
  const int64_t batch_size = product_range(x.dims(), batch, x.rank());
  for (int64_t i = 0; i < static_cast<int64_t>(offsets.size()); ++i) {
    copy_block(y, i * block, x, i / per_batch * batch_size + at(offsets, i), block);
  }
  return one(std::move(y));
}

}  // namespace

Status check_elements_shape(const Dims& data, const Dims& indices, int64_t axis) {
  bool fits = data.size() == indices.size();
  for (size_t d = 0; fits && d < data.size(); ++d) {
    fits = static_cast<int64_t>(d) == axis || indices[d] <= data[d];
  }
  if (fits) return {};
  return invalid_input("indices " + dims_str(indices) + " do not fit data " + dims_str(data) +
                       " on axis " + std::to_string(axis));
}

Result<Dims> element_offsets(const Dims& data, const Dims& index_dims, const Dims& indices,
                             int64_t axis) {
  const Dims strides = strides_of(data);
  Dims others = strides;
  at(others, axis) = 0;
  Dims offsets;
  offsets.reserve(indices.size());
  Status failed;
  for_each_index<1>(index_dims, {&others}, {0}, [&](const std::array<int64_t, 1>& o) {
    if (!failed.ok()) return;
    const auto position = static_cast<int64_t>(offsets.size());
    auto i = wrap_index(at(indices, position), at(data, axis), axis, position);
    if (!i) {
      failed = i.status();
      return;
    }
    offsets.push_back(o[0] + *i * at(strides, axis));
  });
  RP_TRY(failed);
  return offsets;
}

Result<Dims> tuple_offsets(const Dims& data, const Dims& indices, int64_t tuple, int64_t batch) {
  const Dims strides = strides_of(data);
  Dims offsets;
  for (int64_t i = 0; i < static_cast<int64_t>(indices.size()); i += tuple) {
    int64_t offset = 0;
    for (int64_t k = 0; k < tuple; ++k) {
      RP_ASSIGN(const int64_t v,
                wrap_index(at(indices, i + k), at(data, batch + k), batch + k, i + k));
      offset += v * at(strides, batch + k);
    }
    offsets.push_back(offset);
  }
  return offsets;
}

Table gather_table() {
  static constexpr Entry kTable[] = {
      {"Gather", gather}, {"GatherElements", gather_elements}, {"GatherND", gather_nd}};
  return kTable;
}

}  // namespace reprise::host
