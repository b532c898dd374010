// Stores of boxes: their meaning, that whatever is left out around them is reported, in whatever
// order roles run, and what the verifier refuses.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <functional>
#include <string>

#include "codegen/interpreter/interpreter.h"
#include "codegen/kernel/legal/in_place.h"
#include "tests/kernel/verified.h"

namespace reprise::kernel {
namespace {

constexpr int kTeamSize = 128, kColumns = 32, kBoxRows = 16, kRows = 64;
constexpr int kPart = kRows * kColumns;
constexpr float kUntouched = -7;

/// What is wrong with the stores.
enum class Fault {
  None,
  NoBarrier,      // between the values and their store
  NoRoomBarrier,  // between the wait for room and the values
  NoDrain,
  LateDrain,  // of one store too few
  NoLastDrain,
  Unwritten,    // some values
  Negative,     // coordinates
  SameBox,      // for all parts, each drained before the next
  StoreAsWell,  // of an element, by the invocation that stored its box
};
constexpr Fault kFaults[] = {Fault::NoBarrier, Fault::NoRoomBarrier, Fault::NoDrain,
                             Fault::LateDrain, Fault::NoLastDrain,   Fault::Unwritten,
                             Fault::Negative,  Fault::SameBox,       Fault::StoreAsWell};

/// A team stores y[row][column] = 100 * row + column for 64 rows, `parts` boxes of 32 columns side
/// by side, by way of an array with room for two of them. Scalars: first, m, n and y's stride.
Result<Kernel> stores(Fault fault, Ty type, int parts) {
  Builder b("stores");
  b.set_workgroup(2 * kTeamSize);
  b.require_subgroup_size(32);
  const int y = b.buffer("y", type, Access::Write);
  for (const char* name : {"zero", "m", "n", "stride"}) b.scalar(name);
  const auto bytes = static_cast<uint32_t>(byte_size(type));
  const int view = b.view(
      "v", {static_cast<uint32_t>(y), bytes, Swizzle::None, {kColumns, kBoxRows}, 0, {2, 1}, {3}});
  const int shared = b.shared("results", type, 2 * kPart);
  b.signal("unused", 1, 1);
  b.role({"store", 1, kTeamSubgroups, 0});
  b.role({"idle", 1, 1, 0});
  const Value local = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
  const Value subgroup = b.convert(b.builtin(Builtin::SubgroupIndex), Ty::I32) % 4;
  const auto is = [&](Fault f) { return fault == f; };
  const auto write = [&] {
    b.for_loop(b.i32(0), b.i32(parts), b.i32(1), [&](Value part) {
      const Value at = part % 2 * kPart;
      const uint32_t unfinished = is(Fault::LateDrain) ? 2 : is(Fault::SameBox) ? 0 : 1;
      if (!is(Fault::NoDrain)) b.box_drain(unfinished);
      if (!is(Fault::NoRoomBarrier)) b.barrier(BarrierScope::Team);
      const int first = is(Fault::Unwritten) ? 1 : 0;
      b.for_loop(b.i32(first), b.i32(kPart / kTeamSize), b.i32(1), [&](Value i) {
        const Value n = i * kTeamSize + local;
        const Value value = n / kColumns * 100 + (part * kColumns + n % kColumns);
        const Value number = b.convert(value, compute_type(type));
        const bool brain = type == Ty::BF16;
        b.shared_store(shared, at + n, brain ? b.scalar_op(ScalarOp::RoundBF16, {number}) : number);
      });
      if (!is(Fault::NoBarrier)) b.barrier(BarrierScope::Team);
      const Value box = is(Fault::SameBox) ? Value(b, b.i32(0)) : part;
      const Value column = is(Fault::Negative) ? box * kColumns - 1 : box * kColumns;
      b.box_store(box_access(view, shared), b.compose({column, subgroup * kBoxRows}),
                  at + subgroup * (kBoxRows * kColumns), kBoxRows * kColumns);
    });
    if (!is(Fault::NoLastDrain)) b.box_drain(0);
    if (is(Fault::StoreAsWell))
      b.if_then(local < 1, [&] { b.store(y, local, b.convert(local, compute_type(type))); });
  };
  const std::function<void()> bodies[] = {write, [] {}};
  b.run_roles(bodies);
  return verified(b);
}

/// Runs the kernel and compares with what it should have stored.
std::string wrong(Fault fault, Ty type, int m, int n, uint64_t seed) {
  const int stride = (n + 15) / 8 * 8, parts = (n + kColumns - 1) / kColumns + 1;
  const auto k = stores(fault, type, parts);
  if (!k.ok()) return k.status().message();
  const auto size = static_cast<size_t>(byte_size(type));
  std::vector<std::byte> y(static_cast<size_t>(kRows * stride) * size);
  const auto narrow = [&](float v) {
    if (type == Ty::F16) return uint32_t{float_to_f16(v)};
    if (type == Ty::BF16) return uint32_t{float_to_bf16(v)};
    return std::bit_cast<uint32_t>(v);
  };
  const auto element = [&](int row, int column) {
    return &y[static_cast<size_t>(row * stride + column) * size];
  };
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < stride; ++column) {
      const uint32_t bits = narrow(kUntouched);
      std::memcpy(element(row, column), &bits, size);
    }
  }
  Launch launch;
  launch.buffers = {y};
  for (const int v : {0, m, n, stride}) launch.scalars.push_back(static_cast<uint32_t>(v));
  InterpretOptions options;
  options.schedule_seed = seed;
  const auto out = interpret(*k, launch, options);
  if (!out.ok()) return out.status().message();
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < stride; ++column) {
      const bool inside = row < m && column < n;
      uint32_t bits = 0;
      std::memcpy(&bits, element(row, column), size);
      if (bits != narrow(inside ? static_cast<float>(row * 100 + column) : kUntouched))
        return "y[" + std::to_string(row) + ", " + std::to_string(column) + "] is wrong";
    }
  }
  return "";
}

TEST(BoxStore, StoresWhatIsInsideOfTheView) {
  for (const Ty type : {Ty::F16, Ty::BF16, Ty::F32}) {
    for (const uint64_t seed : {0, 1, 2}) {
      EXPECT_EQ(wrong(Fault::None, type, 64, 64, seed), "");
      EXPECT_EQ(wrong(Fault::None, type, 50, 116, seed), "");
      EXPECT_EQ(wrong(Fault::None, type, 3, 9, seed), "");
    }
  }
}

TEST(BoxStore, EachPartAroundItIsNeeded) {
  for (const Fault fault : kFaults) {
    for (const uint64_t seed : {0, 1, 2, 3}) {
      const std::string found = wrong(fault, Ty::F16, 64, 128, seed);
      EXPECT_NE(found, "") << "fault " << static_cast<int>(fault) << ", seed " << seed;
      EXPECT_EQ(found.find(" is wrong"), std::string::npos)
          << "fault " << static_cast<int>(fault) << " shows only in results";
    }
  }
}

TEST(BoxStore, MessagesNameWhatIsWrong) {
  const std::pair<Fault, const char*> cases[] = {
      {Fault::NoBarrier, "which another may still write"},
      {Fault::NoRoomBarrier, "races with another invocation on results"},
      {Fault::NoDrain, "races with another invocation on results"},
      {Fault::NoLastDrain, "never waits for this store of a box"},
      {Fault::Unwritten, "before it is written"},
      {Fault::Negative, "begins before its view"},
      {Fault::SameBox, "stores a box that races with another store on y["},
      {Fault::StoreAsWell, "races with another invocation on y[0]"},
  };
  for (const auto& [fault, message] : cases) {
    const std::string found = wrong(fault, Ty::F16, 64, 128, 0);
    EXPECT_NE(found.find(message), std::string::npos) << message << ", found: " << found;
  }
}

TEST(BoxStore, PrintedForm) {
  const auto k = stores(Fault::None, Ty::F16, 3);
  ASSERT_TRUE(k.ok()) << k.status().message();
  const std::string text = print(*k);
  for (const char* part : {"box_store v at %", ", results[%", "box_drain 1", "box_drain 0"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  Kernel copied = *k;
  ASSERT_TRUE(legalize(copied, {}).ok());
  EXPECT_EQ(print(copied).find("invalid"), std::string::npos);
  EXPECT_NE(print(copied).find("box_store v at %"), std::string::npos);
}

/// What the verifier says of a kernel whose first role `write` writes, with views of y and a.
std::string problem(const std::function<void(Builder&, int y, int a, int shared)>& write) {
  Builder b("refused");
  b.set_workgroup(2 * kTeamSize);
  b.require_subgroup_size(32);
  const auto y = static_cast<uint32_t>(b.buffer("y", Ty::F16, Access::Write));
  const auto a = static_cast<uint32_t>(b.buffer("a", Ty::F16, Access::Read));
  for (const char* name : {"zero", "m", "n", "stride"}) b.scalar(name);
  const TensorView tensor{y, 2, Swizzle::None, {kColumns, kBoxRows}, 0, {2, 1}, {3}};
  TensorView other = tensor;
  other.buffer = a;
  const int of_y = b.view("of_y", tensor), of_a = b.view("of_a", other);
  const int shared = b.shared("results", Ty::F16, kPart);
  b.signal("full", 1, 1);
  b.role({"first", 1, kTeamSubgroups, 0});
  b.role({"second", 1, 1, 0});
  const std::function<void()> bodies[] = {[&] { write(b, of_y, of_a, shared); }, [] {}};
  b.run_roles(bodies);
  const auto k = verified(b);
  return k.ok() ? "" : k.status().message();
}

TEST(BoxStore, VerifierNamesWhatIsWrong) {
  const auto origin = [](Builder& b) { return b.compose({b.i32(0), b.i32(0)}); };
  const struct {
    const char* message;
    std::function<void(Builder&, int, int, int)> write;
  } cases[] = {
      {"", [&](Builder& b, int y, int,
               int shared) { b.box_store(box_access(y, shared), origin(b), b.i32(0), 64); }},
      {"of a buffer that is read",
       [&](Builder& b, int, int a, int shared) {
         b.box_store(box_access(a, shared), origin(b), b.i32(0), 64);
       }},
      {"of a buffer that is written",
       [&](Builder& b, int y, int, int shared) {
         b.box_copy(box_access(y, shared), origin(b), b.i32(0), b.i32(0), 64);
       }},
      {"not proven a multiple of 128 bytes",
       [&](Builder& b, int y, int, int shared) {
         b.box_store(box_access(y, shared), origin(b), b.i32(0), 32);
       }},
      {"malformed store of a box",
       [](Builder& b, int y, int, int shared) {
         b.box_store(box_access(y, shared), b.i32(0), b.i32(0), 64);
       }},
      {"types differ",
       [&](Builder& b, int y, int, int) {
         const int other = b.shared("other", Ty::F32, kPart);
         b.box_store(box_access(y, other), origin(b), b.i32(0), 64);
       }},
      {"may differ within a subgroup",
       [&](Builder& b, int y, int, int shared) {
         const Value lane = b.convert(b.builtin(Builtin::SubgroupLane), Ty::I32);
         b.if_then(lane < 2, [&] { b.box_store(box_access(y, shared), origin(b), b.i32(0), 64); });
       }},
      {"malformed box_drain", [](Builder& b, int, int, int) { b.box_drain(8); }},
      {"no view 9",
       [&](Builder& b, int, int, int shared) {
         b.box_store(box_access(9, shared), origin(b), b.i32(0), 64);
       }},
  };
  for (const auto& c : cases) {
    const std::string found = problem(c.write);
    EXPECT_NE(found.find(c.message), std::string::npos) << c.message << ", found: " << found;
    EXPECT_EQ(found.empty(), *c.message == '\0') << found;
  }
}

/// Nobody knows which invocation reads or writes an element of a box.
TEST(BoxStore, KernelsWithViewsDoNotUpdateInPlace) {
  Builder b("update");
  const auto a = static_cast<uint32_t>(b.buffer("a", Ty::F16, Access::Read));
  const auto y = static_cast<uint32_t>(b.buffer("y", Ty::F16, Access::Write));
  for (const char* name : {"zero", "m", "n", "stride"}) b.scalar(name);
  const Value i = b.convert(b.builtin(Builtin::GlobalId), Ty::I32);
  b.store(static_cast<int>(y), i, b.load(static_cast<int>(a), i));
  auto k = b.finish();
  ASSERT_TRUE(k.ok());
  EXPECT_TRUE(updates_in_place(*k, a, y));
  for (const uint32_t buffer : {a, y}) {
    Kernel viewed = *k;
    viewed.views.push_back({"v", {buffer, 2, Swizzle::None, {kColumns, kBoxRows}, 0, {2, 1}, {3}}});
    EXPECT_FALSE(updates_in_place(viewed, a, y));
  }
}

TEST(BoxStore, MergedBuffersRenumberViews) {
  Builder b("update");
  for (const char* name : {"a", "x"}) b.buffer(name, Ty::F16, Access::Read);
  const int y = b.buffer("y", Ty::F16, Access::Write);
  const auto w = static_cast<uint32_t>(b.buffer("w", Ty::F16, Access::Read));
  for (const char* name : {"zero", "m", "n", "stride"}) b.scalar(name);
  b.view("v", {w, 2, Swizzle::None, {kColumns, kBoxRows}, 0, {2, 1}, {3}});
  const Value i = b.convert(b.builtin(Builtin::GlobalId), Ty::I32);
  b.store(y, i, b.load(0, i));
  auto k = b.finish();
  ASSERT_TRUE(k.ok());
  merge_buffers(*k, 0, 2);
  EXPECT_EQ(k->views[0].tensor.buffer, 2U);
  EXPECT_EQ(k->buffers[2].name, "w");
}

}  // namespace
}  // namespace reprise::kernel
