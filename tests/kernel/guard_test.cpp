// Kernels that do nothing once a run has failed.
#include "codegen/kernel/build/guard.h"

#include <gtest/gtest.h>

#include "codegen/interpreter/interpreter.h"
#include "codegen/kernel/build/builder.h"

namespace reprise::kernel {
namespace {

/// x[i] += x[the last of the workgroup], with a barrier.
Kernel with_barrier() {
  Builder b("k");
  b.set_workgroup(4);
  const int x = b.buffer("x", Ty::I32, Access::ReadWrite);
  const int all = b.shared("all", Ty::I32, 4);
  const Val i = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
  const Val own = b.load(x, i);
  b.shared_store(all, i, own);
  b.barrier();
  b.store(x, i, b.add(own, b.shared_load(all, b.i32(3))));
  auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  return k.ok() ? *std::move(k) : Kernel{};
}

TEST(Guard, WithoutAnErrorTheKernelIsAsBefore) {
  Kernel k = with_barrier();
  guard(k);
  ASSERT_TRUE(verify(k).ok()) << verify(k).message() << print(k);
  EXPECT_NE(print(k).find("no_error"), std::string::npos) << print(k);
  std::vector<int32_t> x{1, 2, 3, 4};
  Launch launch;
  launch.buffers.push_back(std::as_writable_bytes(std::span(x)));
  const auto outcome = interpret(k, launch);
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  EXPECT_EQ(x, (std::vector<int32_t>{5, 6, 7, 8}));
}

TEST(Guard, IsNotForKernelsThatRecordErrors) {
  Builder b("k");
  const int x = b.buffer("x", Ty::I32, Access::ReadWrite);
  const Val i = b.convert(b.builtin(Builtin::GlobalId), Ty::I32);
  const Val value = b.load(x, i);
  b.set_error(b.lt(value, b.i32(0)), ErrorCode::IndexOutOfRange);
  b.store(x, i, b.add(value, b.i32(1)));
  auto k = b.finish();
  ASSERT_TRUE(k.ok());
  EXPECT_TRUE(records_errors(*k));
  EXPECT_FALSE(records_errors(with_barrier()));
  guard(*k);
  const Status refused = verify(*k);
  EXPECT_NE(refused.message().find("asks for those of earlier launches"), std::string::npos)
      << refused.message();
}

}  // namespace
}  // namespace reprise::kernel
