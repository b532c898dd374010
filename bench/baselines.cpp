#include "bench/baselines.h"

#include "codegen/kernel/build/builder.h"

namespace reprise::bench {

using kernel::Access;
using kernel::Builder;
using kernel::Builtin;
using kernel::Ty;
using kernel::Val;

namespace {

constexpr int64_t kWorkgroup = 64;

int64_t floats_per_invocation(const DeviceFacts& facts) {
  return facts.kind == DeviceKind::Cpu ? 32 : 4;
}

}  // namespace

Result<ChainSpec> copy(int64_t count, const DeviceFacts& facts) {
  const int64_t per = floats_per_invocation(facts);
  if (count % (kWorkgroup * per) != 0) return internal_error("the copy needs whole workgroups");
  Builder b("copy");
  b.set_workgroup(kWorkgroup);
  const int x = b.buffer("x", Ty::F32, Access::Read);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  const Val first = b.mul(b.convert(b.builtin(Builtin::GlobalId), Ty::I32), b.i32(per));
  std::vector<Val> values;
  for (int64_t i = 0; i < per; i += 4) values.push_back(b.load(x, b.add(first, b.i32(i)), 4, 4));
  for (int64_t i = 0; i < per; i += 4) {
    b.store(y, b.add(first, b.i32(i)), values[static_cast<size_t>(i / 4)], 4);
  }
  ChainSpec spec;
  RP_ASSIGN(spec.kernel, b.finish());
  spec.inputs = {{count}};
  spec.output = {count};
  spec.grid = {count / (kWorkgroup * per), 1, 1};
  spec.wide = facts.kind == DeviceKind::Cpu && facts.int64;
  return spec;
}

Result<kernel::Kernel> naive_matmul_kernel(int64_t n) {
  Builder b("naive_matmul");
  b.set_workgroup(8, 8);
  const int a_buffer = b.buffer("a", Ty::F32, Access::Read);
  const int b_buffer = b.buffer("b", Ty::F32, Access::Read);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  const int sum = b.local("sum", kernel::kF32);
  const Val column = b.convert(b.builtin(Builtin::GlobalId, 0), Ty::I32);
  const Val row = b.convert(b.builtin(Builtin::GlobalId, 1), Ty::I32);
  const Val size = b.i32(n);
  b.local_store(sum, b.f32(0));
  b.for_loop(b.i32(0), size, b.i32(1), [&](Val k) {
    const Val left = b.load(a_buffer, b.add(b.mul(row, size), k));
    const Val right = b.load(b_buffer, b.add(b.mul(k, size), column));
    b.local_store(sum, b.add(b.local_load(sum), b.mul(left, right)));
  });
  b.store(y, b.add(b.mul(row, size), column), b.local_load(sum));
  return b.finish();
}

Result<kernel::Kernel> tiny_kernel() {
  Builder b("tiny");
  b.set_workgroup(kWorkgroup);
  const int x = b.buffer("x", Ty::F32, Access::Read);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  const Val i = b.convert(b.builtin(Builtin::GlobalId), Ty::I32);
  b.store(y, i, b.add(b.load(x, i), b.f32(1)));
  return b.finish();
}

}  // namespace reprise::bench
