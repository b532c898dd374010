// Every rule of the plan verifier: a valid package with one thing wrong, and what the error says.
#include <gtest/gtest.h>

#include <functional>

#include "tests/runtime/sample_package.h"

namespace reprise::package {
namespace {

using plan::HostCall;
using plan::Launch;

struct Wrong {
  const char* message;
  std::function<void(Package&)> change;
};

plan::Plan& device(Package& p) {
  return p.variants[0].plan;
}
plan::Packing& packing(Package& p) {
  return device(p).weights[0].packing;
}
Launch& launch(Package& p, size_t step) {
  return std::get<Launch>(device(p).steps[step].what);
}
HostCall& call(Package& p) {
  for (plan::Step& s : device(p).steps) {
    if (auto* c = std::get_if<HostCall>(&s.what)) return *c;
  }
  return std::get<HostCall>(device(p).steps[0].what);
}

const Wrong kInterface[] = {
    {"symbols have", [](Package& p) { p.io.sources.pop_back(); }},
    {"the name is used twice", [](Package& p) { p.io.outputs[1].name = "y"; }},
    {"element type 31", [](Package& p) { p.io.inputs[0].dtype = static_cast<DType>(31); }},
    {"symbol 5 does not exist", [](Package& p) { p.io.inputs[0].shape[0] = Expr::symbol(5); }},
    {"divisor 0", [](Package& p) { p.io.symbols[0].divisor = 0; }},
    {"its range is empty", [](Package& p) { p.io.symbols[0].min = 9999; }},
    {"source kind 9",
     [](Package& p) { p.io.sources[1].kind = static_cast<SymbolSource::Kind>(9); }},
    {"dimension 2 of input 0", [](Package& p) { p.io.sources[0].axis = 2; }},
    {"dimension 0 of input -1", [](Package& p) { p.io.sources[0].index = -1; }},
    {"node 'Add_9': symbol 8", [](Package& p) { p.io.guards[0].a = Expr::symbol(8); }},
};

const Wrong kBuffers[] = {
    {"is negative", [](Package& p) { device(p).buffers[plan::BufferId(6)].shape[1] = -1; }},
    {"overflows",
     [](Package& p) { device(p).buffers[plan::BufferId(6)].shape[1] = Expr::overflow(); }},
    {"element type 0",
     [](Package& p) { device(p).buffers[plan::BufferId(6)].dtype = DType::Invalid; }},
    {"buffer kind 9",
     [](Package& p) {
       device(p).buffers[plan::BufferId(6)].kind = static_cast<plan::BufferKind>(9);
     }},
    {"input or output 3", [](Package& p) { device(p).buffers[plan::BufferId(0)].index = 3; }},
    {"has two buffers", [](Package& p) { device(p).buffers[plan::BufferId(3)].index = 0; }},
    {"has no buffer",
     [](Package& p) {
       p.io.inputs.push_back({"unused", DType::F32, {}});
     }},
    {"the model's tensor 'x' is",
     [](Package& p) { device(p).buffers[plan::BufferId(0)].shape[1] = 63; }},
    {"weight 7 does not exist", [](Package& p) { device(p).buffers[plan::BufferId(4)].index = 7; }},
    {"dynamic shape",
     [](Package& p) { device(p).buffers[plan::BufferId(4)].shape[0] = Expr::symbol(0); }},
    {"number of axes",
     [](Package& p) {
       packing(p).dims.pop_back();
       packing(p).dims.pop_back();
     }},
    {"number of axes", [](Package& p) { packing(p).dims.clear(); }},
    {"number of axes", [](Package& p) { packing(p).dims.resize(9, 1); }},
    {"number of axes", [](Package& p) { packing(p).parts.resize(17); }},
    {"elements of impossible sizes", [](Package& p) { packing(p).bits = 3; }},
    {"elements of impossible sizes", [](Package& p) { packing(p).bits = -4; }},
    {"parts of impossible sizes", [](Package& p) { packing(p).parts[0].axis = 3; }},
    {"parts of impossible sizes", [](Package& p) { packing(p).parts[0].axis = -1; }},
    {"parts of impossible sizes", [](Package& p) { packing(p).parts[2].size = 0; }},
    {"impossible sizes", [](Package& p) { packing(p).dims[1] = 0; }},
    {"cover each element once", [](Package& p) { packing(p).parts[3].size = 12; }},
    {"cover each element once", [](Package& p) { packing(p).parts[1].step = 25; }},
    {"cover each element once", [](Package& p) { packing(p).parts[1].step = -24; }},
    {"cover each element once", [](Package& p) { packing(p).parts[2].axis = 2; }},
    {"cover each element once", [](Package& p) { packing(p).parts.pop_back(); }},
    {"cover each element once", [](Package& p) { packing(p).parts[2].size = 63; }},
    {"cover each element once", [](Package& p) { packing(p).parts[2].size = 64 + 4097; }},
    {"words of 32 bits", [](Package& p) { packing(p).bits = 4; }},
    {"words of 32 bits",  // the last parts are not the lowest digits
     [](Package& p) {
       packing(p) = plan::in_tiles_of_nibbles({1, 64, 512}, 24);
       std::swap(packing(p).parts[2], packing(p).parts[5]);
     }},
    {"too large", [](Package& p) { packing(p).parts[2].size = int64_t{1} << 62; }},
    {"too large",
     [](Package& p) {
       packing(p).dims[1] = packing(p).parts[2].size = int64_t{1} << 31;
       packing(p).dims[0] = packing(p).parts[0].size = int64_t{1} << 31;
     }},
    {"segment 9 does not exist", [](Package& p) { device(p).weights[0].segment = 9; }},
    {"the plan expects", [](Package& p) { device(p).weights[0].segment = 1; }},
    {"the plan expects", [](Package& p) { packing(p).dims[2] = 511; }},
};

/// Gives the first kernel, which has a scalar, a view.
TensorView& view(Package& p) {
  TensorView v;
  v.element_bytes = 4;
  v.box = {4, 8};
  v.dims = {0, 0};
  v.strides = {0};
  device(p).kernels[0].views = {v};
  return device(p).kernels[0].views[0];
}

const Wrong kSteps[] = {
    {"the name is used twice",
     [](Package& p) { device(p).kernels[1].name = device(p).kernels[0].name; }},
    {"workgroup size 0", [](Package& p) { device(p).kernels[0].workgroup[1] = 0; }},
    {"a workgroup of 2048",
     [](Package& p) {
       device(p).kernels[0].workgroup = {64, 32, 1};
     }},
    {"a view of buffer 9", [](Package& p) { view(p).buffer = 9; }},
    {"a view of elements of 3 bytes", [](Package& p) { view(p).element_bytes = 3; }},
    {"a view of 6 dimensions", [](Package& p) { view(p).box.assign(6, 4); }},
    {"not among the scalars", [](Package& p) { view(p).dims[1] = 1; }},
    {"not among the scalars", [](Package& p) { view(p).first = 7; }},
    {"an impossible box", [](Package& p) { view(p).box[1] = 257; }},
    {"a box of lines of 12 bytes", [](Package& p) { view(p).box[0] = 3; }},
    {"a box of lines of 16 bytes", [](Package& p) { view(p).swizzle = Swizzle::B64; }},
    {"an unknown swizzle", [](Package& p) { view(p).swizzle = static_cast<Swizzle>(4); }},
    {"not SPIR-V", [](Package& p) { device(p).kernels[0].spirv[0] = 1; }},
    {"kernel 2 does not exist", [](Package& p) { launch(p, 0).kernel = 2; }},
    {"another number of", [](Package& p) { launch(p, 0).scalars.clear(); }},
    {"another number of", [](Package& p) { launch(p, 0).writes.pop_back(); }},
    {"buffer 99 does not exist", [](Package& p) { launch(p, 0).buffers[0] = plan::BufferId(99); }},
    {"buffer -1 does not exist", [](Package& p) { launch(p, 0).buffers[0] = plan::BufferId(-1); }},
    {"read-only buffer 'w'", [](Package& p) { launch(p, 0).writes[1] = true; }},
    {"of type string, on a device",
     [](Package& p) { device(p).buffers[plan::BufferId(6)].dtype = DType::String; }},
    {"symbol 6 does not exist", [](Package& p) { launch(p, 0).scalars[0] = Expr::symbol(6); }},
    {"a grid of -3", [](Package& p) { launch(p, 0).grid[1] = -3; }},
    {"buffer 50 does not exist", [](Package& p) { call(p).outputs[0] = plan::BufferId(50); }},
    {"buffer -2 does not exist", [](Package& p) { call(p).inputs[1] = plan::BufferId(-2); }},
    {"attribute 'shape'",
     [](Package& p) { call(p).attrs.set("shape", std::vector<Expr>{Expr::symbol(6)}); }},
    {"waits for step 3", [](Package& p) { device(p).steps[1].after = {3}; }},
    {"its dependencies put it on", [](Package& p) { device(p).steps[1].after.clear(); }},
    {"sorted by level", [](Package& p) { device(p).steps.push_back(device(p).steps[0]); }},
    {"shares memory and its level",
     [](Package& p) {
       plan::Step extra = device(p).steps[0];
       device(p).steps.insert(device(p).steps.begin(), extra);
       for (plan::Step& s : device(p).steps) {
         for (uint32_t& a : s.after) ++a;
       }
     }},
    {"before anything wrote it", [](Package& p) { launch(p, 0).buffers[0] = plan::BufferId(7); }},
    {"not an output that needs",
     [](Package& p) { device(p).aliases[0].output = plan::BufferId(1); }},
    {"not an output that needs",
     [](Package& p) { device(p).aliases[0].output = plan::BufferId(6); }},
    {"differs in type or shape", [](Package& p) { device(p).aliases[0].from = plan::BufferId(6); }},
    {"nothing writes it", [](Package& p) { device(p).aliases.clear(); }},
    {"host plan: it launches a kernel", [](Package& p) { p.host_plan = sample_device_plan(); }},
};

void expect_refused(std::span<const Wrong> cases) {
  for (const Wrong& c : cases) {
    Package p = sample_package();
    ASSERT_TRUE(verify(p).ok()) << verify(p).message();
    c.change(p);
    const Status s = verify(p);
    EXPECT_EQ(s.code(), Code::CorruptPackage) << c.message;
    EXPECT_NE(s.message().find(c.message), std::string::npos)
        << "expected '" << c.message << "', found '" << s.message() << "'";
  }
}

TEST(VerifyPlan, Interface) {
  expect_refused(kInterface);
}

TEST(VerifyPlan, BuffersAndWeights) {
  expect_refused(kBuffers);
}

TEST(VerifyPlan, KernelsAndSteps) {
  expect_refused(kSteps);
}

TEST(PrintPlan, ShowsEveryPart) {
  const Package p = sample_package();
  EXPECT_EQ(plan::print(p.variants[0].plan, p.io),
            R"(symbol "batch" in [1, 4096] from input 0 axis 0
symbol "found" in [0, 1048576] from host output 2 axis 1
weight 0 "w" segment 0 packed [1, 64, 512] as 0:1 2:22*24 1:64 2:24
weight 1 "bias" segment 1
%0 input 0 "x" float32[batch, 64]
%1 output 0 "y" float32[batch, 32]
%2 output 1 "where" int64[2, found]
%3 output 2 "again" float32[batch, 32]
%4 weight 0 "w" float32[64, 512]
%5 weight 1 "bias" float32[32]
%6 arena "hidden" float32[batch, 512]
%7 growable "picked" float32[found, 32]
kernel 0 fused_matmul_relu workgroup [8, 4, 1] buffers 3 scalars 1 shared 1024 subgroup 8 spirv 6 words cuda 49 bytes
kernel 1 fused_add workgroup [8, 4, 1] buffers 3 scalars 0 shared 1024 subgroup 8 spirv 6 words cuda 49 bytes
step 0 level 0 after [] launch fused_matmul_relu(%0, %4, out %6, batch) grid [floordiv(batch + 7, 8), 64, 1] schedule "matmul rows 8x4" nodes ["MatMul_0", "Relu_1"]
step 1 level 1 after [0] launch fused_add(%6, %5, out %1) grid [floordiv(batch + 7, 8), 64, 1] schedule "matmul rows 8x4" nodes ["MatMul_0", "Relu_1"]
step 2 level 2 after [1] host NonZero(%1, -) -> (%2) node "NonZero_2" because "its output size depends on data"
step 3 level 3 after [2] launch fused_add(%1, %5, out %7) grid [found, 1, 1] schedule "matmul rows 8x4" nodes ["MatMul_0", "Relu_1"]
copy %1 -> %3
)");
}

TEST(Weight, PackedBytes) {
  EXPECT_EQ(plan::Packing().packed_bytes(5, 1), 8u);
  EXPECT_EQ(plan::in_tiles({2, 3, 25}, 8).packed_bytes(2 * 3 * 25 * 4, 4), 2u * 32 * 3 * 4);
  EXPECT_EQ(plan::in_tiles_of_nibbles({2, 3, 25}, 8).packed_bytes(2 * 3 * 25, 1), 2u * 32 * 8 / 2);
}

}  // namespace
}  // namespace reprise::package
