#include "tests/ptx/ptx_text.h"

#include <cstdlib>

#include "codegen/emit/cuda/cuda.h"
#include "codegen/nvrtc/cache.h"
#include "codegen/nvrtc/compile.h"

namespace reprise::test {
namespace {

const Result<std::shared_ptr<const nvrtc::Library>>& library() {
  static const auto opened = [] {
    const char* path = std::getenv("REPRISE_NVRTC");
    return nvrtc::Library::open(path != nullptr ? path : "");
  }();
  return opened;
}

const nvrtc::ImageCache& ptx_cache() {
  static const nvrtc::ImageCache cache = [] {
    const char* folder = std::getenv("REPRISE_STANDIN_CACHE");
    constexpr uint64_t kLimit = uint64_t{256} << 20;
    return nvrtc::ImageCache(folder == nullptr ? "" : std::string(folder) + "-ptx", kLimit,
                             [](const std::string&) {});
  }();
  return cache;
}

std::string as_text(const nvrtc::Image& image) {
  return {reinterpret_cast<const char*>(image.bytes.data()), image.bytes.size()};
}

}  // namespace

std::string why_no_ptx() {
  return library().ok() ? "" : "NVRTC is missing: tools/nvrtc brings it";
}

Result<std::string> ptx_of_text(const std::string& text, const std::string& name, CudaArch arch) {
  RP_TRY(library().status());
  const nvrtc::Library& compiler = **library();
  const std::string key =
      nvrtc::ImageCache::key(text, nvrtc::options_for(arch), compiler.version());
  if (const auto known = ptx_cache().find(key)) return as_text(*known);
  RP_ASSIGN(const nvrtc::Image image, nvrtc::compile_text(compiler, text, name, arch));
  ptx_cache().put(key, image);
  return as_text(image);
}

Result<std::string> ptx_for(const std::string& target, const std::string& text) {
  RP_TRY(library().status());
  const nvrtc::Functions& f = (*library())->functions();
  const std::string option = "--gpu-architecture=" + target;
  const char* const options[] = {option.c_str(), "--std=c++17"};
  nvrtc::Program program = nullptr;
  size_t bytes = 0;
  std::string out;
  const auto read = [&](auto size, auto get) {
    if (size(program, &bytes) == 0) out.resize(bytes);
    return bytes == 0 || get(program, out.data()) == 0;
  };
  bool made = f.create(&program, text.c_str(), "text.cu", 0, nullptr, nullptr) == 0;
  if (made) made = f.compile(program, 2, options) == 0;
  const bool has_text = made ? read(f.ptx_size, f.ptx) : read(f.log_size, f.log);
  if (program != nullptr) f.destroy(&program);
  if (!made || !has_text) return Status(Code::Device, "NVRTC rejects the text: " + out);
  return out;
}

Result<std::string> ptx_of(std::span<const kernel::Kernel> kernels, CudaArch arch) {
  std::string text = emit::cuda_prelude();
  for (const kernel::Kernel& k : kernels) {
    RP_ASSIGN(const std::string one, emit::cuda(k));
    text += one;
  }
  return ptx_of_text(text, kernels.empty() ? "none" : kernels[0].name, arch);
}

}  // namespace reprise::test
