// SampleRows: a workgroup for each row (shaders/sample_tokens.h).
#include <array>

#include "codegen/lower/kernels/kernels.h"
#include "codegen/ops/row/shape_arith.h"
#include "shaders/sample_tokens.h"

namespace reprise::lower {

using graph::ValueId;
using kernel::Builder;
using kernel::Ty;

namespace {

class Scores : public shaders::SampledScores {
 public:
  Scores(Evaluator& ev, const graph::Graph& g, const graph::Node& n, Expr row, Value local,
         uint32_t workgroup)
      : ev_(ev),
        b_(ev.builder()),
        x_(n.inputs[0]),
        y_(n.outputs[0]),
        size_(g.value(x_).shape[1]),
        row_(std::move(row)),
        local_(local),
        workgroup_(workgroup),
        lanes_(size_.known_divisor(g.symbols) % 4 == 0 ? 4 : 1) {}

  Status each(const ElementBody& body) override {
    const Expr vectors = Expr::floordiv(size_, lanes_);
    return ev_.for_loop(Expr::ceildiv(vectors, workgroup_), [&](Value i) {
      const Value vector = i * workgroup_ + local_;
      return ev_.guard(vector < ev_.value(vectors), [&]() -> Status {
        const Expr first = Expr(lanes_) * ev_.symbol(vector, vectors);
        const auto lanes = static_cast<int>(lanes_);
        RP_ASSIGN(const Val x, score(lanes > 1 ? first + ev_.lane() : first, lanes));
        for (int l = 0; l < lanes; ++l)
          RP_TRY(body({b_, lanes > 1 ? Val(b_.extract(x, l)) : x}, vector * lanes_ + l));
        return {};
      });
    });
  }
  Status each_of_part(const ElementBody& body) override {
    const Expr part = Expr::ceildiv(size_, workgroup_);
    return ev_.for_loop(part, [&](Value i) {
      const Value position = local_ * ev_.value(part) + i;
      return ev_.guard(position < ev_.value(size_), [&]() -> Status {
        RP_ASSIGN(const Val x, score(ev_.symbol(position, size_), 1));
        return body({b_, x}, position);
      });
    });
  }
  Status loop(int64_t count, const std::function<Status(Value)>& body) override {
    return ev_.for_loop(b_.i32(0), b_.i32(count), b_.i32(1), count, body);
  }
  Status guard(Val condition, const Body& body) override { return ev_.guard(condition, body); }
  Status store(Value token) override { return ev_.store(y_, {row_}, token); }

 private:
  Result<Val> score(const Expr& position, int lanes) {
    RP_ASSIGN(const Val x, ev_.eval(x_, {row_, position}, lanes));
    return b_.type(x).ty == Ty::F32 ? x : Val(b_.convert(x, Ty::F32));
  }

  Evaluator& ev_;
  Builder& b_;
  ValueId x_, y_;
  Expr size_, row_;
  Value local_;
  int64_t workgroup_, lanes_;
};

Result<shaders::SampleNumbers> numbers_of(Evaluator& ev, const graph::Node& n, const Expr& row,
                                          Value row_number) {
  Builder& b = ev.builder();
  const graph::Graph& g = ev.graph();
  constexpr size_t kNumbers = 6;
  std::array<Value, kNumbers> v;
  for (size_t i = 0; i < kNumbers; ++i) {
    const ValueId input = n.inputs[i + 1];
    const bool shared = g.value(input).shape[0].is_const(1);
    RP_ASSIGN(const Val number, ev.eval(input, {shared ? Expr(0) : row}));
    v[i] = {b, number};
  }
  constexpr size_t kSeed = 4, kStep = 5;
  const bool one_seed = g.value(n.inputs[kSeed + 1]).shape[0].is_const(1);
  const auto bits = [&](Val number) { return Value{b, b.bitcast(number, kernel::kU32)}; };
  return shaders::SampleNumbers{.size = ev.value(g.value(n.inputs[0]).shape[1]),
                                .temperature = v[0],
                                .top_k = v[1],
                                .top_p = v[2],
                                .min_p = v[3],
                                .seed = bits(v[kSeed]),
                                .step = bits(v[kStep]),
                                .row = one_seed ? bits(row_number) : Value(b, b.u32(0))};
}

/// Few invocations wait for each other sooner, but drivers limit the iterations of each.
uint32_t cpu_workgroup(const graph::Graph& g, const graph::Node& n) {
  constexpr uint32_t kFewest = 64, kMost = 1024;
  constexpr int64_t kScoresEach = 4096;  // which 40 loops read, four at a time
  const Expr& size = g.value(n.inputs[0]).shape[1];
  uint32_t workgroup = kFewest;
  while (workgroup < kMost && (!size.is_const() || size.value() > kScoresEach * workgroup))
    workgroup *= 2;
  return workgroup;
}

}  // namespace

std::string sample_refusal(const graph::Graph& g, const graph::Node& n) {
  if (g.value(n.inputs[0]).dtype == DType::F64) return "its scores are float64";
  return {};
}

Result<Lowered> lower_sample(const graph::Graph& g, const Group& group, const TargetFacts& target) {
  const graph::Node& n = *group.anchor;
  const uint32_t most = target.workgroup_invocations();
  const uint32_t workgroup = shaders::sample_workgroup(
      target.cpu_type() ? std::min(most, cpu_workgroup(g, n)) : most, target.shared_bytes());
  Builder b(kernel_name(group));
  Evaluator ev(g, group, b);
  limit_loops(ev, target);
  b.set_workgroup(workgroup);
  const Expr rows = g.value(n.inputs[0]).shape[0];
  const Value id = linear_workgroup(b, rows);
  const Value local{b, b.convert(b.builtin(kernel::Builtin::LocalIndex), Ty::I32)};
  RP_TRY(ev.guard(id < ev.value(rows), [&]() -> Status {
    const Expr row = ev.symbol(id, rows);
    RP_ASSIGN(const shaders::SampleNumbers numbers, numbers_of(ev, n, row, id));
    Scores scores(ev, g, n, row, local, workgroup);
    return shaders::sample_token(b, scores, numbers, workgroup);
  }));
  return finish(ev, b, group, rows, "one workgroup per row");
}

}  // namespace reprise::lower
