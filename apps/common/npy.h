// NumPy's .npy files (format versions 1 to 3). Files are hostile input: headers and sizes are
// checked before anything is allocated or read.
#pragma once

#include <span>
#include <string>

#include "runtime/base/tensor.h"

namespace reprise::app {

/// Any byte order and memory order; numbers, bool and unicode strings. The result is little endian
/// and row-major.
Result<HostTensor> parse_npy(std::span<const std::byte> file);
Result<HostTensor> read_npy(const std::string& path);

/// numpy has no bfloat16: such tensors are widened to float32. Strings must be UTF-8.
std::string format_npy(const HostTensor& tensor);
Status write_npy(const HostTensor& tensor, const std::string& path);

}  // namespace reprise::app
