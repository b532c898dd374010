#include "tests/cuda_standin/loaded_driver.h"

#include <dlfcn.h>
#include <elf.h>

#include "codegen/emit/cuda/cuda.h"
#include "codegen/kernel/build/builder.h"
#include "runtime/base/cuda_entry.h"
#include "runtime/plan/block_layout.h"
#include "tests/cuda_standin/said.h"
#include "tests/support/kept_text.h"
#include "tests/support/paths.h"

namespace reprise::test {

using kernel::Access;
using kernel::Builder;
using kernel::Builtin;
using kernel::Ty;
using kernel::Val;
using plan::BlockLayout;

const DriverApi& DriverApi::get() {
  static const DriverApi api = [] {
    DriverApi a;
    const std::string path = binary_dir() / "lib" / "cuda-standin" / "libcuda.so.1";
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      a.problem = dlerror();
      return a;
    }
    const auto find = [&](const char* name, auto& function) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (function == nullptr) a.problem += std::string("no symbol ") + name + "; ";
    };
#define REPRISE_FIND(name, parameters) find(#name, a.name);
    REPRISE_CUDA_SYMBOLS(REPRISE_FIND)
    REPRISE_CUDA_OPTIONAL_SYMBOLS(REPRISE_FIND)
#undef REPRISE_FIND
    find(standin::kControl, a.control);
    find(standin::kStats, a.stats);
    find(standin::kLines, a.lines);
    find(standin::kKeepText, a.keep_text);
    return a;
  }();
  return api;
}

std::string cuda_text(const kernel::Kernel& k) {
  auto text = emit::cuda(k);
  EXPECT_TRUE(text.ok()) << text.status().message();
  return text.ok() ? *text : "";
}

std::vector<std::byte> image_of(const std::string& head, const std::string& text) {
  const bool is_ptx = head.starts_with(".version");
  const std::string all = is_ptx ? ptx_naming(head.substr(0, head.size() - 1), text) : head;
  DriverApi::get().keep_text(all.data(), all.size(), text.c_str());
  const auto* bytes = reinterpret_cast<const std::byte*>(all.data());
  return {bytes, bytes + all.size() + 1};
}

std::string ptx(int arch, int version) {
  std::string text = ".version " + std::to_string(version) + ".0\n.target sm_" +
                     std::to_string(arch) + "\n.address_size 64\n";
  text.push_back('\0');
  return text;
}

std::string cubin(unsigned flags, unsigned char abi_version) {
  Elf64_Ehdr head{};
  std::memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_ident[EI_ABIVERSION] = abi_version;
  head.e_machine = 190;
  head.e_flags = flags;
  return {reinterpret_cast<const char*>(&head), sizeof head};
}

namespace {

kernel::Kernel finished(Builder& b) {
  auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  return k.ok() ? *k : kernel::Kernel{};
}

Val global_index(Builder& b) {
  return b.convert(b.builtin(Builtin::GlobalId), Ty::I32);
}

}  // namespace

kernel::Kernel fill_kernel(const std::string& name) {
  Builder b(name);
  b.set_workgroup(kGroup);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  b.store(y, global_index(b), b.param(b.scalar("value", Ty::F32)));
  return finished(b);
}

kernel::Kernel add_kernel(const std::string& name) {
  Builder b(name);
  b.set_workgroup(kGroup);
  const int x = b.buffer("x", Ty::F32, Access::Read), y = b.buffer("y", Ty::F32, Access::Write);
  const Val i = global_index(b);
  b.store(y, i, b.add(b.load(x, i), b.f32(1)));
  return finished(b);
}

kernel::Kernel shifted_kernel() {
  Builder b("shifted");
  b.set_workgroup(kGroup);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  b.store(y, b.add(global_index(b), b.param(b.scalar("by"))), b.f32(1));
  return finished(b);
}

kernel::Kernel reverse_kernel() {
  Builder b("reverse");
  b.set_workgroup(kGroup);
  const int x = b.buffer("x", Ty::F32, Access::Read), y = b.buffer("y", Ty::F32, Access::Write);
  const int tile = b.shared("tile", Ty::F32, kGroup);
  const Val i = global_index(b), lane = b.convert(b.builtin(Builtin::LocalId), Ty::I32);
  b.shared_store(tile, lane, b.load(x, i));
  b.barrier();
  b.store(y, i, b.shared_load(tile, b.sub(b.i32(kGroup - 1), lane)));
  return finished(b);
}

void StandinTest::SetUp() {
  ASSERT_EQ(api.problem, "");
  for (const char* key :
       {"SEED", "ORDER", "CHECK", "POISON", "FAIL", "FAULT", "DROP_EDGE", "DEVICES", "ARCH",
        "DRIVER", "MEMORY", "SLOW_MS", "HOLD", "RESET_CALLS", "RESET_LOG"}) {
    set(key, "");
  }
  set("QUIET", "1");
  ASSERT_EQ(api.cuInit(0), CUDA_SUCCESS);
  ASSERT_EQ(api.cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
  ASSERT_EQ(api.cuCtxPushCurrent_v2(context), CUDA_SUCCESS);
  ASSERT_EQ(api.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
}

void StandinTest::TearDown() {
  if (!api.problem.empty()) return;
  const auto leaks = stat("leaks");
  set("HOLD", "");
  api.cuStreamSynchronize(stream);
  for (const CUdeviceptr p : memory_) api.cuMemFree_v2(p);
  for (CUmodule m : modules_) api.cuModuleUnload(m);
  memory_.clear();
  modules_.clear();
  api.cuStreamDestroy_v2(stream);
  api.cuCtxPopCurrent_v2(nullptr);
  EXPECT_EQ(api.cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
  EXPECT_EQ(stat("live"), 0U);
  EXPECT_EQ(stat("leaks"), leaks);
  set("QUIET", "");
  if (HasFailure()) print_what_was_said(api.lines);
}

void StandinTest::set(const char* key, const std::string& value) {
  ASSERT_EQ(api.control(key, value.c_str()), 0) << key << "=" << value;
}

CUfunction StandinTest::load(const kernel::Kernel& k) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  const auto image = image_of(ptx(80), cuda_text(k));
  EXPECT_EQ(api.cuModuleLoadDataEx(&module, image.data(), 0, nullptr, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(api.cuModuleGetFunction(&function, module, cuda_entry(k.name).c_str()), CUDA_SUCCESS);
  modules_.push_back(module);
  return function;
}

CUdeviceptr StandinTest::allocate(size_t bytes) {
  CUdeviceptr p = 0;
  EXPECT_EQ(api.cuMemAlloc_v2(&p, bytes), CUDA_SUCCESS);
  memory_.push_back(p);
  return p;
}

std::vector<float> StandinTest::read(CUdeviceptr from, size_t n) {
  std::vector<float> values(n);
  EXPECT_EQ(api.cuMemcpyDtoHAsync_v2(values.data(), from, 4 * n, stream), CUDA_SUCCESS);
  EXPECT_EQ(synchronize(), CUDA_SUCCESS);
  return values;
}

void StandinTest::write(CUdeviceptr to, const std::vector<float>& values) {
  EXPECT_EQ(api.cuMemcpyHtoDAsync_v2(to, values.data(), 4 * values.size(), stream), CUDA_SUCCESS);
}

Params::Params(CUfunction f, const std::vector<CUdeviceptr>& buffers, size_t n, uint32_t scalar)
    : block_(BlockLayout::size(buffers.size(), 1) / 8) {
  auto* bytes = reinterpret_cast<std::byte*>(block_.data());
  for (size_t i = 0; i < buffers.size(); ++i)
    block_[BlockLayout::buffer_offset(i) / 8] = buffers[i];
  std::memcpy(bytes + BlockLayout::scalar_offset(buffers.size(), 0), &scalar, sizeof scalar);
  pointer_ = bytes;
  params.func = f;
  params.gridDimX = static_cast<unsigned>(n / kGroup);
  params.blockDimX = kGroup;
  params.gridDimY = params.gridDimZ = params.blockDimY = params.blockDimZ = 1;
  params.kernelParams = &pointer_;
}

CUgraphNode GraphBuilder::kernel(CUfunction f, const std::vector<CUdeviceptr>& buffers, size_t n,
                                 uint32_t scalar, const std::vector<CUgraphNode>& after) {
  CUgraphNode node = nullptr;
  const Params p(f, buffers, n, scalar);
  EXPECT_EQ(api_.cuGraphAddKernelNode_v2(&node, graph_, after.data(), after.size(), &p.params),
            CUDA_SUCCESS);
  return node;
}

CUgraphNode GraphBuilder::copy(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                               const std::vector<CUgraphNode>& after, CUcontext context) {
  CUDA_MEMCPY3D c{};
  c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  c.srcDevice = from;
  c.dstDevice = to;
  c.WidthInBytes = bytes;
  c.Height = c.Depth = 1;
  CUgraphNode node = nullptr;
  EXPECT_EQ(api_.cuGraphAddMemcpyNode(&node, graph_, after.data(), after.size(), &c, context),
            CUDA_SUCCESS);
  return node;
}

CUresult GraphBuilder::update(CUgraphNode node, CUfunction f,
                              const std::vector<CUdeviceptr>& buffers, size_t n, uint32_t scalar) {
  const Params p(f, buffers, n, scalar);
  return api_.cuGraphExecKernelNodeSetParams_v2(exec_, node, &p.params);
}

CUgraphExec GraphBuilder::instantiate() {
  EXPECT_EQ(api_.cuGraphInstantiateWithFlags(&exec_, graph_, 0), CUDA_SUCCESS);
  return exec_;
}

}  // namespace reprise::test
