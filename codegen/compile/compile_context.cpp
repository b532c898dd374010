#include "codegen/compile/compile_context.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

namespace reprise {

uint64_t largest_weight(const CompileOptions& options) {
  const auto given = options.pass_options.find(kSplitOption);
  if (given != options.pass_options.end() && given->second > 0)
    return static_cast<uint64_t>(given->second);
  return options.device ? options.device->max_buffer_bytes : std::numeric_limits<uint64_t>::max();
}

passes::PassOptions pass_options(const CompileOptions& options) {
  passes::PassOptions out{options.disabled_passes, options.pass_options, options.added_passes};
  out.numbers[std::string(kPrecisionOption)] = static_cast<int64_t>(options.precision);
  if (const uint64_t most = largest_weight(options); std::in_range<int64_t>(most))
    out.numbers[std::string(kSplitOption)] = static_cast<int64_t>(most);
  return out;
}

Result<std::map<std::string, int64_t, std::less<>>> parse_pass_options(
    const std::vector<std::string>& texts) {
  std::map<std::string, int64_t, std::less<>> out;
  for (const std::string& text : texts) {
    const size_t equals = std::min(text.find('='), text.size());
    int64_t number = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] =
        std::from_chars(std::min(text.data() + equals + 1, end), end, number);
    if (error != std::errc() || rest != end) {
      return Status(Code::Usage, "an option of a pass is PASS.OPTION=NUMBER, not '" + text + "'");
    }
    out[text.substr(0, equals)] = number;
  }
  return out;
}

CompileContext::CompileContext(graph::Graph& g, package::Package& p, const CompileOptions& o,
                               std::vector<lower::Target> named, CompileReport& r)
    : model(g),
      options(o),
      passes(pass_options(o)),
      targets(std::move(named)),
      report(r),
      own_(std::make_unique<Stores>(p)),
      times(own_->times),
      weights(own_->weights),
      bodies(own_->bodies),
      device_bodies(own_->device_bodies),
      lowerings(g, passes.enabled(kEqualKernels)),
      kernels(passes.enabled(kEqualKernels)) {}

CompileContext::CompileContext(graph::Graph& body, CompileContext& caller, const CompileOptions& o,
                               CompileReport& r)
    : model(body),
      options(o),
      passes(pass_options(o)),
      targets(caller.targets),
      report(r),
      times(caller.times),
      weights(caller.weights),
      bodies(caller.bodies),
      device_bodies(caller.device_bodies),
      lowerings(body, passes.enabled(kEqualKernels)),
      kernels(passes.enabled(kEqualKernels)) {}

void CompileContext::end_pass(std::string name) {
  report.passes.push_back({std::move(name), ms_since(last_end_)});
  last_end_ = Clock::now();
}

void CompileContext::end_variants() {
  report.passes.push_back({"lower", times.lower});
  report.passes.push_back({"legalize", times.legalize});
  report.passes.push_back({"emit", times.emit});
  report.passes.push_back({"hazards", times.hazards});
  if (options.probes) report.passes.push_back({"probes", times.probes});
  last_end_ = Clock::now();
}

void CompileContext::report_fault(BrokenGroup fault, const std::string& effect) {
  if (options.log)
    options.log("the compiler has a fault; please report it: " + effect + fault.why.message());
  report.broken.push_back(std::move(fault));
}

}  // namespace reprise
