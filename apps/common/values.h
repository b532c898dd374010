// Values of runs in files: tensors, sequences, optionals and maps.
#pragma once

#include <string>

#include "runtime/base/tensor.h"

namespace reprise::app {

/// Reads a value of this type: `.npy`, or `.pb` (a TensorProto, SequenceProto, OptionalProto or
/// MapProto). A sequence, an optional or a map may also be a folder as write_value() makes it.
Result<HostTensor> read_value(const std::string& path, DType type);
/// Writes PATH.npy, or the folder PATH of a value that is no tensor. It has the items as 0.npy,
/// 1.npy and so on, or folders of that name; of a map, it has keys.npy and values.npy.
Status write_value(const HostTensor& value, const std::string& path);

}  // namespace reprise::app
