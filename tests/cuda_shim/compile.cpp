#include "tests/cuda_shim/compile.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "codegen/emit/cuda/cuda.h"

#ifndef REPRISE_HOST_CXX
#define REPRISE_HOST_CXX "c++"
#endif

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to programs

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

/// A folder that disappears with the object.
class ScratchFolder {
 public:
  static Result<std::unique_ptr<ScratchFolder>> make() {
    std::error_code nowhere;
    const fs::path temporary = fs::temp_directory_path(nowhere);
    std::string path = ((nowhere ? fs::path("/tmp") : temporary) / "cuda-on-cpu-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) return Status(Code::Io, "cannot make " + path);
    return std::unique_ptr<ScratchFolder>(new ScratchFolder(path));
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

std::vector<std::string> arguments(const BuildOptions& options) {
  std::vector<std::string> a = {REPRISE_HOST_CXX,
                                "-std=c++17",
                                "-shared",
                                "-fPIC",
                                "-w",
                                "-ffp-contract=off",
                                "-fno-math-errno",
                                "-fno-strict-aliasing",
                                "-fno-exceptions",
                                "-fno-rtti",
                                "-fno-asynchronous-unwind-tables",
                                options.optimise ? "-O2" : "-O1"};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    a.insert(a.end(), {"-mavx2", "-mfma", "-mf16c", "-mbmi2"});
  }
#endif
  // Kernels of one name in several libraries have shared memory each of their own.
  a.emplace_back("-fvisibility=hidden");
  if (options.one_thread) a.emplace_back("-DRP_SHIM_ONE_THREAD");
  if (options.checked) {
    a.insert(a.end(), {"-DRP_SHIM_CHECKED", "-fsanitize=kernel-address",
                       "--param=asan-instrumentation-with-call-threshold=0", "--param=asan-stack=0",
                       "--param=asan-globals=0"});
  } else {
#if defined(__SANITIZE_ADDRESS__)
    a.emplace_back("-fsanitize=address");
#endif
  }
  return a;
}

std::string hash(const std::string& text) {
  uint64_t a = 0xcbf29ce484222325U, b = 0x9ae16a3b2f90404fU;
  for (const char c : text) {
    a = (a ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    b = (b + static_cast<unsigned char>(c)) * 0x9ddfea08eb382d69U;
    b ^= b >> 29U;
  }
  std::array<char, 40> out{};
  std::snprintf(out.data(), out.size(), "%016" PRIx64 "%016" PRIx64, a, b);
  return out.data();
}

/// Runs a program with standard error in a file; its exit status, or -1.
int run_program(const std::vector<std::string>& argv, const std::string& log) {
  std::vector<char*> pointers;
  pointers.reserve(argv.size() + 1);
  for (const std::string& a : argv) pointers.push_back(const_cast<char*>(a.c_str()));
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 2, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Compiles `source` to FOLDER/STEM.so.
Status compile(const std::string& source, const BuildOptions& options, const std::string& stem) {
  const std::string input = stem + ".cpp", output = stem + ".so", log = stem + ".log";
  std::ofstream(input) << source;
  std::vector<std::string> argv = arguments(options);
  argv.insert(argv.end(), {"-o", output, input});
  const int status = run_program(argv, log);
  std::ostringstream said;
  said << std::ifstream(log).rdbuf();
  std::error_code ignored;
  fs::remove(input, ignored);
  fs::remove(log, ignored);
  if (status == 0) return {};
  return {Code::Internal, "the host compiler refuses emitted CUDA text:\n" + said.str()};
}

/// Where a library of the cache is; "" where nothing can be written and it is not there.
std::string place_in_cache(const std::string& cache, const std::string& name) {
  const fs::path folder = fs::path(cache) / name.substr(0, 2);
  std::string library = (folder / (name + ".so")).string();
  std::error_code ignored;
  if (fs::exists(library, ignored)) return library;
  fs::create_directories(folder, ignored);
  return access(folder.c_str(), W_OK | X_OK) == 0 ? library : "";
}

/// The library in the cache, compiled unless it is there.
Status compile_into(const std::string& library, const std::string& source,
                    const BuildOptions& options) {
  std::error_code problem;
  if (fs::exists(library, problem)) return {};
  static std::atomic<uint64_t> count{0};
  const std::string stem =
      library + "." + std::to_string(getpid()) + "." + std::to_string(count.fetch_add(1));
  RP_TRY(compile(source, options, stem));
  fs::rename(stem + ".so", library, problem);
  return problem ? Status(Code::Io, "cannot make " + library) : Status();
}

Result<void*> load(const std::string& path) {
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return internal_error(std::string("dlopen: ") + dlerror());
  return handle;
}

}  // namespace

Result<std::unique_ptr<ShimLibrary>> ShimLibrary::build(const std::string& text,
                                                        const BuildOptions& options) {
  std::vector<KernelText> kernels = kernels_of(text);
  std::string source = shim_text() + emit::cuda_prelude() + shim_hooks_text();
  if (options.optimise) source += shim_fast_text();
  source += text;
  for (const KernelText& k : kernels) source += launcher(k);
  std::string key = source;
  for (const std::string& a : arguments(options)) key += '\n' + a;
  const std::string library = options.cache.empty() ? "" : place_in_cache(options.cache, hash(key));
  void* handle = nullptr;
  if (library.empty()) {
    RP_ASSIGN(const auto folder, ScratchFolder::make());
    const std::string stem = folder->path() + "/kernels";
    RP_TRY(compile(source, options, stem));
    RP_ASSIGN(handle, load(stem + ".so"));
  } else {
    RP_TRY(compile_into(library, source, options));
    RP_ASSIGN(handle, load(library));
  }
  return std::unique_ptr<ShimLibrary>(new ShimLibrary(handle, std::move(kernels)));
}

ShimLibrary::~ShimLibrary() {
  dlclose(handle_);
}

KernelFn ShimLibrary::function(const std::string& kernel) const {
  return reinterpret_cast<KernelFn>(dlsym(handle_, (kernel + "_on_cpu").c_str()));
}

}  // namespace reprise::test
