// TensorProto in all its encodings -> HostTensor.
#pragma once

#include "codegen/onnx/file.h"
#include "runtime/base/tensor.h"

namespace reprise::onnx {

/// The dtype of an ONNX data_type number. Numbers that ONNX defines and this build lacks are
/// Unsupported by name, others InvalidModel.
Result<DType> dtype_of(int32_t data_type);

/// Tensors borrow raw data from `owner` (which keeps `t` alive) or from the mapped file. Messages
/// name the tensor.
Result<HostTensor> to_host(const wire::Tensor& t, const std::shared_ptr<const void>& owner,
                           ExternalData& external);
/// Expands to a dense tensor.
Result<HostTensor> to_host(const wire::SparseTensor& t, const std::shared_ptr<const void>& owner,
                           ExternalData& external);

}  // namespace reprise::onnx
