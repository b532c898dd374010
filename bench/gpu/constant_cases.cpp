// What the parts of a device can do: kernels of which each keeps one part busy. The cost models of
// the compiler (codegen/target/device_costs.h) are fitted to these.
#include <algorithm>
#include <cmath>

#include "bench/gpu/case.h"
#include "bench/gpu/references.h"
#include "codegen/kernel/build/builder.h"

namespace reprise::bench::gpu {
namespace {

using kernel::Access;
using kernel::Builder;
using kernel::Builtin;
using kernel::kF32;
using kernel::MatrixUse;
using kernel::ScalarOp;
using kernel::Ty;
using kernel::Val;
using kernel::Value;

constexpr int kThreads = 256;  // of a workgroup
constexpr int kLanes = 4;      // of a load

Value number_of(Builder& b, Builtin builtin) {
  return b.convert(b.builtin(builtin), Ty::I32);
}

/// The values of `y` depend on those of `x0`.
struct Shape {
  int64_t inputs = 0, outputs = 0, workgroups = 1;
};

using Write = std::function<Status(Builder& b, int x, int y, const DeviceFacts& facts)>;

/// A case of one launch of the kernel that `write` writes.
Case one_kernel(std::string name, const Shape& shape, Write write,
                std::function<Samples(const Tensors&)> expected) {
  Case c{.name = std::move(name), .group = "constants"};
  c.operands = {{"x0", DType::F32, {shape.inputs}}};
  c.outputs = {{shape.outputs}};
  c.expected = std::move(expected);
  c.package = [shape, write = std::move(write)](const Tensors&, const DeviceInfo& device,
                                                const CompileOptions&) -> Result<PackagePtr> {
    Builder b("constants");
    b.set_workgroup(kThreads);
    const int x = b.buffer("x", Ty::F32, Access::Read), y = b.buffer("y", Ty::F32, Access::Write);
    RP_TRY(write(b, x, y, device.facts));
    ChainSpec spec;
    RP_ASSIGN(spec.kernel, b.finish());
    RP_TRY(kernel::legalize(spec.kernel, {.exact = device.facts.api == Api::Cuda}));
    spec.inputs = {{shape.inputs}};
    spec.output = {shape.outputs};
    spec.grid = {shape.workgroups, 1, 1};
    return chain_package(spec, device);
  };
  return c;
}

double sum_of_lanes(const HostTensor& x, int64_t first) {
  double sum = 0;
  for (int64_t i = first; i < first + kLanes; ++i) sum += value_at(x, i);
  return sum;
}

Value lane_sum(Builder& b, Val v) {
  return b.add(b.add(b.extract(v, 0), b.extract(v, 1)), b.add(b.extract(v, 2), b.extract(v, 3)));
}

/// Each invocation loads `loads` vectors, which lie an equal distance apart. `wanted` loads in all
/// read a small buffer again and again.
Case read_case(const std::string& name, int64_t floats, int64_t wanted) {
  constexpr int64_t kLoads = 8;
  const int64_t vectors = floats / kLanes, invocations = wanted / kLanes / kLoads;
  const int64_t distance = std::max<int64_t>(vectors / kLoads, 1);
  const auto vector_of = [=](const auto& i, const auto& load) {
    return (i + load * distance) % vectors;
  };
  Case c = one_kernel(
      name, {floats, invocations, invocations / kThreads},
      [=](Builder& b, int x, int y, const DeviceFacts&) -> Status {
        const Value i = number_of(b, Builtin::GlobalId);
        std::vector<Val> values;
        for (int64_t load = 0; load < kLoads; ++load)
          values.push_back(b.load(x, vector_of(i, load) * kLanes, kLanes, kLanes));
        Value sum = b.f32(0);
        for (const Val v : values) sum = b.add(sum, lane_sum(b, v));
        b.store(y, i, sum);
        return {};
      },
      [=](const Tensors& v) {
        return sampled(invocations, 64, [&](int64_t i) {
          double sum = 0;
          for (int64_t load = 0; load < kLoads; ++load)
            sum += sum_of_lanes(v[0], vector_of(i, load) * kLanes);
          return sum;
        });
      });
  c.bytes = 4.0 * static_cast<double>(wanted);
  return c;
}

/// Each invocation loads `rounds` vectors from shared memory, neighbours load neighbouring ones.
Case shared_case(int64_t workgroups, int64_t rounds) {
  Case c = one_kernel(
      "shared memory", {kThreads, workgroups * kThreads, workgroups},
      [=](Builder& b, int x, int y, const DeviceFacts&) -> Status {
        const Value local = number_of(b, Builtin::LocalIndex);
        const int shared = b.shared("values", Ty::F32, 2 * kThreads * kLanes);
        for (int64_t i = 0; i < 2 * kLanes; ++i)
          b.shared_store(shared, local + i * kThreads, b.load(x, local));
        b.barrier();
        const int sum = b.local("sum", kernel::vec(kF32, kLanes));
        b.local_store(sum, b.splat(b.f32(0), kLanes));
        b.for_loop(b.i32(0), b.i32(rounds), b.i32(1), [&](Value round) {
          const Value at = (local + round % kThreads) * kLanes;
          b.local_store(sum, b.add(b.local_load(sum), b.shared_load(shared, at, kLanes)));
        });
        b.store(y, number_of(b, Builtin::GlobalId), b.extract(b.local_load(sum), 0));
        return {};
      },
      [=](const Tensors& v) {
        return sampled(workgroups * kThreads, 64, [&](int64_t i) {
          double sum = 0;
          for (int64_t r = 0; r < rounds; ++r)
            sum += value_at(v[0], (i % kThreads + r % kThreads) * kLanes % kThreads);
          return sum;
        });
      });
  c.bytes = 4.0 * kLanes * kThreads * static_cast<double>(workgroups * rounds);
  return c;
}

/// Eight independent chains in each invocation, of `rounds` steps. `step` writes one, and `value`
/// computes it.
template <typename Step, typename Apply>
Case chains_case(const std::string& name, int64_t workgroups, int64_t rounds, const Step& step,
                 const Apply& apply) {
  constexpr int kChains = 8;
  const int64_t count = workgroups * kThreads;
  Case c = one_kernel(
      name, {count, count, workgroups},
      [=](Builder& b, int x, int y, const DeviceFacts&) -> Status {
        const Value i = number_of(b, Builtin::GlobalId);
        std::vector<int> chains;
        for (int chain = 0; chain < kChains; ++chain) {
          chains.push_back(b.local("chain" + std::to_string(chain), kF32));
          b.local_store(chains.back(),
                        b.mul(b.load(x, i), b.f32(1.0F / static_cast<float>(chain + 1))));
        }
        b.for_loop(b.i32(0), b.i32(rounds), b.i32(1), [&](Value) {
          for (const int chain : chains) b.local_store(chain, step(b, b.local_load(chain)));
        });
        Value sum = b.f32(0);
        for (const int chain : chains) sum = b.add(sum, b.local_load(chain));
        b.store(y, i, sum);
        return {};
      },
      [=](const Tensors& v) {
        return sampled(count, 64, [&](int64_t i) {
          double sum = 0;
          for (int chain = 0; chain < kChains; ++chain) {
            double value = value_at(v[0], i) / (chain + 1);
            for (int64_t r = 0; r < rounds; ++r) value = apply(value);
            sum += value;
          }
          return sum;
        });
      });
  c.operations = static_cast<double>(count * rounds) * kChains;
  return c;
}

/// One invocation loads one float after the other; each address depends on the value before.
Case latency_case(const std::string& name, int64_t floats, int64_t steps) {
  constexpr int64_t kStride = 4099;  // a prime: neither lines nor pages repeat soon
  Case c = one_kernel(
      name, {floats, kThreads, 1},
      [=](Builder& b, int x, int y, const DeviceFacts&) -> Status {
        const Value local = number_of(b, Builtin::LocalIndex);
        b.if_then(b.lt(local, b.i32(1)), [&] {
          const int at = b.local("at", kernel::kI32);
          b.local_store(at, b.i32(0));
          b.for_loop(b.i32(0), b.i32(steps), b.i32(1), [&](Value) {
            const Value now = b.local_load(at);
            // The values are in [-1, 1), so this adds 0, which no compiler can know.
            const Value zero = b.convert(b.mul(b.load(x, now), b.f32(0.5F)), Ty::I32);
            b.local_store(at, (now + kStride + zero) % floats);
          });
          b.store(y, local, b.convert(b.local_load(at), Ty::F32));
        });
        return {};
      },
      [=](const Tensors&) {
        return Samples{{0, 0, static_cast<double>(steps * kStride % floats)}};
      });
  c.operations = static_cast<double>(steps);
  return c;
}

/// Barriers of a workgroup that has its multiprocessor for itself or not.
Case barrier_case(int64_t workgroups, int64_t rounds) {
  Case c = one_kernel(
      "barriers", {kThreads, workgroups * kThreads, workgroups},
      [=](Builder& b, int x, int y, const DeviceFacts&) -> Status {
        const Value local = number_of(b, Builtin::LocalIndex);
        const int shared = b.shared("values", Ty::F32, kThreads);
        const int value = b.local("value", kF32);
        b.local_store(value, b.load(x, local));
        b.for_loop(b.i32(0), b.i32(rounds), b.i32(1), [&](Value) {
          b.shared_store(shared, local, b.local_load(value));
          b.barrier();
          b.local_store(value, b.shared_load(shared, (local + 1) % kThreads));
          b.barrier();
        });
        b.store(y, number_of(b, Builtin::GlobalId), b.local_load(value));
        return {};
      },
      [=](const Tensors& v) {
        return sampled(workgroups * kThreads, 64,
                       [&](int64_t i) { return value_at(v[0], (i + rounds) % kThreads); });
      });
  c.operations = 2.0 * static_cast<double>(workgroups * rounds);
  return c;
}

/// Workgroups that do almost nothing.
Case workgroups_case(int64_t workgroups) {
  Case c = one_kernel(
      "workgroups", {kThreads, kThreads, workgroups},
      [](Builder& b, int x, int y, const DeviceFacts&) -> Status {
        const Value i = number_of(b, Builtin::GlobalId);
        b.if_then(b.lt(i, b.i32(kThreads)), [&] { b.store(y, i, b.load(x, i)); });
        return {};
      },
      [](const Tensors& v) { return copied(v[0]); });
  c.operations = static_cast<double>(workgroups);
  return c;
}

/// Subgroups multiply matrices of ones from shared memory, which they load once, 2 x 2 at a time.
Status write_matrices(Builder& b, int y, const MmaConfig& m, Ty type, const DeviceFacts& facts,
                      int64_t rounds) {
  const auto left_count = static_cast<int64_t>(m.m) * m.k,
             right_count = static_cast<int64_t>(m.k) * m.n;
  const auto sum_count = static_cast<int64_t>(m.m) * m.n;
  const auto subgroups = kThreads / static_cast<int64_t>(facts.subgroup_size);
  const int ones = b.shared("ones", type, static_cast<uint32_t>(std::max(left_count, right_count)));
  const int sums = b.shared("sums", Ty::F32, static_cast<uint32_t>(subgroups * sum_count));
  const Value local = number_of(b, Builtin::LocalIndex);
  b.require_subgroup_size(facts.subgroup_size);
  for (int64_t i = 0; i < std::max(left_count, right_count); i += kThreads)
    b.shared_store(ones, local + i, b.constant({kernel::compute_type(type), 1}, 1));
  b.barrier();
  std::vector<int> left, right, sum;
  for (int i = 0; i < 2; ++i) {
    left.push_back(b.matrix("left" + std::to_string(i), MatrixUse::Left, type, m.m, m.k));
    right.push_back(b.matrix("right" + std::to_string(i), MatrixUse::Right, type, m.k, m.n));
    b.matrix_load(left.back(), ones, b.i32(0), m.k, false, 8);
    b.matrix_load(right.back(), ones, b.i32(0), m.n, false, 8);
  }
  for (int i = 0; i < 4; ++i) {
    sum.push_back(b.matrix("sum" + std::to_string(i), MatrixUse::Sum, Ty::F32, m.m, m.n));
    b.matrix_zero(sum.back());
  }
  b.for_loop(b.i32(0), b.i32(rounds), b.i32(1), [&](Value) {
    for (int i = 0; i < 4; ++i) b.matrix_mul_add(sum[i], left[i / 2], right[i % 2]);
  });
  const Value subgroup = number_of(b, Builtin::SubgroupIndex);
  const Value group = number_of(b, Builtin::WorkgroupId);
  const int total = b.local("total", kF32);
  b.local_store(total, b.f32(0));
  for (const int s : sum) {
    b.matrix_store(s, sums, subgroup * sum_count, m.n, false, 8);
    b.barrier();
    b.local_store(total, b.add(b.local_load(total), b.shared_load(sums, local)));
    b.barrier();
  }
  b.store(y, group * kThreads + local, b.local_load(total));
  return {};
}

Case matrix_case(const std::string& name, Ty type, const MmaConfig& shape, int64_t workgroups,
                 int64_t rounds) {
  Case c = one_kernel(
      name, {kThreads, workgroups * kThreads, workgroups},
      [=](Builder& b, int, int y, const DeviceFacts& facts) -> Status {
        if (!contains(facts.matrices, shape)) return unsupported("the device has no such matrices");
        return write_matrices(b, y, shape, type, facts, rounds);
      },
      [=](const Tensors&) {
        const auto each = 4.0 * static_cast<double>(shape.k) * static_cast<double>(rounds);
        return sampled(workgroups * kThreads, 64, [=](int64_t) { return each; });
      });
  c.unfit = [shape](const DeviceFacts& facts) {
    return contains(facts.matrices, shape) ? "" : "the device has no such matrices";
  };
  const double subgroups = kThreads / 32.0;  // of devices that have matrices of this shape
  c.flops =
      2.0 * shape.m * shape.n * shape.k * 4 * subgroups * static_cast<double>(workgroups * rounds);
  return c;
}

Value exp2_of(Builder& b, Val v) {
  return b.scalar_op(ScalarOp::Exp2Native, {b.sub(b.f32(0), v)});
}

}  // namespace

std::vector<Case> constant_cases(bool quick) {
  // Enough for 132 multiprocessors of 2,048 threads, eight times over.
  const int64_t groups = quick ? 4 : 8448, rounds = quick ? 8 : 1024;
  const int64_t large = quick ? 1 << 14 : 64 << 20, cached = quick ? 1 << 12 : 2 << 20;
  const MmaConfig half{16, 16, 16, kHalfMma};
  return {
      read_case("read memory", large, large),
      read_case("read L2 cache", cached, large),
      shared_case(groups, rounds),
      chains_case(
          "multiply-add", groups, rounds,
          [](Builder& b, Val v) { return b.fma(v, b.f32(0.5F), b.f32(1)); },
          [](double v) { return 0.5 * v + 1; }),
      chains_case("exp2", groups, rounds, exp2_of, [](double v) { return std::exp2(-v); }),
      matrix_case("matrices 16x16x16 fp16", Ty::F16, half, quick ? 4 : 528, quick ? 8 : 128),
      latency_case("latency of L1 cache", 1 << 10, quick ? 64 : 1 << 14),
      latency_case("latency of L2 cache", quick ? 1 << 12 : 1 << 20, quick ? 64 : 1 << 14),
      latency_case("latency of memory", large, quick ? 64 : 1 << 14),
      barrier_case(quick ? 4 : 1056, rounds),
      workgroups_case(quick ? 64 : 1 << 20),
  };
}

}  // namespace reprise::bench::gpu
