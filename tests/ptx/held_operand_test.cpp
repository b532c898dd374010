// Elements of the sums of teams, and products whose left operand a team holds, as PTX for sm_90a.
// Values are small integers, so that results must have the interpreter's bits; what does not wait
// for products is reported by the interpreter and by the executor.
#include <gtest/gtest.h>

#include <functional>
#include <sstream>

#include "codegen/interpreter/interpreter.h"
#include "codegen/kernel/build/sum_elements.h"
#include "runtime/base/tensor.h"
#include "tests/emit/agreement.h"
#include "tests/ptx/needs.h"
#include "tests/ptx/ptx_module.h"

namespace reprise::test {
namespace {

using kernel::Access;
using kernel::BarrierScope;
using kernel::Builtin;
using kernel::kTeamSubgroups;
using kernel::MatrixUse;
using kernel::RowValues;
using kernel::SumElements;
using kernel::TeamOperands;
using kernel::Ty;
using kernel::Val;
using kernel::Value;

constexpr int kTile = 64, kDepth = 16;  // of a product
constexpr int kParts = kTile / kDepth;  // left operands that a sum becomes

enum class Mistake { None, LeftTooEarly, LeftTwice, SumTooEarly, Unawaited };

/// y = f(f(counted) * w) * w and f(counted) * w, where f makes elements small.
class HeldProducts {
 public:
  HeldProducts(Ty type, bool along_k, Mistake mistake)
      : type_(type), along_k_(along_k), mistake_(mistake) {
    b.set_workgroup(2 * kTeamSubgroups * 32);
    b.require_subgroup_size(32);
    const int w = b.buffer("w", type, Access::Read);
    y_ = b.buffer("y", Ty::F32, Access::Write);
    for (const char* name : {"zero", "rows", "columns", "stride"}) b.scalar(name);
    view_ = b.view("v", {static_cast<uint32_t>(w), 2, Swizzle::B128, {64, 64}, 0, {2, 1}, {3}});
    rights_ = b.shared("rights", type, kTile * kTile, Swizzle::B128);
    stored_ = b.shared("stored", Ty::F32, 2 * kTile * kTile);
    rounded_ = b.shared("rounded", type, kTile * kTile);
    full_ = b.signal("full", 1, 1);
    for (int n = 0; n < 2; ++n)
      sums_[n] = b.matrix("sum" + std::to_string(n), MatrixUse::Sum, Ty::F32, kTile, kTile,
                          MmaScope::Team);
    for (int n = 0; n < 2 * kParts; ++n)
      lefts_[n] = b.matrix("left" + std::to_string(n), MatrixUse::Left, type, kTile, kDepth,
                           MmaScope::Team);
    b.role({"multiply", 1, kTeamSubgroups, 232});
    b.role({"copy", 1, 1, 40});
    local_ = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
  }

  Result<kernel::Kernel> kernel() {
    const std::function<void()> bodies[] = {[this] { multiply(); }, [this] { copy(); }};
    b.run_roles(bodies);
    RP_ASSIGN(kernel::Kernel k, b.finish());
    RP_TRY(kernel::legalize(k, {.exact = true}));
    kernel::begin_early(k);
    RP_TRY(kernel::verify(k));
    return k;
  }

 private:
  bool is(Mistake m) const { return mistake_ == m; }
  void copy() {
    const Val zero = b.i32(0);
    b.box_copy(kernel::box_access(view_, rights_, full_), b.compose({zero, zero}), zero, zero, 512);
    b.arrive(full_, zero);
  }
  /// To the first or the second left operands.
  void convert(int sum, int which = 0) {
    for (int n = 0; n < kParts; ++n)
      b.matrix_convert(lefts_[which * kParts + n], sum, static_cast<uint32_t>(n * kDepth));
  }
  void product(int sum, int which = 0) {
    for (int n = 0; n < kParts; ++n) {
      TeamOperands p;
      p.sum = static_cast<uint16_t>(sum);
      p.left.shared = static_cast<uint16_t>(lefts_[which * kParts + n]);
      p.right = {static_cast<uint16_t>(rights_), along_k_, 8};
      p.held = true;
      b.team_mul_add(p, {}, b.i32(along_k_ ? n * kDepth : n * kDepth * kTile));
    }
    b.matrix_commit();
  }

  void multiply() {
    const SumElements elements(b, MmaScope::Team);
    for (const int s : sums_) b.matrix_zero(s);
    elements.map(sums_[0], [&](const SumElements::Place& p, const Value&) {
      const Value n = elements.row(p.which) * 3 + p.column * 5;
      return Value(b, b.convert(n % 7 - 3, Ty::F32));
    });
    convert(sums_[0]);
    b.matrix_zero(sums_[0]);
    b.await(full_, b.i32(0), b.i32(0));
    product(sums_[0]);
    if (!is(Mistake::LeftTooEarly) && !is(Mistake::SumTooEarly)) b.matrix_await(0);
    if (is(Mistake::LeftTooEarly)) b.matrix_zero(sums_[1]);
    limit(elements, is(Mistake::LeftTooEarly) ? sums_[1] : sums_[0]);
    convert(is(Mistake::LeftTooEarly) ? sums_[1] : sums_[0]);
    convert(sums_[0], 1);
    b.matrix_zero(sums_[0]);
    // Two groups, of which the first is used while the second one is unfinished.
    product(sums_[0]);
    b.matrix_zero(sums_[1]);
    product(sums_[1], is(Mistake::LeftTwice) ? 0 : 1);
    b.matrix_await(1);
    const int all[] = {sums_[0]};
    const RowValues most = elements.fold(all, [&](Value x, Value z) { return b.max(x, z); });
    elements.map(sums_[0],
                 [&](const SumElements::Place& p, const Value& v) { return v - most[p.which]; });
    if (!is(Mistake::Unawaited)) b.matrix_await(0);
    b.matrix_store(sums_[0], stored_, b.i32(0), kTile, false, 2);
    if (!is(Mistake::Unawaited)) {
      b.matrix_store(sums_[1], stored_, b.i32(kTile * kTile), kTile);
      b.matrix_store(sums_[1], rounded_, b.i32(0), kTile, false, 2);
    }
    if (is(Mistake::Unawaited)) return;
    b.barrier(BarrierScope::Team);
    b.for_loop(b.i32(0), b.i32(2 * kTile * kTile / 128), b.i32(1), [&](Value i) {
      b.store(y_, i * 128 + local_, b.shared_load(stored_, i * 128 + local_));
    });
    b.for_loop(b.i32(0), b.i32(kTile * kTile / 128), b.i32(1), [&](Value i) {
      const Val v = b.convert(b.shared_load(rounded_, i * 128 + local_), Ty::F32);
      b.store(y_, i * 128 + local_ + 2 * kTile * kTile, v);
    });
  }
  /// Multiples of 1/8 of at most 1.
  void limit(const SumElements& elements, int sum) {
    elements.map(sum, [&](const SumElements::Place&, const Value& v) -> Value {
      return b.mul(b.max(b.min(v, b.f32(8)), b.f32(-8)), b.f32(0.125F));
    });
  }

  kernel::Builder b{"held"};
  Ty type_;
  bool along_k_;
  Mistake mistake_;
  int y_ = 0, view_ = 0, rights_ = 0, stored_ = 0, rounded_ = 0, full_ = 0;
  int sums_[2] = {}, lefts_[2 * kParts] = {};
  Value local_;
};

Launch launch_of(Ty type) {
  Launch l;
  l.buffers.resize(2);
  for (int n = 0; n < kTile * kTile; ++n) {
    const auto v = static_cast<float>(n * 7 % 5 + n / kTile % 3 - 3);
    set_element(l.buffers[0], type, static_cast<size_t>(n),
                type == Ty::F16 ? float_to_f16(v) : float_to_bf16(v));
  }
  l.buffers[1].resize(size_t{3} * kTile * kTile * 4);
  l.scalars = {0, kTile, kTile, kTile};
  return l;
}

TEST(PtxHeldOperands, HaveTheBitsOfTheInterpreter) {
  REPRISE_NEEDS_PTX();
  for (const Ty type : {Ty::F16, Ty::BF16}) {
    for (const bool along_k : {true, false}) {
      const auto k = HeldProducts(type, along_k, Mistake::None).kernel();
      ASSERT_TRUE(k.ok()) << k.status().message();
      const Launch launch = launch_of(type);
      const auto expected = interpret(*k, launch, 32);
      ASSERT_TRUE(expected.ok()) << expected.status().message();
      const auto module = PtxModule::load({&*k, 1}, {}, kHopperPtx);
      ASSERT_TRUE(module.ok()) << module.status().message();
      Launch got = launch;
      const Status s = module->run(*k, got);
      ASSERT_TRUE(s.ok()) << s.message();
      EXPECT_EQ(difference(*k, *expected, got, {}), "");
      // Not zeros.
      EXPECT_NE(difference(*k, launch, got, {}), "");
    }
  }
}

TEST(PtxHeldOperands, InterpreterReportsWhatDoesNotWait) {
  const std::pair<Mistake, const char*> cases[] = {
      {Mistake::LeftTooEarly, "uses left0 before its products are awaited"},
      {Mistake::SumTooEarly, "uses sum0 before its products are awaited"},
      {Mistake::LeftTwice, "uses left0 before its products are awaited"},
      {Mistake::Unawaited, "never waits for this product"},
  };
  for (const auto& [mistake, message] : cases) {
    const auto k = HeldProducts(Ty::F16, true, mistake).kernel();
    ASSERT_TRUE(k.ok()) << k.status().message();
    const auto out = interpret(*k, launch_of(Ty::F16), 32);
    ASSERT_FALSE(out.ok()) << message;
    EXPECT_NE(out.status().message().find(message), std::string::npos) << out.status().message();
  }
}

/// Without any one of the lines that order products, the executor reports a mistake.
TEST(PtxHeldOperands, FullEachSynchronisingLineIsNeeded) {
  REPRISE_NEEDS_PTX();
  const auto k = HeldProducts(Ty::F16, true, Mistake::None).kernel();
  ASSERT_TRUE(k.ok()) << k.status().message();
  std::vector<std::string> lines;
  const auto read = [&lines](std::string& text) {
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
  };
  const auto whole = PtxModule::load({&*k, 1}, read, kHopperPtx);
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  Launch right = launch_of(Ty::F16);
  ASSERT_TRUE(whole->run(*k, right).ok());
  size_t dropped = 0;
  for (const std::string& line : lines) {
    const auto has = [&](const char* part) { return line.find(part) != std::string::npos; };
    if (!has("wgmma.fence.") && !has("wgmma.commit_group.") && !has("wgmma.wait_group.")) continue;
    const auto drop = [&](std::string& text) {
      text.clear();
      for (const std::string& kept : lines)
        if (&kept != &line) text += kept + "\n";
    };
    const auto module = PtxModule::load({&*k, 1}, drop, kHopperPtx);
    ASSERT_TRUE(module.ok()) << module.status().message();
    Launch launch = launch_of(Ty::F16);
    EXPECT_FALSE(module->run(*k, launch).ok()) << line;
    ++dropped;
  }
  EXPECT_GE(dropped, 8U);
}

/// The kernel with a role that does nothing but `write`.
std::string problem_of(const std::function<void(kernel::Builder& b, int sum, int left)>& write,
                       bool in_role = true) {
  kernel::Builder b("small");
  b.set_workgroup(128);
  b.require_subgroup_size(32);
  const int sum = b.matrix("sum", MatrixUse::Sum, Ty::F32, kTile, 32, MmaScope::Team);
  const int left = b.matrix("left", MatrixUse::Left, Ty::F16, kTile, kDepth, MmaScope::Team);
  b.shared("rights", Ty::F16, kTile * kTile, Swizzle::B128);
  b.role({"all", 1, kTeamSubgroups, 0});
  if (!in_role) write(b, sum, left);
  const std::function<void()> bodies[] = {[&] {
    if (in_role) write(b, sum, left);
  }};
  b.run_roles(bodies);
  auto k = b.finish();
  const Status s = k.ok() ? kernel::verify(*k) : k.status();
  return s.message();
}

TEST(PtxHeldOperands, VerifierNamesWhatIsWrong) {
  const auto product = [](kernel::Builder& b, int sum, int left) {
    TeamOperands p;
    p.sum = static_cast<uint16_t>(sum);
    p.left.shared = static_cast<uint16_t>(left);
    p.held = true;
    b.team_mul_add(p, {}, b.i32(0));
  };
  EXPECT_EQ(problem_of(product), "");
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(problem_of([&](auto& b, int sum, int) { product(b, sum, sum); }),
      "'sum' is no left operand of a team");
  has(problem_of([&](auto& b, int, int left) { product(b, left, left); }),
      "'left' is no sum like those beside it");
  has(problem_of([&](auto& b, int sum, int) { product(b, sum, 9); }), "no such matrix");
  has(problem_of([](auto& b, int sum, int) { b.matrix_get(sum, 16); }), "'sum' has no slot 16");
  has(problem_of([](auto& b, int sum, int) { b.matrix_set(sum, 0, b.f32(0)); }, false),
      "is in no role of whole teams");
  has(problem_of([](auto& b, int sum, int left) { b.matrix_convert(left, sum); }, false),
      "is in no role of whole teams");
  has(problem_of([](auto& b, int sum, int left) { b.matrix_convert(left, sum, 32); }),
      "'sum' has no such columns from 32 on");
}

}  // namespace
}  // namespace reprise::test
