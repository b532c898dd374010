#include "tests/emit/agreement.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>

#include "codegen/emit/cuda/cuda.h"
#include "codegen/interpreter/interpreter.h"
#include "codegen/kernel/ir/scalar_eval.h"
#include "tests/emit/spirv_tools.h"

namespace reprise::test {

using kernel::BlockLayout;
using kernel::Ty;

namespace {

struct FloatFormat {
  int mantissa_bits;
  double smallest_normal, largest;
};

FloatFormat format_of(Ty t) {
  if (t == Ty::F16) return {10, 0x1p-14, 65504.0};
  if (t == Ty::BF16) return {7, 0x1p-126, 0x1.fep127};
  if (t == Ty::F32) return {23, 0x1p-126, static_cast<double>(std::numeric_limits<float>::max())};
  return {52, std::numeric_limits<double>::min(), std::numeric_limits<double>::max()};
}

bool is_float(Ty t) {
  return t == Ty::F16 || t == Ty::BF16 || t == Ty::F32 || t == Ty::F64;
}

double value_of(Ty t, uint64_t bits) {
  if (t == Ty::BF16) return static_cast<double>(bf16_to_float(static_cast<uint16_t>(bits)));
  return kernel::number_of(bits, t);
}

}  // namespace

bool agrees(Ty t, uint64_t expected, uint64_t got, const Tolerance& tolerance) {
  if (expected == got) return true;
  if (!is_float(t)) return false;
  const FloatFormat f = format_of(t);
  const double e = value_of(t, expected), g = value_of(t, got);
  if (std::isnan(e) || std::isnan(g)) return std::isnan(e) && std::isnan(g);
  if (std::fabs(e) < f.smallest_normal && g == 0) return true;
  if (tolerance.ulp <= 0.5 && tolerance.abs == 0) return false;
  const double limited_e = std::fmin(std::fmax(e, -f.largest), f.largest);
  const double limited_g = std::fmin(std::fmax(g, -f.largest), f.largest);
  const double scale = std::fmax(std::fabs(limited_e), f.smallest_normal);
  const double ulp = std::ldexp(1.0, std::ilogb(scale) - f.mantissa_bits);
  return std::fabs(limited_e - limited_g) <= tolerance.ulp * ulp + tolerance.abs;
}

uint64_t element(const std::vector<std::byte>& memory, Ty t, size_t index) {
  uint64_t bits = 0;
  const auto bytes = static_cast<size_t>(kernel::byte_size(t));
  std::memcpy(&bits, memory.data() + index * bytes, bytes);
  return bits;
}

void set_element(std::vector<std::byte>& memory, Ty t, size_t index, uint64_t bits) {
  const auto bytes = static_cast<size_t>(kernel::byte_size(t));
  if (memory.size() < (index + 1) * bytes) memory.resize((index + 1) * bytes);
  std::memcpy(memory.data() + index * bytes, &bits, bytes);
}

std::string difference(const kernel::Kernel& k, const Launch& expected, const Launch& got,
                       const Tolerance& tolerance) {
  if (expected.error_word != got.error_word) {
    return "error word " + std::to_string(got.error_word) + ", expected " +
           std::to_string(expected.error_word);
  }
  for (size_t b = 0; b < k.buffers.size(); ++b) {
    const Ty t = k.buffers[b].storage;
    const size_t count = expected.buffers[b].size() / static_cast<size_t>(kernel::byte_size(t));
    for (size_t n = 0; n < count; ++n) {
      const uint64_t e = element(expected.buffers[b], t, n), g = element(got.buffers[b], t, n);
      if (agrees(t, e, g, tolerance)) continue;
      return k.buffers[b].name + "[" + std::to_string(n) + "] is " +
             std::to_string(value_of(t, g)) + " (bits " + std::to_string(g) + "), expected " +
             std::to_string(value_of(t, e)) + " (bits " + std::to_string(e) + ")";
    }
  }
  return "";
}

Result<Launch> interpret(const kernel::Kernel& k, Launch launch, uint32_t subgroup_size) {
  kernel::Launch l{launch.grid, {}, launch.scalars};
  for (auto& b : launch.buffers) l.buffers.emplace_back(b);
  RP_ASSIGN(const kernel::Outcome outcome,
            kernel::interpret(k, l, {.subgroup_size = subgroup_size}));
  const auto code = static_cast<uint32_t>(outcome.error);
  launch.error_word = code == 0 ? 0 : launch.launch_id << 8 | code;
  return launch;
}

Result<size_t> CudaBatch::add(kernel::Kernel k, const std::function<void(std::string&)>& edit) {
  k.name = "k" + std::to_string(sources_.size()) + "_" + k.name;
  RP_ASSIGN(std::string text, emit::cuda(k));
  if (edit) edit(text);
  sources_.push_back({k.name, std::move(text), k.workgroup});
  return sources_.size() - 1;
}

Status CudaBatch::build() {
  RP_ASSIGN(module_, CudaOnCpu::load(sources_));
  return {};
}

Status CudaBatch::run(size_t index, Launch& launch) const {
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  constexpr size_t kAlign = 256;
  std::vector<std::unique_ptr<void, Free>> memory;
  const size_t n = launch.buffers.size();
  std::vector<uint64_t> block(BlockLayout::size(n, launch.scalars.size()) / 8);
  auto* bytes = reinterpret_cast<std::byte*>(block.data());
  launch.error_word = 0;
  block[0] = reinterpret_cast<uint64_t>(&launch.error_word);
  block[1] = launch.launch_id;
  for (size_t b = 0; b < n; ++b) {
    // The end of the memory is the end of the buffer, so that a sanitizer sees what lies beyond.
    const size_t size = launch.buffers[b].size();
    void* p = nullptr;
    if (posix_memalign(&p, kAlign, size == 0 ? 1 : size) != 0) return internal_error("no memory");
    memory.emplace_back(p);
    std::memcpy(p, launch.buffers[b].data(), size);
    const auto address = reinterpret_cast<uint64_t>(p);
    std::memcpy(bytes + BlockLayout::buffer_offset(b), &address, 8);
  }
  if (!launch.scalars.empty()) {
    std::memcpy(bytes + BlockLayout::scalar_offset(n, 0), launch.scalars.data(),
                4 * launch.scalars.size());
  }
  RP_TRY(module_->run(sources_[index].name, launch.grid, block.data()));
  for (size_t b = 0; b < n; ++b) {
    std::memcpy(launch.buffers[b].data(), memory[b].get(), launch.buffers[b].size());
  }
  return {};
}

namespace {

constexpr uint32_t kCudaSubgroup = 32;

/// What is wrong with a result; empty when nothing is.
std::string judge(const Case& c, const Status& ran, const Launch& got, uint32_t subgroup_size) {
  if (!ran.ok()) return ran.message();
  const auto expected = interpret(c.kernel, c.launch, subgroup_size);
  if (!expected.ok()) return "the interpreter: " + expected.status().message();
  return difference(c.kernel, *expected, got, c.tolerance);
}

/// Whether wide loads make another module of it.
bool loads_wide_words(const kernel::Kernel& k) {
  return std::any_of(k.insts.begin(), k.insts.end(), [&](const kernel::Inst& i) {
    return i.op == kernel::Op::Load && (i.type.lanes == 2 || i.type.lanes == 4) &&
           kernel::byte_size(k.buffers[i.imm].storage) == 4;
  });
}

/// SPIR-V has BF16 in shared memory by VK_KHR_shader_bfloat16, which no device of the tests has.
bool shares_bfloat16(const kernel::Kernel& k) {
  return std::ranges::any_of(
      k.shared, [](const kernel::SharedArray& s) { return s.type == kernel::Ty::BF16; });
}

/// The case as SPIR-V can have it, without long vectors.
Result<Case> split(Case c) {
  const bool any = std::ranges::any_of(
      c.kernel.insts, [](const kernel::Inst& i) { return kernel::is_long(i.type); });
  if (any) RP_TRY(kernel::legalize(c.kernel, {.long_vectors = false}));
  return c;
}

/// One case on one Vulkan device.
std::string run_device(const Case& c, VulkanRunner& device, const emit::SpirvOptions& options) {
  const auto words = emit_valid(c.kernel, options);
  if (!words.ok()) return words.status().message();
  Launch got = c.launch;
  const Status s = device.run(*words, got, options.descriptors);
  return judge(c, s, got, device.facts().subgroup_size);
}

}  // namespace

std::vector<std::string> disagreements(const std::vector<Case>& cases) {
  const auto devices = vulkan_runners();
  if (!devices.ok()) return {devices.status().message()};
  std::vector<std::string> problems;
  const auto report = [&](const Case& c, const std::string& where, const std::string& problem) {
    if (!problem.empty()) problems.push_back(c.kernel.name + " " + where + ": " + problem);
  };
  CudaBatch batch;
  std::vector<size_t> indices;
  for (const Case& c : cases) {
    const auto index = c.cuda ? batch.add(c.kernel) : Result<size_t>(0);
    if (!index.ok()) return {index.status().message()};
    indices.push_back(*index);
  }
  const Status built = batch.build();
  if (!built.ok()) return {built.message()};
  for (size_t n = 0; n < cases.size(); ++n) {
    const Case& c = cases[n];
    const Result<Case> short_case = split(c);
    if (!short_case.ok()) return {short_case.status().message()};
    for (VulkanRunner* device : *devices) {
      const Case& s = *short_case;
      if (!device->supports(kernel::requirements(s.kernel)) || shares_bfloat16(s.kernel)) continue;
      const std::string where = "on " + device->facts().name;
      report(c, where, run_device(s, *device, {}));
      report(c, where + ", descriptors", run_device(s, *device, {.descriptors = true}));
      if (device->facts().int64 && loads_wide_words(s.kernel)) {
        report(c, where + ", wide loads", run_device(s, *device, {.loads_64_bits = true}));
      }
    }
    if (!c.cuda) continue;
    Launch got = c.launch;
    const Status s = batch.run(indices[n], got);
    report(c, "as CUDA text", judge(c, s, got, kCudaSubgroup));
  }
  return problems;
}

}  // namespace reprise::test
