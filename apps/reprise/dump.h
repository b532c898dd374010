// explain --dump: writes all intermediate forms of the compiler as files.
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "codegen/compile/compiler.h"
#include "runtime/platform/path.h"

namespace reprise::app {

class Dump {
 public:
  explicit Dump(const std::string& dir) : dir_(utf8_path(dir)) {}
  /// Sets the compiler's callbacks. The options must not outlive this object.
  void attach(CompileOptions& options);
  /// Writes the CUDA text, cubins and PTX of every variant that has them. The callbacks receive
  /// text that variants share for one of them only.
  Status add_cuda(const package::Package& p);
  /// Writes the kernels of a package: SPIR-V, CUDA text and images as stored.
  Status add_package(const package::Package& p);
  Status add_plan(const std::string& text);
  /// The first write that failed in a callback.
  Status status() const { return first_error_; }
  size_t files() const { return files_.size(); }

 private:
  void write(const std::filesystem::path& name, const std::string& contents);
  void write_image(const package::CompiledPlan& plan, const std::string& folder,
                   const plan::KernelCode& kernel);
  void write_kernel(const std::string& variant, const std::string& kernel,
                    const std::vector<uint32_t>& spirv, const std::string& cuda);

  std::filesystem::path dir_;
  Status first_error_;
  std::set<std::filesystem::path> files_;
  int passes_ = 0;
};

}  // namespace reprise::app
