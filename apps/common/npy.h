// NumPy's .npy files (format versions 1 to 3). Files are untrusted: headers and sizes are checked
// before anything is allocated or read.
#pragma once

#include <span>
#include <string>

#include "runtime/base/tensor.h"

namespace reprise::app {

/// Reads numbers, bools and Unicode strings in any byte order and memory order. The result is
/// little endian and row-major.
Result<HostTensor> parse_npy(std::span<const std::byte> file);
Result<HostTensor> read_npy(const std::string& path);

/// NumPy lacks some types: bfloat16 and low-bit floats are widened to float32, integers of 2 and 4
/// bits to int8 and uint8. Strings must be UTF-8.
std::string format_npy(const HostTensor& tensor);
Status write_npy(const HostTensor& tensor, const std::string& path);

}  // namespace reprise::app
