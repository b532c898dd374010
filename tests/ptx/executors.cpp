#include "tests/ptx/executors.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "codegen/compile/compiler.h"
#include "codegen/emit/cuda/cuda.h"
#include "codegen/graph/text/text.h"
#include "codegen/passes/pass.h"
#include "runtime/session/session.h"

namespace reprise::test {
namespace {

kernel::Kernel begun_early(kernel::Kernel k) {
  kernel::begin_early(k);
  return k;
}

Result<CudaOnCpu> on_cpu(const std::vector<kernel::Kernel>& kernels) {
  std::vector<CudaSource> sources;
  for (const kernel::Kernel& k : kernels) {
    RP_ASSIGN(std::string text, emit::cuda(k));
    sources.push_back({k.name, std::move(text), k.workgroup});
  }
  return CudaOnCpu::load(sources);
}

}  // namespace

Result<std::vector<HostTensor>> on_host(const graph::Graph& g,
                                        const std::vector<HostTensor>& inputs) {
  CompileOptions options;
  options.targets = {};
  RP_ASSIGN(package::Package package, compile(g.clone(), options));
  RP_ASSIGN(const auto session,
            Session::create(std::make_shared<package::Package>(std::move(package)), nullptr));
  std::vector<Binding> bindings(inputs.size());
  for (size_t n = 0; n < inputs.size(); ++n) {
    bindings[n].name = g.value(g.inputs[n]).name;
    bindings[n].host = &inputs[n];
  }
  return session->run(bindings);
}

Result<GraphOnHost> GraphOnHost::make(const GraphText& text) {
  GraphOnHost out;
  RP_ASSIGN(out.graph.g, graph::parse(text.text));
  out.graph.symbols = text.symbols;
  graph::Graph& g = *out.graph.g;
  out.graph.inputs.reserve(g.inputs.size());
  for (const graph::ValueId v : g.inputs) {
    const graph::Value& value = g.value(v);
    out.graph.inputs.push_back(
        text.values(value.name, value.dtype, dims_of(value.shape, text.symbols)));
  }
  RP_ASSIGN(out.expected, on_host(g, out.graph.inputs));
  for (const passes::Pass& p : passes::pipeline()) RP_TRY(passes::run(p, g));
  return out;
}

std::string Executors::disagreement(const GraphOnHost& host, const Lowering& lowered,
                                    const Differs& differs) const {
  const PtxGraph& graph = host.graph;
  for (const auto& [name, execute] : all_) {
    KernelRunner runner(*graph.g, graph.symbols, graph.inputs);
    for (const lower::Lowered& l : lowered) {
      const Status s = runner.run(l, execute);
      if (!s.ok()) return name + ": " + s.message();
    }
    const std::string wrong = differs(host.expected[0], runner.memory_of(graph.g->outputs[0]));
    if (!wrong.empty()) return name + ": " + wrong;
  }
  return "";
}

Result<Executors> Executors::load(const std::vector<kernel::Kernel>& kernels,
                                  ptx::Completion copies, CudaArch arch) {
  std::vector<kernel::Kernel> early;
  std::ranges::transform(kernels, std::back_inserter(early), begun_early);
  RP_ASSIGN(PtxModule loaded,
            PtxModule::load(early, {}, {true, std::max(arch.number, 90U), arch.specific}));
  loaded.options.copies = copies;
  const auto module = std::make_shared<const PtxModule>(std::move(loaded));
  const Execute as_ptx = [module](const kernel::Kernel& k, std::array<uint32_t, 3> grid,
                                  std::vector<std::span<std::byte>> buffers,
                                  std::vector<uint32_t> scalars) -> Status {
    uint32_t error = 0;
    RP_TRY(module->run(begun_early(k), grid, buffers, scalars, 1, error));
    return error == 0 ? Status() : internal_error("error word " + std::to_string(error));
  };
  const Execute interpreted = [](const kernel::Kernel& k, std::array<uint32_t, 3> grid,
                                 std::vector<std::span<std::byte>> buffers,
                                 std::vector<uint32_t> scalars) {
    return interpret(begun_early(k), grid, std::move(buffers), std::move(scalars));
  };
  Executors out;
  out.all_ = {{"the interpreter", interpreted}, {"PTX", as_ptx}};
  const auto has_roles = [](const kernel::Kernel& k) { return !k.roles.empty(); };
  if (std::ranges::any_of(kernels, has_roles)) return out;
  RP_ASSIGN(CudaOnCpu compiled, on_cpu(early));
  const auto cpu = std::make_shared<const CudaOnCpu>(std::move(compiled));
  const Execute as_text = [cpu](const kernel::Kernel& k, std::array<uint32_t, 3> grid,
                                std::vector<std::span<std::byte>> buffers,
                                std::vector<uint32_t> scalars) -> Status {
    return cuda_on_cpu(*cpu)(k, grid, std::move(buffers), std::move(scalars));
  };
  out.all_.push_back({"CUDA text", as_text});
  return out;
}

}  // namespace reprise::test
