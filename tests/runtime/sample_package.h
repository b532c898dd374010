// A valid package that uses every part of the format.
#pragma once

#include "runtime/package/package.h"
#include "tests/support/buffer_ids.h"

namespace reprise::package {

inline plan::Buffer make_buffer(std::string name, plan::BufferKind kind, int32_t index, Shape shape,
                                DType dtype = DType::F32) {
  return {std::move(name), kind, index, dtype, std::move(shape)};
}

inline plan::Plan sample_device_plan() {
  using plan::BufferKind;
  const Expr batch = Expr::symbol(0);
  const Expr found = Expr::symbol(1);
  plan::Plan p;
  p.buffers = {make_buffer("x", BufferKind::Input, 0, {batch, 64}),
               make_buffer("y", BufferKind::Output, 0, {batch, 32}),
               make_buffer("where", BufferKind::Output, 1, {2, found}, DType::I64),
               make_buffer("again", BufferKind::Output, 2, {batch, 32}),
               make_buffer("w", BufferKind::Weight, 0, {64, 512}),
               make_buffer("bias", BufferKind::Weight, 1, {32}),
               make_buffer("hidden", BufferKind::Arena, -1, {batch, 512}),
               make_buffer("picked", BufferKind::Growable, -1, {found, 32})};
  plan::Weight tiles;
  tiles.name = "w";
  tiles.packing = plan::in_tiles({1, 64, 512}, 24);
  plan::Weight bias;
  bias.name = "bias";
  bias.segment = 1;
  p.weights = {tiles, bias};
  plan::KernelCode matmul;
  matmul.name = "fused_matmul_relu";
  matmul.workgroup = {8, 4, 1};
  matmul.n_buffers = 3;
  matmul.n_scalars = 1;
  matmul.shared_bytes = 1024;
  matmul.subgroup_size = 8;
  matmul.spirv = {0x07230203, 0x00010300, 0, 10, 0, 0x00020011};
  matmul.cuda = "extern \"C\" __global__ void fused_matmul_relu() {}";
  plan::KernelCode add = matmul;
  add.name = "fused_add";
  add.n_scalars = 0;
  p.kernels = {matmul, add};
  plan::Launch first;
  first.grid = {Expr::ceildiv(batch, 8), 64, 1};
  first.buffers = test::buffers(0, 4, 6);
  first.writes = {false, false, true};
  first.scalars = {batch};
  first.nodes = {"MatMul_0", "Relu_1"};
  first.group = "fused_matmul_relu";
  first.schedule = "matmul rows 8x4";
  plan::Launch second = first;
  second.kernel = 1;
  second.buffers = test::buffers(6, 5, 1);
  second.scalars = {};
  plan::Launch third = second;
  third.grid = {found, 1, 1};
  third.buffers = test::buffers(1, 5, 7);
  plan::HostCall call;
  call.op = "NonZero";
  call.node = "NonZero_2";
  call.opset = 13;
  call.inputs = test::buffers(1, -1);
  call.outputs = test::buffers(2);
  call.reason = "its output size depends on data";
  call.attrs.set("axis", int64_t{-1});
  call.attrs.set("alpha", 0.5f);
  call.attrs.set("mode", std::string("linear"));
  call.attrs.set("axes", std::vector<int64_t>{0, -2});
  call.attrs.set("scales", std::vector<float>{1.f, 2.f});
  call.attrs.set("keys", std::vector<std::string>{"a", ""});
  call.attrs.set("value", HostTensor::from<float>(DType::F32, {2}, {1.f, -0.f}));
  HostTensor words(DType::String, {2});
  words.mutable_strings() = {"one", "two"};
  call.attrs.set("words", words);
  call.attrs.set("shape", std::vector<Expr>{batch * 2 + 1, Expr::min(batch, 7), 32});
  p.steps = {{first, {}, 0}, {second, {}, 0}, {call, {}, 0}, {third, {}, 0}};
  p.aliases = {{plan::BufferId(1), plan::BufferId(3)}};
  plan::compute_hazards(p);
  return p;
}

inline plan::Plan sample_host_plan() {
  plan::Plan p = sample_device_plan();
  p.kernels.clear();
  p.weights[0] = {};
  p.weights[0].name = "w";
  for (plan::Step& s : p.steps) {
    const auto* launch = std::get_if<plan::Launch>(&s.what);
    if (!launch) continue;
    plan::HostCall call;
    call.op = "Gemm";
    call.node = launch->group;
    call.inputs = {launch->buffers[0], launch->buffers[1]};
    call.outputs = {launch->buffers[2]};
    s.what = call;
  }
  plan::compute_hazards(p);
  return p;
}

/// An ELF file as cubins are: a header, a program header, and sections "nothing" and "code".
inline std::vector<std::byte> sample_cubin() {
  std::vector<std::byte> out(64 + 56 + 2 * 64 + 32);
  const auto put = [&out](size_t at, uint64_t v, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) out[at + i] = static_cast<std::byte>(v >> (8 * i));
  };
  put(0, 0x00010102464c457f, 8);  // 64 bits, little endian
  put(16, 2, 2);                  // executable
  put(18, 190, 2);                // for CUDA
  put(20, 1, 4);
  put(32, 64, 8);   // program headers
  put(40, 120, 8);  // section headers
  put(52, 64, 2);
  put(54, 56, 2);
  put(56, 1, 2);
  put(58, 64, 2);
  put(60, 2, 2);
  put(64 + 8, 248, 8);  // the segment: offset, ...
  put(64 + 32, 32, 8);  // ... bytes in the file
  put(184 + 4, 1, 4);   // the second section
  put(184 + 24, 248, 8);
  put(184 + 32, 32, 8);
  return out;
}

inline std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

inline Variant cuda_variant(const std::string& arch) {
  Variant v;
  v.name = "cuda-" + arch;
  v.predicate.api = Api::Cuda;
  v.predicate.cuda_arch = arch;
  v.predicate.needs_float16 = v.predicate.needs_float64 = v.predicate.needs_exact_halves = true;
  v.predicate.needs_subgroup_shuffle = true;
  v.predicate.needs_subgroup_extended_types = true;
  v.predicate.matrices = {
      {16, 8, 4}, {16, 8, 32, {MmaType::I8, MmaType::U8, MmaType::I32}, MmaScope::Workgroup, 64}};
  v.plan = sample_device_plan();
  TensorView view;
  view.element_bytes = 4;
  view.swizzle = Swizzle::B128;
  view.box = {32, 256};
  view.dims = view.strides = {0};
  view.dims.push_back(0);
  v.plan.kernels[0].views = {view, view};  // the first has a scalar
  for (plan::KernelCode& k : v.plan.kernels) {
    k.spirv.clear();
    k.cuda = "extern \"C\" __global__ void " + k.name + "() {}";
    const bool ptx = arch.starts_with("compute");
    k.image = ptx ? bytes_of({".version 8.0\0", 13}) : sample_cubin();
    if (!ptx) k.usage = {40, 8, 1024, 16};
  }
  return v;
}

inline Package sample_package() {
  Package p;
  p.model_name = "sample";
  p.producer = "reprise test";
  p.metadata = {{"names", "{0: 'cat', 1: 'Hündin'}"}, {"", ""}};
  p.io.symbols = {{"batch", 1, 4096, 1}, {"found", 0, 1 << 20, 1}};
  p.io.sources = {{SymbolSource::Kind::InputDim, 0, 0}, {SymbolSource::Kind::HostOutput, 2, 1}};
  const Expr batch = Expr::symbol(0);
  p.io.inputs = {{"x", DType::F32, {batch, 64}}};
  p.io.outputs = {{"y", DType::F32, {batch, 32}},
                  {"where", DType::I64, {2, Expr::symbol(1)}},
                  {"again", DType::F32, {batch, 32}}};
  p.io.guards = {{DimGuard::Kind::Equal, batch, batch * 2 - batch, "Add_9", "", ""}};
  std::vector<float> w(64 * 512);
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 97);
  HostTensor words(DType::String, {3});
  words.mutable_strings() = {"alpha", "", "gamma"};
  p.weights = {HostTensor::from(DType::F32, {64, 512}, w),
               HostTensor(DType::F32, {32}),
               HostTensor(DType::F32, {0, 4}),
               words,
               HostTensor::from<uint8_t>(DType::U8, {3}, {1, 2, 3}),
               HostTensor::from<float>(DType::F32, {2, 3}, {1, 2, 3, 4, 5, 6}),
               HostTensor::borrow(DType::F32, {2, 9}, {}, nullptr)};
  p.parts[6] = {1, {5, 5, 5}};
  Variant cpu;
  cpu.name = "vulkan-cpu";
  cpu.predicate.needs_int64 = cpu.predicate.cpu_type = true;
  cpu.predicate.subgroup_size = 8;
  cpu.plan = sample_device_plan();
  p.variants = {cpu, cuda_variant("sm_90"), cuda_variant("compute_80")};
  p.host_plan = sample_host_plan();
  p.explanation.model_nodes = 3;
  p.explanation.launches_unfused = 5;
  p.explanation.unfused = {{"Relu_1", "NonZero_2", "runs on the host"}};
  p.explanation.precision = DType::BF16;
  p.explanation.narrowed = 2;
  p.explanation.kept = {{"Exp_3", "Exp", "exponentials overflow"}};
  p.explanation.notes = {"the declaration is ignored"};
  return p;
}

}  // namespace reprise::package
