#include "tests/fuzz/lib/injected.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "codegen/kernel/ir/scalar_ops.h"
#include "codegen/ops/row/op.h"

namespace reprise::fuzz {

namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;
using kernel::Inst;

/// A fault of the graph after one pass, in each node that it applies to.
Fault after(std::string_view pass, void (*alter)(Graph&, Node&)) {
  Fault f;
  f.graph = [pass, alter](const std::string& done, Graph& g) {
    if (done != pass) return;
    for (const auto& n : g.nodes()) alter(g, *n);
  };
  return f;
}

Fault of_kernels(void (*alter)(kernel::Kernel&)) {
  Fault f;
  f.kernel = alter;
  return f;
}

Fault of_plans(void (*alter)(plan::Plan&)) {
  Fault f;
  f.package = [alter](package::Package& p) {
    for (package::Variant& v : p.variants) alter(v.plan);
  };
  return f;
}

/// Two axes of the result that are equally long are exchanged.
void wrong_perm(Graph& g, Node& n) {
  const auto* perm = n.attrs.get<std::vector<int64_t>>("perm");
  if (n.op != "Transpose" || perm == nullptr) return;
  const Shape& out = g.value(n.outputs[0]).shape;
  for (size_t i = 0; i + 1 < out.size(); ++i) {
    if (!(out[i] == out[i + 1]) || out[i].is_const(1)) continue;
    std::vector<int64_t> wrong = *perm;
    std::swap(wrong[i], wrong[i + 1]);
    n.attrs.set("perm", std::move(wrong));
    return;
  }
}

/// A vector operand lies along the second to last axis instead of the last.
void wrong_broadcast(Graph& g, Node& n) {
  const ops::OpDef* def = ops::find(n);
  if (def == nullptr || def->lowering != ops::Lowering::Scalar || n.inputs.size() < 2) return;
  const Shape out = g.value(n.outputs[0]).shape;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const ValueId in = n.inputs[i];
    const Shape s = g.value(in).shape;
    if (out.size() < 2 || s.size() != 1 || s[0].is_const(1) || !(s[0] == out[out.size() - 2]))
      continue;
    graph::NodeSpec view;
    view.op = "Reshape";
    view.attrs.set("shape", std::vector<Expr>{s[0], 1});
    view.inputs = {in};
    view.outputs = {g.add_value("turned", g.value(in).dtype, {s[0], 1})};
    g.set_input(n, i, g.add_node(std::move(view), &n)->outputs[0]);
  }
}

/// Padding before and after an image are exchanged where its channels were made the last axis.
void wrong_layout(Graph&, Node& n) {
  if (n.attrs.get_int("channels_last", 0) == 0) return;
  std::vector<int64_t> ints = n.attrs.get_ints("pads");
  std::rotate(ints.begin(), ints.begin() + static_cast<std::ptrdiff_t>(ints.size() / 2),
              ints.end());
  if (!ints.empty()) n.attrs.set("pads", std::move(ints));
  std::vector<Expr> exprs = n.attrs.get_exprs("pads");
  std::rotate(exprs.begin(), exprs.begin() + static_cast<std::ptrdiff_t>(exprs.size() / 2),
              exprs.end());
  if (!exprs.empty()) n.attrs.set("pads", std::move(exprs));
}

/// A cast to a narrower integer and back is taken for no cast.
void lost_wrap(Graph& g, Node& n) {
  if (n.op != "Cast") return;
  Node* inner = g.value(n.inputs[0]).producer;
  if (inner == nullptr || inner->op != "Cast") return;
  const DType middle = g.value(n.inputs[0]).dtype;
  const DType from = g.value(inner->inputs[0]).dtype;
  if (is_int(middle) && size_of(middle) < size_of(from)) g.set_input(n, 0, inner->inputs[0]);
}

/// Scores lose their mask: of a sum that a softmax's maximum reads, the product alone is left.
void lost_mask(Graph& g, Node& n) {
  if (n.op != "ReduceMax") return;
  Node* sum = g.value(n.inputs[0]).producer;
  if (sum == nullptr || sum->op != "Add") return;
  for (const ValueId in : sum->inputs) {
    const graph::Value& scores = g.value(in);
    const bool product = scores.producer != nullptr &&
                         (scores.producer->op == "MatMul" || scores.producer->op == "Mul");
    if (!product || scores.shape != g.value(sum->outputs[0]).shape) continue;
    g.replace_uses(sum->outputs[0], in);
    return;
  }
}

/// Nodes that differ in nothing but an attribute, or in the order of their operands, are one.
void merged_too_much(Graph& g, Node& n) {
  for (const auto& other : g.nodes()) {
    if (other.get() == &n) return;
    const bool same = other->op == n.op && other->outputs.size() == 1 && n.outputs.size() == 1 &&
                      std::is_permutation(other->inputs.begin(), other->inputs.end(),
                                          n.inputs.begin(), n.inputs.end());
    if (!same || g.value(other->outputs[0]).shape != g.value(n.outputs[0]).shape ||
        g.value(other->outputs[0]).dtype != g.value(n.outputs[0]).dtype) {
      continue;
    }
    g.replace_uses(n.outputs[0], other->outputs[0]);
    return;
  }
}

/// A maximum begins with 0 instead of the lowest number.
void wrong_identity(kernel::Kernel& k) {
  for (Inst& i : k.insts) {
    const bool lowest = i.op == kernel::Op::Const && i.type.ty == kernel::Ty::F32 &&
                        std::bit_cast<float>(static_cast<uint32_t>(i.imm)) ==
                            -std::numeric_limits<float>::infinity();
    if (lowest) i.imm = 0;
  }
}

/// The last element that a guard lets through is left out.
void short_tail(kernel::Kernel& k) {
  const auto is = [](const Inst& i, kernel::ScalarOp op) {
    return i.op == kernel::Op::Scalar && i.imm == static_cast<uint64_t>(op);
  };
  for (const Inst& i : k.insts) {
    if (i.op != kernel::Op::If) continue;
    const Inst& condition = k.insts[static_cast<size_t>(i.args[0].id)];
    if (!is(condition, kernel::ScalarOp::Less) || condition.args.size() != 2) continue;
    Inst& bound = k.insts[static_cast<size_t>(condition.args[1].id)];
    if (bound.op == kernel::Op::Const && bound.imm > 1) bound.imm -= 1;
  }
}

/// A fused kernel is given two of its operands in the wrong order.
void exchanged_operands(plan::Plan& p) {
  for (plan::Step& step : p.steps) {
    auto* launch = std::get_if<plan::Launch>(&step.what);
    if (launch == nullptr || launch->nodes.size() < 2) continue;
    for (size_t i = 0; i + 1 < launch->buffers.size(); ++i) {
      const auto& a = p.buffers[launch->buffers[i]];
      const auto& b = p.buffers[launch->buffers[i + 1]];
      const bool alike =
          !launch->writes[i] && !launch->writes[i + 1] && a.dtype == b.dtype && a.shape == b.shape;
      if (alike && a.kind != plan::BufferKind::Weight && b.kind != plan::BufferKind::Weight) {
        std::swap(launch->buffers[i], launch->buffers[i + 1]);
        return;
      }
    }
  }
}

void wrong_packing(plan::Plan& p) {
  for (plan::Weight& w : p.weights) {
    if (w.packing.is_raw() || w.packing.bits != 0) continue;
    std::swap(w.packing.dims[1], w.packing.dims[2]);
    for (plan::Packing::Part& part : w.packing.parts)
      if (part.axis != 0) part.axis = 3 - part.axis;
  }
}

/// A launch no longer waits for the one before it.
void lost_hazard(plan::Plan& p) {
  for (size_t i = p.steps.size(); i-- > 0;) {
    if (p.steps[i].after.empty()) continue;
    p.steps[i].after.clear();
    return;
  }
}

constexpr InjectedBug kBugs[] = {
    {"transpose", "canonicalize composes two transposes wrongly",
     [] { return after("canonicalize", wrong_perm); }},
    {"broadcast", "decompose lays a vector along the wrong axis",
     [] { return after("decompose", wrong_broadcast); }},
    {"layout", "layout exchanges the padding before and after an image",
     [] { return after("layout", wrong_layout); }},
    {"cast", "canonicalize drops a cast to a narrower integer and back",
     [] { return after("canonicalize", lost_wrap); }},
    {"mask", "attention ignores its mask", [] { return after("canonicalize", lost_mask); }},
    {"cse", "cse merges nodes whose attributes or operands' order differ",
     [] { return after("canonicalize", merged_too_much); }},
    {"identity", "a maximum in a kernel begins with 0", [] { return of_kernels(wrong_identity); }},
    {"tail", "a kernel's guard leaves the last element out", [] { return of_kernels(short_tail); }},
    {"operands", "fusion exchanges two operands of a kernel",
     [] { return of_plans(exchanged_operands); }},
    {"packing", "packed weights are transposed", [] { return of_plans(wrong_packing); }},
    {"hazard", "a launch does not wait for what writes its input",
     [] { return of_plans(lost_hazard); }},
};

}  // namespace

std::span<const InjectedBug> injected_bugs() {
  return kBugs;
}

std::optional<Fault> injected_fault(std::string_view name) {
  for (const InjectedBug& b : injected_bugs()) {
    if (b.name == name) return b.fault();
  }
  return std::nullopt;
}

}  // namespace reprise::fuzz
