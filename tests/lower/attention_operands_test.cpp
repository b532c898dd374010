// The plain form in which schedules of attention may take queries, keys and values: a kernel that
// reads each operand by it copies what is in memory.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "codegen/graph/text/text.h"
#include "codegen/lower/fuse/fuse.h"
#include "codegen/lower/problems/attention_grad_operands.h"
#include "codegen/lower/problems/attention_operands.h"
#include "codegen/passes/pass.h"
#include "tests/support/kernel_runner.h"

namespace reprise::lower {
namespace {

using shaders::Operand;
using shaders::PlainOperand;

constexpr int64_t kBatch = 2, kHeads = 3, kLength = 5, kHead = 8;  // as many rows as keys

/// Element (i, k) of a head.
using Element = std::function<float(int64_t batch, int64_t head, int64_t i, int64_t k)>;

/// A fused graph whose inputs have 240 elements each, numbered from 0, 1000, 2000 and so on.
class Fused {
 public:
  explicit Fused(const std::string& text) {
    auto parsed = graph::parse(text);
    EXPECT_TRUE(parsed.ok()) << parsed.status().message();
    if (!parsed.ok()) return;
    g_ = std::move(*parsed);
    for (const passes::Pass& p : passes::pipeline()) {
      const Status s = passes::run(p, *g_);
      EXPECT_TRUE(s.ok()) << p.name << ": " << s.message();
    }
    auto fusion = fuse(*g_, {.attention = FuseAttention::Always});
    EXPECT_TRUE(fusion.ok()) << fusion.status().message();
    if (fusion.ok()) groups_ = std::move(fusion->groups);
    EXPECT_EQ(groups_.size(), 1U);
  }

  const graph::Graph& graph() const { return *g_; }
  const Group& group() const { return groups_[0]; }

  /// The group's first output, if a kernel stores the element (i, k) of the operand at (i, k) of
  /// each head's result.
  using Ask = std::function<Operand(ResultKernel& kernel, const WorkUnit& unit)>;
  void expect_copy(const Ask& ask, const ResultShape& shape, const Element& expected) {
    ResultKernel kernel(*g_, group(), Predicate{}, shape);
    const graph::ValueId to = group().outputs[0];
    const auto copy = kernel.write_units(shaders::TileShape{}, "copy", [&](const WorkUnit& unit) {
      Evaluator& ev = kernel.evaluator();
      kernel::Builder& b = kernel.builder();
      const Operand operand = ask(kernel, unit);
      EXPECT_TRUE(operand.plain.has_value());
      if (!operand.plain) return internal_error("no plain form");
      const PlainOperand& p = *operand.plain;
      return ev.guard(unit.origin.row < ev.value(shape.m), [&] {
        for (int c = 0; c < 4; ++c) {
          const Value column = unit.origin.column_tile * 4 + c;
          const Val x = b.load(p.buffer, p.first + unit.origin.row * p.across + column * p.along);
          Index at = ev.unflatten(unit.batch, shape.batch);
          at.push_back(ev.symbol(unit.origin.row, shape.m));
          at.push_back(ev.symbol(column, shape.n));
          RP_TRY(ev.store(to, at, x));
        }
        return Status();
      });
    });
    ASSERT_TRUE(copy.ok()) << copy.status().message();
    std::vector<HostTensor> inputs;
    for (size_t i = 0; i < g_->inputs.size(); ++i) {
      const std::vector<int64_t> dims = test::dims_of(g_->value(g_->inputs[i]).shape, {});
      HostTensor& t = inputs.emplace_back(DType::F32, dims);
      for (int64_t n = 0; n < t.count(); ++n)
        t.mutable_data<float>()[n] = static_cast<float>(1000 * static_cast<int64_t>(i) + n);
    }
    test::KernelRunner runner(*g_, {}, inputs);
    const Status ran = runner.run(*copy, test::interpret);
    ASSERT_TRUE(ran.ok()) << ran.message();
    const std::vector<std::byte>& memory = runner.memory_of(to);
    for (int64_t n = 0; n < kBatch * kHeads * kLength * kHead; ++n) {
      float got = 0;
      std::memcpy(&got, &memory[static_cast<size_t>(n) * sizeof got], sizeof got);
      const int64_t head = n / (kLength * kHead);
      ASSERT_EQ(got, expected(head / kHeads, head % kHeads, n / kHead % kLength, n % kHead)) << n;
    }
  }

 private:
  std::unique_ptr<graph::Graph> g_;
  std::vector<Group> groups_;
};

/// Of tensor number `input`, with heads before or after rows.
Element heads_first(int64_t input) {
  return [=](int64_t batch, int64_t head, int64_t i, int64_t k) {
    return static_cast<float>(1000 * input + ((batch * kHeads + head) * kLength + i) * kHead + k);
  };
}
Element rows_first(int64_t input) {
  return [=](int64_t batch, int64_t head, int64_t i, int64_t k) {
    return static_cast<float>(1000 * input + ((batch * kLength + i) * kHeads + head) * kHead + k);
  };
}

constexpr const char* kHeadsFirst = "float32[2,3,5,8]";

std::string attention(const std::string& q, const std::string& before = "") {
  return "graph g\ninput q0: " + q + "\ninput k: " + kHeadsFirst + "\ninput v: " + kHeadsFirst +
         "\n" + before +
         "kt = Transpose<perm=[0, 1, 3, 2]>(k) @13\ns = MatMul(q, kt) @13\n"
         "w = Softmax<axis=-1>(s) @13\ny = MatMul(w, v) @13\noutput y\n";
}

void expect_operands(const std::string& text, const Element& queries) {
  Fused fused(text);
  ASSERT_FALSE(testing::Test::HasFailure());
  ASSERT_EQ(row_of(fused.group().kind).name, "attention");
  const AttentionProblem problem(fused.graph(), fused.group());
  fused.expect_copy(
      [&](ResultKernel& kernel, const WorkUnit& unit) {
        return AttentionOperands(problem, kernel, unit).queries();
      },
      problem.result, queries);
  fused.expect_copy(
      [&](ResultKernel& kernel, const WorkUnit& unit) {
        return AttentionOperands(problem, kernel, unit).keys();
      },
      problem.result, heads_first(1));
  fused.expect_copy(
      [&](ResultKernel& kernel, const WorkUnit& unit) {
        Operand values = AttentionOperands(problem, kernel, unit).values();
        // Its first coordinate is the column.
        if (values.plain) std::swap(values.plain->across, values.plain->along);
        return values;
      },
      problem.result, heads_first(2));
}

TEST(AttentionOperands, HaveAPlainForm) {
  expect_operands(attention(kHeadsFirst, "q = Identity(q0) @13\n"), heads_first(0));
}

TEST(AttentionOperands, HaveAPlainFormThroughViews) {
  expect_operands(attention("float32[2,5,3,8]", "q = Transpose<perm=[0, 2, 1, 3]>(q0) @13\n"),
                  rows_first(0));
}

TEST(AttentionOperands, ThatAreComputedHaveNone) {
  const Fused fused(attention(kHeadsFirst, "q = Neg(q0) @13\n"));
  ASSERT_FALSE(testing::Test::HasFailure());
  const AttentionProblem problem(fused.graph(), fused.group());
  ResultKernel kernel(fused.graph(), fused.group(), Predicate{}, problem.result);
  const auto asked = kernel.write_units(shaders::TileShape{}, "ask", [&](const WorkUnit& unit) {
    AttentionOperands operands(problem, kernel, unit);
    EXPECT_FALSE(operands.queries().plain);
    EXPECT_TRUE(operands.keys().plain);
    EXPECT_TRUE(operands.keys().plain->contiguous_along);
    EXPECT_TRUE(operands.values().plain->contiguous_across);
    EXPECT_EQ(operands.keys().plain->divisor, kHead);
    return Status();
  });
  EXPECT_TRUE(asked.ok()) << asked.status().message();
}

TEST(AttentionOperands, OfGradientsHaveAPlainForm) {
  const std::string heads = kHeadsFirst;
  Fused fused("graph g\ninput g0: " + heads + "\ninput q: " + heads +
              "\ninput k0: float32[2,5,3,8]\ninput v: " + heads +
              "\ninput l: float32[2,3,5]\ninput s: float32[2,3,5]\n"
              "k = Transpose<perm=[0, 2, 1, 3]>(k0) @13\n"
              "(dq, dk, dv) = AttentionGrad<scale=0.5>(g0, q, k, v, l, s) @24\n"
              "output dq, dk, dv\n");
  ASSERT_FALSE(testing::Test::HasFailure());
  const GradProblem problem(fused.graph(), fused.group());
  const ResultShape shape = problem.result(shaders::GradOf::Queries);
  const auto ask = [&](int factor, bool others) {
    return [&problem, factor, others](ResultKernel& kernel, const WorkUnit& unit) {
      GradOperands operands(problem, shaders::GradOf::Queries, kernel, unit);
      return others ? operands.others(factor) : operands.rows(factor);
    };
  };
  fused.expect_copy(ask(0, false), shape, heads_first(1));
  fused.expect_copy(ask(1, false), shape, heads_first(0));
  fused.expect_copy(ask(0, true), shape, rows_first(2));
  fused.expect_copy(ask(1, true), shape, heads_first(3));
}

}  // namespace
}  // namespace reprise::lower
