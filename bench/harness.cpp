#include "bench/harness.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <span>
#include <thread>

#include "apps/common/devices.h"
#include "codegen/emit/cuda/cuda.h"
#include "codegen/emit/spirv/spirv.h"
#include "codegen/nvrtc/images.h"
#include "codegen/onnx/importer.h"
#include "runtime/base/timing.h"
#include "runtime/facts/cuda_arch.h"
#include "tests/support/onnx_writer.h"

namespace reprise::bench {

namespace {

Shape shape_of(const std::vector<int64_t>& dims) {
  return {dims.begin(), dims.end()};
}

/// Device buffers for every input (filled) and output of a static interface.
struct Bound {
  std::vector<std::unique_ptr<DeviceBuffer>> buffers;
  std::vector<Binding> inputs, outputs;
};

Result<Bound> bind(const plan::Interface& io, Device& device) {
  Bound bound;
  const auto add = [&](const plan::Slot& slot, std::vector<Binding>& to, bool fill) -> Status {
    const std::vector<int64_t> dims = static_dims(slot.shape);
    const HostTensor values = test::float_tensor(dims);
    RP_ASSIGN(std::unique_ptr<DeviceBuffer> buffer,
              device.allocate((values.bytes().size() + 15) / 16 * 16, MemoryUse::Device));
    if (fill) RP_TRY(device.upload(*buffer, 0, values.bytes()));
    Binding b;
    b.name = slot.name;
    b.device = buffer.get();
    b.dims = dims;
    to.push_back(std::move(b));
    bound.buffers.push_back(std::move(buffer));
    return {};
  };
  for (const plan::Slot& slot : io.inputs) RP_TRY(add(slot, bound.inputs, true));
  for (const plan::Slot& slot : io.outputs) RP_TRY(add(slot, bound.outputs, false));
  return bound;
}

Result<plan::KernelCode> code_of(const kernel::Kernel& k, bool wide, Api api) {
  const kernel::Requirements need = kernel::requirements(k);
  plan::KernelCode code;
  code.name = k.name;
  code.workgroup = k.workgroup;
  code.n_buffers = static_cast<uint32_t>(k.buffers.size());
  code.n_scalars = static_cast<uint32_t>(k.scalars.size());
  code.shared_bytes = need.shared_bytes;
  code.subgroup_size = need.subgroup_size;
  if (api == Api::Cuda) {
    RP_ASSIGN(code.cuda, emit::cuda(k));
    return code;
  }
  emit::SpirvOptions options;
  options.loads_64_bits = wide;
  RP_ASSIGN(code.spirv, emit::spirv(k, options));
  return code;
}

}  // namespace

CompileOptions options_for(const DeviceInfo& device) {
  CompileOptions options;
  options.device = device.facts;
  options.targets = {device.facts.api == Api::Cuda ? "cuda" : "vulkan"};
  if (device.facts.api == Api::Cuda) options.cuda_driver = device.driver_version;
  if (const char* path = std::getenv("REPRISE_NVRTC")) options.nvrtc = path;
  options.cuda_cache_dir = app::cuda_cache_dir();
  options.keep_source = true;  // for profilers
  return options;
}

Result<PackagePtr> compile_model(const std::string& onnx, const CompileOptions& options) {
  RP_ASSIGN(auto graph, onnx::import_bytes(std::as_bytes(std::span(onnx))));
  RP_ASSIGN(package::Package p, compile(std::move(graph), options));
  return PackagePtr(std::make_shared<package::Package>(std::move(p)));
}

Result<PackagePtr> Request::compile(const std::string& onnx,
                                    const std::vector<std::string>& disabled_passes) const {
  CompileOptions options = options_for(device->info());
  options.disabled_passes = disabled_passes;
  return compile_model(onnx, options);
}

Result<PackagePtr> chain_package(const ChainSpec& spec, const DeviceInfo& device) {
  auto p = std::make_shared<package::Package>();
  package::Variant v;
  v.name = "bench";
  v.predicate.api = device.facts.api;
  plan::Plan& plan = v.plan;
  RP_ASSIGN(plan::KernelCode code, code_of(spec.kernel, spec.wide, device.facts.api));
  plan.kernels.push_back(std::move(code));
  const auto add_buffer = [&plan](plan::Buffer b) { return plan.buffers.push_back(std::move(b)); };
  std::vector<plan::BufferId> reads;
  for (const std::vector<int64_t>& dims : spec.inputs) {
    const auto index = static_cast<int32_t>(p->io.inputs.size());
    const std::string name = "x" + std::to_string(index);
    p->io.inputs.push_back({name, DType::F32, shape_of(dims)});
    reads.push_back(add_buffer({name, plan::BufferKind::Input, index, DType::F32, shape_of(dims)}));
  }
  p->io.outputs.push_back({"y", DType::F32, shape_of(spec.output)});
  const plan::BufferId y =
      add_buffer({"y", plan::BufferKind::Output, 0, DType::F32, shape_of(spec.output)});
  for (size_t i = 0; i < spec.launches; ++i) {
    const std::string name = "t" + std::to_string(i);
    const plan::BufferId to =
        i + 1 == spec.launches
            ? y
            : add_buffer({name, plan::BufferKind::Arena, -1, DType::F32, shape_of(spec.output)});
    plan::Launch launch;
    launch.grid = {Expr(spec.grid[0]), Expr(spec.grid[1]), Expr(spec.grid[2])};
    launch.buffers = reads;
    launch.buffers.push_back(to);
    launch.writes.assign(launch.buffers.size(), false);
    launch.writes.back() = true;
    launch.nodes = {"launch" + std::to_string(i)};
    plan::Step step;
    step.what = std::move(launch);
    plan.steps.push_back(std::move(step));
    reads[0] = to;
  }
  plan::compute_hazards(plan);
  p->variants.push_back(std::move(v));
  if (device.facts.api == Api::Cuda) {
    p->variants[0].predicate.cuda_arch = CudaArch{false, device.facts.cuda_arch}.str();
    ImageReport made;
    RP_TRY(nvrtc::compile_images(p->variants, options_for(device), made));
  }
  return PackagePtr(std::move(p));
}

namespace {

/// A session with its buffers, and the times of its runs.
struct Contender {
  std::unique_ptr<Session> session;
  Bound bound;
  std::vector<double> total_ms, submit_us, device_ms;
};

Result<std::vector<Contender>> prepare(const std::vector<PackagePtr>& packages,
                                       const std::shared_ptr<Device>& device, bool timestamps) {
  std::vector<Contender> all;
  SessionOptions options;
  options.timestamps = timestamps;
  for (const PackagePtr& package : packages) {
    Contender c;
    RP_ASSIGN(c.session, Session::create(package, device, options));
    RP_ASSIGN(c.bound, bind(c.session->io(), *device));
    all.push_back(std::move(c));
  }
  return all;
}

Status run_in_turn(std::vector<Contender>& all, int warmup, int runs,
                   std::chrono::microseconds pause) {
  for (int i = -warmup; i < runs; ++i) {
    for (Contender& c : all) {
      RunStats stats;
      if (pause.count() > 0) std::this_thread::sleep_for(pause);
      const double start = now_ms();
      RP_TRY(c.session->run(c.bound.inputs, c.bound.outputs, &stats).status());
      if (i < 0) continue;
      c.total_ms.push_back(now_ms() - start);
      c.submit_us.push_back(stats.host_submit_us);
      c.device_ms.push_back(std::accumulate(stats.kernel_us.begin(), stats.kernel_us.end(), 0.0) /
                            1000);
    }
  }
  return {};
}

int64_t count_launches(const plan::Plan& plan) {
  return std::count_if(plan.steps.begin(), plan.steps.end(), [](const plan::Step& s) {
    return std::holds_alternative<plan::Launch>(s.what);
  });
}

}  // namespace

Result<std::vector<Timing>> time_packages(const std::vector<PackagePtr>& packages,
                                          const std::shared_ptr<Device>& device, int runs,
                                          std::chrono::microseconds pause) {
  std::vector<Timing> out(packages.size());
  {
    RP_ASSIGN(std::vector<Contender> all, prepare(packages, device, false));
    RP_TRY(run_in_turn(all, 3, runs, pause));
    for (size_t i = 0; i < all.size(); ++i) {
      out[i].best_ms = *std::min_element(all[i].total_ms.begin(), all[i].total_ms.end());
      out[i].median_ms = median(std::move(all[i].total_ms));
      out[i].submit_us = median(std::move(all[i].submit_us));
      out[i].launches = count_launches(all[i].session->plan());
    }
  }
  // Device times are measured in separate sessions, because timestamps take time.
  RP_ASSIGN(std::vector<Contender> all, prepare(packages, device, true));
  RP_TRY(run_in_turn(all, 2, std::min(runs, 10), {}));
  for (size_t i = 0; i < all.size(); ++i) out[i].device_ms = median(std::move(all[i].device_ms));
  return out;
}

}  // namespace reprise::bench
