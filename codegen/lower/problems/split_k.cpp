// Split K: a contraction as two launches. The first has a unit of work for each tile of the result
// and each part of K, which stores its sums in scratch memory. The second adds the parts of an
// element in their order, so that results do not differ between runs, and computes the epilogue.
#include "codegen/lower/problems/contraction.h"

namespace reprise::lower {

namespace {

constexpr uint32_t kAddWorkgroup = 64;  // invocations, each of which adds four columns

/// Where partial sums lie: [split][batch][row][column], with room for whole tiles.
class PartialSums {
 public:
  PartialSums(const ResultShape& shape, const shaders::Tile& tile)
      : shape_{Expr(tile.splits), element_count(shape.batch),
               Expr::ceildiv(shape.m, tile.rows) * Expr(tile.rows),
               Expr::ceildiv(shape.n, tile.columns) * Expr(tile.columns)} {}

  ScratchBuffer buffer(graph::ValueId of) const { return {of, DType::F32, shape_}; }

  /// Position of four columns from 4 * vec.
  Value at(Evaluator& ev, Value split, Value batch, Value row, Value vec) const {
    const Value rows = ev.value(shape_[2]), columns = ev.value(shape_[3]);
    return ((split * ev.value(shape_[1]) + batch) * rows + row) * columns + vec * 4;
  }

  Value rows(Evaluator& ev) const { return ev.value(shape_[2]); }

 private:
  Shape shape_;
};

/// Stores the sums of one part of K as they are. Elements past the end of the result have a place.
class PartialTile final : public shaders::ResultTile {
 public:
  PartialTile(ResultKernel& kernel, const PartialSums& sums, int buffer, const WorkUnit& unit)
      : b_(kernel.builder()), ev_(kernel.evaluator()), sums_(sums), buffer_(buffer), unit_(unit) {}

  Value row_count() override { return sums_.rows(ev_); }
  Status guard_row(Value, const Body& body) override { return ev_.scope(body); }
  Status guard_columns(Value, const Body& body) override { return ev_.scope(body); }
  Status store(Value row, Value vec, Value four) override {
    b_.store(buffer_, sums_.at(ev_, unit_.split, unit_.batch_at, row, vec), four, 4);
    return {};
  }
  Status loop(Value end, int64_t most, const std::function<Status(Value)>& body) override {
    return ev_.for_loop(b_.i32(0), end, b_.i32(1), most, body);
  }

 private:
  kernel::Builder& b_;
  Evaluator& ev_;
  const PartialSums& sums_;
  const int buffer_;
  const WorkUnit& unit_;
};

/// What both launches are written from.
struct SplitK {
  const graph::Graph& g;
  const Group& group;
  const TargetFacts& target;
  const ContractionProblem& problem;
  const shaders::Tile& tile;
  PartialSums sums;
  std::string schedule;

  ScratchBuffer buffer() const { return sums.buffer(group.anchor->outputs[0]); }
};

Result<Lowered> multiply_parts(const SplitK& s) {
  ResultKernel kernel(s.g, s.group, s.target, s.problem.result, kernel_name(s.group) + "_parts");
  const int buffer = kernel.evaluator().add_scratch(s.buffer(), kernel::Access::Write);
  RP_ASSIGN(Lowered out, kernel.write_units(s.tile, s.schedule, [&](const WorkUnit& unit) {
    const std::unique_ptr<TileOperands> operands = operands_of(s.problem, kernel, s.tile, unit);
    PartialTile result(kernel, s.sums, buffer, unit);
    return s.tile.schedule->write({*operands, result, s.tile, unit.origin});
  }));
  add_packed(out.launches[0], s.problem, s.tile);
  return out;
}

Result<Lowered> add_parts(const SplitK& s) {
  ResultKernel kernel(s.g, s.group, s.target, s.problem.result);
  kernel::Builder& b = kernel.builder();
  Evaluator& ev = kernel.evaluator();
  const int buffer = ev.add_scratch(s.buffer(), kernel::Access::Read);
  shaders::Tile four_columns;
  four_columns.workgroup = kAddWorkgroup;
  return kernel.write_units(four_columns, s.schedule, [&](const WorkUnit& unit) {
    const std::unique_ptr<TileOperands> operands = s.problem.operands(kernel, four_columns, unit);
    StoredTile result = operands->stored_tile();
    const Value row = unit.origin.row, vec = unit.origin.column_tile;
    const int sum = b.local("sum", kernel::vec(kernel::kF32, 4));
    b.local_store(sum, b.splat(b.f32(0), 4));
    RP_TRY(result.loop(b.i32(s.tile.splits), s.tile.splits, [&](Value split) {
      const Value at = s.sums.at(ev, split, unit.batch_at, row, vec);
      b.local_store(sum, b.add(b.local_load(sum), b.load(buffer, at, 4, 4)));
      return Status();
    }));
    return result.guard_columns(vec, [&] {
      return result.guard_row(row, [&] { return result.store(row, vec, b.local_load(sum)); });
    });
  });
}

}  // namespace

Result<Lowered> lower_split_k(const graph::Graph& g, const Group& group, const TargetFacts& target,
                              const ContractionProblem& problem, const shaders::Tile& tile) {
  const SplitK s{g,
                 group,
                 target,
                 problem,
                 tile,
                 PartialSums(problem.result, tile),
                 tile.describe() + problem.note};
  RP_ASSIGN(Lowered out, multiply_parts(s));
  RP_ASSIGN(Lowered added, add_parts(s));
  out.launches.push_back(std::move(added.launches[0]));
  return out;
}

}  // namespace reprise::lower
