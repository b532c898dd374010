#include "tests/primitives/lib/record.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "codegen/emit/cuda/cuda.h"
#include "codegen/nvrtc/cache.h"
#include "codegen/nvrtc/library.h"

namespace reprise::test {
namespace {

using Json = nlohmann::ordered_json;

Status write_bytes(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  return out.flush() ? Status() : Status(Code::Io, "cannot write " + path);
}

plan::KernelCode code_of(const kernel::Kernel& k) {
  const kernel::Requirements need = kernel::requirements(k);
  plan::KernelCode code;
  code.name = k.name;
  code.workgroup = k.workgroup;
  code.n_buffers = static_cast<uint32_t>(k.buffers.size());
  code.n_scalars = static_cast<uint32_t>(k.scalars.size());
  for (const kernel::View& v : k.views) code.views.push_back(v.tensor);
  code.shared_bytes = need.shared_bytes;
  code.subgroup_size = need.subgroup_size;
  code.early = need.early;
  return code;
}

/// Writes the files of primitives to a folder.
class Recorder {
 public:
  Recorder(std::string folder, CudaArch arch, const std::string& sources)
      : folder_(std::move(folder)),
        arch_(arch),
        sources_(sources),
        cache_(sources, uint64_t{256} << 20, [](const std::string&) {}) {}

  Status run() {
    const char* path = std::getenv("REPRISE_NVRTC");
    RP_ASSIGN(library_, nvrtc::Library::open(path != nullptr ? path : ""));
    Json list = Json::array();
    for (const Primitive& p : primitives()) {
      if (p.hopper && (!sources_.empty() || arch_.number != 90 || !arch_.specific)) continue;
      RP_TRY(one(p, list).with_context("primitive '" + p.name + "'"));
    }
    const std::string text = Json{{"arch", arch_.str()}, {"primitives", list}}.dump(1) + "\n";
    return write_bytes(folder_ + "/index.json", std::as_bytes(std::span(text)));
  }

 private:
  Result<std::string> data(std::span<const std::byte> bytes) {
    std::string name = std::to_string(files_++) + ".bin";
    RP_TRY(write_bytes(folder_ + "/" + name, bytes));
    return name;
  }

  Result<std::string> package(const Primitive& p, const std::string& text, bool early) {
    plan::KernelCode code = code_of(p.kernel);
    RP_ASSIGN(const nvrtc::Image image, nvrtc::compile_text(*library_, text, p.kernel.name, arch_));
    if (!sources_.empty()) cache_.put_source(image, text.substr(emit::cuda_prelude().size()));
    code.image = image.bytes;
    std::string name = std::to_string(files_++) + ".rpk";
    RP_TRY(package::write(package_of(p, std::move(code), arch_, early), folder_ + "/" + name));
    return name;
  }

  Status one(const Primitive& p, Json& list) {
    RP_ASSIGN(const std::string kernel, emit::cuda(p.kernel));
    const std::string text = emit::cuda_prelude() + kernel;
    const bool early = kernel::requirements(p.kernel).early;
    Json row{{"name", p.name}};
    RP_ASSIGN(row["package"], package(p, text, early));
    row["inputs"] = row["results"] = row["readings"] = Json::array();
    for (size_t n = 0; n < p.inputs; ++n) {
      RP_ASSIGN(const std::string file, data(p.launch.buffers[n]));
      row["inputs"].push_back(file);
    }
    RP_ASSIGN(const auto results, executed(p, {true, arch_.number, arch_.specific}));
    for (const auto& bytes : results) {
      RP_ASSIGN(const std::string file, data(bytes));
      row["results"].push_back(file);
    }
    for (const Reading& reading : p.readings) {
      if (!sources_.empty()) break;  // readings are of assembly
      RP_ASSIGN(const std::string other, read_as(text, reading));
      RP_ASSIGN(const std::string file, package(p, other, early));
      row["readings"].push_back({{"name", reading.name}, {"package", file}});
    }
    if (early) {
      RP_ASSIGN(const std::string file, package(p, text, false));
      row["readings"].push_back({{"name", "launches that do not overlap"}, {"package", file}});
    }
    list.push_back(std::move(row));
    return {};
  }

  std::string folder_;
  CudaArch arch_;
  std::string sources_;
  nvrtc::ImageCache cache_;
  std::shared_ptr<const nvrtc::Library> library_;
  size_t files_ = 0;
};

}  // namespace

Result<std::vector<std::vector<std::byte>>> executed(const Primitive& p, CudaArch arch) {
  RP_ASSIGN(const PtxModule module, PtxModule::load(std::span(&p.kernel, 1), {}, arch));
  return executed(p, module);
}

Result<std::vector<std::vector<std::byte>>> executed(const Primitive& p, const PtxModule& module) {
  Launch launch = p.launch;
  for (size_t n = 0; n < p.repeats; ++n) {
    if (n > 0) std::swap(launch.buffers[0], launch.buffers[1]);
    RP_TRY(module.run(p.kernel, launch));
  }
  launch.buffers.erase(launch.buffers.begin(),
                       launch.buffers.begin() + static_cast<std::ptrdiff_t>(p.inputs));
  return std::move(launch.buffers);
}

package::Package package_of(const Primitive& p, plan::KernelCode code, CudaArch arch, bool early) {
  package::Package out;
  package::Variant v;
  v.name = "cuda-" + arch.str();
  v.predicate.api = Api::Cuda;
  v.predicate.cuda_arch = arch.str();
  code.early = early;
  v.plan.kernels.push_back(std::move(code));
  const auto add = [&](const std::string& name, plan::BufferKind kind, size_t index, size_t bytes) {
    const auto at = kind == plan::BufferKind::Arena ? -1 : static_cast<int32_t>(index);
    return v.plan.buffers.push_back(
        {name, kind, at, DType::U8, {Expr(static_cast<int64_t>(bytes))}});
  };
  std::vector<plan::BufferId> buffers;
  for (size_t n = 0; n < p.launch.buffers.size(); ++n) {
    const bool in = n < p.inputs;
    const size_t bytes = p.launch.buffers[n].size(), index = in ? n : n - p.inputs;
    const std::string name = (in ? "x" : "y") + std::to_string(index);
    const plan::Slot slot{name, DType::U8, {Expr(static_cast<int64_t>(bytes))}};
    (in ? out.io.inputs : out.io.outputs).push_back(slot);
    buffers.push_back(
        add(name, in ? plan::BufferKind::Input : plan::BufferKind::Output, index, bytes));
  }
  for (size_t n = 0; n < p.repeats; ++n) {
    plan::Launch launch;
    for (size_t d = 0; d < 3; ++d) launch.grid[d] = Expr(int64_t{p.launch.grid[d]});
    launch.buffers = buffers;
    const bool last = n + 1 == p.repeats;
    if (!last)
      launch.buffers[1] =
          add("t" + std::to_string(n), plan::BufferKind::Arena, 0, p.launch.buffers[1].size());
    if (!last) buffers[0] = launch.buffers[1];
    for (size_t i = 0; i < launch.buffers.size(); ++i) launch.writes.push_back(i >= p.inputs);
    for (const uint32_t s : p.launch.scalars)
      launch.scalars.emplace_back(int64_t{static_cast<int32_t>(s)});
    launch.nodes = {p.name};
    v.plan.steps.push_back({launch, {}, 0});
  }
  // Packages have a plan for the host, which nobody asks for here.
  plan::HostCall nothing;
  nothing.op = "OnlyOnDevices";
  for (const plan::BufferId b : v.plan.buffers.ids()) {
    const plan::Buffer& buffer = v.plan.buffers[b];
    if (buffer.kind == plan::BufferKind::Arena) continue;
    const plan::BufferId same = out.host_plan.buffers.push_back(buffer);
    (buffer.kind == plan::BufferKind::Input ? nothing.inputs : nothing.outputs).push_back(same);
  }
  out.host_plan.steps.push_back({nothing, {}, 0});
  plan::compute_hazards(v.plan);
  out.variants.push_back(std::move(v));
  return out;
}

Status record(const std::string& folder, CudaArch arch, const std::string& sources) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) return {Code::Io, "cannot make " + folder + ": " + failed.message()};
  return Recorder(folder, arch, sources).run();
}

}  // namespace reprise::test
