/// @file
/// Element types, and values that need not be tensors, in C++. reprise.hpp includes it.
#ifndef REPRISE_VALUE_HPP_
#define REPRISE_VALUE_HPP_

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reprise/reprise.h"
#include "reprise/result.hpp"

namespace reprise {
inline namespace api {

/// DTypeOf<T>::value is the dtype of a C++ type: float, double, bool or an integer of 8 to 64 bits.
/// Tensors of other dtypes need the C interface.
template <typename T>
struct DTypeOf;
#define REPRISE_DTYPE_OF(type, number)             \
  template <>                                      \
  struct DTypeOf<type> {                           \
    static constexpr reprise_dtype value = number; \
  }
REPRISE_DTYPE_OF(float, REPRISE_F32);
REPRISE_DTYPE_OF(double, REPRISE_F64);
REPRISE_DTYPE_OF(int8_t, REPRISE_I8);
REPRISE_DTYPE_OF(uint8_t, REPRISE_U8);
REPRISE_DTYPE_OF(int16_t, REPRISE_I16);
REPRISE_DTYPE_OF(uint16_t, REPRISE_U16);
REPRISE_DTYPE_OF(int32_t, REPRISE_I32);
REPRISE_DTYPE_OF(uint32_t, REPRISE_U32);
REPRISE_DTYPE_OF(int64_t, REPRISE_I64);
REPRISE_DTYPE_OF(uint64_t, REPRISE_U64);
REPRISE_DTYPE_OF(bool, REPRISE_BOOL);
#undef REPRISE_DTYPE_OF

/// The dims of a tensor: a list such as {3, 4}, or a vector, array, std::span or other range of
/// integers, which is copied. A rank over 16 is refused by the library, which then reads no dims.
class Dims {
 public:
  /// No dims: a scalar.
  Dims() = default;
  /// The dims of a list.
  Dims(std::initializer_list<int64_t> dims) { add(dims); }
  /// The dims of a range, which is copied.
  template <typename Range,
            typename = decltype(static_cast<int64_t>(*std::begin(std::declval<const Range&>())))>
  Dims(const Range& dims) {
    add(dims);
  }
  /// The size of a tensor whose elements have `element` bytes: the product of that and the dims.
  size_t bytes(size_t element) const {
    for (uint32_t i = 0; i < std::min<uint32_t>(rank_, REPRISE_MAX_RANK); ++i)
      element *= static_cast<size_t>(dims_[i]);
    return element;
  }
  /// Sets the rank and the dims of a tensor.
  void write_to(reprise_tensor& t) const {
    t.rank = rank_;
    std::copy(dims_, dims_ + std::min<uint32_t>(rank_, REPRISE_MAX_RANK), t.dims);
  }

 private:
  template <typename Range>
  void add(const Range& dims) {
    for (const auto& d : dims) {
      if (rank_ < REPRISE_MAX_RANK) dims_[rank_] = static_cast<int64_t>(d);
      ++rank_;
    }
  }
  int64_t dims_[REPRISE_MAX_RANK] = {};
  uint32_t rank_ = 0;
};

/// A sequence, an optional, a map or a tensor, in host memory. It never changes, and copies share
/// it.
class Value {
 public:
  /// Nothing; get() is null.
  Value() = default;
  /// Takes ownership of the handle.
  explicit Value(reprise_value* owned) : handle_(owned, reprise_value_free) {}
  /// A tensor with the elements at `data`, which are copied.
  template <typename T>
  static Result<Value> tensor(const T* data, const Dims& dims) {
    reprise_tensor t = REPRISE_TENSOR_INIT;
    t.dtype = DTypeOf<T>::value;
    t.data = const_cast<T*>(data);  // it is copied
    t.bytes = dims.bytes(sizeof(T));
    dims.write_to(t);
    return made([&](reprise_value** out, reprise_error* e) {
      return reprise_value_from_tensor(&t, out, e);
    });
  }
  /// A tensor of strings, of rank 1.
  static Result<Value> strings(const std::vector<std::string>& list) {
    std::vector<reprise_string> data;
    data.reserve(list.size());
    for (const std::string& s : list) data.push_back({s.data(), s.size()});
    reprise_tensor t = REPRISE_TENSOR_INIT;
    t.dtype = REPRISE_STRING;
    t.rank = 1;
    t.dims[0] = static_cast<int64_t>(data.size());
    t.data = data.data();
    t.bytes = data.size() * sizeof(reprise_string);
    return made([&](reprise_value** out, reprise_error* e) {
      return reprise_value_from_tensor(&t, out, e);
    });
  }
  /// reprise_value_create describes the items. `dtype` is that of the tensors.
  static Result<Value> of(reprise_kind kind, reprise_dtype dtype, const std::vector<Value>& items) {
    std::vector<const reprise_value*> list;
    list.reserve(items.size());
    for (const Value& v : items) list.push_back(v.get());
    return made([&](reprise_value** out, reprise_error* e) {
      return reprise_value_create(kind, dtype, list.data(), list.size(), out, e);
    });
  }

  /// What it is, and how many items it has.
  reprise_value_info info() const {
    reprise_value_info i = REPRISE_VALUE_INFO_INIT;
    reprise_value_get_info(get(), &i, nullptr);
    return i;
  }
  /// An item, as a value of its own.
  Result<Value> item(size_t index) const {
    return made([&](reprise_value** out, reprise_error* e) {
      return reprise_value_get_item(get(), index, out, e);
    });
  }
  /// The tensor that this value is. Its data live as long as the value.
  Result<reprise_tensor> as_tensor() const {
    reprise_error e{};
    reprise_tensor t = REPRISE_TENSOR_INIT;
    if (reprise_value_get_tensor(get(), &t, &e) != REPRISE_OK) return e;
    return t;
  }
  /// The handle, which the value keeps.
  reprise_value* get() const { return handle_.get(); }

 private:
  template <typename Make>
  static Result<Value> made(Make make) {
    reprise_error e{};
    reprise_value* v = nullptr;
    if (make(&v, &e) != REPRISE_OK) return e;
    return Value(v);
  }
  std::shared_ptr<reprise_value> handle_;
};

}  // namespace api
}  // namespace reprise

#endif
