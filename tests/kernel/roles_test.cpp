// Roles, signals, copies of boxes and products of teams: their meaning, and that whatever is left
// out of a ring of stages is reported, in whatever order roles run.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "codegen/interpreter/interpreter.h"
#include "runtime/base/random.h"
#include "tests/kernel/verified.h"

namespace reprise::kernel {
namespace {

constexpr int kStep = 64, kRows = 64, kColumns = 64;
constexpr int kStage = kRows * kStep;
constexpr int kTeamSize = 128;

/// What is wrong with the ring.
enum class Fault {
  None,
  NoAwaitFull,
  NoAwaitEmpty,
  NoArriveFull,
  NoArriveEmpty,
  NoMatrixAwait,
  NoCommit,
  EarlyArrive,  // before the products of the stage are awaited
  FullParity,
  EmptyParity,
  TwiceArrived,
  ShortRing,  // a stage less than the signals have
  NoBarrier,
  NoSecondBarrier,
  LastUnawaited,  // the last products
};
constexpr Fault kFaults[] = {Fault::NoAwaitFull,     Fault::NoAwaitEmpty, Fault::NoArriveFull,
                             Fault::NoArriveEmpty,   Fault::NoCommit,     Fault::NoMatrixAwait,
                             Fault::EarlyArrive,     Fault::FullParity,   Fault::EmptyParity,
                             Fault::TwiceArrived,    Fault::ShortRing,    Fault::NoBarrier,
                             Fault::NoSecondBarrier, Fault::LastUnawaited};

struct Form {
  Ty type = Ty::F16;
  bool left_along_k = true, right_along_k = true;
  int stages = 3;
  Fault fault = Fault::None;
  /// Another role has four subgroups, which load and store left, and copy a quarter of right each.
  bool converts = false;
};

/// y = a * w for m x k and k x n matrices of which a workgroup computes 64 x 64. Scalars: first, m,
/// n, k and the strides of a and w.
class Ring {
 public:
  explicit Ring(const Form& form) : f_(form) {
    b.set_workgroup(2 * kTeamSize);
    b.require_subgroup_size(32);
    a_ = b.buffer("a", f_.type, Access::Read);
    const int w = b.buffer("w", f_.type, Access::Read);
    y_ = b.buffer("y", Ty::F32, Access::Write);
    for (const char* name : {"zero", "m", "n", "k", "a_stride", "w_stride"}) b.scalar(name);
    const auto view = [&](const char* name, int buffer, bool along_k, uint32_t count,
                          uint32_t stride) {
      TensorView v{
          static_cast<uint32_t>(buffer), 2, Swizzle::B128, {64, 64 / copiers()}, 0, {}, {stride}};
      v.dims = along_k ? std::vector<uint32_t>{3, count} : std::vector<uint32_t>{count, 3};
      return b.view(name, v);
    };
    left_ = view("left", a_, f_.left_along_k, 1, 4);
    right_ = view("right", w, f_.right_along_k, 2, 5);
    const auto stages = static_cast<uint32_t>(f_.stages);
    left_stages_ = b.shared("left_stages", f_.type, stages * kStage, Swizzle::B128);
    right_stages_ = b.shared("right_stages", f_.type, stages * kStage, Swizzle::B128);
    sums_ = b.shared("sums", Ty::F32, kRows * kColumns);
    full_ = b.signal("full", stages, copiers());
    empty_ = b.signal("empty", stages, kTeamSubgroups);
    sum_ = b.matrix("sum", MatrixUse::Sum, Ty::F32, kRows, kColumns, MmaScope::Team);
    b.role({"multiply", 1, kTeamSubgroups, 232});
    b.role({"copy", 1, copiers(), 40});
    row_ = b.convert(b.builtin(Builtin::WorkgroupId, 1), Ty::I32) * kRows;
    column_ = b.convert(b.builtin(Builtin::WorkgroupId, 0), Ty::I32) * kColumns;
    steps_ = (Value(b, b.param(3)) + (kStep - 1)) / kStep;
  }

  Result<Kernel> kernel() {
    const std::function<void()> bodies[] = {[this] { multiply(); }, [this] { copy(); }};
    b.run_roles(bodies);
    return verified(b);
  }

 private:
  bool is(Fault f) const { return f_.fault == f; }
  Value stage(Value i) const { return i % (is(Fault::ShortRing) ? f_.stages - 1 : f_.stages); }
  Value phase(Value i) const { return i / f_.stages % 2; }
  uint32_t copiers() const { return f_.converts ? kTeamSubgroups : 1; }

  /// Stores left, whose values of k lie side by side, in parts of eight.
  void store_left(Value k, Value to) {
    const Type element{compute_type(f_.type), 1};
    const Value local = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32) % kTeamSize;
    for (int n = 0; n < kStage / 8; n += kTeamSize) {
      const Value row = (local + n) / 8, part = (local + n) % 8 * 8;
      std::vector<Val> eight;
      for (int e = 0; e < 8; ++e) {
        const Value r = row_ + row, d = k + part + e;
        const Val inside = b.logical_and(b.lt(r, b.param(1)), b.lt(d, b.param(3)));
        const Value at = b.select(inside, r * Value(b, b.param(4)) + d, b.i32(0));
        eight.push_back(b.select(inside, b.load(a_, at), b.constant(element, 0)));
      }
      const Val first = b.compose(std::span(eight).first(4)),
                rest = b.compose(std::span(eight).last(4));
      b.shared_store(left_stages_, to + row * kStep + part, b.compose({first, rest}));
    }
  }

  void copy() {
    b.for_loop(b.i32(0), steps_, b.i32(1), [&](Value i) {
      const Value parity = is(Fault::EmptyParity) ? phase(i) : 1 - phase(i);
      if (!is(Fault::NoAwaitEmpty)) b.await(empty_, stage(i), parity);
      const Value k = i * kStep, to = stage(i) * kStage;
      const auto box = [&](int view, bool along_k, Value first, int shared) {
        const Value own =
            b.convert(b.builtin(Builtin::SubgroupIndex), Ty::I32) % copiers() * (64 / copiers());
        const Val at = along_k ? b.compose({k, first + own}) : b.compose({first, k + own});
        b.box_copy(box_access(view, shared, full_), at, to + own * 64, stage(i), 512);
      };
      if (f_.converts) {
        store_left(k, to);
      } else {
        box(left_, f_.left_along_k, row_, left_stages_);
      }
      box(right_, f_.right_along_k, column_, right_stages_);
      if (!is(Fault::NoArriveFull)) b.arrive(full_, stage(i));
      if (is(Fault::TwiceArrived)) b.arrive(full_, stage(i));
    });
  }

  void multiply() {
    b.matrix_zero(sum_);
    const TeamOperands operands{static_cast<uint16_t>(sum_),
                                1,
                                {static_cast<uint16_t>(left_stages_), f_.left_along_k, 8},
                                {static_cast<uint16_t>(right_stages_), f_.right_along_k, 8}};
    b.for_loop(b.i32(0), steps_, b.i32(1), [&](Value i) {
      const Value parity = is(Fault::FullParity) ? 1 - phase(i) : phase(i);
      if (!is(Fault::NoAwaitFull)) b.await(full_, stage(i), parity);
      for (int k = 0; k < kStep; k += 16) {
        const auto at = [&](bool along_k) { return stage(i) * kStage + (along_k ? k : k * kStep); };
        b.team_mul_add(operands, at(f_.left_along_k), at(f_.right_along_k));
      }
      if (!is(Fault::NoCommit)) b.matrix_commit();
      if (is(Fault::EarlyArrive)) b.arrive(empty_, stage(i));
      if (!is(Fault::NoMatrixAwait) && !is(Fault::LastUnawaited)) b.matrix_await(0);
      if (is(Fault::LastUnawaited)) {
        b.if_then(b.lt(i, steps_ - 1), [&] { b.matrix_await(0); });
      }
      if (!is(Fault::NoArriveEmpty) && !is(Fault::EarlyArrive)) b.arrive(empty_, stage(i));
    });
    store();
  }

  void store() {
    b.matrix_store(sum_, sums_, b.i32(0), kColumns, false, 2);
    if (!is(Fault::NoBarrier)) b.barrier(BarrierScope::Team);
    const Value local = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
    b.for_loop(b.i32(0), b.i32(kRows * kColumns / kTeamSize), b.i32(1), [&](Value i) {
      const Value n = i * kTeamSize + local;
      const Value row = row_ + n / kColumns, column = column_ + n % kColumns;
      const Val inside = b.logical_and(b.lt(row, b.param(1)), b.lt(column, b.param(2)));
      const Val value = b.shared_load(sums_, n);
      b.if_then(inside, [&] { b.store(y_, row * Value(b, b.param(2)) + column, value); });
    });
    if (!is(Fault::NoSecondBarrier)) b.barrier(BarrierScope::Team);
    b.matrix_store(sum_, sums_, b.i32(0), kColumns, false, 2);
  }

  const Form f_;
  Builder b{"ring"};
  int a_ = 0, y_ = 0, left_ = 0, right_ = 0, left_stages_ = 0, right_stages_ = 0, sums_ = 0,
      full_ = 0, empty_ = 0, sum_ = 0;
  Value row_, column_, steps_;
};

struct Problem {
  int m = 64, n = 64, k = 320;
};

uint16_t narrow(Ty type, int v) {
  const auto f = static_cast<float>(v);
  return type == Ty::F16 ? float_to_f16(f) : float_to_bf16(f);
}

/// Runs the kernel on small integers and compares with exact sums.
std::string wrong(const Form& form, const Problem& p, const InterpretOptions& options) {
  const auto k = Ring(form).kernel();
  if (!k.ok()) return k.status().message();
  // A stride is a multiple of 8 elements.
  const auto padded = [](int n) { return (n + 7) / 8 * 8; };
  const int a_stride = padded(form.left_along_k ? p.k : p.m);
  const int w_stride = padded(form.right_along_k ? p.k : p.n);
  std::vector<uint16_t> a(static_cast<size_t>(a_stride * (form.left_along_k ? p.m : p.k)));
  std::vector<uint16_t> w(static_cast<size_t>(w_stride * (form.right_along_k ? p.n : p.k)));
  const auto left = [](int m, int d) { return (m * 7 + d * 3) % 5 - 2; };
  const auto right = [](int d, int n) { return (d * 5 + n * 11 + d * n) % 7 - 3; };
  for (int d = 0; d < p.k; ++d) {
    for (int m = 0; m < p.m; ++m)
      a[static_cast<size_t>(form.left_along_k ? m * a_stride + d : d * a_stride + m)] =
          narrow(form.type, left(m, d));
    for (int n = 0; n < p.n; ++n)
      w[static_cast<size_t>(form.right_along_k ? n * w_stride + d : d * w_stride + n)] =
          narrow(form.type, right(d, n));
  }
  std::vector<float> y(static_cast<size_t>(p.m * p.n));
  const auto bytes = [](auto& v) { return std::as_writable_bytes(std::span(v)); };
  Launch launch;
  launch.grid = {static_cast<uint32_t>((p.n + 63) / 64), static_cast<uint32_t>((p.m + 63) / 64), 1};
  launch.buffers = {bytes(a), bytes(w), bytes(y)};
  for (const int v : {0, p.m, p.n, p.k, a_stride, w_stride})
    launch.scalars.push_back(static_cast<uint32_t>(v));
  const auto out = interpret(*k, launch, options);
  if (!out.ok()) return out.status().message();
  for (int m = 0; m < p.m; ++m) {
    for (int n = 0; n < p.n; ++n) {
      int want = 0;
      for (int d = 0; d < p.k; ++d) want += left(m, d) * right(d, n);
      if (y[static_cast<size_t>(m * p.n + n)] != static_cast<float>(want))
        return "y[" + std::to_string(m) + ", " + std::to_string(n) + "] is wrong";
    }
  }
  return "";
}

InterpretOptions seeded(uint64_t seed) {
  InterpretOptions o;
  o.schedule_seed = seed;
  return o;
}

TEST(Roles, RingMultiplies) {
  for (const Ty type : {Ty::F16, Ty::BF16}) {
    for (int form = 0; form < 4; ++form) {
      const Form f{type, form % 2 == 0, form / 2 == 0, 2 + form % 3};
      EXPECT_EQ(wrong(f, {}, seeded(static_cast<uint64_t>(form))), "") << form;
    }
  }
}

TEST(Roles, ARoleConverts) {
  for (const Ty type : {Ty::F16, Ty::BF16}) {
    for (const bool right_along_k : {false, true}) {
      Form f{type, true, right_along_k, 2};
      f.converts = true;
      EXPECT_EQ(wrong(f, {70, 50, 200}, seeded(2)), "");
    }
  }
}

TEST(Roles, OnlyRolesStoreWholePartsOfSwizzledArrays) {
  const auto found = [](int lanes) {
    Builder b("store");
    b.set_workgroup(kTeamSize);
    const int a = b.shared("a", Ty::F16, kStage, Swizzle::B128);
    const Val four = b.splat(b.constant({Ty::F16, 1}, 1), 4);
    b.shared_store(a, b.i32(0), lanes == 8 ? Val{b.compose({four, four})} : four);
    return verified(b).status().message();
  };
  EXPECT_NE(found(4).find("is swizzled"), std::string::npos) << found(4);
  EXPECT_NE(found(8).find("is in no role"), std::string::npos) << found(8);
}

TEST(Roles, RaggedSizes) {
  uint64_t state = 5;
  for (int i = 0; i < 6; ++i) {
    const auto size = [&](int most) {
      return 1 + static_cast<int>(splitmix64(state) % static_cast<uint64_t>(most));
    };
    const Problem p{size(100), size(100), size(300)};
    const Form f{Ty::F16, i % 2 == 0, i % 3 == 0, 1 + size(4)};
    EXPECT_EQ(wrong(f, p, seeded(splitmix64(state))), "")
        << p.m << "x" << p.n << "x" << p.k << ", form " << i;
  }
}

/// Each fault is reported, in whatever order roles run.
TEST(Roles, EachPartOfTheRingIsNeeded) {
  for (const Fault fault : kFaults) {
    for (const uint64_t seed : {0, 1, 2, 3, 4, 5, 6, 7}) {
      Form f;
      f.fault = fault;
      f.converts = seed % 2 != 0;
      const std::string found = wrong(f, {}, seeded(seed));
      EXPECT_NE(found, "") << "fault " << static_cast<int>(fault) << ", seed " << seed;
      EXPECT_EQ(found.find(" is wrong"), std::string::npos)
          << "fault " << static_cast<int>(fault) << " shows only in results";
    }
  }
}

TEST(Roles, MessagesNameWhatIsWrong) {
  const std::pair<Fault, const char*> cases[] = {
      {Fault::NoAwaitFull, "multiplies left_stages[0]"},
      {Fault::NoAwaitEmpty, "which others may still access"},
      {Fault::NoArriveFull, "role multiply waits for parity 0 of full[0]"},
      {Fault::NoMatrixAwait, "which others may still access"},
      {Fault::LastUnawaited, "uses sum before its products are awaited"},
      {Fault::TwiceArrived, "arrives at full[0] more often in a phase than 1"},
      {Fault::EmptyParity, "role copy waits for parity 0 of empty[0]"},
      {Fault::NoBarrier, "races with another invocation on sums"},
  };
  for (const auto& [fault, message] : cases) {
    Form f;
    f.fault = fault;
    const std::string found = wrong(f, {}, {});
    EXPECT_NE(found.find(message), std::string::npos) << found;
  }
}

TEST(Roles, PrintedForm) {
  const auto k = Ring({}).kernel();
  ASSERT_TRUE(k.ok()) << k.status().message();
  const std::string text = print(*k);
  for (const char* part :
       {"shared left_stages: f16[12288] swizzle 128", "matrix sum: sum f32 64x64 of a team",
        "view left: a[$zero] box 64x64 of $k x $m by $a_stride swizzle 128", "signal full[3] of 1",
        "role copy: teams 1, subgroups 1, registers 40", "role multiply {", "await full[",
        "box_copy left_stages[", "arrive empty[", "matrix_commit", "matrix_await 0",
        "team_mul_add sum, left_stages[", "barrier of team"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  const Requirements need = requirements(*k);
  EXPECT_EQ(need.views, 2U);
  EXPECT_EQ(need.matrix, (MmaConfig{64, 64, 16, kHalfMma, MmaScope::Team}));
  Kernel copied = *k;
  ASSERT_TRUE(legalize(copied, {}).ok());
  EXPECT_EQ(print(copied).find("invalid"), std::string::npos);
}

/// A kernel with two roles of a team each, of which `write` writes the first.
struct Small {
  Builder b{"small"};
  int a = 0, view = 0, stages = 0, plain = 0, full = 0, sum = 0;
  Value zero, lane, subgroup;

  explicit Small(const Role& first = {"first", 1, kTeamSubgroups, 0}) {
    b.set_workgroup(2 * kTeamSize);
    b.require_subgroup_size(32);
    a = b.buffer("a", Ty::F16, Access::Read);
    for (const char* name : {"zero", "m", "k"}) b.scalar(name);
    view = b.view("v", {0, 2, Swizzle::B128, {64, 64}, 0, {2, 1}, {2}});
    stages = b.shared("stages", Ty::F16, kStage, Swizzle::B128);
    plain = b.shared("plain", Ty::F32, kRows * kColumns);
    full = b.signal("full", 1, 1);
    sum = b.matrix("sum", MatrixUse::Sum, Ty::F32, kRows, kColumns, MmaScope::Team);
    b.role(first);
    b.role({"second", 1, 1, first.registers});
    zero = {b, b.i32(0)};
    lane = b.convert(b.builtin(Builtin::SubgroupLane), Ty::I32);
    subgroup = b.convert(b.builtin(Builtin::SubgroupIndex), Ty::I32);
  }

  std::string problem(const std::function<void(Small&)>& write) {
    const std::function<void()> bodies[] = {[&] { write(*this); }, [] {}};
    b.run_roles(bodies);
    const auto k = verified(b);
    return k.ok() ? "" : k.status().message();
  }
  Val origin() { return b.compose({zero, zero}); }
  TeamOperands operands() const {
    const auto array = static_cast<uint16_t>(stages);
    return {static_cast<uint16_t>(sum), 1, {array, true, 8}, {array, true, 8}};
  }
};

TEST(Roles, VerifierNamesWhatIsWrong) {
  const struct {
    const char* message;
    std::function<void(Small&)> write;
  } cases[] = {
      {"waits for other roles", [](Small& s) { s.b.barrier(); }},
      {"not proven a multiple of 1024 bytes",
       [](Small& s) {
         s.b.box_copy(box_access(s.view, s.stages, s.full), s.origin(), s.zero, s.zero, 64);
       }},
      {"different swizzles",
       [](Small& s) {
         const int other = s.b.shared("other", Ty::F16, kStage);
         s.b.box_copy(box_access(s.view, other, s.full), s.origin(), s.zero, s.zero, 512);
       }},
      {"is larger than 'short'",
       [](Small& s) {
         const int other = s.b.shared("short", Ty::F16, 64, Swizzle::B128);
         s.b.box_copy(box_access(s.view, other, s.full), s.origin(), s.zero, s.zero, 512);
       }},
      {"malformed copy of a box",
       [](Small& s) {
         s.b.box_copy(box_access(s.view, s.stages, s.full), s.zero, s.zero, s.zero, 512);
       }},
      {"under control flow that may differ within a role",
       [](Small& s) { s.b.if_then(s.subgroup < 2, [&] { s.b.arrive(s.full, s.zero); }); }},
      {"under control flow that may differ within a role",
       [](Small& s) { s.b.if_then(s.lane < 2, [&] { s.b.await(s.full, s.zero, s.zero); }); }},
      {"may differ within a subgroup", [](Small& s) { s.b.arrive(s.full, s.lane); }},
      {"an operation of a team that may differ within it",
       [](Small& s) { s.b.team_mul_add(s.operands(), s.subgroup * 512, s.zero); }},
      {"'plain' has no swizzle of 128",
       [](Small& s) {
         TeamOperands p = s.operands();
         p.left.shared = static_cast<uint16_t>(s.b.shared("plain", Ty::F16, kStage));
         s.b.team_mul_add(p, s.zero, s.zero);
       }},
      {"is swizzled", [](Small& s) { s.b.shared_load(s.stages, s.lane); }},
      {"the sums of a team are stored",
       [](Small& s) { s.b.matrix_load(s.sum, s.plain, s.zero, kColumns); }},
      {"malformed matrix_await", [](Small& s) { s.b.matrix_await(8); }},
      {"no signal 3", [](Small& s) { s.b.arrive(3, s.zero); }},
      {"the parity is f32", [](Small& s) { s.b.await(s.full, s.zero, s.b.f32(0)); }},
  };
  for (const auto& c : cases) {
    const std::string found = Small().problem(c.write);
    EXPECT_NE(found.find(c.message), std::string::npos) << c.message << ", found: " << found;
  }
  EXPECT_EQ(Small().problem([](Small& s) { s.b.barrier(BarrierScope::Team); }), "");
}

TEST(Roles, VerifierChecksTheTables) {
  const std::pair<Role, const char*> cases[] = {
      {{"first", 1, 5, 0}, "role 'first' of 5 subgroups"},
      {{"first", 2, 4, 0}, "do not divide the workgroup"},
      {{"first", 1, 4, 236}, "of 236 registers"},
      {{"first", 1, 4, 16}, "of 16 registers"},
  };
  for (const auto& [role, message] : cases) {
    const std::string found = Small(role).problem([](Small&) {});
    EXPECT_NE(found.find(message), std::string::npos) << found;
  }
  Small few({"first", 1, 2, 0});
  EXPECT_NE(few.problem([](Small& s) { s.b.matrix_commit(); }).find("in no role of whole teams"),
            std::string::npos);
  Small apart;
  apart.b.arrive(apart.full, apart.zero);
  EXPECT_NE(apart.problem([](Small&) {}).find("is in no role"), std::string::npos);
}

}  // namespace
}  // namespace reprise::kernel
