#include "codegen/compile/targets.h"

#include <algorithm>
#include <iterator>

namespace reprise {

namespace {

/// Those for devices with matrix units, the best first.
std::vector<lower::Target> matrix_targets(const lower::Target& halves) {
  // NVIDIA's and AMD's GPUs have matrices of this shape. matrix_sg8 has lavapipe's, which are
  // slower than its subgroup tiles.
  lower::Target matrix = halves;
  matrix.name = "vulkan-matrix";
  matrix.predicate.needs_subgroup_shuffle = true;
  matrix.predicate.subgroup_size = 32;
  matrix.predicate.matrices = {{16, 16, 16, kHalfMma}};
  matrix.predicate.shared_bytes = 32768;
  matrix.predicate.workgroup_invocations = 256;  // the largest cooperative tiles
  lower::Target matrix_bf16 = matrix;
  matrix_bf16.name = "vulkan-matrix-bf16";
  matrix_bf16.predicate.needs_float16 = matrix_bf16.predicate.needs_exact_halves = false;
  matrix_bf16.predicate.matrices = {{16, 16, 16, kBfloatMma}};
  lower::Target matrix_sg8 = matrix;
  matrix_sg8.name = "vulkan-matrix-sg8";
  matrix_sg8.predicate.subgroup_size = 8;
  matrix_sg8.predicate.matrices = {{8, 8, 8, kHalfMma}};
  matrix_sg8.on_request = true;
  lower::Target matrix_sg16 = matrix;  // of Intel GPUs since Xe2
  matrix_sg16.name = "vulkan-matrix-sg16";
  matrix_sg16.predicate.subgroup_size = 16;
  matrix_sg16.predicate.matrices = {{8, 16, 16, kHalfMma}};
  // Matrices that a workgroup of 256 holds together (VK_NV_cooperative_matrix2). No device has run
  // these kernels yet.
  lower::Target matrix_workgroup = matrix;
  matrix_workgroup.name = "vulkan-matrix-workgroup";
  matrix_workgroup.predicate.matrices = {{32, 128, 16, kHalfMma, MmaScope::Workgroup, 256}};
  matrix_workgroup.predicate.shared_bytes = 44U << 10U;  // and what such devices reserve
  matrix_workgroup.on_request = true;
  return {matrix_workgroup, matrix, matrix_sg16, matrix_bf16, matrix_sg8};
}

}  // namespace

std::vector<lower::Target> vulkan_targets() {
  lower::Target full;
  full.name = "vulkan-int64";
  full.predicate.needs_int64 = true;
  full.predicate.needs_storage8 = true;
  full.predicate.needs_storage16 = true;
  // Of models that compute halves; else it equals the one above.
  lower::Target halves = full;
  halves.name = "vulkan-float16";
  halves.predicate.needs_float16 = true;
  halves.predicate.needs_exact_halves = true;
  lower::Target small;
  small.name = "vulkan-baseline";
  lower::Target cpu = full;
  cpu.name = "vulkan-cpu-int64";
  cpu.predicate.cpu_type = true;
  cpu.loads_64_bits = true;
  lower::Target cpu_sg8 = cpu;
  cpu_sg8.name = "vulkan-cpu-sg8";
  cpu_sg8.predicate.needs_subgroup_shuffle = true;
  cpu_sg8.predicate.subgroup_size = 8;
  // llvmpipe's limit. The long form of row kernels needs large workgroups.
  cpu_sg8.predicate.workgroup_invocations = 1024;
  lower::Target cpu_slow = cpu_sg8;
  cpu_slow.name = "vulkan-cpu-sg8-slow-loads";
  cpu_slow.predicate.slow_loads = true;
  lower::Target cpu_small = small;
  cpu_small.name = "vulkan-cpu";
  cpu_small.predicate.cpu_type = true;
  // Of devices with Vulkan 1.1 and no buffer addresses, the Android Baseline Profile 2022 demands
  // 35 storage buffers; Adreno GPUs before it have 24. All kernels have another form, which default
  // packages do not carry.
  lower::Target descriptors = small;
  descriptors.name = "vulkan-descriptors";
  descriptors.predicate.storage_buffers = 16;
  descriptors.on_request = true;
  std::vector<lower::Target> out{cpu_slow, cpu_sg8, cpu, cpu_small};
  std::ranges::move(matrix_targets(halves), std::back_inserter(out));
  for (lower::Target* t : {&halves, &full, &small, &descriptors}) out.push_back(std::move(*t));
  return out;
}

lower::Target with_float64(lower::Target t) {
  t.name += "-float64";
  t.predicate.needs_float64 = true;
  return t;
}

void remove_split_products(lower::Target& t) {
  std::erase_if(t.predicate.matrices, [](const MmaConfig& m) { return m.types == kSplitMma; });
}

lower::Target cuda_target(const CudaArch& arch) {
  lower::Target t;
  t.name = "cuda-" + arch.str();
  Predicate& p = t.predicate;
  p.api = Api::Cuda;
  p.needs_int64 = p.needs_float16 = p.needs_float64 = p.needs_storage8 = p.needs_storage16 = true;
  p.needs_subgroup_arithmetic = p.needs_subgroup_shuffle = p.needs_subgroup_extended_types = true;
  p.subgroup_size = 32;
  p.matrices = CudaArch::matrices_of(arch.number, arch.specific);
  if (!arch.gains_by_split_products()) remove_split_products(t);
  p.workgroup_invocations = 1024;
  p.shared_bytes = CudaArch::shared_bytes_of(arch.number, arch.specific);
  p.cuda_arch = arch.str();
  return t;
}

namespace {

constexpr std::string_view kCuda = "cuda", kCudaPrefix = "cuda:";

Status unknown_target(const std::string& name) {
  std::string variants;
  for (const lower::Target& v : vulkan_targets()) variants.append(", ").append(v.name);
  return {Code::Usage, "there is no target '" + name +
                           "'; choose from vulkan, host, cuda:sm_80, cuda:sm_90 and so on (an "
                           "architecture's number), cuda:sm_90a (only for exactly that one), "
                           "cuda:compute_80 (PTX), or one of Vulkan's "
                           "variants" +
                           variants};
}

Result<CudaArch> parse_cuda(const std::string& name, const std::optional<DeviceFacts>& device) {
  if (name == kCuda) {
    if (device && device->api == Api::Cuda) return CudaArch{false, device->cuda_arch};
    return Status(Code::Usage,
                  "target 'cuda' needs the architectures of the devices: cuda:sm_80,cuda:sm_90");
  }
  const auto arch = CudaArch::parse(std::string_view(name).substr(kCudaPrefix.size()));
  if (!arch) return unknown_target(name);
  if (arch->number < CudaArch::kLeast) {
    return Status(Code::Unsupported,
                  "target '" + name + "': the least architecture is sm_" +
                      std::to_string(CudaArch::kLeast) +
                      " (compute capability 7.5, Turing): kernels take their parameters as "
                      "__grid_constant__, which begins with sm_70, and NVRTC 13 compiles for none "
                      "below sm_75; such GPUs run the model through Vulkan: --targets vulkan");
  }
  return *arch;
}

/// Cubins from the highest architecture down, one that is specific to it first, then PTX.
void sort_archs(std::vector<CudaArch>& archs) {
  std::sort(archs.begin(), archs.end(), [](const CudaArch& a, const CudaArch& b) {
    if (a.ptx != b.ptx) return b.ptx;
    return a.number != b.number ? a.number > b.number : a.specific && !b.specific;
  });
  archs.erase(std::unique(archs.begin(), archs.end()), archs.end());
}

}  // namespace

Result<std::vector<lower::Target>> parse_targets(const std::vector<std::string>& names,
                                                 const std::optional<DeviceFacts>& device, bool ptx,
                                                 const std::vector<lower::Target>& added) {
  const auto named = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  std::vector<lower::Target> own;
  for (const lower::Target& t : vulkan_targets()) {
    if (t.predicate.needs_int64) {
      own.push_back(with_float64(t));
      own.back().on_request = true;
    }
    own.push_back(t);
  }
  for (const lower::Target& t : added) {
    if (t.name.empty() || t.name == "vulkan" || t.name == "host" || t.name.starts_with(kCuda) ||
        std::ranges::find(own, t.name, &lower::Target::name) != own.end())
      return Status(Code::Usage, "an added target needs a name of its own, not '" + t.name + "'");
  }
  std::vector<lower::Target> out;
  std::ranges::copy_if(added, std::back_inserter(out),
                       [&](const auto& t) { return named(t.name); });
  const bool for_vulkan = device && device->api == Api::Vulkan;
  const bool no_addresses = for_vulkan && !device->buffer_address;
  for (const lower::Target& t : own) {
    const bool of_vulkan = !t.on_request || (no_addresses && t.predicate.storage_buffers != 0);
    if (!(named("vulkan") && of_vulkan) && !named(t.name)) continue;
    out.push_back(t);
    // A device that does not round exactly still gains by its matrix units.
    Predicate& p = out.back().predicate;
    if (for_vulkan && !device->exact_halves && !p.matrices.empty()) p.needs_exact_halves = false;
  }
  std::vector<CudaArch> archs;
  for (const std::string& name : names) {
    if (name == kCuda || name.starts_with(kCudaPrefix)) {
      RP_ASSIGN(const CudaArch arch, parse_cuda(name, device));
      archs.push_back(arch);
    } else if (name != "vulkan" && name != "host" &&
               std::none_of(out.begin(), out.end(),
                            [&](const auto& t) { return t.name == name; })) {
      return unknown_target(name);
    }
  }
  sort_archs(archs);
  if (ptx && !archs.empty() && !archs.back().ptx && !device)
    archs.push_back({true, archs.back().number});
  for (const CudaArch& arch : archs) out.push_back(cuda_target(arch));
  return out;
}

}  // namespace reprise
