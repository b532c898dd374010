// Where a model file has the bytes of its initialisers.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/platform/file.h"

namespace reprise::onnx {

/// Of an initialiser without raw_data, `size` is 0.
struct RawData {
  uint64_t offset = 0, size = 0;
};

/// The raw_data of the initialisers of a model's graph, in their order. Of a file that is no
/// protobuf, or whose graph is in several parts, the list is empty or too short.
std::vector<RawData> find_raw_data(const platform::InputFile& file);

}  // namespace reprise::onnx
