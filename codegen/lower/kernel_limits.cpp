#include "codegen/lower/kernel_limits.h"

#include <algorithm>

namespace reprise::lower {

using graph::Graph;
using graph::Node;

namespace {

// The most flops per element of the nodes of a kernel (workarounds::kLongKernels). Longer
// kernels would gain little from further fusion.
constexpr double kMaxWork = 512;

double work(const Graph& g, const std::vector<Node*>& nodes) {
  double sum = 0;
  for (const Node* n : nodes) sum += recompute_cost(g, *n);
  return sum;
}

/// Whether n is a floating-point remainder: a long division, whose loop lowering does not count.
bool is_a_loop(const Graph& g, const Node& n) {
  const ops::OpDef* def = def_of(n);
  if (def == nullptr || !def->row) return false;
  const bool remainder = *def->row == kernel::ScalarOp::Fmod || *def->row == kernel::ScalarOp::Mod;
  return remainder && is_float(g.value(n.outputs[0]).dtype);
}

bool loops_over_its_input(const Node& n) {
  const ops::OpDef* def = def_of(n);
  return def != nullptr && def->reads_per_element != nullptr;
}

/// Why a kernel of these nodes, and of `more` unless it is null, would have a loop for each element
/// inside its own loops or inside an unrolled tile. The former takes more iterations than drivers
/// execute, the latter as many loops as the tile has elements. Empty if it would not.
std::string nested_loop(const Graph& g, GroupKind kind, const std::vector<Node*>& nodes,
                        const Node* more) {
  bool has_loops = kind != GroupKind::Pointwise;
  const Node* inner = nullptr;
  const auto add = [&](const Node* n) {
    has_loops |= loops_over_its_input(*n);
    if (inner == nullptr && is_a_loop(g, *n)) inner = n;
  };
  std::for_each(nodes.begin(), nodes.end(), add);
  if (more != nullptr) add(more);
  if (inner == nullptr || !has_loops) return {};
  return "'" + inner->name +
         "' needs a loop for each element, inside the loops or tiles of the kernel";
}

/// Why n cannot join the kernel of one of its users; empty if it can.
std::string refusal(const Graph& g, const Node& n, const Group& user) {
  const bool is_free = recompute_cost(g, n) == 0;
  const std::vector<Node*>& nodes = user.nodes;
  if (nodes.size() >= kMaxNodes && !(is_free && nodes.size() < 2 * kMaxNodes))
    return "the kernel would have too many nodes";
  if (!is_free && work(g, nodes) + recompute_cost(g, n) > kMaxWork)
    return "the kernel would be too long";
  if (std::string why = nested_loop(g, user.kind, nodes, &n); !why.empty()) return why;
  // Few invocations share a row, and a loop inside the row's loop runs serially in each of them.
  if (user.kind == GroupKind::Row && loops_over_its_input(n)) {
    return "'" + n.name + "' loops over its input, which needs more parallelism than rows have";
  }
  return {};
}

}  // namespace

std::string too_large(const Graph& g, GroupKind kind, const std::vector<Node*>& nodes) {
  if (std::string why = nested_loop(g, kind, nodes, nullptr); !why.empty()) return why;
  if (nodes.size() > kMaxNodes) return "the kernel would have too many nodes";
  if (work(g, nodes) > kMaxWork) return "the kernel would be too long";
  return {};
}

std::string inline_cost(const Graph& g, const Node& n, const std::vector<const Group*>& users) {
  for (const Group* user : users) {
    if (std::string why = refusal(g, n, *user); !why.empty()) return why;
  }
  const double cost = recompute_cost(g, n);
  const double count = count_hint(g, g.value(n.outputs[0]).shape);
  double executed = 0;
  for (const Group* user : users) executed += evaluations(g, *user, n) * cost;
  // Computing n once per element is free. Everything beyond that counts against the budget.
  const double extra = executed - count * cost;
  if (extra <= 0) return {};
  double budget = executed;
  for (const Group* user : users) budget += group_flops(g, *user);
  if (extra <= kRecompute * budget) return {};
  const std::string times = std::to_string(executed / std::max(1.0, count * cost)).substr(0, 4);
  return "fusing '" + n.name + "' into " + std::to_string(users.size()) + " kernel" +
         (users.size() == 1 ? "" : "s") + " would execute its flops " + times + " times";
}

}  // namespace reprise::lower
