#include "codegen/compile/run_passes.h"

#include <algorithm>

#include "codegen/compile/variants.h"
#include "codegen/lower/fuse/fuse.h"
#include "codegen/lower/problems/attention.h"
#include "codegen/options/compile_hooks.h"
#include "codegen/options/progress.h"

namespace reprise {
namespace {

bool verifies(const CompileOptions& options) {
#ifdef NDEBUG
  return options.verify_passes;
#else
  (void)options;
  return true;
#endif
}

/// Verifies the graph after a pass, records the pass's time and calls CompileOptions::on_pass.
Status end_pass(CompileContext& context, std::string_view pass, bool core) {
  const CompileOptions& options = context.options;
  const std::string name(pass);
  if (verifies(options))
    RP_TRY(graph::verify(context.model, core).with_context("after pass " + name));
  context.end_pass(name);
  if (options.on_pass) options.on_pass(name, context.model);
  return report_progress(options, name);
}

/// The pass after which the graph is in core form.
constexpr std::string_view kDecompose = "decompose";

/// Which gradients of attention are kernels of their own, and which a formula. Later passes
/// simplify the latter.
Status choose_gradients(CompileContext& context) {
  const bool never = context.disabled(kAttentionPass);
  if (!never && context.disabled(kAttentionPrice)) return {};
  return lower::choose_gradient_formulas(context.model, context.targets, never);
}

/// passes::CountKernels.
Result<int64_t> count_kernels(const CompileContext& context, const graph::Graph& g) {
  lower::FusionOptions options = fusion_options(context);
  // Groups that passed here are not tested again when the model is fused. Guards are resolved
  // later.
  if (!g.guards.empty() || g.symbols.size() != context.model.symbols.size())
    options.tests = nullptr;
  options.limit = {};  // so that bisect, which sets it, does not change the graph
  RP_ASSIGN(const lower::Fusion fusion, lower::fuse(g, options));
  return std::ranges::count_if(fusion.groups, lower::has_kernels);
}

}  // namespace

Status run_passes(CompileContext& context, passes::PassReport& report) {
  const CompileOptions& options = context.options;
  passes::PassOptions pass_options = context.passes;
  pass_options.growing = context.growing;
  pass_options.count_kernels = [&](const graph::Graph& g) { return count_kernels(context, g); };
  bool core = false;
  for (const passes::Pass& pass : passes::pipeline(context.passes)) {
    if (pass.run == nullptr || !context.passes.enabled(pass)) continue;
    RP_TRY(passes::run(pass, context.model, pass_options, &report)
               .with_context("pass " + std::string(pass.name)));
    if (pass.name == kDecompose) RP_TRY(choose_gradients(context));
    if (options.hooks && options.hooks->graph) options.hooks->graph(pass.name, context.model);
    core |= pass.core;
    RP_TRY(end_pass(context, pass.name, core));
  }
  return {};
}

}  // namespace reprise
