#include "codegen/onnx/importer.h"

#include "codegen/onnx/file/tensor.h"
#include "codegen/onnx/import.h"

namespace reprise::onnx {

Result<std::unique_ptr<graph::Graph>> import_file(const std::string& path, const ImportOptions& o) {
  RP_ASSIGN(std::shared_ptr<const wire::Model> model, read_model(path, o.files));
  Import import(model, ExternalData(path, o.files), path, o);
  Result<std::unique_ptr<graph::Graph>> g = import.run();
  if (!g.ok() && g.status().message().find(" of " + path + " ") == std::string::npos) {
    return g.status().with_context(path);
  }
  return g;
}

Result<std::unique_ptr<graph::Graph>> import_bytes(std::span<const std::byte> bytes,
                                                   const ImportOptions& o) {
  RP_ASSIGN(std::shared_ptr<const wire::Model> model, parse_model(bytes));
  return Import(model, ExternalData(), "", o).run();
}

namespace {

Result<NamedTensor> named_tensor(const std::shared_ptr<const wire::Tensor>& tensor,
                                 ExternalData external) {
  if (tensor->has_segment()) {
    return unsupported(
        "holds a sequence, an optional or a segmented tensor; only whole tensors are supported");
  }
  RP_ASSIGN(HostTensor t, to_host(*tensor, tensor, external));
  return NamedTensor{tensor->name(), std::move(t)};
}

}  // namespace

Result<NamedTensor> read_tensor_file(const std::string& path) {
  RP_ASSIGN(const std::shared_ptr<const wire::Tensor> tensor, read_tensor(path));
  auto named = named_tensor(tensor, ExternalData(path));
  if (!named.ok()) return named.status().with_context(path);
  return named;
}

Result<NamedTensor> read_tensor_bytes(std::span<const std::byte> bytes) {
  RP_ASSIGN(const std::shared_ptr<const wire::Tensor> tensor, parse_tensor(bytes));
  return named_tensor(tensor, ExternalData());
}

}  // namespace reprise::onnx
