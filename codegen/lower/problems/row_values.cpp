#include "codegen/lower/problems/row_values.h"

#include <algorithm>
#include <cmath>

#include "codegen/lower/group/cost.h"
#include "codegen/lower/launch/compensated.h"
#include "codegen/ops/math/reduce.h"
#include "codegen/target/device_costs.h"

namespace reprise::lower {

using graph::Node;
using graph::ValueId;
using kernel::Builder;
using kernel::ScalarOp;
using kernel::Ty;

namespace {

/// The elements of a row of the operand that the reductions read, in vectors of four.
int64_t quads_of(const graph::Graph& g, const Node& n) {
  return g.value(n.inputs[0]).shape.back().value() / 4;
}

/// The sum (or product, maximum, minimum) of a row. Long sums are compensated, as in row kernels.
class RowReduction {
 public:
  RowReduction(ResultKernel& kernel, const Node& n, const shaders::Tile& tile)
      : b_(kernel.builder()),
        ev_(kernel.evaluator()),
        n_(n),
        op_(*def_of(n)->combine),
        quads_(quads_of(kernel.graph(), n)),
        lanes_(tile.unit == shaders::Unit::Subgroup ? shaders::kCpuLanes : 1),
        sum_(local("row")) {
    const int64_t steps = Expr::ceildiv(Expr(quads_), lanes_).value();
    if (steps > kShortSum && op_ == ScalarOp::Add) error_ = local("row_error");
  }

  Result<Val> write(const Index& row) {
    const Value first = lanes_ > 1 ? shaders::lane_of(b_) : Value{b_, b_.i32(0)};
    RP_TRY(ev_.for_loop(first, b_.i32(quads_), b_.i32(lanes_), Expr::ceildiv(quads_, lanes_),
                        [&](Value quad) { return add(row, quad); }));
    const Val sums = b_.local_load(sum_);
    const Val errors = error_ >= 0 ? b_.local_load(error_) : Val{};
    Total total{{b_, b_.extract(sums, 0)}, {}};
    if (errors) total.error = {b_, b_.extract(errors, 0)};
    for (int i = 1; i < 4; ++i)
      total = joined(total, b_.extract(sums, i), errors ? b_.extract(errors, i) : Val{});
    if (lanes_ > 1) total = of_lanes(total);
    return errors ? compensated(b_, total.sum, total.error) : Val{total.sum};
  }

 private:
  struct Total {
    Value sum, error;
  };

  int local(const char* name) {
    const kernel::Type type = kernel::vec(kernel::kF32, 4);
    const int made = b_.local(name, type);
    b_.local_store(made, ops::reduction_identity(b_, op_, DType::F32, type));
    return made;
  }

  Status add(const Index& row, Value quad) {
    Index at = row;
    at.push_back(Expr(4) * ev_.symbol(quad, Expr(quads_)) + ev_.lane());
    RP_ASSIGN(const Val x, ev_.eval(n_.inputs[0], at, 4));
    const Val before = b_.local_load(sum_), sum = b_.scalar_op(op_, {before, x});
    b_.local_store(sum_, sum);
    if (error_ < 0) return {};
    const Val more = lost({b_, before}, {b_, x}, {b_, sum});
    b_.local_store(error_, b_.add(b_.local_load(error_), more));
    return {};
  }

  Total joined(const Total& a, Val sum, Val error) {
    Total out{b_.scalar_op(op_, {a.sum, sum}), {}};
    if (error) out.error = a.error + Value{b_, error} + Value{b_, lost(a.sum, {b_, sum}, out.sum)};
    return out;
  }

  /// The total of all lanes, in each of them.
  Total of_lanes(const Total& own) {
    const auto error = [&](int lane) -> Value {
      return error_ >= 0 ? shaders::broadcast(b_, own.error, lane) : Value{};
    };
    Total out{shaders::broadcast(b_, own.sum, 0), error(0)};
    for (int lane = 1; lane < lanes_; ++lane)
      out = joined(out, shaders::broadcast(b_, own.sum, lane), error(lane));
    return out;
  }

  Builder& b_;
  Evaluator& ev_;
  const Node& n_;
  const ScalarOp op_;
  const int64_t quads_;
  const int lanes_;
  const int sum_;
  int error_ = -1;  // -1: the sum is not compensated
};

bool is_float32(const graph::Graph& g, const Node& n) {
  const auto is = [&](ValueId v) { return g.value(v).dtype == DType::F32; };
  return is(n.inputs[0]) && is(n.outputs[0]);
}

}  // namespace

bool has_row_values(const Group& group) {
  return std::ranges::any_of(group.nodes, [](const Node* n) { return is_reduction(*n); });
}

std::string rows_apart(const graph::Graph& g, std::span<const Group* const> products,
                       const Group& rows, const TargetFacts& device) {
  const std::string name = "'" + rows.anchor->name + "'";
  const Expr& columns = rows.domain.back();
  const bool vectors = columns.is_const() && columns.value() > 0 && columns.value() % 4 == 0;
  const bool floats = std::ranges::all_of(
      rows.nodes, [&](const Node* n) { return !is_reduction(*n) || is_float32(g, *n); });
  if (!vectors || !floats) return name + " needs whole rows, which several workgroups compute";
  // Tiles of one row do not share loads of the weight, which takes longer with more rows. A run of
  // a plan with dynamic sizes may have any number of them.
  const Expr count = element_count(row_shape(rows.domain, rows.reduced));
  if (!count.is_const() || count.value() != 1)
    return name + " has more than one row, whose products share loads of the weight";
  if (!shaders::has_cpu_subgroups(device))
    return name + " would be computed again for each tile, which pays on CPU-type devices alone";
  const shaders::CpuCosts& price = shaders::cpu_costs(device);
  const shaders::RowsInProductsCosts& cost = shaders::kRowsInProducts;
  const double row = static_cast<double>(columns.value()) / 4 *
                     (cost.loads * price.vector_load + shaders::kCpuLanes);
  double units = 0;
  for (const Group* product : products)
    units += std::ceil(count_hint(g, {product->domain.back()}) / cost.columns);
  // The lanes of a unit share a row; in the separate kernel, one invocation computes it.
  if (units * row / shaders::kCpuLanes / price.cores <= cost.launch + row) return {};
  return name + " would be computed again for each tile, which takes longer than a launch";
}

Status compute_row_values(ResultKernel& kernel, const Index& row, const shaders::Tile& tile) {
  for (const Node* n : kernel.group().nodes) {
    if (!is_reduction(*n)) continue;
    RP_ASSIGN(const Val v, RowReduction(kernel, *n, tile).write(row));
    Index at = row;
    at.emplace_back(0);
    kernel.evaluator().bind(n->outputs[0], std::move(at), v);
  }
  return {};
}

}  // namespace reprise::lower
