// explain --dump: everything that the compiler makes on its way, as files.
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "codegen/compiler.h"

namespace reprise::app {

class Dump {
 public:
  explicit Dump(std::filesystem::path dir) : dir_(std::move(dir)) {}
  /// Hooks the compiler's callbacks; the options must not outlive this object.
  void attach(CompileOptions& options);
  /// CUDA text, cubins and PTX of every variant that has them: the callbacks are given the text of
  /// one of those that share it.
  Status add_cuda(const package::Package& p);
  /// Kernels of a package: SPIR-V, CUDA text and images as stored.
  Status add_package(const package::Package& p);
  Status add_plan(const std::string& text);
  /// The first write that failed in a callback.
  Status status() const { return first_error_; }
  size_t files() const { return files_.size(); }

 private:
  void write(const std::filesystem::path& name, const std::string& contents);
  void write_image(const package::Variant& variant, const plan::KernelCode& kernel);
  void write_kernel(const std::string& variant, const std::string& kernel,
                    const std::vector<uint32_t>& spirv, const std::string& cuda);

  std::filesystem::path dir_;
  Status first_error_;
  std::set<std::filesystem::path> files_;
  int passes_ = 0;
};

}  // namespace reprise::app
