#include "codegen/lower/index_test.h"

#include "codegen/lower/launch/result_kernel.h"
#include "codegen/lower/launch/row_indices.h"

namespace reprise::lower {

using graph::ValueId;
using kernel::Builder;
using kernel::Builtin;
using kernel::Ty;
using kernel::Val;

namespace {

/// A kernel that nobody reads.
struct TestKernel {
  TestKernel(const graph::Graph& g, const Group& group) : b("test"), ev(g, group, b) {}

  /// A number below `end` that is known only at run time.
  Expr symbol(const Expr& end) {
    return ev.symbol(b.convert(b.builtin(Builtin::GlobalId), Ty::I32), end);
  }
  Index index(const Shape& shape) {
    Index out;
    for (const Expr& dim : shape) out.push_back(symbol(dim));
    return out;
  }
  void bind(ValueId v, const Index& index, int lanes = 1) {
    const kernel::Type type = ev.compute(ev.graph().value(v).dtype);
    ev.bind(v, index, b.constant(kernel::vec(type, lanes), 0));
  }

  Builder b;
  Evaluator ev;
};

/// Tests the outputs with the anchor's result at `index` of the domain.
Status test_outputs(TestKernel& test, const Group& group, const Index& index, int lanes = 1) {
  test.bind(group.anchor->outputs[0], index, lanes);
  test.ev.add_element(index, group.domain);
  for (ValueId v : group.outputs) {
    if (v == group.attention.log_sum) continue;  // the template stores it
    const Index at = output_index(test.ev, group, v, index);
    RP_TRY(test.ev.eval(v, at, lanes).status());
    RP_TRY(test.ev.check_order(v, at, lanes));
  }
  return test.ev.status();
}

}  // namespace

/// A schedule knows the position of a result as one number, or each coordinate separately.
Status test_result(const graph::Graph& g, const Group& group) {
  TestKernel one_number(g, group);
  const Expr position = one_number.symbol(element_count(group.domain));
  RP_TRY(test_outputs(one_number, group, one_number.ev.unflatten(position, group.domain)));
  TestKernel coordinates(g, group);
  RP_TRY(test_outputs(coordinates, group, coordinates.index(group.domain)));
  if (group.domain.empty() || group.domain.back().known_divisor(g.symbols) % 4 != 0) return {};
  TestKernel vectors(g, group);
  Index index = vectors.index(group.domain);
  index.back() =
      Expr(4) * vectors.symbol(Expr::floordiv(group.domain.back(), 4)) + vectors.ev.lane();
  return test_outputs(vectors, group, index, 4);
}

Status test_scan(const graph::Graph& g, const Group& group) {
  TestKernel test(g, group);
  const ValueId input = group.anchor->inputs[0];
  RP_TRY(test.ev.eval(input, test.index(group.domain)).status());
  return test_result(g, group);
}

namespace {

/// The scores between the first MatMul and the softmax.
Status test_scores(const graph::Graph& g, const Group& group) {
  TestKernel test(g, group);
  const AttentionChain& chain = group.attention;
  const Shape& domain = group.domain;
  const Expr batch = test.symbol(element_count(Shape(domain.begin(), domain.end() - 2)));
  const Expr row = test.symbol(domain[domain.size() - 2]);
  const Expr key = test.symbol(g.value(chain.weights).shape.back());
  const auto index_in = [&](ValueId v) {
    const Shape& shape = g.value(v).shape;
    Index index = test.ev.unflatten(batch, Shape(shape.begin(), shape.end() - 2));
    index.push_back(row);
    index.push_back(key);
    return index;
  };
  const ValueId scores = chain.scores->outputs[0];
  test.bind(scores, index_in(scores));
  RP_TRY(test.ev.eval(chain.logits, index_in(chain.logits)).status());
  return test.ev.status();
}

}  // namespace

Status test_attention(const graph::Graph& g, const Group& group) {
  RP_TRY(test_scores(g, group));
  return test_result(g, group);
}

Status test_rows(const graph::Graph& g, const Group& group) {
  RP_ASSIGN(const RowTrace trace, trace_rows(g, group, row_lanes(g, group, false)));
  RowStages stages(g, group);
  stages.choose_reloads(trace);
  if (stages.excess_flops() > 0)
    return unsupported("the kernel would compute values again at other columns");
  return {};
}

}  // namespace reprise::lower
