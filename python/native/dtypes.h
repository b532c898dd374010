// Element types in the spellings of Python: the buffer protocol, DLPack, NumPy and ml_dtypes.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>

#include "python/native/dlpack.h"
#include "runtime/base/dtype.h"

namespace reprise::python {

/// The dtype of a format of the buffer protocol, such as "f" or "<i8". Invalid for those that have
/// no dtype of ours, other byte orders among them.
DType dtype_of_format(const char* format, size_t element_bytes);

/// Invalid for types that have no dtype of ours, or that share bytes.
DType dtype_of_dlpack(const dlpack::DataType& type);
/// Bits are 0 for dtypes that DLPack has no name for.
dlpack::DataType dlpack_of(DType dtype);

/// The NumPy dtype object. For dtypes that NumPy lacks, that of ml_dtypes if it is installed, or
/// else the unsigned integer with the same bytes. Strings are objects.
nanobind::handle numpy_dtype(DType dtype);

/// Throws a UsageError that lists the dtypes unless the name is one.
DType parse_dtype(const char* name);

/// Whether elements of one dtype may be taken as those of the other, because NumPy alone has no
/// dtype for the expected one: unsigned integers with the same bytes, int8 for small integers.
bool carries(DType given, DType expected);

}  // namespace reprise::python
