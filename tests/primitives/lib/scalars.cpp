// Conversions and arithmetic of which devices have an instruction, and launches that overlap.
#include "tests/primitives/lib/helpers.h"

namespace reprise::test {
namespace {

using kernel::Access;
using kernel::Builder;
using kernel::Builtin;
using kernel::Ty;
using kernel::Val;

constexpr uint32_t kCount = 1024, kThreads = 64;

using Write = Val (*)(Builder& b, const std::vector<Val>& x);

/// y[i] = write(x0[i], x1[i], ...).
void add(std::vector<Primitive>& to, const std::string& name, Ty in, size_t inputs, Ty out,
         Write write) {
  Builder b("scalars");
  b.set_workgroup(kThreads);
  std::vector<int> buffers;
  std::vector<Val> x;
  buffers.reserve(inputs);
  x.reserve(inputs);
  for (size_t n = 0; n < inputs; ++n)
    buffers.push_back(b.buffer("x" + std::to_string(n), in, Access::Read));
  const int y = b.buffer("y", out, Access::Write);
  const Val i = b.convert(b.builtin(Builtin::GlobalId), Ty::I32);
  for (const int buffer : buffers) x.push_back(b.load(buffer, i));
  b.store(y, i, write(b, x));
  Primitive p{name, finished(b), {}, inputs};
  p.launch.grid = {kCount / kThreads, 1, 1};
  for (size_t n = 0; n < inputs; ++n) {
    const auto seed = static_cast<uint32_t>(n + 1);
    p.launch.buffers.push_back(bytes_of(any_floats(kCount, seed)));
    if (in != Ty::F32) p.launch.buffers.back() = small_integers(in, kCount, seed);
  }
  p.launch.buffers.emplace_back(kCount * static_cast<size_t>(kernel::byte_size(out)));
  to.push_back(std::move(p));
}

Val first(Builder&, const std::vector<Val>& x) {
  return x[0];
}

/// Each launch reads elements of other workgroups of the launch before it, which it may overlap.
void add_overlap(std::vector<Primitive>& to) {
  constexpr uint32_t kElements = 4096;
  Builder b("overlap");
  b.set_workgroup(kThreads);
  const int x = b.buffer("x", Ty::I32, Access::Read), y = b.buffer("y", Ty::I32, Access::Write);
  const kernel::Value i = b.convert(b.builtin(Builtin::GlobalId), Ty::I32);
  const kernel::Value other = (i * 1021 + 13) % static_cast<int64_t>(kElements);
  b.store(y, i, b.add(b.load(x, other), b.i32(1)));
  Primitive p{"launches that overlap", finished(b), {}, 1, 9};
  kernel::begin_early(p.kernel);
  p.launch.grid = {kElements / kThreads, 1, 1};
  std::vector<int32_t> values(kElements);
  for (size_t n = 0; n < kElements; ++n) values[n] = static_cast<int32_t>(n * n);
  p.launch.buffers = {bytes_of(values), bytes_of(std::vector<int32_t>(kElements))};
  to.push_back(std::move(p));
}

}  // namespace

void add_scalar_primitives(std::vector<Primitive>& to) {
  add(to, "f32 to f16", Ty::F32, 1, Ty::F16,
      [](Builder& b, const auto& x) { return Val(b.convert(x[0], Ty::F16)); });
  add(to, "f16 to f32", Ty::F16, 1, Ty::F32,
      [](Builder& b, const auto& x) { return Val(b.convert(x[0], Ty::F32)); });
  add(to, "f32 to bf16", Ty::F32, 1, Ty::BF16, first);
  add(to, "bf16 to f32", Ty::BF16, 1, Ty::F32, first);
  add(to, "max", Ty::F32, 2, Ty::F32,
      [](Builder& b, const auto& x) { return Val(b.max(x[0], x[1])); });
  add(to, "min", Ty::F32, 2, Ty::F32,
      [](Builder& b, const auto& x) { return Val(b.min(x[0], x[1])); });
  add(to, "sum of f16", Ty::F16, 2, Ty::F16,
      [](Builder& b, const auto& x) { return Val(b.add(x[0], x[1])); });
  add(to, "difference of f16", Ty::F16, 2, Ty::F16,
      [](Builder& b, const auto& x) { return Val(b.sub(x[0], x[1])); });
  add(to, "product of f16", Ty::F16, 2, Ty::F16,
      [](Builder& b, const auto& x) { return Val(b.mul(x[0], x[1])); });
  add_overlap(to);
}

}  // namespace reprise::test
