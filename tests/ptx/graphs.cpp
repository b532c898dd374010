#include "tests/ptx/graphs.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "codegen/compile/kernel_table.h"
#include "codegen/compile/targets.h"
#include "codegen/kernel/ir/scalar_eval.h"
#include "codegen/lower/fuse/fuse.h"
#include "codegen/lower/launch/packed_weights.h"
#include "tests/emit/agreement.h"

namespace reprise::test {
namespace {

std::string kind_of(std::string schedule) {
  std::erase_if(schedule, [](char c) { return c >= '0' && c <= '9'; });
  return schedule;
}

Result<lower::Lowered> lower_group(const graph::Graph& g, const lower::Group& group,
                                   const lower::Target& target, const Choice& choice) {
  RP_ASSIGN(lower::Lowered l, lower::lower(g, group, target));
  const size_t chosen = l.choices.empty() ? 0 : choice(l.choices);
  if (chosen > 0) return lower::lower(g, group, target, chosen);
  return l;
}

double number_in(kernel::Ty t, uint64_t bits) {
  if (t == kernel::Ty::BF16) return static_cast<double>(bf16_to_float(static_cast<uint16_t>(bits)));
  return kernel::number_of(bits, t);
}

bool is_float(kernel::Ty t) {
  return t == kernel::Ty::F16 || t == kernel::Ty::BF16 || t == kernel::Ty::F32 ||
         t == kernel::Ty::F64;
}

/// What a few roundings may do to numbers of a type, where `error` is that of fp32.
double error_of(kernel::Ty t, double error) {
  if (t == kernel::Ty::F64) return error * 0x1p-29;
  if (t == kernel::Ty::F16) return std::max(error, error == 0 ? 0 : 2e-3);
  if (t == kernel::Ty::BF16) return std::max(error, error == 0 ? 0 : 1.6e-2);
  return error;
}

std::string compare_buffer(const kernel::BufferParam& b, std::span<const std::byte> expected,
                           std::span<const std::byte> got, double f32_error) {
  const kernel::Ty t = b.storage;
  const std::vector<std::byte> e(expected.begin(), expected.end()), x(got.begin(), got.end());
  const size_t count = e.size() / static_cast<size_t>(kernel::byte_size(t));
  const double error = error_of(t, f32_error);
  double largest = 1;
  for (size_t n = 0; is_float(t) && n < count; ++n) {
    const double v = std::fabs(number_in(t, element(e, t, n)));
    // Memory that nobody wrote holds a large number.
    if (std::isfinite(v) && element(e, t, n) != element(x, t, n)) largest = std::max(largest, v);
  }
  for (size_t n = 0; n < count; ++n) {
    const uint64_t a = element(e, t, n), c = element(x, t, n);
    if (a == c || agrees(t, a, c, {})) continue;
    if (is_float(t) && std::fabs(number_in(t, a) - number_in(t, c)) <= error * largest) continue;
    return b.name + "[" + std::to_string(n) + "] is " + std::to_string(number_in(t, c)) +
           ", expected " + std::to_string(number_in(t, a));
  }
  return "";
}

/// Runs one launch both ways; what PTX made of the buffers stays.
Status run_both(const PtxModule& module, const kernel::Kernel& k, std::array<uint32_t, 3> grid,
                const std::vector<std::span<std::byte>>& buffers,
                const std::vector<uint32_t>& scalars, double error) {
  std::vector<std::vector<std::byte>> copies;
  copies.reserve(buffers.size());
  for (const auto& b : buffers) copies.emplace_back(b.begin(), b.end());
  std::vector<std::span<std::byte>> expected(copies.begin(), copies.end());
  RP_TRY(interpret(k, grid, expected, scalars).with_context("the interpreter"));
  uint32_t error_word = 0;
  RP_TRY(module.run(k, grid, buffers, scalars, 1, error_word));
  if (error_word != 0) return internal_error(k.name + ": error word");
  for (size_t n = 0; n < buffers.size(); ++n) {
    // A launch may have a buffer twice; then the last copy has nothing new.
    const std::string wrong =
        compare_buffer(k.buffers[n % k.buffers.size()], expected[n], buffers[n], error);
    if (!wrong.empty()) return internal_error(k.name + ": " + wrong);
  }
  return {};
}

}  // namespace

Result<Lowering> lower_for_cuda(const graph::Graph& g, const Choice& choice, CudaArch arch) {
  const lower::Target target = cuda_target(arch);
  RP_ASSIGN(auto fusion, lower::fuse(g, {.enabled = true, .device = target.predicate}));
  Lowering out;
  lower::PackedWeights packed(g);
  for (const lower::Group& group : fusion.groups) {
    if (group.kind == lower::GroupKind::Host) return unsupported(group.host_reason);
    RP_ASSIGN(lower::Lowered l, lower_group(g, group, target, choice));
    out.push_back(std::move(l));
    packed.add(out.back());
  }
  for (size_t n = 0; n < out.size(); ++n) {
    if (const auto reader = packed.reader(fusion.groups[n], out[n])) {
      RP_ASSIGN(out[n], lower_group(g, *reader, target, choice));
    }
    for (lower::LoweredLaunch& launch : out[n].launches)
      RP_TRY(kernel::legalize(launch.kernel, legalized_for(target)));
  }
  return out;
}

Result<std::vector<Lowering>> lower_by_kind(const graph::Graph& g,
                                            std::vector<std::string>* kinds) {
  std::set<std::string> found;
  std::vector<Lowering> out;
  RP_ASSIGN(Lowering first, lower_for_cuda(g, [&](const auto& choices) {
              for (const auto& c : choices) found.insert(kind_of(c.schedule));
              return size_t{0};
            }));
  if (found.size() < 2) {
    out.push_back(std::move(first));
    found = {found.empty() ? "the only one" : *found.begin()};
  } else {
    for (const std::string& kind : found) {
      RP_ASSIGN(Lowering one, lower_for_cuda(g, [&](const auto& choices) {
                  const auto at = std::find_if(choices.begin(), choices.end(), [&](const auto& c) {
                    return kind_of(c.schedule) == kind;
                  });
                  return at == choices.end() ? size_t{0}
                                             : static_cast<size_t>(at - choices.begin());
                }));
      out.push_back(std::move(one));
    }
  }
  if (kinds != nullptr) kinds->assign(found.begin(), found.end());
  return out;
}

bool limit_groups(Lowering& lowered, uint32_t groups) {
  bool found = false;
  for (lower::Lowered& l : lowered) {
    for (lower::LoweredLaunch& launch : l.launches) {
      if (!launch.kernel.units) continue;
      launch.grid = {Expr(groups * launch.kernel.cluster), Expr(1), Expr(1)};
      launch.scalars[launch.kernel.units->groups] = Expr(groups);
      found = true;
    }
  }
  return found;
}

void begin_early(Lowering& lowered) {
  for (lower::Lowered& l : lowered)
    for (lower::LoweredLaunch& launch : l.launches) kernel::begin_early(launch.kernel);
}

std::vector<kernel::Kernel> name_kernels(std::vector<Lowering>& all) {
  std::vector<kernel::Kernel> out;
  for (Lowering& lowering : all) {
    for (lower::Lowered& l : lowering) {
      for (lower::LoweredLaunch& launch : l.launches) {
        launch.kernel.name += "_" + std::to_string(out.size());
        out.push_back(launch.kernel);
      }
    }
  }
  return out;
}

std::string differs(const PtxGraph& graph, const Lowering& lowered, const PtxModule& module,
                    double error) {
  KernelRunner runner(*graph.g, graph.symbols, graph.inputs);
  const Execute execute = [&](const kernel::Kernel& k, std::array<uint32_t, 3> grid,
                              std::vector<std::span<std::byte>> buffers,
                              std::vector<uint32_t> scalars) {
    return run_both(module, k, grid, buffers, scalars, error);
  };
  for (const lower::Lowered& l : lowered) {
    const Status s = runner.run(l, execute);
    if (!s.ok()) return s.message();
  }
  return "";
}

}  // namespace reprise::test
