// Converts TensorProto, in all its encodings, to HostTensor.
#pragma once

#include "codegen/onnx/file/file.h"
#include "runtime/base/tensor.h"

namespace reprise::onnx {

/// The dtype of an ONNX data_type number. Types that ONNX defines but this build lacks are
/// Unsupported, with their name; all others are InvalidModel.
Result<DType> dtype_of(int32_t data_type);

/// The result borrows raw data from `owner`, which keeps `t` alive, or from the mapped file.
/// Messages name the tensor.
Result<HostTensor> to_host(const wire::Tensor& t, const std::shared_ptr<const void>& owner,
                           ExternalData& external);
/// The reverse: writes the tensor and its name. Copies its bytes.
void set_tensor(const HostTensor& t, const std::string& name, wire::Tensor& to);
/// Expands to a dense tensor.
Result<HostTensor> to_host(const wire::SparseTensor& t, const std::shared_ptr<const void>& owner,
                           ExternalData& external);

}  // namespace reprise::onnx
