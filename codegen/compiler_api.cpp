// The C interface of the compiler.
#include "codegen/compiler.h"
#include "reprise/compiler.h"
#include "runtime/api_handles.h"

template <>
inline constexpr std::array reprise::capi::kStructEnds<reprise_compile_options>{
    offsetof(reprise_compile_options, precision), offsetof(reprise_compile_options, targets)};

using namespace reprise;
using namespace reprise::capi;

reprise_status reprise_compile_file(const char* onnx_path, const reprise_compile_options* options,
                                    reprise_package** out, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!onnx_path || !out) return {Code::Usage, "onnx_path or out is null"};
    RP_ASSIGN(const auto given,
              read_struct(options, reprise_compile_options REPRISE_COMPILE_OPTIONS_INIT,
                          "reprise_compile_options"));
    CompileOptions o;
    o.fullgraph = given.fullgraph != 0;
    o.probes = given.probes != 0;
    if (given.disabled_pass_count > 0 && !given.disabled_passes)
      return {Code::Usage, "disabled_passes is null"};
    for (size_t i = 0; i < given.disabled_pass_count; ++i)
      o.disabled_passes.emplace_back(given.disabled_passes[i]);
    if (given.precision) {
      RP_ASSIGN(o.precision, parse_precision(given.precision));
    }
    if (given.targets) o.targets.assign(given.targets, given.targets + given.target_count);
    if (given.nvrtc) o.nvrtc = given.nvrtc;
    if (given.cuda_cache_dir) o.cuda_cache_dir = given.cuda_cache_dir;
    RP_ASSIGN(auto package, compile_file(onnx_path, o));
    *out = make_handle(std::make_shared<reprise_package>(
        reprise_package{std::make_shared<const package::Package>(std::move(package))}));
    return {};
  });
}
