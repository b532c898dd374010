#include "apps/reprise/dump.h"

#include <algorithm>
#include <cstdio>

#include "apps/common/files.h"
#include "codegen/graph/graph.h"
#include "runtime/platform/path.h"
#ifdef REPRISE_HAVE_SPIRV_TOOLS
#include <spirv-tools/libspirv.hpp>
#endif

namespace reprise::app {

namespace {

/// Empty if this build has no disassembler.
std::string disassemble(const std::vector<uint32_t>& words) {
  std::string text;
#ifdef REPRISE_HAVE_SPIRV_TOOLS
  const spvtools::SpirvTools tools(SPV_ENV_VULKAN_1_3);
  if (!tools.Disassemble(
          words, &text,
          SPV_BINARY_TO_TEXT_OPTION_FRIENDLY_NAMES | SPV_BINARY_TO_TEXT_OPTION_INDENT)) {
    text = "; the module could not be disassembled\n";
  }
#else
  (void)words;
#endif
  return text;
}

/// Makes a name safe for a file. Names of passes and kernels are identifiers, but a package may
/// have any name.
std::string safe(const std::string& name) {
  std::string out = name.substr(0, 120);
  std::replace_if(
      out.begin(), out.end(),
      [](char c) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') || c == '_' || c == '-';
        return !plain;
      },
      '_');
  return out;
}

}  // namespace

void Dump::write(const std::filesystem::path& name, const std::string& contents) {
  if (!first_error_.ok()) return;
  const std::filesystem::path path = dir_ / name;
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  first_error_ = write_file(utf8_text(path), contents);
  if (first_error_.ok()) files_.insert(name);
}

void Dump::write_kernel(const std::string& variant, const std::string& kernel,
                        const std::vector<uint32_t>& spirv, const std::string& cuda) {
  const std::string base = safe(variant) + "/" + safe(kernel);
  if (!spirv.empty()) {
    write(base + ".spv", {reinterpret_cast<const char*>(spirv.data()), spirv.size() * 4});
    const std::string text = disassemble(spirv);
    if (!text.empty()) write(base + ".spvasm", text);
  }
  if (!cuda.empty()) write(base + ".cu", cuda);
}

void Dump::attach(CompileOptions& options) {
  options.keep_source = true;
  options.on_pass = [this](const std::string& pass, const graph::Graph& g) {
    char number[16];
    std::snprintf(number, sizeof number, "%02d-", passes_++);
    write(number + safe(pass) + ".txt", graph::print(g));
  };
  options.on_kernel = [this](const std::string& variant, const std::string& kernel,
                             const std::string& ir, const std::vector<uint32_t>& spirv,
                             const std::string& cuda) {
    write(safe(variant) + "/" + safe(kernel) + ".ir", ir);
    write_kernel(variant, kernel, spirv, cuda);
  };
}

void Dump::write_image(const package::CompiledPlan& plan, const std::string& folder,
                       const plan::KernelCode& kernel) {
  const bool ptx = plan.predicate.cuda_arch.starts_with("compute_");
  const std::string base = safe(folder) + "/" + safe(kernel.name);
  // PTX is written without the zero byte at its end.
  write(base + (ptx ? ".ptx" : ".cubin"),
        {reinterpret_cast<const char*>(kernel.image.data()), kernel.image.size() - (ptx ? 1 : 0)});
}

namespace {

/// Calls f(plan, folder) for each variant and each of its other plans and bodies.
template <typename F>
void for_each_plan(const package::Package& p, const F& f) {
  for (const package::Variant& v : p.variants) {
    f(v, v.name);
    for (const package::SizedPlan& plan : v.plans)
      f(plan, v.name + " " + package::describe_sizes(plan.sizes, p.io.symbols));
    for (const package::DeviceBody& body : v.bodies) f(body, v.name + " " + body.name);
  }
}

}  // namespace

Status Dump::add_cuda(const package::Package& p) {
  for_each_plan(p, [&](const package::CompiledPlan& plan, const std::string& folder) {
    for (const plan::KernelCode& k : plan.plan.kernels) {
      if (k.image.empty()) continue;
      write_kernel(folder, k.name, {}, k.cuda);
      write_image(plan, folder, k);
    }
  });
  return first_error_;
}

Status Dump::add_package(const package::Package& p) {
  for_each_plan(p, [&](const package::CompiledPlan& plan, const std::string& folder) {
    for (const plan::KernelCode& k : plan.plan.kernels) write_kernel(folder, k.name, k.spirv, "");
  });
  return add_cuda(p);
}

Status Dump::add_plan(const std::string& text) {
  write("plan.txt", text);
  return first_error_;
}

}  // namespace reprise::app
