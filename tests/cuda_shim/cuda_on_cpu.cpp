#include "tests/cuda_shim/cuda_on_cpu.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "codegen/emit/cuda/cuda.h"
#include "tests/cuda_shim/shim.h"
#include "tests/cuda_shim/workgroup.h"

#ifndef REPRISE_HOST_CXX
#define REPRISE_HOST_CXX "c++"
#endif

namespace reprise::test {
namespace {

/// A folder that disappears with the object.
class ScratchFolder {
 public:
  static Result<std::unique_ptr<ScratchFolder>> make() {
    std::string path = (std::filesystem::temp_directory_path() / "cuda-on-cpu-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) return Status(Code::Io, "cannot make " + path);
    return std::unique_ptr<ScratchFolder>(new ScratchFolder(path));
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

Status compile(const ScratchFolder& folder, const std::string& text) {
  std::ofstream(folder.file("kernels.cpp")) << text;
  std::string command = "'" REPRISE_HOST_CXX
                        "' -std=c++17 -O1 -shared -fPIC -w -ffp-contract=off -fno-math-errno "
                        "-fno-strict-aliasing ";
#if defined(__SANITIZE_ADDRESS__)
  command += "-fsanitize=address ";
#endif
  command += "-o '" + folder.file("kernels.so") + "' '" + folder.file("kernels.cpp") + "' 2> '" +
             folder.file("log") + "'";
  const int status = std::system(command.c_str());
  if (status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  std::ostringstream log;
  log << std::ifstream(folder.file("log")).rdbuf();
  return {Code::Internal, "the host compiler refuses emitted CUDA text:\n" + log.str()};
}

/// Takes the block by address, whatever its type.
std::string launcher(const std::string& kernel) {
  return "extern \"C\" void " + kernel + "_on_cpu(const void* block) {\n  " + kernel + "(*(const " +
         kernel + "_block*)block);\n}\n";
}

bool needs_fibers(const std::string& text) {
  for (const char* what : {"__syncthreads", "rp_shuffle", "rp_reduce", "rp_matrix"}) {
    if (text.find(what) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

struct CudaOnCpu::Module {
  struct Kernel {
    KernelFn fn = nullptr;
    std::array<uint32_t, 3> workgroup{};
    bool fibers = false;
  };
  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  ~Module() {
    if (library != nullptr) dlclose(library);
  }
  void* library = nullptr;
  Shim shim{};
  std::map<std::string, Kernel> kernels;
};

CudaOnCpu::CudaOnCpu(std::unique_ptr<Module> m) : m_(std::move(m)) {}
CudaOnCpu::CudaOnCpu(CudaOnCpu&&) noexcept = default;
CudaOnCpu& CudaOnCpu::operator=(CudaOnCpu&&) noexcept = default;
CudaOnCpu::~CudaOnCpu() = default;

Result<CudaOnCpu> CudaOnCpu::load(std::span<const CudaSource> kernels) {
  std::string text = shim_text() + emit::cuda_prelude();
  for (const CudaSource& k : kernels) text += k.text + launcher(k.name);
  RP_ASSIGN(const auto folder, ScratchFolder::make());
  RP_TRY(compile(*folder, text));
  auto m = std::make_unique<Module>();
  m->library = dlopen(folder->file("kernels.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (m->library == nullptr) return internal_error(std::string("dlopen: ") + dlerror());
  auto* slot = static_cast<Shim**>(dlsym(m->library, "reprise_shim"));
  if (slot == nullptr) return internal_error("the compiled module has no shim");
  *slot = &m->shim;
  for (const CudaSource& k : kernels) {
    const auto fn = reinterpret_cast<KernelFn>(dlsym(m->library, (k.name + "_on_cpu").c_str()));
    if (fn == nullptr) return internal_error("the compiled module has no kernel " + k.name);
    m->kernels[k.name] = {fn, k.workgroup, needs_fibers(k.text)};
  }
  return CudaOnCpu(std::move(m));
}

Status CudaOnCpu::run(const std::string& name, std::array<uint32_t, 3> grid,
                      const void* block) const {
  const auto it = m_->kernels.find(name);
  if (it == m_->kernels.end()) return internal_error("no kernel " + name + " in the module");
  const Module::Kernel& k = it->second;
  Shim& shim = m_->shim;
  shim.group_size = {k.workgroup[0], k.workgroup[1], k.workgroup[2]};
  shim.grid_size = {grid[0], grid[1], grid[2]};
  const uint32_t threads = k.workgroup[0] * k.workgroup[1] * k.workgroup[2];
  std::unique_ptr<FiberGroup> fibers;
  if (k.fibers) fibers = std::make_unique<FiberGroup>(shim, threads);
  const uint64_t groups = uint64_t{grid[0]} * grid[1] * grid[2];
  for (uint64_t g = 0; g < groups; ++g) {
    shim.group = {static_cast<uint32_t>(g % grid[0]), static_cast<uint32_t>(g / grid[0] % grid[1]),
                  static_cast<uint32_t>(g / grid[0] / grid[1])};
    if (fibers) {
      RP_TRY(fibers->run(k.fn, block).with_context("kernel " + name));
      continue;
    }
    for (uint32_t t = 0; t < threads; ++t) {
      set_thread(shim, t);
      k.fn(block);
    }
  }
  return {};
}

}  // namespace reprise::test
