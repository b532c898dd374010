#include <algorithm>
#include <array>

#include "codegen/passes/pass.h"

namespace reprise::passes {

namespace {

/// Adapts a pass without options.
template <Status (*pass)(graph::Graph&)>
Status plain(PassContext& context) {
  return pass(context.graph());
}

constexpr PassOption kAutocastOptions[] = {
    {"min-elements", kMinNarrowed, "do not round constants with fewer elements"},
};

constexpr PassOption kSplitOptions[] = {
    {"bytes", 0, "the largest weight that a kernel may read; 0: as large as the device allows"},
};

// The buffers of every Vulkan device may have so many bytes.
constexpr PassOption kMergeOptions[] = {
    {"bytes", int64_t{1} << 27, "the largest merged weight"},
};

constexpr Pass required(std::string_view name, Status (*run)(PassContext&), std::string_view what) {
  return {.name = name, .run = run, .required = true, .core = true, .what = what};
}
constexpr Pass optional(std::string_view name, Status (*run)(PassContext&), bool core,
                        std::string_view what) {
  return {.name = name, .run = run, .core = core, .what = what};
}
constexpr PassOption kFusionOptions[] = {
    {"limit", -1, "the maximum number of joins; -1: no limit"},
};
constexpr PassOption kBatchOptions[] = {
    {"fewest", 4, "the fewest launches that become one"},
};
/// A row for a decision of fusion or lowering.
constexpr Pass decision(std::string_view name, std::string_view what,
                        std::span<const PassOption> options = {}) {
  return {.name = name, .core = true, .what = what, .options = options};
}

constexpr std::array kPipeline{
    optional("quantized-weights", plain<quantized_weights>, false, "keep 8-bit weights in 8 bits"),
    required("decompose", plain<decompose>, "rewrite ONNX operators into core form"),
    required("shape-values", plain<shape_values>, "replace shape arithmetic by expressions"),
    optional("fold-constants", plain<fold_constants>, true, "evaluate nodes with constant inputs"),
    required("grow-states", grow_states, "append rows to states in place"),
    optional("canonicalize", plain<canonicalize>, true, "remove and merge views and casts"),
    optional("sink-slices", plain<sink_slices>, true,
             "compute only the position of an axis that a slice keeps"),
    optional("fold-batch-norm", plain<fold_batch_norm>, true, "move channel scales into weights"),
    optional("layout", plain<layout>, true, "use channels last if that saves conversions"),
    optional("cse", plain<cse>, true, "merge equal nodes"),
    Pass{.name = "split-weights",
         .run = split_weights,
         .core = true,
         .what = "read weights that are larger than the device's buffers in parts",
         .options = kSplitOptions,
         .enabled_by = "bytes"},
    optional("dce", plain<dce>, true, "remove nodes without users"),
    Pass{.name = "merge-products",
         .run = merge_products,
         .core = true,
         .what = "multiply by several weights at once if that saves kernels",
         .options = kMergeOptions},
    // The last pass that sees the graph, because the storage types that it sets hold for this
    // graph.
    Pass{.name = "autocast",
         .run = autocast,
         .required = true,
         .core = true,
         .what = "store tensors and large weights in 16 bits",
         .options = kAutocastOptions,
         .for_low_precision = true},
    decision("attention", "fuse each attention into one kernel"),
    decision("attention-price", "fuse an attention only if that is faster"),
    decision("fusion", "fuse several nodes into one kernel", kFusionOptions),
    decision("split-products",
             "multiply fp32 as three products of TF32 on matrix units, where that is faster"),
    decision("equal-kernels", "lower and emit equal groups once"),
    decision("batch", "launch equal kernels on several tensors at once", kBatchOptions),
    decision("early-launches", "begin kernels before those that they follow have ended"),
};

const Pass* find(std::span<const Pass> passes, std::string_view name) {
  const auto at = std::ranges::find(passes, name, &Pass::name);
  return at == passes.end() ? nullptr : &*at;
}

const PassOption* find_option(const Pass& pass, std::string_view name) {
  const auto at = std::ranges::find(pass.options, name, &PassOption::name);
  return at == pass.options.end() ? nullptr : &*at;
}

std::string joined(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list.append(list.empty() ? "" : ", ").append(name);
  return list;
}

}  // namespace

std::span<const Pass> pipeline() {
  return kPipeline;
}

std::vector<Pass> pipeline(const PassOptions& options) {
  std::vector<Pass> out(kPipeline.begin(), kPipeline.end());
  // In reverse, so that passes after the same row keep their order.
  for (auto pass = options.added.rbegin(); pass != options.added.rend(); ++pass) {
    const auto at = std::ranges::find(out, pass->after, &Pass::name);
    out.insert(at == out.end() ? at : std::next(at), *pass);
  }
  return out;
}

std::vector<std::string> optional_passes(const PassOptions& options) {
  std::vector<std::string> out;
  for (const Pass& pass : pipeline(options)) {
    if (!pass.required) out.emplace_back(pass.name);
  }
  return out;
}

bool PassOptions::enabled(std::string_view pass) const {
  return std::ranges::find(disabled, pass) == disabled.end();
}

bool PassOptions::enabled(const Pass& pass) const {
  if (const PassOption* option = find_option(pass, pass.enabled_by))
    return number(pass, option->name) != option->fallback;
  if (pass.for_low_precision) return precision != DType::F32;
  return pass.required || enabled(pass.name);
}

int64_t PassOptions::number(const Pass& pass, std::string_view option) const {
  const auto given = numbers.find(std::string(pass.name) + "." + std::string(option));
  if (given != numbers.end()) return given->second;
  const PassOption* declared = find_option(pass, option);
  return declared == nullptr ? 0 : declared->fallback;
}

int64_t PassOptions::number(std::string_view pass, std::string_view option) const {
  const Pass* row = find(kPipeline, pass);
  return row == nullptr ? 0 : number(*row, option);
}

Status PassOptions::check() const {
  const std::vector<Pass> passes = pipeline(*this);
  for (const Pass& pass : added) {
    const bool is_taken = find(kPipeline, pass.name) != nullptr ||
                          std::ranges::count(added, pass.name, &Pass::name) > 1;
    if (is_taken || find(kPipeline, pass.after) == nullptr)
      return {Code::Usage, "pass '" + std::string(pass.name) +
                               "' must have a unique name and follow an existing pass"};
  }
  const std::vector<std::string> known = optional_passes(*this);
  for (const std::string& name : disabled) {
    if (std::ranges::find(known, name) != known.end()) continue;
    return {Code::Usage, "there is no pass '" + name + "' that can be switched off; choose from " +
                             joined(known)};
  }
  for (const auto& [name, value] : numbers) {
    const size_t dot = std::min(name.find('.'), name.size());
    const Pass* pass = find(passes, name.substr(0, dot));
    const bool takes = pass != nullptr && dot < name.size() &&
                       find_option(*pass, std::string_view(name).substr(dot + 1)) != nullptr;
    if (!takes) return {Code::Usage, "no pass has the option '" + name + "'"};
  }
  return {};
}

Status run(const Pass& pass, graph::Graph& g, const PassOptions& options, PassReport* report) {
  if (pass.run == nullptr || !options.enabled(pass)) return {};
  PassReport unused;
  PassContext context(g, pass, options, report == nullptr ? unused : *report);
  return pass.run(context);
}

}  // namespace reprise::passes
