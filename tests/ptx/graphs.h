// Graphs as kernels for CUDA, run on the interpreter and as PTX.
#pragma once

#include <string>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/lower/lower.h"
#include "runtime/base/tensor.h"
#include "tests/ptx/ptx_module.h"

namespace reprise::test {

/// A graph after all passes, with what it is run on.
struct PtxGraph {
  std::unique_ptr<graph::Graph> g;
  std::vector<int64_t> symbols;
  std::vector<HostTensor> inputs;
};

/// The launches of a graph's groups, in order, by a schedule of each.
using Lowering = std::vector<lower::Lowered>;
/// Which of the schedules that a group offers is taken.
using Choice = std::function<size_t(const std::vector<lower::ScheduleCandidate>&)>;

Result<Lowering> lower_for_cuda(const graph::Graph& g, const Choice& choice,
                                CudaArch arch = {false, 80});
/// A lowering for each kind of schedule that the graph's groups offer, sizes aside. Schedules are
/// named as `kinds` has them, in order.
Result<std::vector<Lowering>> lower_by_kind(const graph::Graph& g,
                                            std::vector<std::string>* kinds = nullptr);

/// Runs the launches one after another, each on the interpreter and as PTX, and compares what both
/// left in memory. `error` is a fraction of the largest magnitude of a buffer; with 0, bits are the
/// same. Returns what went wrong; empty when nothing did.
std::string differs(const PtxGraph& graph, const Lowering& lowered, const PtxModule& module,
                    double error);
/// Lets few workgroups (or clusters) compute all units of persistent kernels, and tells whether
/// there are such.
bool limit_groups(Lowering& lowered, uint32_t groups);
/// Lets each kernel begin before the launches before it have ended, as those of packages do.
void begin_early(Lowering& lowered);
/// The kernels of lowerings, after which names differ.
std::vector<kernel::Kernel> name_kernels(std::vector<Lowering>& all);

}  // namespace reprise::test
