// On GPUs, kernels of narrow types access 16 bytes at a time where elements are neighbours, and
// compute what the host does.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "codegen/compile/compiler.h"
#include "codegen/compile/targets.h"
#include "codegen/graph/text/text.h"
#include "codegen/lower/fuse/fuse.h"
#include "codegen/passes/pass.h"
#include "runtime/session/session.h"
#include "tests/support/kernel_runner.h"

namespace reprise {
namespace {

/// How many loads and stores of 16 bytes the kernels have, of buffers with narrow elements or of
/// the words that they became, and how many of shared arrays.
struct LongAccesses {
  int loads = 0, stores = 0, shared_stores = 0;
};

LongAccesses long_accesses(const lower::Lowered& l) {
  LongAccesses n;
  for (const lower::LoweredLaunch& launch : l.launches) {
    const kernel::Kernel& k = launch.kernel;
    const auto type = [&](kernel::Val v) { return k.insts[static_cast<size_t>(v.id)].type; };
    for (const kernel::Inst& i : k.insts) {
      if (i.op == kernel::Op::SharedStore) n.shared_stores += kernel::is_long(type(i.args[1]));
      if (i.op != kernel::Op::Load && i.op != kernel::Op::Store) continue;
      const kernel::Type t = i.op == kernel::Op::Load ? i.type : type(i.args[1]);
      const bool all = t.lanes * kernel::byte_size(k.buffers[i.imm].storage) == 16;
      const bool narrow = kernel::is_long(t) || k.buffers[i.imm].storage == kernel::Ty::U32;
      if (all && narrow) ++(i.op == kernel::Op::Load ? n.loads : n.stores);
    }
  }
  return n;
}

/// Small whole numbers of which sums are exact in 16 bits.
HostTensor small_numbers(DType t, const std::vector<int64_t>& dims, uint64_t step) {
  HostTensor x(t, dims);
  for (int64_t i = 0; i < x.count(); ++i) {
    const auto v = static_cast<int>(static_cast<uint64_t>(i) * step % 5) - (t == DType::U8 ? 0 : 2);
    if (t == DType::U8) x.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(v);
    if (t == DType::F16) x.mutable_data<uint16_t>()[i] = float_to_f16(static_cast<float>(v));
  }
  return x;
}

class LongAccessesOf {
 public:
  LongAccessesOf(const std::string& text, DType t) {
    auto parsed = graph::parse(text);
    EXPECT_TRUE(parsed.ok()) << parsed.status().message();
    if (!parsed.ok()) return;
    g_ = std::move(*parsed);
    for (size_t i = 0; i < g_->inputs.size(); ++i) {
      const std::vector<int64_t> dims = test::dims_of(g_->value(g_->inputs[i]).shape, {});
      inputs_.push_back(small_numbers(t, dims, i + 2));
    }
    run_on_host();
    for (const passes::Pass& p : passes::pipeline()) EXPECT_TRUE(passes::run(p, *g_).ok());
  }

  /// Runs every schedule of the only group whose name begins so on the interpreter. Returns what
  /// the first of them accesses.
  LongAccesses run(const lower::Target& target, const std::string& schedule) {
    const auto fusion = lower::fuse(*g_, {.device = target.predicate});
    EXPECT_TRUE(fusion.ok() && fusion->groups.size() == 1);
    if (!fusion.ok()) return {};
    const lower::Group& group = fusion->groups[0];
    const auto first = lower::lower(*g_, group, target);
    EXPECT_TRUE(first.ok()) << first.status().message();
    if (!first.ok()) return {};
    std::optional<LongAccesses> found;
    for (size_t c = 0; c < first->choices.size(); ++c) {
      if (!first->choices[c].schedule.starts_with(schedule)) continue;
      auto l = lower::lower(*g_, group, target, c);
      EXPECT_TRUE(l.ok()) << l.status().message();
      if (!l.ok() || l->launches.size() > 1) continue;
      const Status s = test::legalize_for(*l, target);
      EXPECT_TRUE(s.ok()) << s.message();
      if (!found) found = long_accesses(*l);
      test::KernelRunner runner(*g_, {}, inputs_);
      const Status ran = runner.run(*l, test::interpret);
      EXPECT_TRUE(ran.ok()) << first->choices[c].schedule << ": " << ran.message();
      const std::vector<std::byte>& got = runner.memory_of(g_->outputs[0]);
      EXPECT_EQ(std::memcmp(got.data(), expected_.bytes().data(), expected_.bytes().size()), 0)
          << first->choices[c].schedule;
    }
    EXPECT_TRUE(found) << "no " << schedule;
    return found.value_or(LongAccesses{});
  }

 private:
  void run_on_host() {
    CompileOptions options;
    options.targets = {};
    auto package = compile(g_->clone(), options);
    ASSERT_TRUE(package.ok()) << package.status().message();
    auto session =
        Session::create(std::make_shared<package::Package>(std::move(*package)), nullptr);
    ASSERT_TRUE(session.ok()) << session.status().message();
    std::vector<Binding> bindings;
    for (size_t i = 0; i < inputs_.size(); ++i)
      bindings.push_back({.name = g_->value(g_->inputs[i]).name, .host = &inputs_[i]});
    auto outputs = (*session)->run(bindings);
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    expected_ = std::move((*outputs)[0]);
  }

  std::unique_ptr<graph::Graph> g_;
  std::vector<HostTensor> inputs_;
  HostTensor expected_;
};

lower::Target target_of(const std::string& name) {
  const auto found = parse_targets({name});
  EXPECT_TRUE(found.ok()) << found.status().message();
  return found.ok() ? found->front() : lower::Target{};
}

constexpr const char* kGpus[] = {"cuda:sm_80", "vulkan-matrix"};

TEST(LongAccesses, OfPointwiseKernels) {
  LongAccessesOf halves(
      "graph g\ninput x: float16[32,1024]\ninput y: float16[32,1024]\n"
      "z = Add(x, y) @14\noutput z\n",
      DType::F16);
  LongAccessesOf bytes("graph g\ninput x: uint8[64,1024]\nz = Sub(x, x) @14\noutput z\n",
                       DType::U8);
  for (const char* name : kGpus) {
    SCOPED_TRACE(name);
    const LongAccesses h = halves.run(target_of(name), "pointwise v4 x8 strided, 2 joined");
    EXPECT_EQ(h.loads, 8);
    EXPECT_EQ(h.stores, 4);
    const LongAccesses b = bytes.run(target_of(name), "pointwise v4 x16 strided, 4 joined");
    EXPECT_EQ(b.stores, 4);
  }
}

/// fp16 matrices, of which A has a prologue, so that it is not copied as it is.
std::string product(const std::string& b) {
  return "graph g\ninput a: float16[128,64]\n" + b +
         "r = Relu(a) @14\ny = MatMul(r, b) @13\noutput y\n";
}

TEST(LongAccesses, OfCooperativeTiles) {
  LongAccessesOf rows(product("input b: float16[64,128]\n"), DType::F16);
  LongAccessesOf columns(product("input c: float16[128,64]\nb = Transpose<perm=[1, 0]>(c) @13\n"),
                         DType::F16);
  for (const char* name : kGpus) {
    SCOPED_TRACE(name);
    const bool splits = std::string(name).starts_with("vulkan");
    for (LongAccessesOf* of : {&rows, &columns}) {
      const LongAccesses n = of->run(target_of(name), "cooperative matrix tile");
      EXPECT_GT(n.loads, 1);
      EXPECT_EQ(n.shared_stores > 0, !splits);
    }
  }
}

TEST(LongAccesses, NotOnDevicesOfTheCpuType) {
  LongAccessesOf halves("graph g\ninput x: float16[32,1024]\nz = Add(x, x) @14\noutput z\n",
                        DType::F16);
  EXPECT_EQ(halves.run(target_of("vulkan-cpu-sg8"), "pointwise").stores, 0);
}

}  // namespace
}  // namespace reprise
