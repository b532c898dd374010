#include "codegen/lower/group/kernel_limits.h"

#include <algorithm>
#include <map>

#include "codegen/graph/image_origin.h"
#include "codegen/lower/group/group_lowering.h"
#include "codegen/ops/row/window.h"
#include "runtime/base/driver_workarounds.h"

namespace reprise::lower {

using graph::Graph;
using graph::Node;
using graph::ValueId;

namespace {

// The most flops per element of the nodes of a kernel (workarounds::kLongKernels). Longer
// kernels would gain little from further fusion.
constexpr double kMaxWork = 512;

double work(const Graph& g, const std::vector<Node*>& nodes) {
  double sum = 0;
  for (const Node* n : nodes) sum += recompute_cost(g, *n);
  return sum;
}

/// The most copies of nodes that the code of a kernel may have. Every Concat and Pad, every tap of
/// a window, reads its operand at an index of its own, and the code of the operand is written for
/// each: a chain of them doubles the code with each link.
constexpr double kMaxCopies = 1024;
/// The most conditions of all copies of Concats (docs/tuning.md).
constexpr double kMaxConditions = 128;
/// The most conditions and loops around an operand. The kernel has a few more of its own.
constexpr int kMaxDepth = kMaxNestedBlocks - 16;  // workarounds::kDeepNesting
/// Fewer reads than this at other indices cannot exceed any of these limits.
constexpr size_t kFewReaders = 6;

bool reads_elsewhere(const Node& n) {
  const ops::OpDef* def = def_of(n);
  return def != nullptr &&
         (def->lowering == ops::Lowering::Element || def->lowering == ops::Lowering::View);
}

/// The code of a kernel, as a multiple of the code of its nodes.
class CodeSize {
 public:
  /// `more`: another node of the kernel, or null.
  CodeSize(const Graph& g, const std::vector<Node*>& nodes, const Node* more)
      : g_(g), inside_(nodes.begin(), nodes.end()) {
    if (more != nullptr) inside_.push_back(more);
    std::sort(inside_.begin(), inside_.end());
  }

  std::string why_too_large() {
    size_t readers = 0;
    for (const Node* n : inside_) {
      const bool concatenates = def_of(*n) != nullptr && def_of(*n)->concatenates;
      readers += concatenates ? n->inputs.size() : reads_elsewhere(*n) ? 1 : 0;
    }
    if (readers < kFewReaders) return {};
    double copies = 0;
    for (const Node* n : inside_) {
      const Written w = of(*n);
      copies += w.copies;
      if (w.depth > kMaxDepth) return "the kernel would nest too many conditions";
    }
    if (conditions() > kMaxConditions) return "the kernel would test too many parts of Concats";
    return copies > kMaxCopies ? "the kernel would contain too many copies of its nodes" : "";
  }

  /// The conditions of all copies of Concats.
  double conditions() {
    double sum = 0;
    for (const Node* n : inside_) {
      if (def_of(*n) != nullptr && def_of(*n)->concatenates)
        sum += of(*n).copies * static_cast<double>(n->inputs.size());
    }
    return sum;
  }

 private:
  struct Written {
    double copies = 0;
    int depth = 0;  // of conditions and loops around the node
  };

  Written of(const Node& n) {
    const auto [known, is_new] = memo_.try_emplace(&n);
    if (!is_new) return known->second;
    double same_index = 1;  // stored, or read by a loop of the kernel
    Written w;
    for (const ValueId v : n.outputs) {
      if (v == graph::kNone) continue;
      for (const Node* u : g_.users(v)) {
        if (std::binary_search(inside_.begin(), inside_.end(), u)) add_user(*u, v, w, same_index);
      }
    }
    w.copies += same_index;
    return memo_[&n] = w;
  }

  void add_user(const Node& u, ValueId v, Written& w, double& same_index) {
    const Written user = of(u);
    w.depth = std::max(w.depth, user.depth);
    if (!reads_elsewhere(u)) {
      same_index = std::max(same_index, user.copies);
      return;
    }
    const ops::OpDef* def = def_of(u);
    const bool loops = def->reads_per_element != nullptr;
    const double reads = loops ? def->reads_per_element(g_, u) : 1;
    const auto places = static_cast<double>(std::ranges::count(u.inputs, v));
    w.copies += user.copies * places * (reads <= ops::kMaxUnrolledReads ? reads : 1);
    const int blocks = (def->lowering == ops::Lowering::Element ? 1 : 0) + (loops ? 1 : 0);
    w.depth = std::max(w.depth, user.depth + blocks);
  }

  const Graph& g_;
  std::vector<const Node*> inside_;  // sorted
  std::map<const Node*, Written> memo_;
};

/// Whether n is a loop that lowering does not count: the remainder of floats, or the power of
/// integers. A constant exponent takes no loop.
bool is_a_loop(const Graph& g, const Node& n) {
  const ops::OpDef* def = def_of(n);
  if (def == nullptr || !def->row) return false;
  const bool floats = is_float(g.value(n.outputs[0]).dtype);
  if (!kernel::expands_to_loop(*def->row, floats)) return false;
  return floats || is_bound(g, n.inputs[1]);
}

bool loops_over_its_input(const Node& n) {
  const ops::OpDef* def = def_of(n);
  return def != nullptr && def->reads_per_element != nullptr;
}

/// Whether n loops over its input for each element of the tile of a contraction. Lowering unrolls
/// the tile, so the kernel would contain that loop once for each element of the tile, which takes
/// drivers seconds to compile. Linear interpolation in two dimensions, which reads four elements,
/// is small enough.
bool loops_in_tile(const Graph& g, GroupKind kind, const Node& n) {
  constexpr double kMaxTileReads = 4;
  return row_of(kind).unrolls_tiles && !is_contraction(n) && loops_over_its_input(n) &&
         def_of(n)->lowering == ops::Lowering::Element &&
         def_of(n)->reads_per_element(g, n) > kMaxTileReads;
}

/// Why a kernel of these nodes, and of `more` unless it is null, would have a loop for each element
/// inside its own loops or inside an unrolled tile. The former takes more iterations than drivers
/// execute, the latter as many loops as the tile has elements. Empty if it would not.
std::string nested_loop(const Graph& g, GroupKind kind, const std::vector<Node*>& nodes,
                        const Node* more) {
  bool has_loops = !row_of(kind).elementwise;
  const Node* inner = nullptr;
  const auto add = [&](const Node* n) {
    has_loops |= loops_over_its_input(*n);
    if (inner == nullptr && (is_a_loop(g, *n) || loops_in_tile(g, kind, *n))) inner = n;
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
  if (row_of(user.kind).loops_over_rows && loops_over_its_input(n)) {
    return "'" + n.name + "' loops over its input, which needs more parallelism than rows have";
  }
  return CodeSize(g, nodes, &n).why_too_large();
}

/// Whether the group is a convolution that is no GEMM. An invocation of such a kernel computes the
/// elements of its own window, which others compute again.
bool repeats_windows(const Graph& g, const Group& group) {
  if (group.anchor == nullptr || def_of(*group.anchor)->lowering != ops::Lowering::Conv)
    return false;
  const Shape& weight = g.value(group.anchor->inputs[1]).shape;
  if (!weight[0].is_const() || !weight[1].is_const()) return false;
  const int64_t groups = ops::Attributes(*group.anchor).get_int("group");
  return ops::conv_form(groups, weight[1].value(), weight[0].value() / groups) !=
         ops::ConvForm::Gemm;
}

/// The flops for an element of n, a node that processes an image, from the pixels in memory.
double image_flops(const Graph& g, const Node& n) {
  std::vector<const Node*> found{&n};
  double sum = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    sum += recompute_cost(g, *found[i]);
    for (const ValueId v : found[i]->inputs) {
      const Node* p = v == graph::kNone ? nullptr : g.value(v).producer;
      if (p != nullptr && graph::processes_image(*p) && std::ranges::find(found, p) == found.end())
        found.push_back(p);
    }
  }
  return sum;
}

/// Why a node that processes an image should not be part of its user's kernel; empty if it should.
/// The pixels are converted where the first kernel loads them: a kernel of its own would write and
/// read a tensor that is larger than the image, and cost a launch. That is less than what it costs
/// to interpolate pixels for each tap of a window.
std::string image_cost(const Graph& g, const Node& n, const Group& user) {
  constexpr double kMaxFlops = 24;
  if (!repeats_windows(g, user) || image_flops(g, n) <= kMaxFlops) return {};
  return "the windows of '" + user.anchor->name +
         "' overlap, and the kernel would interpolate each pixel again for each window";
}

}  // namespace

std::string too_large(const Graph& g, GroupKind kind, const std::vector<Node*>& nodes) {
  if (std::string why = nested_loop(g, kind, nodes, nullptr); !why.empty()) return why;
  if (nodes.size() > kMaxNodes) return "the kernel would have too many nodes";
  if (work(g, nodes) > kMaxWork) return "the kernel would be too long";
  return CodeSize(g, nodes, nullptr).why_too_large();
}

double concat_conditions(const Graph& g, const std::vector<Node*>& nodes) {
  return CodeSize(g, nodes, nullptr).conditions();
}

std::string inline_cost(const Graph& g, const Node& n, const std::vector<const Group*>& users) {
  for (const Group* user : users) {
    if (std::string why = refusal(g, n, *user); !why.empty()) return why;
  }
  if (users.size() == 1 && graph::processes_image(n)) return image_cost(g, n, *users[0]);
  const double cost = recompute_cost(g, n);
  const double count = count_hint(g, g.value(n.outputs[0]).shape);
  double executed = 0;
  for (const Group* user : users) executed += evaluations(g, *user, n) * cost;
  // Computing n once per element is free. Everything beyond that counts against the budget.
  const double extra = executed - count * cost;
  if (extra <= 0) return {};
  // A kernel that packs pixels evaluates n once for each channel. The alpha channel is a constant.
  const bool packs_pixels =
      users.size() == 1 && std::ranges::all_of(users[0]->nodes, [](const Node* user) {
        return graph::processes_image(*user);
      });
  if (packs_pixels && executed <= 2 * count * cost) return {};
  double budget = executed;
  for (const Group* user : users) budget += group_flops(g, *user);
  if (extra <= kRecompute * budget) return {};
  const std::string times = std::to_string(executed / std::max(1.0, count * cost)).substr(0, 4);
  return "fusing '" + n.name + "' into " + std::to_string(users.size()) + " kernel" +
         (users.size() == 1 ? "" : "s") + " would execute its flops " + times + " times";
}

}  // namespace reprise::lower
