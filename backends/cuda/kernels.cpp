// Creates kernels. Images are loaded in parallel, because the driver compiles PTX images.
#include "backends/cuda/kernels.h"

#include <cstring>

#include "runtime/base/cuda_entry.h"
#include "runtime/plan/block_layout.h"

namespace reprise::cuda {
namespace {

std::string advice(CUresult r, const std::string& arch) {
  switch (r) {
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_IMAGE:
      return "; the image is not for this GPU: compile the model with --targets cuda:" + arch;
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_INVALID_PTX:
      return "; the driver does not understand this PTX: update the driver, or compile the model "
             "with --targets cuda:" +
             arch + " or an older NVRTC";
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
      return "; the driver's compiler for PTX (libnvidia-ptxjitcompiler) is not installed: install "
             "it, or compile the model with --targets cuda:" +
             arch;
    case CUDA_ERROR_JIT_COMPILATION_DISABLED:
      return "; the driver is not allowed to compile PTX (CUDA_DISABLE_PTX_JIT or CUDA_DISABLE_JIT "
             "is set): unset that variable, or compile the model with --targets cuda:" +
             arch;
    default:
      return "";
  }
}

uint64_t block_bytes_of(const plan::KernelCode& code) {
  return plan::BlockLayout::size(code.n_buffers, code.n_scalars, code.views.size());
}

Status check_block(const Driver& d, const plan::KernelCode& code) {
  constexpr uint64_t kAlways = 4096, kMost = 32764;  // bytes of parameters
  constexpr int kForMore = 12010;
  const uint64_t bytes = block_bytes_of(code);
  const std::string needs = "its parameters take " + std::to_string(bytes) + " bytes, ";
  if (bytes > kMost) return unsupported(needs + "but CUDA allows " + std::to_string(kMost));
  if (bytes <= kAlways || d.library->version() >= kForMore) return {};
  return unsupported(needs + "which needs a driver for CUDA " + version_text(kForMore) +
                     " or later; this one supports CUDA " + version_text(d.library->version()) +
                     ": update the NVIDIA driver");
}

Status check_code(const Driver& d, const plan::KernelCode& code) {
  const DeviceFacts& f = d.info.facts;
  const std::string subject = "kernel '" + code.name + "'";
  if (code.image.empty()) {
    return invalid_model(subject + " has no CUDA image; compile the model with --targets cuda:sm_" +
                         std::to_string(f.cuda_arch));
  }
  const uint64_t invocations = uint64_t{code.workgroup[0]} * code.workgroup[1] * code.workgroup[2];
  if (invocations > f.max_workgroup_invocations) {
    return unsupported(subject + " needs workgroups of " + std::to_string(invocations) +
                       " invocations, " + d.info.id + " allows " +
                       std::to_string(f.max_workgroup_invocations));
  }
  if (code.shared_bytes > f.max_shared_bytes) {
    return unsupported(subject + " needs " + std::to_string(code.shared_bytes) +
                       " bytes of shared memory, " + d.info.id + " has " +
                       std::to_string(f.max_shared_bytes));
  }
  if (code.subgroup_size != 0 && code.subgroup_size != f.subgroup_size) {
    return unsupported(subject + " needs subgroups of " + std::to_string(code.subgroup_size) +
                       ", " + d.info.id + " has " + std::to_string(f.subgroup_size));
  }
  return check_block(d, code).with_context(subject);
}

Result<OwnedModule> load_module(const std::shared_ptr<Driver>& d, const plan::KernelCode& code) {
  std::array<char, 2048> log{};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size() - 1)};
  CUmodule module = nullptr;
  const CUresult r = d->fn().cuModuleLoadDataEx(&module, code.image.data(), 2, options, values);
  if (r == CUDA_SUCCESS) return OwnedModule(d, module);
  const Status failed = d->check(r, "cuModuleLoadDataEx");
  const std::string driver_log = log[0] != 0 ? std::string("; the driver says: ") + log.data() : "";
  return Status(failed.code(), "kernel '" + code.name + "': " + failed.message() + driver_log +
                                   advice(r, "sm_" + std::to_string(d->info.facts.cuda_arch)));
}

// A launch passes one block. A kernel that takes more parameters would read beyond the block.
Status check_parameters(Driver& d, CUfunction function, uint64_t block_bytes) {
  const auto info = d.fn().cuFuncGetParamInfo;
  for (size_t i = 0; info && i < 2; ++i) {
    size_t offset = 0, bytes = 0;
    const CUresult r = info(function, i, &offset, &bytes);
    if (r == CUDA_ERROR_INVALID_VALUE) break;  // there is no such parameter
    RP_TRY(d.check(r, "cuFuncGetParamInfo"));
    if (i == 0 && bytes <= block_bytes) continue;
    const std::string takes =
        i > 0 ? "more than one parameter" : std::to_string(bytes) + " bytes of parameters";
    return invalid_model("its image takes " + takes + ", a launch gives one block of " +
                         std::to_string(block_bytes) + " bytes");
  }
  return {};
}

/// Lets launches give the function its shared memory.
Status allow_shared(Driver& d, CUfunction function, uint32_t bytes) {
  if (bytes == 0) return {};
  return d.check(
      d.fn().cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                static_cast<int>(bytes)),
      "cuFuncSetAttribute");
}

}  // namespace

Result<std::unique_ptr<CudaKernel>> CudaKernel::create(const std::shared_ptr<Driver>& driver,
                                                       const plan::KernelCode& code) {
  RP_TRY(check_code(*driver, code));
  RP_CUDA_SCOPE(*driver);
  auto kernel = std::make_unique<CudaKernel>();
  RP_ASSIGN(kernel->module_, load_module(driver, code));
  const Table& fn = driver->fn();
  const std::string subject = "kernel '" + code.name + "'";
  RP_TRY(driver
             ->check(fn.cuModuleGetFunction(&kernel->function_, kernel->module_.get(),
                                            cuda_entry(code.name).c_str()),
                     "cuModuleGetFunction")
             .with_context(subject));
  kernel->block_bytes_ = block_bytes_of(code);
  RP_TRY(check_parameters(*driver, kernel->function_, kernel->block_bytes_).with_context(subject));
  int threads = 0;
  RP_TRY(driver
             ->check(fn.cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                                           kernel->function_),
                     "cuFuncGetAttribute")
             .with_context(subject));
  const uint64_t invocations = uint64_t{code.workgroup[0]} * code.workgroup[1] * code.workgroup[2];
  if (invocations > static_cast<uint64_t>(threads)) {
    return unsupported(subject + " needs workgroups of " + std::to_string(invocations) +
                       " invocations, its registers leave room for " + std::to_string(threads) +
                       " on " + driver->info.id);
  }
  kernel->workgroup_ = code.workgroup;
  kernel->dynamic_shared_bytes_ = reprise::dynamic_shared_bytes(code.shared_bytes);
  RP_TRY(allow_shared(*driver, kernel->function_, kernel->dynamic_shared_bytes_)
             .with_context(subject));
  ++driver->counters.kernels;
  return kernel;
}

}  // namespace reprise::cuda
