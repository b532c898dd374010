#include "apps/common/model.h"

#include <filesystem>

#include "apps/common/status.h"
#include "apps/common/waiting.h"
#include "codegen/builder/graph_builder.h"
#include "codegen/compile/compile_model.h"
#include "codegen/families/decoder.h"
#include "codegen/families/model_graph.h"
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

Result<package::Package> compile_language_model(const std::string& path,
                                                const CompileOptions& options,
                                                CompileReport* report) {
  RP_ASSIGN(const builder::BuiltGraph built, families::build_model(path));
  CompileOptions own = generating_options(options);
  if (own.plans.kind == PlanChoice::Kind::Automatic) {
    constexpr int64_t kFew = 16;
    own.plans.kind = PlanChoice::Kind::Given;
    own.plans.plans = {{{"sequence", {1, 1}}}, {{"sequence", {2, kFew}}}};
  }
  auto compiled = compile_built(built, own, report);
  if (!compiled.ok()) return compiled.status().with_context(path);
  return compiled;
}

namespace {

/// A .gguf or a folder. Its package is one that generates.
Result<Model> compile_decoder(const std::string& path, const CompileOptions& options) {
  Model m;
  m.path = path;
  const double start = now_ms();
  const Waiting waiting("the compiler, for '" + path + "'");
  RP_ASSIGN(package::Package compiled, compile_language_model(path, options, &m.report));
  m.package = std::make_shared<package::Package>(std::move(compiled));
  m.compiled = true;
  m.compile_ms = now_ms() - start;
  show_notes(*m.package);
  return m;
}

}  // namespace

CompileOptions generating_options(CompileOptions options) {
  if (options.grow_states == "none") options.grow_states = "auto";
  if (options.last.empty()) options.last = {{.output = "logits"}};
  if (!options.sample) options.sample = {.output = "logits", .keeps_logits = false};
  return options;
}

Result<Model> load_model(const std::string& path, const CompileOptions& options) {
  if (families::is_decoder(path)) return compile_decoder(path, options);
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
