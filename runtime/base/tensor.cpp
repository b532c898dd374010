#include "runtime/base/tensor.h"

#include <limits>

#include "runtime/base/host_memory.h"

namespace reprise {
namespace {

/// Exact if checked_element_count() accepts the dims. For an empty tensor, partial products may
/// exceed any integer.
int64_t product(std::span<const int64_t> dims) {
  int64_t n = 1;
  for (int64_t d : dims) {
    if (d == 0) return 0;
    if (__builtin_mul_overflow(n, d, &n)) n = std::numeric_limits<int64_t>::max();
  }
  return n;
}

}  // namespace

Result<int64_t> checked_element_count(std::span<const int64_t> dims, DType dtype) {
  constexpr int64_t kMax = int64_t{1} << 40;
  int64_t n = 1;
  bool empty = false;
  bool too_large = false;
  for (int64_t d : dims) {
    if (d < 0) {
      return invalid_model("dimension " + std::to_string(d) + " of " + describe(dtype, dims) +
                           " is negative");
    }
    if (d == 0) {
      empty = true;
    } else if (n > kMax / d) {
      too_large = true;
    } else {
      n *= d;
    }
  }
  if (empty) return int64_t{0};
  const auto element = static_cast<int64_t>(size_of(dtype));
  if (too_large || (element > 0 && n > kMax / element)) {
    return invalid_model(describe(dtype, dims) + " is larger than 2^40 bytes or elements");
  }
  return n;
}

HostTensor::HostTensor(DType dtype, std::vector<int64_t> dims)
    : dtype_(dtype), dims_(std::move(dims)), count_(product(dims_)) {
  const auto n = static_cast<size_t>(count_);
  storage_ = allocate_elements(n * size_of(dtype));
  bytes_ = {storage_.get(), n * size_of(dtype)};
  if (dtype == DType::String) strings_ = std::make_shared<std::vector<std::string>>(n);
}

HostTensor HostTensor::borrow(DType dtype, std::vector<int64_t> dims,
                              std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  HostTensor t;
  t.dtype_ = dtype;
  t.dims_ = std::move(dims);
  t.count_ = product(t.dims_);
  t.bytes_ = bytes;
  t.owner_ = std::move(owner);
  return t;
}

void HostTensor::borrow_again(DType dtype, std::span<const int64_t> dims,
                              std::span<const std::byte> bytes) {
  dtype_ = dtype;
  dims_.assign(dims.begin(), dims.end());
  count_ = product(dims_);
  bytes_ = bytes;
  storage_ = nullptr;
  owner_ = nullptr;
  strings_ = nullptr;
}

HostTensor HostTensor::container(DType type, std::vector<HostTensor> items) {
  return borrow(type, {}, {}, std::make_shared<const std::vector<HostTensor>>(std::move(items)));
}

const std::vector<HostTensor>& HostTensor::items() const {
  static const std::vector<HostTensor> none;
  if (!is_container(dtype_) || !owner_) return none;
  return *static_cast<const std::vector<HostTensor>*>(owner_.get());
}

HostTensor HostTensor::reshaped(std::vector<int64_t> dims) const {
  HostTensor t = *this;
  assert(product(dims) == count_);
  t.dims_ = std::move(dims);
  return t;
}

HostTensor HostTensor::detached() const {
  if (is_container(dtype_)) {
    std::vector<HostTensor> detached_items;
    for (const HostTensor& item : items()) detached_items.push_back(item.detached());
    return container(dtype_, std::move(detached_items));
  }
  if (keeps_bytes()) return *this;
  HostTensor t(dtype_, dims_);
  if (!bytes_.empty()) std::memcpy(t.storage_.get(), bytes_.data(), bytes_.size());
  return t;
}

std::string describe(DType dtype, std::span<const int64_t> dims) {
  std::string s(name_of(dtype));
  if (is_container(dtype) && dims.empty()) return s;
  s += '[';
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i) s += ',';
    s += std::to_string(dims[i]);
  }
  return s + ']';
}

}  // namespace reprise
