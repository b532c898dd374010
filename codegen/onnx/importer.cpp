#include "codegen/onnx/importer.h"

#include <filesystem>

#include "codegen/onnx/builder.h"

namespace reprise::onnx {

Result<std::unique_ptr<graph::Graph>> import_file(const std::string& path, const ImportOptions& o) {
  RP_ASSIGN(std::shared_ptr<const wire::Model> model, read_model(path));
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  Builder builder(std::move(model), ExternalData(std::move(folder)), path, o);
  Result<std::unique_ptr<graph::Graph>> g = builder.run();
  if (!g.ok() && g.status().message().find(" of " + path + " ") == std::string::npos) {
    return g.status().with_context(path);
  }
  return g;
}

Result<std::unique_ptr<graph::Graph>> import_bytes(std::span<const std::byte> bytes,
                                                   const ImportOptions& o) {
  RP_ASSIGN(std::shared_ptr<const wire::Model> model, parse_model(bytes));
  return Builder(std::move(model), ExternalData(), "", o).run();
}

Result<NamedTensor> read_tensor_file(const std::string& path) {
  RP_ASSIGN(std::shared_ptr<const wire::Tensor> tensor, read_tensor(path));
  if (tensor->has_segment()) {
    return unsupported(path +
                       ": holds a sequence, an optional or a segmented tensor; only whole tensors "
                       "are supported");
  }
  std::string folder = std::filesystem::path(path).parent_path().string();
  ExternalData external(folder.empty() ? "." : std::move(folder));
  Result<HostTensor> t = to_host(*tensor, tensor, external);
  if (!t.ok()) return t.status().with_context(path);
  return NamedTensor{tensor->name(), *std::move(t)};
}

}  // namespace reprise::onnx
