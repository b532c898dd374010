#include "tests/support/plans.h"

#include <algorithm>
#include <cstdlib>
#include <span>

#include "codegen/emit/cuda/cuda.h"
#include "codegen/emit/spirv/spirv.h"
#include "codegen/nvrtc/compile.h"
#include "tests/support/kept_text.h"

namespace reprise::test {

using kernel::Access;
using kernel::Ty;
using kernel::Val;

namespace {

/// PTX of any kind for the stand-in driver, which executes the text; NVRTC's for a GPU.
std::vector<std::byte> image_of(const std::string& kernel, const std::string& text) {
  if (cuda_driver() != nullptr && standin_keeper() == nullptr) {
    const char* path = std::getenv("REPRISE_NVRTC");
    static const auto library = nvrtc::Library::open(path ? path : "");
    EXPECT_TRUE(library.ok()) << library.status().message();
    if (!library.ok()) return {};
    const CudaArch any_gpu{true, CudaArch::kLeast};
    auto image = nvrtc::compile_text(**library, text, kernel, any_gpu);
    EXPECT_TRUE(image.ok()) << image.status().message();
    return image.ok() ? std::move(image->bytes) : std::vector<std::byte>();
  }
  const std::string ptx = ptx_naming(".version 7.0\n.target sm_75\n.address_size 64\n", text);
  const auto bytes = std::as_bytes(std::span(ptx));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

bool& descriptor_kernels() {
  static bool value = [] {
    const char* faults = std::getenv("REPRISE_FAULTS");
    return faults && std::string(faults).find("hide:buffer-addresses") != std::string::npos;
  }();
  return value;
}

plan::KernelCode code_of(const kernel::Kernel& k) {
  plan::KernelCode code;
  code.name = k.name;
  code.workgroup = k.workgroup;
  code.n_buffers = static_cast<uint32_t>(k.buffers.size());
  code.n_scalars = static_cast<uint32_t>(k.scalars.size());
  const auto need = kernel::requirements(k);
  code.shared_bytes = need.shared_bytes;
  code.subgroup_size = need.subgroup_size;
  auto words = emit::spirv(k, {.descriptors = descriptor_kernels()});
  EXPECT_TRUE(words.ok()) << words.status().message();
  if (words.ok()) code.spirv = std::move(*words);
  kernel::Kernel early = k;
  kernel::begin_early(early);
  // Another driver gets PTX of the least architecture, which awaits nothing.
  code.early = standin_keeper() != nullptr;
  auto text = emit::cuda(early);
  EXPECT_TRUE(text.ok()) << text.status().message();
  if (text.ok()) code.cuda = std::move(*text);
  code.image = image_of(code.name, code.cuda);
  keep_text(code);
  return code;
}

TestKernel affine_kernel(const std::string& name, float factor, float addend) {
  kernel::Builder b(name);
  b.set_workgroup(64);
  const int x = b.buffer("x", Ty::F32, Access::Read), y = b.buffer("y", Ty::F32, Access::Write);
  const Val n = b.param(b.scalar("n"));
  const Val i = b.convert(b.builtin(kernel::Builtin::GlobalId), Ty::I32);
  b.if_then(b.lt(i, n),
            [&] { b.store(y, i, b.add(b.mul(b.load(x, i), b.f32(factor)), b.f32(addend))); });
  auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  TestKernel out{code_of(*k), TestKernel::Meaning::Affine, factor, addend};
  return out;
}

TestKernel gather_kernel() {
  kernel::Builder b("gather");
  b.set_workgroup(64);
  const int data = b.buffer("data", Ty::F32, Access::Read);
  const int index = b.buffer("index", Ty::I32, Access::Read);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  const Val n = b.param(b.scalar("n")), size = b.param(b.scalar("size"));
  const Val i = b.convert(b.builtin(kernel::Builtin::GlobalId), Ty::I32);
  b.if_then(b.lt(i, n), [&] {
    const Val at = b.load(index, i);
    const Val bad = b.logical_or(b.lt(at, b.i32(0)), b.ge(at, size));
    b.set_error(bad, kernel::ErrorCode::IndexOutOfRange);
    b.if_then(b.logical_not(bad), [&] { b.store(y, i, b.load(data, at)); });
  });
  auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  TestKernel out{code_of(*k), TestKernel::Meaning::Gather, 1, 0};
  return out;
}

plan::KernelCode sum_kernel() {
  kernel::Builder b("sum");
  b.set_workgroup(64);
  const int x = b.buffer("x", Ty::F32, Access::Read), y = b.buffer("y", Ty::F32, Access::Read);
  const int z = b.buffer("z", Ty::F32, Access::Write);
  const Val n = b.param(b.scalar("n"));
  const Val i = b.convert(b.builtin(kernel::Builtin::GlobalId), Ty::I32);
  b.if_then(b.lt(i, n), [&] { b.store(z, i, b.add(b.load(x, i), b.load(y, i))); });
  auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  return code_of(*k);
}

Expr PlanWriter::symbol(const std::string& name, size_t input, int32_t axis, int64_t min,
                        int64_t max) {
  io.symbols.push_back({name, min, max, 1});
  io.sources.push_back({SymbolSource::Kind::InputDim, static_cast<int32_t>(input), axis});
  return Expr::symbol(static_cast<SymbolId>(io.symbols.size() - 1));
}

plan::BufferId PlanWriter::input(const std::string& name, DType dtype, Shape shape) {
  const plan::BufferId id = plan.buffers.push_back(
      {name, plan::BufferKind::Input, static_cast<int32_t>(io.inputs.size()), dtype, shape});
  io.inputs.push_back({name, dtype, std::move(shape)});
  return id;
}

plan::BufferId PlanWriter::output(const std::string& name, DType dtype, Shape shape) {
  const plan::BufferId id = plan.buffers.push_back(
      {name, plan::BufferKind::Output, static_cast<int32_t>(io.outputs.size()), dtype, shape});
  io.outputs.push_back({name, dtype, std::move(shape)});
  return id;
}

plan::BufferId PlanWriter::arena(const std::string& name, DType dtype, Shape shape) {
  return plan.buffers.push_back({name, plan::BufferKind::Arena, -1, dtype, std::move(shape)});
}

plan::BufferId PlanWriter::weight(const std::string& name, HostTensor value) {
  plan::Weight w;
  w.name = name;
  w.segment = static_cast<uint32_t>(weights.size());
  plan.weights.push_back(w);
  Shape shape(value.dims().begin(), value.dims().end());
  const plan::BufferId id =
      plan.buffers.push_back({name, plan::BufferKind::Weight,
                              static_cast<int32_t>(plan.weights.size() - 1), value.dtype(), shape});
  weights.push_back(std::move(value));
  return id;
}

uint32_t PlanWriter::kernel(plan::KernelCode code) {
  return kernel(TestKernel{std::move(code), TestKernel::Meaning::None, 1, 0});
}

uint32_t PlanWriter::kernel(TestKernel kernel) {
  meanings_.push_back(kernel);
  plan.kernels.push_back(std::move(kernel));
  return static_cast<uint32_t>(plan.kernels.size() - 1);
}

void PlanWriter::launch(uint32_t kernel, std::vector<plan::BufferId> buffers,
                        std::vector<Expr> scalars, const std::string& node) {
  plan::Launch l;
  l.kernel = kernel;
  l.grid = {Expr::ceildiv(scalars.at(0), 64), Expr(1), Expr(1)};
  l.writes.assign(buffers.size(), false);
  l.writes.back() = true;
  l.buffers = std::move(buffers);
  l.scalars = std::move(scalars);
  l.nodes = {node};
  plan::Step step;
  step.what = std::move(l);
  plan.steps.push_back(std::move(step));
}

void PlanWriter::host(const std::string& op, std::vector<plan::BufferId> inputs,
                      std::vector<plan::BufferId> outputs, AttrMap attrs) {
  plan::HostCall call;
  call.op = op;
  call.node = op + "_node";
  call.attrs = std::move(attrs);
  call.inputs = std::move(inputs);
  call.outputs = std::move(outputs);
  call.reason = "a test asks for it";
  plan::Step step;
  step.what = std::move(call);
  plan.steps.push_back(std::move(step));
}

namespace {

/// A host plan that computes what launches do.
class HostPlan {
 public:
  HostPlan(plan::Plan& plan, package::Package& package) : plan_(plan), package_(package) {}

  void call(const std::string& op, const plan::Launch& l, std::vector<plan::BufferId> in,
            plan::BufferId out) {
    plan::HostCall c;
    c.op = op;
    c.node = l.nodes.at(0);
    c.inputs = std::move(in);
    c.outputs = {out};
    add(std::move(c));
  }
  void add(plan::HostCall c) {
    plan::Step step;
    step.what = std::move(c);
    plan_.steps.push_back(std::move(step));
  }
  void affine(const TestKernel& k, const plan::Launch& l) {
    const plan::BufferId scaled =
        buffer(plan::BufferKind::Arena, -1, plan_.buffers[l.buffers[1]].shape);
    call("Mul", l, {l.buffers[0], constant(k.factor)}, scaled);
    call("Add", l, {scaled, constant(k.addend)}, l.buffers[1]);
  }

 private:
  plan::BufferId buffer(plan::BufferKind kind, int32_t index, Shape shape) {
    return plan_.buffers.push_back({"host", kind, index, DType::F32, std::move(shape)});
  }
  plan::BufferId constant(float v) {
    plan::Weight w;
    w.name = "host";
    w.segment = static_cast<uint32_t>(package_.weights.size());
    package_.weights.push_back(floats({1}, {v}));
    plan_.weights.push_back(w);
    return buffer(plan::BufferKind::Weight, static_cast<int32_t>(plan_.weights.size() - 1),
                  {Expr(1)});
  }
  plan::Plan& plan_;
  package::Package& package_;
};

}  // namespace

bool PlanWriter::host_plan(package::Package& package) const {
  plan::Plan& out = package.host_plan;
  out.buffers = plan.buffers;
  out.weights = plan.weights;
  out.aliases = plan.aliases;
  HostPlan host(out, package);
  for (const plan::Step& step : plan.steps) {
    const auto* l = std::get_if<plan::Launch>(&step.what);
    if (!l) {
      host.add(std::get<plan::HostCall>(step.what));
      continue;
    }
    const TestKernel& k = meanings_[l->kernel];
    if (k.meaning == TestKernel::Meaning::None) return false;
    if (k.meaning == TestKernel::Meaning::Affine) host.affine(k, *l);
    if (k.meaning == TestKernel::Meaning::Gather)
      host.call("Gather", *l, {l->buffers[0], l->buffers[1]}, l->buffers[2]);
  }
  plan::compute_hazards(out);
  return true;
}

std::shared_ptr<const package::Package> PlanWriter::package() {
  auto p = std::make_shared<package::Package>();
  p->model_name = "handmade";
  p->io = io;
  p->weights = weights;
  if (!host_plan(*p)) p->host_plan = {};
  for (const HostTensor& w : p->weights) p->weight_hashes.push_back(package::hash_bytes(w.bytes()));
  for (const Api api : {Api::Vulkan, Api::Cuda}) {
    package::Variant v;
    v.name = api == Api::Cuda ? "cuda-test" : "vulkan-test";
    v.predicate.api = api;
    if (api == Api::Cuda) v.predicate.cuda_arch = "compute_75";
    if (api == Api::Vulkan && descriptor_kernels()) v.predicate.storage_buffers = 4;
    v.plan = plan;
    plan::compute_hazards(v.plan);
    p->variants.push_back(std::move(v));
  }
  return p;
}

std::shared_ptr<const package::Package> chain(size_t launches, int64_t n, bool dynamic,
                                              const std::string& y) {
  PlanWriter w;
  const Expr count = dynamic ? w.symbol("n", 0, 0) : Expr(n);
  plan::BufferId from = w.input("x", DType::F32, {count});
  const plan::BufferId last = w.output(y, DType::F32, {count});
  const uint32_t k = w.kernel(affine_kernel("affine", 1.0F, 1.0F));
  for (size_t i = 0; i < launches; ++i) {
    const plan::BufferId to =
        i + 1 == launches ? last : w.arena("t" + std::to_string(i), DType::F32, {count});
    w.launch(k, {from, to}, {count}, "add_" + std::to_string(i));
    from = to;
  }
  return w.package();
}

std::string id_as_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
}

}  // namespace reprise::test
