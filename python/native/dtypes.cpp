#include "python/native/dtypes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "python/native/errors.h"

namespace nb = nanobind;

namespace reprise::python {
namespace {

struct Row {
  DType dtype;
  dlpack::DataType type;
};

constexpr std::array<Row, 18> kRows{{{DType::F32, {dlpack::kFloat, 32, 1}},
                                     {DType::F16, {dlpack::kFloat, 16, 1}},
                                     {DType::F64, {dlpack::kFloat, 64, 1}},
                                     {DType::BF16, {dlpack::kBfloat, 16, 1}},
                                     {DType::I8, {dlpack::kInt, 8, 1}},
                                     {DType::I16, {dlpack::kInt, 16, 1}},
                                     {DType::I32, {dlpack::kInt, 32, 1}},
                                     {DType::I64, {dlpack::kInt, 64, 1}},
                                     {DType::U8, {dlpack::kUInt, 8, 1}},
                                     {DType::U16, {dlpack::kUInt, 16, 1}},
                                     {DType::U32, {dlpack::kUInt, 32, 1}},
                                     {DType::U64, {dlpack::kUInt, 64, 1}},
                                     {DType::Bool, {dlpack::kBool, 8, 1}},
                                     {DType::F8E4M3FN, {dlpack::kFloat8E4M3FN, 8, 1}},
                                     {DType::F8E4M3FNUZ, {dlpack::kFloat8E4M3FNUZ, 8, 1}},
                                     {DType::F8E5M2, {dlpack::kFloat8E5M2, 8, 1}},
                                     {DType::F8E5M2FNUZ, {dlpack::kFloat8E5M2FNUZ, 8, 1}},
                                     {DType::F8E8M0, {dlpack::kFloat8E8M0FNU, 8, 1}}}};

DType sized(size_t bytes, std::array<DType, 4> by_log2) {
  return bytes == 1   ? by_log2[0]
         : bytes == 2 ? by_log2[1]
         : bytes == 4 ? by_log2[2]
         : bytes == 8 ? by_log2[3]
                      : DType::Invalid;
}

}  // namespace

DType dtype_of_format(const char* format, size_t element_bytes) {
  if (format == nullptr) return element_bytes == 1 ? DType::U8 : DType::Invalid;
  const bool swapped = *format == '>' || *format == '!';
  if (*format == '@' || *format == '=' || *format == '<' || swapped) ++format;
  if (*format == '\0' || format[1] != '\0' || (swapped && element_bytes > 1)) return DType::Invalid;
  if (*format == '?') return DType::Bool;
  if (std::strchr("bhilqn", *format) != nullptr)
    return sized(element_bytes, {DType::I8, DType::I16, DType::I32, DType::I64});
  if (std::strchr("BHILQN", *format) != nullptr)
    return sized(element_bytes, {DType::U8, DType::U16, DType::U32, DType::U64});
  if (std::strchr("efd", *format) != nullptr)
    return sized(element_bytes, {DType::Invalid, DType::F16, DType::F32, DType::F64});
  return DType::Invalid;
}

DType dtype_of_dlpack(const dlpack::DataType& type) {
  for (const Row& row : kRows) {
    if (row.type.code == type.code && row.type.bits == type.bits && type.lanes == 1)
      return row.dtype;
  }
  return DType::Invalid;
}

dlpack::DataType dlpack_of(DType dtype) {
  for (const Row& row : kRows)
    if (row.dtype == dtype) return row.type;
  return {};
}

// The objects live as long as the process.
nb::handle numpy_dtype(DType dtype) {
  static std::array<PyObject*, 32> known{};
  PyObject*& object = known.at(static_cast<size_t>(dtype));
  if (object == nullptr) {
    const nb::object make = nb::module_::import_("reprise._dtypes").attr("numpy_dtype");
    const std::string name(name_of(dtype));
    object = make(name.c_str()).release().ptr();
  }
  return object;
}

DType parse_dtype(const char* name) {
  if (const auto dtype = dtype_from_name(name)) return *dtype;
  std::string all;
  for (uint8_t n = 1; is_dtype(n); ++n)
    all += (n > 1 ? ", " : "") + std::string(name_of(static_cast<DType>(n)));
  misuse("there is no dtype '" + std::string(name) + "'; choose from " + all);
}

bool carries(DType given, DType expected) {
  if (given == expected) return true;
  if (expected == DType::BF16) return given == DType::U16;
  return is_low_bit(expected) && (given == DType::U8 || given == carrier_of(expected));
}

}  // namespace reprise::python
