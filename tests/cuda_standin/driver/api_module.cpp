// Modules, functions and launches of single kernels.
#include <algorithm>
#include <cstring>

#include "tests/cuda_standin/driver/api.h"
#include "tests/cuda_standin/driver/kernel_params.h"

using namespace reprise::cuda;
using namespace reprise::standin;

namespace reprise::standin {

bool launchable(const KernelWork& k) {
  constexpr uint64_t kGrid = 65535, kBlock = 1024, kBlockZ = 64;
  const auto& [gx, gy, gz] = k.grid;
  const auto& [bx, by, bz] = k.workgroup;
  if (gx == 0 || gy == 0 || gz == 0 || bx == 0 || by == 0 || bz == 0) return false;
  if (gx > 0x7FFFFFFFU || gy > kGrid || gz > kGrid) return false;
  if (bx > kBlock || by > kBlock || bz > kBlockZ) return false;
  return uint64_t{bx} * by * bz <= std::min<uint64_t>(kBlock, k.function->kernel.max_threads);
}

CUresult kernel_work(Call& call, const CUDA_KERNEL_NODE_PARAMS& p, KernelWork& out) {
  if (p.func == nullptr || p.extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  out.function = call.find<Function>(p.func);
  if (out.function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  // A kernel that gets less would leave its memory, and no test wants to give it more.
  if (p.sharedMemBytes != out.function->kernel.dynamic_bytes ||
      p.sharedMemBytes > out.function->most_dynamic_shared) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  out.grid = {p.gridDimX, p.gridDimY, p.gridDimZ};
  out.workgroup = {p.blockDimX, p.blockDimY, p.blockDimZ};
  if (!launchable(out)) return CUDA_ERROR_INVALID_VALUE;
  if (p.kernelParams == nullptr || p.kernelParams[0] == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto* block = static_cast<const std::byte*>(p.kernelParams[0]);
  out.block.assign(block, block + out.function->kernel.block_bytes);
  return CUDA_SUCCESS;
}

namespace {

/// Where the application wants to read what is wrong with an image.
struct ErrorLog {
  char* buffer = nullptr;
  size_t bytes = 0;
  void** used = nullptr;  // the option's value, which becomes the number of bytes written

  ErrorLog(unsigned n, const CUjit_option* options, void** values) {
    for (unsigned i = 0; i < n; ++i) {
      if (options[i] == CU_JIT_ERROR_LOG_BUFFER) buffer = static_cast<char*>(values[i]);
      if (options[i] != CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) continue;
      bytes = reinterpret_cast<uintptr_t>(values[i]) & 0xFFFFFFFFU;
      used = &values[i];
    }
  }
  void write(const std::string& text) const {
    if (buffer == nullptr || bytes == 0) return;
    const size_t n = std::min(text.size(), bytes - 1);
    std::memcpy(buffer, text.data(), n);
    buffer[n] = 0;
    *used = reinterpret_cast<void*>(n);
  }
};

reprise::test::BuildOptions build_options(const Settings& s) {
  reprise::test::BuildOptions options;
  options.cache = s.cache.empty() ? default_cache() : s.cache;
  options.optimise = true;
  options.checked = s.check == Check::Bytes;
  options.one_thread = options.checked;
  return options;
}

CUresult load(Call& call, CUmodule* module, const void* image, const ErrorLog& log) {
  Driver& d = call.d;
  const Image read = read_image(image, d.settings);
  const auto refuse = [&](CUresult error, const std::string& problem) {
    log.write(problem);
    d.log.line("a module is refused: " + problem);
    return error;
  };
  if (read.error != CUDA_SUCCESS) return refuse(read.error, read.problem);
  const std::string& sources = d.settings.sources;
  std::optional<std::string> text =
      d.texts.find(read.bytes, sources.empty() ? default_sources() : sources);
  if (!text) {
    return refuse(CUDA_ERROR_INVALID_IMAGE,
                  "no CUDA text is known for the image; compile the model with --keep-source");
  }
  auto m = std::make_shared<Module>();
  for (auto& k : reprise::test::kernels_of(*text)) m->kernels[k.name] = k;
  if (m->kernels.empty()) {
    return refuse(CUDA_ERROR_INVALID_IMAGE, "the CUDA text of the image has no kernel");
  }
  m->checked = d.settings.check == Check::Bytes;
  m->compiled = std::make_shared<Compiled>(std::move(*text), build_options(d.settings));
  d.compiler.add(m->compiled, d.thread_count());
  *module = call.add(m);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace reprise::standin

REPRISE_STANDIN_API cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned n,
                                       CUjit_option* options, void** values) {
  return enter(Symbol::cuModuleLoadDataEx, Needs::Context, [&](Call& call) {
    if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (n != 0 && (options == nullptr || values == nullptr)) return CUDA_ERROR_INVALID_VALUE;
    return load(call, module, image, ErrorLog(n, options, values));
  });
}

REPRISE_STANDIN_API cuModuleUnload(CUmodule module) {
  return enter(Symbol::cuModuleUnload, Needs::Context, [&](Call& call) {
    auto m = call.find<Module>(module);
    if (m == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    call.wait_for_all();
    for (const auto& [name, id] : m->functions) call.d.handles.remove(id);
    call.d.handles.remove(m->id);
    return call.outcome();
  });
}

REPRISE_STANDIN_API cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  return enter(Symbol::cuModuleGetFunction, Needs::Context, [&](Call& call) {
    if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto m = call.find<Module>(module);
    if (m == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const auto kernel = m->kernels.find(name);
    if (kernel == m->kernels.end()) return CUDA_ERROR_NOT_FOUND;
    if (const auto given = m->functions.find(name); given != m->functions.end()) {
      *function = reinterpret_cast<CUfunction>(given->second);
      return CUDA_SUCCESS;
    }
    auto f = std::make_shared<Function>();
    f->module = m;
    f->kernel = kernel->second;
    *function = call.add(f);
    m->functions[name] = f->id;
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuFuncGetAttribute(int* value, CUfunction_attribute attribute,
                                       CUfunction function) {
  return enter(Symbol::cuFuncGetAttribute, Needs::Context, [&](Call& call) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto f = call.find<Function>(function);
    if (f == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    constexpr int kRegisters = 32;
    switch (attribute) {
      case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = static_cast<int>(f->kernel.max_threads);
        return CUDA_SUCCESS;
      case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = static_cast<int>(f->kernel.shared_bytes);
        return CUDA_SUCCESS;
      case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = static_cast<int>(f->most_dynamic_shared);
        return CUDA_SUCCESS;
      case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = 0;
        return CUDA_SUCCESS;
      case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = kRegisters;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
  });
}

REPRISE_STANDIN_API cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute,
                                       int value) {
  return enter(Symbol::cuFuncSetAttribute, Needs::Context, [&](Call& call) {
    const auto f = call.find<Function>(function);
    if (f == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const auto most = static_cast<int>(most_shared_bytes(call.d.settings));
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
        value > most - static_cast<int>(f->kernel.shared_bytes)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    f->most_dynamic_shared = static_cast<uint32_t>(value);
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset,
                                       size_t* bytes) {
  return enter(Symbol::cuFuncGetParamInfo, Needs::Context, [&](Call& call) {
    const auto f = call.find<Function>(function);
    if (f == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (offset == nullptr || index > 0) return CUDA_ERROR_INVALID_VALUE;
    *offset = 0;
    if (bytes != nullptr) *bytes = f->kernel.block_bytes;
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared_bytes, CUstream stream,
                                   void** params, void** extra) {
  return enter(Symbol::cuLaunchKernel, Needs::Context, [&](Call& call) {
    const auto s = call.stream(stream);
    if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    KernelWork kernel;
    const CUresult result = kernel_work(call,
                                        {function, grid_x, grid_y, grid_z, block_x, block_y,
                                         block_z, shared_bytes, params, extra, nullptr, nullptr},
                                        kernel);
    if (result != CUDA_SUCCESS) return result;
    Driver& d = call.d;
    const auto work = std::make_shared<Work>(Work{std::move(kernel), true});
    std::string ignored;  // is found again when it runs
    for (const Touch& t : touches(*work, d.memory, ignored)) {
      if (t.writes) t.allocation->written_outside = true;
      if (t.reads) t.allocation->read_outside = true;
    }
    s->push([&d, work, context = call.context, settings = d.settings] {
      run_work(d, *context, *work, settings);
    });
    return CUDA_SUCCESS;
  });
}
