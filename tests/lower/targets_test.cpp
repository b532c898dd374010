// Texts that name variants.
#include "codegen/compile/targets.h"

#include <gtest/gtest.h>

#include <functional>

#include "codegen/compile/compiler.h"
#include "codegen/graph/text/text.h"

namespace reprise {
namespace {

std::string names(const std::vector<std::string>& texts,
                  const std::optional<DeviceFacts>& device = {}) {
  const auto targets = parse_targets(texts, device);
  if (!targets.ok()) return "error: " + targets.status().message();
  std::string out;
  for (const lower::Target& t : *targets) out += (out.empty() ? "" : " ") + t.name;
  return out;
}

TEST(Targets, CubinsFromTheHighestDownThenPtx) {
  EXPECT_EQ(names({"cuda:sm_80", "cuda:sm_90"}), "cuda-sm_90 cuda-sm_80 cuda-compute_80");
  EXPECT_EQ(names({"cuda:sm_120", "cuda:sm_89", "cuda:sm_120"}),
            "cuda-sm_120 cuda-sm_89 cuda-compute_89");
  EXPECT_EQ(names({"cuda:sm_90", "cuda:compute_80"}), "cuda-sm_90 cuda-compute_80");
  EXPECT_EQ(names({"cuda:compute_80"}), "cuda-compute_80");
  EXPECT_EQ(names({"cuda:sm_90", "vulkan-baseline"}), "vulkan-baseline cuda-sm_90 cuda-compute_90");
  EXPECT_EQ(names({"vulkan", "cuda:sm_90"}), names({"vulkan"}) + " cuda-sm_90 cuda-compute_90");
  EXPECT_EQ(names({"cuda:sm_90", "cuda:sm_90a", "cuda:sm_80"}),
            "cuda-sm_90a cuda-sm_90 cuda-sm_80 cuda-compute_80");
  EXPECT_EQ(names({"cuda:sm_90a", "cuda:sm_120"}), "cuda-sm_120 cuda-sm_90a cuda-compute_90");
  EXPECT_EQ(names({}), "");
  EXPECT_EQ(names({"host"}), "");
  const auto no_ptx = parse_targets({"cuda:sm_80", "cuda:sm_90"}, {}, false);
  ASSERT_TRUE(no_ptx.ok());
  EXPECT_EQ(no_ptx->size(), 2U);
  EXPECT_EQ(no_ptx->back().name, "cuda-sm_80");
}

TEST(Targets, ADeviceHasItsOwn) {
  DeviceFacts facts;
  facts.api = Api::Cuda;
  facts.cuda_arch = 86;
  EXPECT_EQ(names({"cuda"}, facts), "cuda-sm_86");
  EXPECT_NE(names({"cuda"}).find("cuda:sm_80,cuda:sm_90"), std::string::npos);
  facts.api = Api::Vulkan;
  EXPECT_NE(names({"cuda"}, facts).find("architectures"), std::string::npos);
  EXPECT_EQ(names({"vulkan"}, facts), names({"vulkan"}) + " vulkan-descriptors");
  facts.buffer_address = true;
  EXPECT_EQ(names({"vulkan"}, facts), names({"vulkan"}));
  EXPECT_EQ(names({"vulkan-descriptors"}), "vulkan-descriptors");
}

/// A device whose conversions to fp16 are not exact keeps its matrix units.
TEST(Targets, MatricesDoWithoutExactHalvesOnADeviceThatLacksThem) {
  DeviceFacts facts;
  facts.api = Api::Vulkan;
  facts.int64 = facts.float16 = facts.storage8 = facts.storage16 = facts.buffer_address = true;
  facts.subgroup_shuffle = true;
  facts.subgroup_size = 32;
  facts.max_workgroup_invocations = 1024;
  facts.max_shared_bytes = 48U << 10U;
  facts.max_storage_buffers = 1000;
  facts.matrices = {{16, 16, 16, kHalfMma}};
  for (const bool exact : {false, true}) {
    facts.exact_halves = exact;
    const auto targets = parse_targets({"vulkan"}, facts);
    ASSERT_TRUE(targets.ok()) << targets.status().message();
    size_t matrices = 0;
    for (const lower::Target& t : *targets) {
      if (t.name == "vulkan-matrix") {
        EXPECT_EQ(t.predicate.mismatch(facts), "");
      } else if (t.name == "vulkan-float16") {
        EXPECT_EQ(t.predicate.mismatch(facts).empty(), exact);
      }
      matrices += t.name == "vulkan-matrix" ? 1 : 0;
    }
    EXPECT_EQ(matrices, 1U);
  }
  // A package for all devices has what most of them gain by.
  const auto portable = parse_targets({"vulkan-matrix"});
  ASSERT_TRUE(portable.ok());
  EXPECT_TRUE(portable->front().predicate.needs_exact_halves);
}

TEST(Targets, OthersAreUsageErrorsThatListTheForm) {
  for (const char* text : {"", "vulkan-x", "metal", "cuda:", "cuda:90", "cuda:sm_90b", "sm_90",
                           "CUDA:sm_90", "cuda:sm_", "cuda-sm_90"}) {
    const auto targets = parse_targets({text});
    ASSERT_FALSE(targets.ok()) << text;
    EXPECT_EQ(targets.status().code(), Code::Usage) << text;
    const std::string m = targets.status().message();
    EXPECT_NE(m.find("'" + std::string(text) + "'"), std::string::npos) << m;
    EXPECT_NE(m.find("cuda:sm_80"), std::string::npos) << m;
    EXPECT_NE(m.find("vulkan-int64"), std::string::npos) << m;
  }
}

TEST(Targets, OlderArchitecturesAreRefusedWithTheReason) {
  for (const char* text : {"cuda:sm_50", "cuda:sm_60", "cuda:sm_72", "cuda:compute_70"}) {
    const auto targets = parse_targets({"cuda:sm_90", text});
    ASSERT_FALSE(targets.ok()) << text;
    EXPECT_EQ(targets.status().code(), Code::Unsupported) << text;
    for (const char* said : {text, "sm_75", "__grid_constant__", "--targets vulkan"})
      EXPECT_NE(targets.status().message().find(said), std::string::npos) << said;
  }
  EXPECT_EQ(names({"cuda:sm_75"}), "cuda-sm_75 cuda-compute_75");
}

/// What the contract of backends says of a CUDA device of the architecture.
DeviceFacts facts_of(uint32_t arch) {
  DeviceFacts f;
  f.api = Api::Cuda;
  f.kind = DeviceKind::DiscreteGpu;
  f.int64 = f.float16 = f.float64 = f.storage8 = f.storage16 = f.buffer_address = true;
  f.subgroup_arithmetic = f.subgroup_shuffle = f.subgroup_extended_types = true;
  f.matrices = CudaArch::matrices_of(arch, true);
  f.subgroup_size = 32;
  f.max_workgroup_invocations = 1024;
  f.max_shared_bytes = arch == 90 ? 227 << 10 : arch >= 80 ? 99 << 10 : 64 << 10;
  f.cuda_arch = arch;
  return f;
}

TEST(Targets, DevicesTakeTheirVariants) {
  for (const uint32_t arch : {75U, 80U, 86U, 89U, 90U, 100U, 120U}) {
    EXPECT_EQ(cuda_target({false, arch}).predicate.mismatch(facts_of(arch)), "");
    EXPECT_EQ(cuda_target({true, arch}).predicate.mismatch(facts_of(arch)), "");
  }
  EXPECT_EQ(cuda_target({false, 90, true}).predicate.mismatch(facts_of(90)), "");
  EXPECT_NE(cuda_target({false, 90, true}).predicate.mismatch(facts_of(89)), "");
  EXPECT_EQ(cuda_target({true, 75}).predicate.mismatch(facts_of(120)), "");
  EXPECT_NE(cuda_target({false, 80}).predicate.mismatch(facts_of(90)), "");
  for (const lower::Target& t : vulkan_targets())
    EXPECT_NE(t.predicate.mismatch(facts_of(90)).find("Vulkan"), std::string::npos) << t.name;
}

/// Products of fp32 by matrix units are for architectures on which three of TF32 take less time
/// than one, though later minor versions of those run the kernels as well.
TEST(Targets, SplitProductsWhereTheyPay) {
  const auto split = [](const CudaArch& arch) {
    return std::ranges::any_of(cuda_target(arch).predicate.matrices,
                               [](const MmaConfig& m) { return m.types == kSplitMma; });
  };
  for (const uint32_t arch : {80U, 90U, 100U, 103U}) {
    EXPECT_TRUE(split({false, arch})) << arch;
    EXPECT_FALSE(split({true, arch})) << arch;
  }
  EXPECT_TRUE(split({false, 90, true}));
  for (const uint32_t arch : {75U, 86U, 87U, 89U, 110U, 120U})
    EXPECT_FALSE(split({false, arch})) << arch;
  EXPECT_EQ(cuda_target({false, 80}).predicate.mismatch(facts_of(86)), "");
}

/// The schedule of a product of fp32 on sm_80.
std::string schedule_of_fp32(const std::vector<std::string>& disabled) {
  CompileOptions options;
  options.targets = {"cuda:sm_80"};
  options.disabled_passes = disabled;
  options.cuda_ptx = false;
  options.progress = [](const std::string& what, size_t, size_t) { return what != "kernels"; };
  std::string found;
  options.choose_schedule = [&](const ScheduleSite& site) {
    found = site.candidates[0].schedule;
    for (const auto& c : site.candidates)
      if (c.schedule.find("matrix tile") != std::string::npos) found += "; " + c.schedule;
    return size_t{0};
  };
  // Schedules are chosen before kernels are compiled, which is not wanted.
  static_cast<void>(compile(*graph::parse("graph g\ninput x: float32[2048,2048]\ninput w: "
                                          "float32[2048,2048]\ny = MatMul(x, w) @13\noutput y\n"),
                            options));
  return found;
}

TEST(Targets, SplitProductsCanBeForbidden) {
  const std::string split = schedule_of_fp32({});
  EXPECT_TRUE(split.starts_with("async matrix tile")) << split;
  const std::string plain = schedule_of_fp32({"split-products"});
  EXPECT_TRUE(plain.starts_with("shared tile")) << plain;
  EXPECT_EQ(plain.find("matrix tile"), std::string::npos) << plain;
}

std::string variants_of(
    const std::string& dtype, const std::function<void(CompileOptions&)>& change = [](auto&) {}) {
  CompileOptions options;
  change(options);
  auto g = graph::parse("graph one\ninput x: " + dtype + "[4]\ny = Exp(x) @13\noutput y\n");
  EXPECT_TRUE(g.ok()) << g.status().message();
  const auto p = compile(std::move(*g), options);
  if (!p.ok()) return "error: " + p.status().message();
  std::string out;
  for (const package::Variant& v : p->variants) out += (out.empty() ? "" : " ") + v.name;
  return out;
}

/// A model of float64 has variants for devices with fp64 arithmetic before those that run its nodes
/// on the host.
TEST(Targets, Float64HasVariantsOfItsOwn) {
  EXPECT_EQ(variants_of("float32").find("float64"), std::string::npos);
  EXPECT_EQ(variants_of("float64"),
            "vulkan-cpu-sg8-slow-loads-float64 vulkan-cpu-sg8-slow-loads vulkan-cpu-sg8-float64 "
            "vulkan-cpu-sg8 vulkan-cpu-int64-float64 vulkan-cpu-int64 vulkan-cpu "
            "vulkan-int64-float64 vulkan-int64 vulkan-baseline");
  EXPECT_EQ(variants_of("float64", [](auto& o) { o.targets = {"vulkan-int64"}; }), "vulkan-int64");
  EXPECT_EQ(variants_of("float64", [](auto& o) { o.targets = {"vulkan-int64-float64"}; }),
            "vulkan-int64-float64");
  EXPECT_EQ(variants_of("float64", [](auto& o) { o.fullgraph = true; }),
            "vulkan-cpu-sg8-slow-loads-float64 vulkan-cpu-sg8-float64 vulkan-cpu-int64-float64 "
            "vulkan-int64-float64");
  DeviceFacts narrow;
  narrow.api = Api::Vulkan;
  narrow.buffer_address = true;
  EXPECT_EQ(variants_of("float64", [&](auto& o) { o.device = narrow; }), "vulkan-baseline");
  const std::string refused = variants_of("float64", [&](auto& o) {
    o.device = narrow;
    o.fullgraph = true;
  });
  EXPECT_NE(refused.find("has dtype float64, which the device does not compute"), std::string::npos)
      << refused;
}

/// Kernels for devices without buffer addresses have at most 15 tensors and the error word.
TEST(Targets, KernelsFitTheStorageBuffersOfDevices) {
  std::string sum = "graph sum\n", concat = "graph concat\n", list;
  for (int i = 0; i < 20; ++i) {
    const std::string x = "x" + std::to_string(i);
    sum += "input " + x + ": float32[8]\n";
    concat += "input " + x + ": float32[8]\n";
    list += (i == 0 ? "" : ", ") + x;
    if (i > 0)
      sum += "s" + std::to_string(i) + " = Add(" + (i == 1 ? "x0" : "s" + std::to_string(i - 1)) +
             ", " + x + ") @14\n";
  }
  sum += "output s19\n";
  concat += "y = Concat<axis=0>(" + list + ") @13\noutput y\n";
  const auto plan_of = [](const std::string& text, const std::string& target) {
    auto g = graph::parse(text);
    EXPECT_TRUE(g.ok()) << g.status().message();
    CompileOptions options;
    options.targets = {target};
    const auto p = compile(std::move(*g), options);
    EXPECT_TRUE(p.ok()) << p.status().message();
    return p->variants[0].plan;
  };
  EXPECT_EQ(plan_of(sum, "vulkan-baseline").steps.size(), 1U);
  const plan::Plan split = plan_of(sum, "vulkan-descriptors");
  EXPECT_EQ(split.steps.size(), 2U);
  for (const plan::Step& s : split.steps)
    EXPECT_LE(std::get<plan::Launch>(s.what).buffers.size(), 15U);
  const plan::Plan on_host = plan_of(concat, "vulkan-descriptors");
  ASSERT_EQ(on_host.steps.size(), 1U);
  const auto* call = std::get_if<plan::HostCall>(&on_host.steps[0].what);
  ASSERT_NE(call, nullptr);
  EXPECT_NE(call->reason.find("21 tensors"), std::string::npos) << call->reason;
}

}  // namespace
}  // namespace reprise
