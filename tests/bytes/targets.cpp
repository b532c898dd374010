#include "tests/bytes/targets.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "apps/common/inputs.h"
#include "apps/common/npy.h"
#include "codegen/compile/compiler.h"
#include "codegen/graph/graph.h"
#include "codegen/onnx/importer.h"
#include "runtime/run/session_io.h"
#include "runtime/session/session.h"
#include "tests/bytes/format_targets.h"
#include "tests/bytes/mutators.h"
#ifdef REPRISE_HAVE_TEXT
#include "tests/bytes/text_targets.h"
#endif

namespace reprise::test {
namespace {

using Bytes = std::span<const std::byte>;

// What is accepted is executed if it is this small: a fuzzer looks for faults, not for patience.
constexpr int64_t kMaxElements = 1 << 12;
constexpr size_t kMaxSteps = 64;
constexpr int64_t kSymbolSize = 2;
constexpr uint64_t kTimeout = 200'000'000;

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Sizes for the symbols of an interface: small ones, within their ranges.
std::vector<int64_t> sizes_of(const plan::Interface& io) {
  std::vector<int64_t> sizes;
  for (const Symbol& s : io.symbols)
    sizes.push_back(std::clamp(kSymbolSize, s.min, std::max(s.min, s.max)));
  return sizes;
}

bool is_small(const Shape& shape, const std::vector<int64_t>& sizes) {
  int64_t count = 1;
  for (const Expr& e : shape) {
    const auto dim = e.eval(sizes);
    if (!dim.ok() || *dim < 0 || *dim > kMaxElements) return false;
    count *= *dim;
    if (count > kMaxElements) return false;
  }
  return true;
}

bool is_small(const package::Package& p) {
  const std::vector<int64_t> sizes = sizes_of(p.io);
  const auto& buffers = p.host_plan.buffers;
  return p.host_plan.steps.size() <= kMaxSteps &&
         std::all_of(buffers.begin(), buffers.end(),
                     [&](const plan::Buffer& b) { return is_small(b.shape, sizes); });
}

/// Runs the host plan on made-up inputs. Errors are fine; faults are for the sanitizers.
std::string execute(const std::shared_ptr<const package::Package>& p) {
  if (!is_small(*p)) return {};
  SessionOptions options;
  options.timeout_ns = kTimeout;  // loops may have no end
  auto session = Session::create(p, nullptr, options);
  if (!session.ok()) return {};
  app::InputSources sources;
  const std::vector<int64_t> sizes = sizes_of(p->io);
  for (const plan::Slot& slot : p->io.inputs) {
    app::Dims dims;
    for (const Expr& e : slot.shape) dims.push_back(*e.eval(sizes));
    sources.shapes[slot.name] = dims;
  }
  std::vector<std::string> notes;
  auto inputs = app::make_inputs(p->io, sources, notes);
  if (!inputs.ok()) return {};
  auto outputs = (*session)->run(inputs->bindings());
  if (!outputs.ok()) return outputs.status().message().empty() ? "an error without a message" : "";
  return outputs->size() == p->io.outputs.size() ? "" : "the run gave too few outputs";
}

/// Compiles for the host and runs it. Small graphs are also compiled for a device, but only one in
/// eight, as that takes most of the time. A graph that an importer made is valid, so that internal
/// errors are faults.
std::string compile_and_run(std::unique_ptr<graph::Graph> g, Bytes source, bool imported) {
  CompileOptions options;
  options.targets = {};
  const bool for_device = std::hash<std::string_view>{}(text_of(source)) % 8 == 0;
  if (for_device && g->nodes().size() <= 8) options.targets = {"vulkan-baseline"};
  options.verify_passes = true;
  auto package = compile(std::move(g), options);
  if (package.ok()) return execute(std::make_shared<package::Package>(std::move(*package)));
  if (imported && package.status().code() == Code::Internal) return package.status().message();
  return package.status().message().empty() ? "an error without a message" : "";
}

std::string run_onnx(Bytes bytes) {
  auto g = onnx::import_bytes(bytes);
  if (!g.ok()) return g.status().message().empty() ? "an error without a message" : "";
  if (const Status s = graph::verify(**g, false); !s.ok()) return "imported: " + s.message();
  return compile_and_run(std::move(*g), bytes, true);
}

std::string run_tensor(Bytes bytes) {
  const auto t = onnx::read_tensor_bytes(bytes);
  if (!t.ok()) return t.status().message().empty() ? "an error without a message" : "";
  const bool whole = t->tensor.dtype() == DType::String ||
                     t->tensor.bytes().size() ==
                         static_cast<size_t>(t->tensor.count()) * size_of(t->tensor.dtype());
  return whole ? "" : "a tensor has not the bytes of its shape";
}

/// A sequence, an optional or a map: whatever the bytes are read as.
std::string run_value(Bytes bytes) {
  for (const char* name :
       {"seq(float32)", "optional(string)", "optional(seq(int64))", "map(int64,float32)",
        "map(string,string)", "seq(map(string,float32))"}) {
    const DType type = *dtype_from_name(name);
    const auto v = onnx::read_value_bytes(bytes, type);
    if (!v.ok() && v.status().message().empty()) return "an error without a message";
    if (v.ok() && v->tensor.dtype() != type) return "a value of another type";
    if (v.ok() && !check_items(v->tensor).ok()) return "a value whose items are of another type";
  }
  return {};
}

std::string run_package(Bytes bytes) {
  const std::string sealed = with_checksums(std::string(text_of(bytes)));
  const auto owner = std::make_shared<std::string>(sealed);
  auto p = package::read_memory(std::as_bytes(std::span(*owner)), owner);
  if (!p.ok()) return p.status().message().empty() ? "an error without a message" : "";
  for (const package::Variant& v : (*p)->variants) {
    const auto code = package::load_kernels(**p, v);
    if (!code.ok() && code.status().message().empty()) return "an error without a message";
  }
  return execute(*p);
}

/// Text that is read prints as text that reads the same.
std::string run_graph(Bytes bytes) {
  auto g = graph::parse(std::string(text_of(bytes)));
  if (!g.ok()) return g.status().message().empty() ? "an error without a message" : "";
  graph::ConstantPool pool;
  const std::string text = graph::print(**g, &pool);
  auto back = graph::parse(text, &pool);
  if (!back.ok()) return "printed text is refused: " + back.status().message() + "\n" + text;
  if (graph::print(**back) != graph::print(**g)) return "printed text reads as another graph";
  if (!graph::verify(**g, false).ok()) return {};
  return compile_and_run(std::move(*g), bytes, false);
}

std::string run_npy(Bytes bytes) {
  const auto t = app::parse_npy(bytes);
  if (!t.ok()) return t.status().message().empty() ? "an error without a message" : "";
  const std::string written = app::format_npy(*t);
  const auto back = app::parse_npy(std::as_bytes(std::span(written)));
  if (!back.ok()) return "a written file is refused: " + back.status().message();
  const bool same = back->dims() == t->dims() && back->dtype() == t->dtype() &&
                    std::ranges::equal(back->bytes(), t->bytes());
  return same ? "" : "a written file reads as another tensor";
}

constexpr ByteTarget kTargets[] = {
    {"onnx", run_onnx, mutate_protobuf},
    {"tensor", run_tensor, mutate_protobuf},
    {"package", run_package, mutate_package},
    {"graph", run_graph, mutate_text},
    {"npy", run_npy, mutate_bytes},
    {"value", run_value, mutate_protobuf},
    {"blocks", run_blocks, mutate_bytes},
    {"safetensors", run_safetensors, mutate_bytes},
#ifdef REPRISE_HAVE_TEXT
    {"json", run_json, mutate_text},
    {"gguf", run_gguf, mutate_bytes},
    {"tokenizer", run_tokenizer, mutate_text},
    {"template", run_template, mutate_text},
#endif
};

}  // namespace

std::span<const ByteTarget> byte_targets() {
  return kTargets;
}

const ByteTarget* find_byte_target(const std::string& name) {
  const auto* at = std::find_if(std::begin(kTargets), std::end(kTargets),
                                [&](const ByteTarget& t) { return t.name == name; });
  return at == std::end(kTargets) ? nullptr : at;
}

}  // namespace reprise::test
