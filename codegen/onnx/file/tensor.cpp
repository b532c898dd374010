#include "codegen/onnx/file/tensor.h"

#include <array>
#include <charconv>
#include <limits>

#include "codegen/ops/row/support.h"
#include "runtime/base/low_bit.h"

namespace reprise::onnx {

namespace {

constexpr int64_t kMaxRank = 64;
constexpr int64_t kMaxDense = int64_t{1} << 30;  // bytes that a sparse tensor may expand to

struct UnsupportedType {
  int32_t number;
  const char* name;
};
constexpr std::array<UnsupportedType, 4> kUnsupported{
    {{14, "complex64"}, {15, "complex128"}, {27, "float6e2m3"}, {28, "float6e3m2"}}};

/// Checks the preconditions of HostTensor. A zero-sized tensor with an absurd other dim fails, too.
Result<int64_t> checked_count(const std::vector<int64_t>& dims, DType dtype) {
  if (static_cast<int64_t>(dims.size()) > kMaxRank) {
    return invalid_model("rank " + std::to_string(dims.size()) + " is above " +
                         std::to_string(kMaxRank));
  }
  RP_ASSIGN(const int64_t count, checked_element_count(dims, dtype));
  std::vector<int64_t> filled = dims;
  for (int64_t& d : filled) d = d == 0 ? 1 : d;
  if (!checked_element_count(filled, dtype).ok()) {
    return invalid_model(describe(dtype, dims) + " has absurd dimensions");
  }
  return count;
}

Status wrong_count(const char* field, int64_t found, DType dtype, const std::vector<int64_t>& dims,
                   int64_t expected) {
  return invalid_model(std::string(field) + " holds " + std::to_string(found) + " values, but " +
                       describe(dtype, dims) + " needs " + std::to_string(expected));
}

/// Smaller tensors are copied: borrowed ones keep the whole model in memory.
constexpr size_t kLeastBorrowed = 65536;

/// The tensor with these bytes of raw_data. Borrows them if they are many, are aligned for their
/// type and hold one element a byte or more; otherwise copies them.
HostTensor from_bytes(DType dtype, std::vector<int64_t> dims, std::span<const std::byte> bytes,
                      const std::shared_ptr<const void>& owner) {
  if (is_low_bit(dtype) && bits_of(dtype) < 8) {
    HostTensor t(dtype, std::move(dims));
    unpack_elements(dtype, bytes, t.mutable_bytes());
    return t;
  }
  const bool aligned = reinterpret_cast<uintptr_t>(bytes.data()) % size_of(dtype) == 0;
  if (aligned && bytes.size() >= kLeastBorrowed)
    return HostTensor::borrow(dtype, std::move(dims), bytes, owner);
  HostTensor t(dtype, std::move(dims));
  if (!bytes.empty()) std::memcpy(t.mutable_bytes().data(), bytes.data(), bytes.size());
  return t;
}

/// Checks that bools are 0 or 1, as in ONNX. Kernels would interpret other bytes differently.
Status check_bools(const HostTensor& t) {
  if (t.dtype() != DType::Bool) return {};
  for (std::byte b : t.bytes()) {
    if (std::to_integer<int>(b) > 1) return invalid_model("a bool is neither 0 nor 1");
  }
  return {};
}

template <typename T, typename Field>
Result<HostTensor> from_field(const char* field_name, const Field& field, DType dtype,
                              std::vector<int64_t> dims, int64_t count) {
  if (field.size() != count) return wrong_count(field_name, field.size(), dtype, dims, count);
  HostTensor t(dtype, std::move(dims));
  T* out = t.mutable_data<T>();
  for (int i = 0; i < field.size(); ++i) {
    // Signed fields also hold unsigned 8- and 16-bit values, and the bits of 16-bit floats.
    const auto v = field.Get(i);
    out[i] = static_cast<T>(v);
    if constexpr (std::is_integral_v<T>) {
      if (static_cast<decltype(v)>(out[i]) != v) {
        return invalid_model(std::string(field_name) + " holds " + std::to_string(v) + ", which " +
                             std::string(name_of(dtype)) + " cannot hold");
      }
    }
  }
  return t;
}

/// Low-bit types in int32_data: each value is a byte of what raw_data would hold.
Result<HostTensor> from_packed_field(const wire::Tensor& t, DType dtype, std::vector<int64_t> dims,
                                     int64_t count) {
  const auto bytes = static_cast<int64_t>(packed_size(dtype, static_cast<uint64_t>(count)));
  if (t.int32_data_size() != bytes)
    return wrong_count("int32_data", t.int32_data_size(), dtype, dims, bytes);
  RP_ASSIGN(const HostTensor packed,
            from_field<uint8_t>("int32_data", t.int32_data(), DType::U8, {bytes}, bytes));
  HostTensor out(dtype, std::move(dims));
  unpack_elements(dtype, packed.bytes(), out.mutable_bytes());
  return out;
}

Result<HostTensor> from_strings(const wire::Tensor& t, std::vector<int64_t> dims, int64_t count) {
  if (t.string_data_size() != count) {
    return wrong_count("string_data", t.string_data_size(), DType::String, dims, count);
  }
  HostTensor out(DType::String, std::move(dims));
  for (int i = 0; i < t.string_data_size(); ++i) {
    out.mutable_strings()[static_cast<size_t>(i)] = t.string_data(i);
  }
  return out;
}

Result<HostTensor> from_typed(const wire::Tensor& t, DType dtype, std::vector<int64_t> dims,
                              int64_t count) {
  const auto ints = [&]<typename T>(T) {
    return from_field<T>("int32_data", t.int32_data(), dtype, std::move(dims), count);
  };
  if (is_low_bit(dtype)) return from_packed_field(t, dtype, std::move(dims), count);
  switch (dtype) {
    case DType::F32:
      return from_field<float>("float_data", t.float_data(), dtype, dims, count);
    case DType::F64:
      return from_field<double>("double_data", t.double_data(), dtype, dims, count);
    case DType::I64:
      return from_field<int64_t>("int64_data", t.int64_data(), dtype, dims, count);
    case DType::U64:
      return from_field<uint64_t>("uint64_data", t.uint64_data(), dtype, dims, count);
    case DType::U32:
      return from_field<uint32_t>("uint64_data", t.uint64_data(), dtype, dims, count);
    case DType::I32:
      return ints(int32_t{});
    case DType::I16:
      return ints(int16_t{});
    case DType::I8:
      return ints(int8_t{});
    case DType::U16:
    case DType::F16:
    case DType::BF16:
      return ints(uint16_t{});
    case DType::U8:
    case DType::Bool:
      return ints(uint8_t{});
    case DType::String:
      return from_strings(t, std::move(dims), count);
    default:
      return internal_error("a tensor of unknown dtype");
  }
}

Result<uint64_t> parse_size(const std::string& key, const std::string& text) {
  uint64_t v = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc() || end != text.data() + text.size()) {
    return invalid_model("external data: " + key + " " + shown(text) + " is not a size");
  }
  return v;
}

Result<HostTensor> from_external(const wire::Tensor& t, DType dtype, std::vector<int64_t> dims,
                                 int64_t count, ExternalData& external) {
  if (dtype == DType::String) return invalid_model("external data cannot hold strings");
  const std::string* location = nullptr;
  uint64_t offset = 0;
  const uint64_t needed = packed_size(dtype, static_cast<uint64_t>(count));
  uint64_t length = needed;
  for (const wire::Entry& e : t.external_data()) {
    if (e.key() == "location") location = &e.value();
    if (e.key() == "offset") {
      RP_ASSIGN(offset, parse_size("offset", e.value()));
    }
    if (e.key() == "length") {
      RP_ASSIGN(length, parse_size("length", e.value()));
    }
  }
  if (!location) return invalid_model("external data without a location");
  if (length != needed) {
    return invalid_model("external data of " + std::to_string(length) + " bytes, but " +
                         describe(dtype, dims) + " needs " + std::to_string(needed));
  }
  RP_ASSIGN(const Mapped file, external.open(*location));
  if (offset > file.bytes.size() || length > file.bytes.size() - offset) {
    return invalid_model("external data " + shown(*location) + " has " +
                         std::to_string(file.bytes.size()) + " bytes, but the tensor needs " +
                         std::to_string(length) + " at offset " + std::to_string(offset));
  }
  return from_bytes(dtype, std::move(dims), file.bytes.subspan(offset, length), file.owner);
}

Result<HostTensor> convert(const wire::Tensor& t, const std::shared_ptr<const void>& owner,
                           ExternalData& external) {
  RP_ASSIGN(const DType dtype, dtype_of(t.data_type()));
  if (t.has_segment()) return unsupported("segmented tensors are not supported; store it whole");
  std::vector<int64_t> dims(t.dims().begin(), t.dims().end());
  RP_ASSIGN(const int64_t count, checked_count(dims, dtype));
  if (t.data_location() == 1) return from_external(t, dtype, std::move(dims), count, external);
  if (t.data_location() != 0) {
    return invalid_model("data_location " + std::to_string(t.data_location()) + " is unknown");
  }
  const bool raw_is_empty = !t.has_raw_data() || (t.raw_data().empty() && count > 0);
  if (raw_is_empty) return from_typed(t, dtype, std::move(dims), count);
  if (dtype == DType::String) return invalid_model("raw_data cannot hold strings");
  const std::string& raw = t.raw_data();
  const uint64_t needed = packed_size(dtype, static_cast<uint64_t>(count));
  if (raw.size() != needed) {
    return invalid_model("raw_data has " + std::to_string(raw.size()) + " bytes, but " +
                         describe(dtype, dims) + " needs " + std::to_string(needed));
  }
  return from_bytes(dtype, std::move(dims), std::as_bytes(std::span(raw)), owner);
}

/// The position of the i-th value in the dense tensor, from indices of shape [n] or [n, rank].
Result<int64_t> dense_index(const HostTensor& indices, int64_t i, const std::vector<int64_t>& dims,
                            int64_t count) {
  const auto* data = indices.data<int64_t>();
  int64_t at = 0;
  bool inside = true;
  if (indices.rank() == 1) {
    at = data[i];
    inside = at >= 0 && at < count;
  } else {
    const auto rank = static_cast<int64_t>(dims.size());
    for (int64_t d = 0; d < rank && inside; ++d) {
      const int64_t k = data[i * rank + d];
      inside = k >= 0 && k < dims[static_cast<size_t>(d)];
      if (inside) at = at * dims[static_cast<size_t>(d)] + k;
    }
  }
  if (!inside) return invalid_model("index " + std::to_string(i) + " is out of range");
  return at;
}

Result<HostTensor> convert(const wire::SparseTensor& t, const std::shared_ptr<const void>& owner,
                           ExternalData& external) {
  RP_ASSIGN(const HostTensor values, convert(t.values(), owner, external));
  RP_ASSIGN(const HostTensor indices, convert(t.indices(), owner, external));
  std::vector<int64_t> dims(t.dims().begin(), t.dims().end());
  const DType dtype = values.dtype();
  RP_ASSIGN(const int64_t count, checked_count(dims, dtype));
  const int64_t n = values.count();
  if (dtype == DType::String) return unsupported("sparse tensors of strings are not supported");
  const bool linear = indices.rank() == 1;
  const bool tuples = indices.rank() == 2 && indices.dims()[1] == static_cast<int64_t>(dims.size());
  if (values.rank() != 1 || indices.dtype() != DType::I64 || (!linear && !tuples) ||
      indices.dims()[0] != n) {
    return invalid_model("values " + describe(dtype, values.dims()) + " and indices " +
                         describe(indices.dtype(), indices.dims()) +
                         " do not fit a tensor of rank " + std::to_string(dims.size()));
  }
  if (count * static_cast<int64_t>(size_of(dtype)) > kMaxDense) {
    return unsupported("a sparse tensor of " + describe(dtype, dims) +
                       " would expand to more than 1 GiB; store it dense or as external data");
  }
  HostTensor out(dtype, dims);
  const size_t size = size_of(dtype);
  for (int64_t i = 0; i < n; ++i) {
    RP_ASSIGN(const int64_t at, dense_index(indices, i, dims, count));
    std::memcpy(out.mutable_bytes().data() + static_cast<size_t>(at) * size,
                values.bytes().data() + static_cast<size_t>(i) * size, size);
  }
  return out;
}

template <typename T>
Result<HostTensor> named(const T& t, const std::string& name,
                         const std::shared_ptr<const void>& owner, ExternalData& external) {
  Result<HostTensor> r = convert(t, owner, external);
  Status s = r.ok() ? check_bools(*r) : r.status();
  if (!s.ok()) return s.with_context("tensor " + shown(name));
  return r;
}

}  // namespace

Result<DType> dtype_of(int32_t data_type) {
  const DType dtype = dtype_with_onnx_number(data_type);
  if (dtype != DType::Invalid) return dtype;
  for (const UnsupportedType& t : kUnsupported) {
    if (t.number == data_type)
      return unsupported(
          "data type " + std::string(t.name) +
          " is not supported; convert the model to float32, float16, bfloat16 or int8");
  }
  return invalid_model("data type " + std::to_string(data_type) + " is unknown");
}

Result<HostTensor> to_host(const wire::Tensor& t, const std::shared_ptr<const void>& owner,
                           ExternalData& external) {
  return named(t, t.name(), owner, external);
}

Result<HostTensor> to_host(const wire::SparseTensor& t, const std::shared_ptr<const void>& owner,
                           ExternalData& external) {
  return named(t, t.values().name(), owner, external);
}

void set_tensor(const HostTensor& t, const std::string& name, wire::Tensor& to) {
  to.set_name(name);
  to.set_data_type(static_cast<int32_t>(ops::dtype_to_onnx(t.dtype())));
  for (const int64_t d : t.dims()) to.add_dims(d);
  if (t.dtype() == DType::String) {
    for (const std::string& s : t.strings()) to.add_string_data(s);
  } else if (is_low_bit(t.dtype())) {
    std::vector<std::byte> packed(packed_size(t.dtype(), static_cast<uint64_t>(t.count())));
    pack_elements(t.dtype(), t.bytes(), packed);
    to.set_raw_data(packed.data(), packed.size());
  } else {
    to.set_raw_data(t.bytes().data(), t.bytes().size());
  }
}

}  // namespace reprise::onnx
