#include "codegen/compile/parsed_options.h"

#include <limits>
#include <string>
#include <utility>

#include "codegen/compile/targets.h"

namespace reprise {
namespace {

/// The option of the pass split-weights that follows from the device that one compiles for.
constexpr const char* kSplitOption = "split-weights.bytes";

uint64_t largest_weight_of(const CompileOptions& options) {
  const auto given = options.pass_options.find(kSplitOption);
  if (given != options.pass_options.end() && given->second > 0)
    return static_cast<uint64_t>(given->second);
  return options.device ? options.device->max_buffer_bytes : std::numeric_limits<uint64_t>::max();
}

}  // namespace

Result<ParsedOptions> parse_options(const CompileOptions& options) {
  ParsedOptions out;
  out.passes = {options.disabled_passes, options.pass_options, options.added_passes,
                options.precision};
  RP_TRY(out.passes.check());
  if (options.precision != DType::F32 && options.precision != DType::F16 &&
      options.precision != DType::BF16)
    return Status(Code::Usage, "the precision must be fp32, fp16 or bf16");
  RP_ASSIGN(out.targets, parse_targets(options.targets, options.device, options.cuda_ptx,
                                       options.added_targets));
  out.largest_weight = largest_weight_of(options);
  if (std::in_range<int64_t>(out.largest_weight))
    out.passes.numbers[kSplitOption] = static_cast<int64_t>(out.largest_weight);
  return out;
}

}  // namespace reprise
