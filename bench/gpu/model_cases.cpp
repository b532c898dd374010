// Models in the layout of the ONNX suite: model.onnx, test_data_set_0/input_N.pb, output_N.pb.
#include <filesystem>

#include "bench/gpu/case.h"
#include "bench/gpu/references.h"
#include "codegen/onnx/importer.h"

namespace reprise::bench::gpu {
namespace {

namespace fs = std::filesystem;

Result<std::vector<onnx::NamedTensor>> read_all(const fs::path& folder, const std::string& stem) {
  std::vector<onnx::NamedTensor> out;
  for (int i = 0; fs::exists(folder / (stem + std::to_string(i) + ".pb")); ++i) {
    RP_ASSIGN(onnx::NamedTensor t,
              onnx::read_tensor_file(folder / (stem + std::to_string(i) + ".pb")));
    out.push_back(std::move(t));
  }
  return out;
}

/// Fills in the case from the test data. The error says why the case is skipped.
Status read_case(const fs::path& folder, Case& c) {
  if (!fs::exists(folder / "model.onnx"))
    return {Code::Io,
            "there is no " + (folder / "model.onnx").string() + "; --models names a folder"};
  RP_ASSIGN(auto inputs, read_all(folder / "test_data_set_0", "input_"));
  RP_ASSIGN(auto outputs, read_all(folder / "test_data_set_0", "output_"));
  if (inputs.empty() || outputs.empty())
    return {Code::Io, (folder / "test_data_set_0").string() + " has no inputs or no outputs"};
  Tensors values, expected;
  for (onnx::NamedTensor& t : inputs) {
    c.operands.push_back({t.name, t.tensor.dtype(), t.tensor.dims()});
    values.push_back(std::move(t.tensor));
  }
  for (onnx::NamedTensor& t : outputs) {
    c.outputs.push_back(t.tensor.dims());
    expected.push_back(std::move(t.tensor));
  }
  c.load = [values] { return Result<Tensors>(values); };
  c.expected = [expected](const Tensors&) { return whole(expected); };
  return {};
}

}  // namespace

Case model_case(const std::string& folder, const std::string& name, DType precision) {
  Case c{.name = name, .group = "model", .dtype = precision};
  const fs::path path = fs::path(folder) / name;
  const Status read = read_case(path, c);
  if (!read.ok()) {
    c.skip = read.message();
    return c;
  }
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const Operand& o : c.operands) shapes[o.name] = o.dims;
  c.package = [path, precision, shapes](const Tensors&, const DeviceInfo&,
                                        CompileOptions options) -> Result<PackagePtr> {
    options.precision = precision;
    options.shapes = shapes;
    RP_ASSIGN(package::Package p, compile_file(path / "model.onnx", options));
    return PackagePtr(std::make_shared<package::Package>(std::move(p)));
  };
  return c;
}

}  // namespace reprise::bench::gpu
