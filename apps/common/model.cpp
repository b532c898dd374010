#include "apps/common/model.h"

#include <filesystem>

#include "apps/common/status.h"
#include "apps/common/waiting.h"
#include "runtime/base/timing.h"
#include "runtime/platform/path.h"

namespace reprise::app {

DType Model::computes_in() const {
  DType least = precision();
  if (least != DType::F32) return least;
  for (const plan::Buffer& b : package->host_plan.buffers) {
    const bool between = b.kind == plan::BufferKind::Arena || b.kind == plan::BufferKind::Growable;
    if (!between) continue;
    if (b.dtype == DType::BF16 || (b.dtype == DType::F16 && least == DType::F32)) least = b.dtype;
  }
  return least;
}

Status check_model_file(const std::string& path) {
  const std::filesystem::path file = utf8_path(path);
  if (std::filesystem::is_regular_file(file)) return {};
  const char* why = "no such file";
  if (std::filesystem::exists(file)) why = "it is not a regular file";
  if (std::filesystem::is_regular_file(file / "model.onnx"))
    why = "it is a folder; name the model.onnx in it";
  return {Code::Io, "cannot read model '" + path + "': " + why};
}

void show_notes(const package::Package& package) {
  for (const std::string& text : package.explanation.notes) note(text);
}

Result<Model> load_model(const std::string& path, const CompileOptions& options) {
  Model m;
  m.path = path;
  RP_TRY(check_model_file(path));
  const double start = now_ms();
  if (utf8_path(path).extension() == ".rpk") {
    RP_ASSIGN(m.package, package::read(path));
    m.read_ms = now_ms() - start;
    return m;
  }
  const Waiting waiting("the compiler, for '" + path + "'");
  RP_ASSIGN(package::Package compiled, compile_file(path, options, &m.report));
  m.package = std::make_shared<package::Package>(std::move(compiled));
  m.compiled = true;
  m.compile_ms = now_ms() - start;
  show_notes(*m.package);
  return m;
}

Result<Model> load_supported(const std::string& path, const CompileOptions& options) {
  Model m;
  m.path = path;
  RP_TRY(check_model_file(path));
  RP_ASSIGN(package::Package compiled, compile_supported(path, options, m.report));
  m.package = std::make_shared<package::Package>(std::move(compiled));
  m.compiled = true;
  show_notes(*m.package);
  return m;
}

std::vector<std::string> targets_for(const OpenedDevice& device) {
  if (!device.device) return {"host"};
  const DeviceFacts& facts = device.info.facts;
  if (facts.api == Api::Vulkan && !facts.buffer_address) return {"vulkan-descriptors"};
  return {device.info.id.substr(0, device.info.id.find(':'))};
}

}  // namespace reprise::app
