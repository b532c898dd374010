// A graph in, images out: without a GPU, and with errors that say what to do.
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "codegen/nvrtc/compile.h"
#include "runtime/plan/block_layout.h"
#include "tests/nvrtc/support.h"
#include "tests/support/paths.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

const char* const kGraph =
    "graph small\ninput x: float32[n,64]\ninput w: float32[64,32]\ninput b: float32[n,32]\n"
    "m = MatMul(x, w)\na = Add(m, b)\ns = Softmax<axis=-1>(a) @13\noutput s\n";

TEST(ParseLog, TellsResourcesFromWarnings) {
  std::vector<std::string> warnings;
  auto usage = nvrtc::parse_log(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'k' for 'sm_90'\n"
      "ptxas info    : Function properties for k\n"
      "    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
      "ptxas info    : Used 255 registers, used 1 barriers, 16 bytes cumulative stack size, 8192 "
      "bytes smem, 400 bytes cmem[0]\n\n",
      warnings);
  EXPECT_EQ(usage.registers, 255u);
  EXPECT_EQ(usage.stack_bytes, 16u);
  EXPECT_EQ(usage.spill_bytes, 12u);
  EXPECT_EQ(usage.shared_bytes, 8192u);
  EXPECT_TRUE(warnings.empty());
  usage = nvrtc::parse_log(std::string_view("\0", 1), warnings);
  EXPECT_EQ(usage, plan::KernelCode::Usage{});
  EXPECT_TRUE(warnings.empty());
  (void)nvrtc::parse_log("k.cu(3): warning #177-D: variable was declared but never referenced\n",
                         warnings);
  (void)nvrtc::parse_log("ptxas warning : something\n", warnings);
  EXPECT_EQ(warnings.size(), 2u);
}

TEST(Library, MissingSaysWhatBringsItAndHowToDoWithout) {
  for (const char* path : {"/nowhere/libnvrtc.so.13", "libm.so.6"}) {
    CompileOptions options = cuda_options({"cuda:sm_90"});
    options.nvrtc = path;
    const auto p = compile_graph(kGraph, options);
    ASSERT_FALSE(p.ok());
    EXPECT_EQ(p.status().code(), Code::Unsupported);
    for (const char* text : {path, "nvidia-cuda-nvrtc", "cuda-nvrtc-13-0", "--targets vulkan"})
      EXPECT_NE(p.status().message().find(text), std::string::npos) << p.status().message();
  }
  // It is not looked for where nothing needs it.
  CompileOptions options = cuda_options({"vulkan"});
  options.nvrtc = "/nowhere/libnvrtc.so.13";
  EXPECT_TRUE(compile_graph(kGraph, options).ok());
}

TEST(Library, ListsTheArchitecturesThatItKnows) {
  REPRISE_NEEDS_NVRTC();
  for (const char* target : {"cuda:sm_79", "cuda:sm_999", "cuda:compute_999"}) {
    const auto p = compile_graph(kGraph, cuda_options({target}));
    ASSERT_FALSE(p.ok()) << target;
    EXPECT_EQ(p.status().code(), Code::Unsupported);
    EXPECT_NE(p.status().message().find("sm_80"), std::string::npos) << p.status().message();
    EXPECT_NE(p.status().message().find(std::string(target).substr(5)), std::string::npos);
  }
}

TEST(Library, TheDriversMajorVersionDecides) {
  const auto at = [](uint32_t driver, const std::string& name) {
    const std::vector<std::string> names = nvrtc::Library::names(driver);
    return std::find(names.begin(), names.end(), name) - names.begin();
  };
  for (const uint32_t driver : {0U, 13000U, 13020U, 14000U})
    EXPECT_LT(at(driver, "libnvrtc.so.13"), at(driver, "libnvrtc.so.12")) << driver;
  for (const uint32_t driver : {12000U, 12090U}) {
    EXPECT_LT(at(driver, "libnvrtc.so.12"), at(driver, "libnvrtc.so.13")) << driver;
    EXPECT_LT(at(driver, "/usr/local/cuda-12/lib64/libnvrtc.so.12"), at(driver, "libnvrtc.so.13"));
    EXPECT_LT(at(driver, "/usr/local/cuda/lib64/libnvrtc.so.12"), at(driver, "libnvrtc.so"));
  }
  EXPECT_EQ(nvrtc::Library::names(0).size(), nvrtc::Library::names(12000).size());

  const auto newer = nvrtc::Library::open(fake_nvrtc(13)),
             older = nvrtc::Library::open(fake_nvrtc(12));
  ASSERT_TRUE(newer.ok() && older.ok());
  for (const uint32_t driver : {0U, 13000U, 14000U}) EXPECT_EQ((*newer)->caveat(driver), "");
  for (const uint32_t driver : {0U, 12000U, 13000U}) EXPECT_EQ((*older)->caveat(driver), "");
  for (const char* text :
       {"13.7", "12.4", "update the driver", "--nvrtc", "nvidia-cuda-nvrtc-cu12"})
    EXPECT_NE((*newer)->caveat(12040).find(text), std::string::npos) << (*newer)->caveat(12040);
}

TEST(Library, ADevicesErrorsSayWhatRunsWithout) {
  const auto none = nvrtc::Library::open("/nowhere/libnvrtc.so.13", {{{false, 90}}, 12040});
  ASSERT_FALSE(none.ok());
  for (const char* text : {"nvidia-cuda-nvrtc", "--device vulkan", "reprise compile",
                           "--targets cuda:sm_90", "--nvrtc PATH"})
    EXPECT_NE(none.status().message().find(text), std::string::npos) << none.status().message();
  EXPECT_EQ(none.status().message().find("--targets vulkan"), std::string::npos);
}

std::string as_text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(Images, OnePlanForAllArchitectures) {
  REPRISE_NEEDS_NVRTC();
  CompileOptions options = cuda_options({"vulkan-baseline", "cuda:sm_80", "cuda:sm_90"});
  options.keep_source = true;
  options.disabled_passes = {"split-products"};  // which PTX does without
  size_t last = 0, emitted = 0;
  options.progress = [&](const std::string& what, size_t done, size_t total) {
    if (what != "kernels") return true;
    EXPECT_EQ(done, ++last);
    EXPECT_LE(done, total);
    return true;
  };
  options.on_kernel = [&](const std::string& variant, const std::string&, const std::string&,
                          const std::vector<uint32_t>& spirv, const std::string& cuda) {
    emitted += variant.starts_with("cuda") ? 1 : 0;
    EXPECT_EQ(spirv.empty(), variant.starts_with("cuda"));
    EXPECT_FALSE(cuda.empty());
  };
  CompileReport report;
  const auto p = compile_graph(kGraph, options, &report);
  ASSERT_TRUE(p.ok()) << p.status().message();
  std::vector<std::string> names;
  for (const package::Variant& v : p->variants) names.push_back(v.name);
  EXPECT_EQ(names, (std::vector<std::string>{"vulkan-baseline", "cuda-sm_90", "cuda-sm_80",
                                             "cuda-compute_80"}));
  const size_t kernels = p->variants[1].plan.kernels.size();
  EXPECT_EQ(emitted, kernels);
  EXPECT_EQ(report.images.images, 3 * kernels);
  EXPECT_EQ(report.images.cached, 0u);
  EXPECT_EQ(last, 3 * kernels);
  for (const package::Variant& v : p->variants) {
    ASSERT_EQ(v.plan.kernels.size(), kernels);
    for (size_t i = 0; i < kernels; ++i) {
      const plan::KernelCode& k = v.plan.kernels[i];
      EXPECT_EQ(k.name, p->variants[0].plan.kernels[i].name);
      const bool cuda = v.predicate.api == Api::Cuda;
      EXPECT_EQ(k.spirv.empty(), cuda);
      EXPECT_EQ(k.image.empty(), !cuda);
      EXPECT_EQ(k.cuda.empty(), !cuda);
      EXPECT_EQ(k.cuda, cuda ? p->variants[1].plan.kernels[i].cuda : "");
      const bool cubin = v.predicate.cuda_arch.starts_with("sm_");
      EXPECT_EQ(k.usage.registers > 0, cubin);
      if (v.name == "cuda-compute_80") {
        EXPECT_NE(as_text(k.image).find(".target sm_80"), std::string::npos);
        EXPECT_NE(as_text(k.image).find(k.name), std::string::npos);
      }
    }
  }
  const TempDir dir;
  const std::string path = dir / "m.rpk";
  const Status written = package::write(*p, path);
  ASSERT_TRUE(written.ok()) << written.message();
  const auto back = package::read(path);
  ASSERT_TRUE(back.ok()) << back.status().message();
  const auto loaded = package::load_kernels(**back, (*back)->variants[1]);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ((*loaded)[0].image, p->variants[1].plan.kernels[0].image);
}

/// Code for older architectures does not await the launches before it.
TEST(Images, KernelsOfNewArchitecturesBeginEarly) {
  REPRISE_NEEDS_NVRTC();
  CompileOptions options = cuda_options({"cuda:sm_80", "cuda:sm_90"});
  options.keep_source = true;
  for (const bool enabled : {true, false}) {
    if (!enabled) options.disabled_passes = {"early-launches"};
    const auto p = compile_graph(kGraph, options);
    ASSERT_TRUE(p.ok()) << p.status().message();
    const TempDir dir;
    ASSERT_TRUE(package::write(*p, dir / "m.rpk").ok());
    const auto back = package::read(dir / "m.rpk");
    ASSERT_TRUE(back.ok()) << back.status().message();
    size_t early = 0;
    for (size_t v = 0; v < p->variants.size(); ++v) {
      const bool is_new = p->variants[v].name == "cuda-sm_90";
      for (size_t i = 0; i < p->variants[v].plan.kernels.size(); ++i) {
        const plan::KernelCode& k = p->variants[v].plan.kernels[i];
        EXPECT_EQ(k.early, enabled && is_new) << p->variants[v].name;
        EXPECT_EQ(k.cuda.find("rp_await_launches();") != std::string::npos, enabled);
        EXPECT_EQ((*back)->variants[v].plan.kernels[i].early, k.early);
        early += k.early ? 1 : 0;
      }
    }
    EXPECT_EQ(early > 0, enabled);
  }
}

TEST(Images, TextsAreKeptOnRequest) {
  REPRISE_NEEDS_NVRTC();
  const TempDir dir;
  CompileOptions options = cuda_options({"cuda:sm_80"});
  options.cuda_cache_dir = dir / "images";
  const auto texts = [&] {
    std::vector<std::string> names;
    for (const auto& f : std::filesystem::directory_iterator(options.cuda_cache_dir))
      if (f.path().extension() == ".cu") names.push_back(f.path().filename());
    return names;
  };
  const auto without = compile_graph(kGraph, options);
  ASSERT_TRUE(without.ok()) << without.status().message();
  EXPECT_EQ(without->variants[0].plan.kernels[0].cuda, "");
  EXPECT_TRUE(texts().empty());
  options.keep_source = true;  // the images come from the cache now
  const auto with = compile_graph(kGraph, options);
  ASSERT_TRUE(with.ok()) << with.status().message();
  for (size_t i = 0; i < with->variants.size(); ++i) {
    for (const plan::KernelCode& k : with->variants[i].plan.kernels) {
      std::array<char, 24> name{};
      std::snprintf(name.data(), name.size(), "%016llx.cu",
                    static_cast<unsigned long long>(package::hash_bytes(k.image)));
      EXPECT_EQ(read_file((dir.path() / "images" / name.data()).string()), k.cuda);
      EXPECT_FALSE(k.cuda.empty());
    }
  }
}

TEST(Images, ADeviceTakesOneVariant) {
  REPRISE_NEEDS_NVRTC();
  CompileOptions options = cuda_options({"cuda"});
  DeviceFacts facts;
  facts.api = Api::Cuda;
  facts.int64 = facts.float16 = facts.float64 = facts.storage8 = facts.storage16 = true;
  facts.subgroup_arithmetic = facts.subgroup_shuffle = facts.subgroup_extended_types = true;
  facts.matrices = CudaArch::matrices_of(89, true);
  facts.subgroup_size = 32;
  facts.max_workgroup_invocations = 1024;
  facts.max_shared_bytes = 99 << 10;
  facts.cuda_arch = 89;
  options.device = facts;
  const auto p = compile_graph(kGraph, options);
  ASSERT_TRUE(p.ok()) << p.status().message();
  ASSERT_EQ(p->variants.size(), 1u);
  EXPECT_EQ(p->variants[0].name, "cuda-sm_89");
  EXPECT_EQ(p->variants[0].predicate.mismatch(facts), "");
}

TEST(Images, EveryKnownFormOfArithmeticCompiles) {
  REPRISE_NEEDS_NVRTC();
  // fp16 arithmetic, bf16 storage, products of fp16 on matrix units, reductions, 64-bit integers.
  const char* const graphs[] = {
      "graph half\ninput x: float16[n,64]\ninput y: float16[n,64]\na = Mul(x, y)\nb = Sub(a, x)\n"
      "c = Div(b, y)\nd = Exp(c)\ne = Add(d, a)\noutput e\n",
      "graph product\ninput x: float16[128,64]\ninput w: float16[64,128]\ny = MatMul(x, w)\n"
      "output y\n",
      "graph integers\ninput x: int64[n,8]\ninput y: int64[n,8]\na = Mul(x, y)\nb = Div(a, y)\n"
      "s = ReduceSum<keepdims=0>(b) @13\noutput s\n",
      "graph attention\ninput q: float32[1,4,16,64]\ninput k: float32[1,4,n,64]\n"
      "input v: float32[1,4,n,64]\ny = Attention(q, k, v) @23\noutput y\n"};
  for (const char* text : graphs) {
    for (const DType precision : {DType::F32, DType::F16, DType::BF16}) {
      CompileOptions options = cuda_options({"cuda:sm_80", "cuda:sm_75"});
      options.precision = precision;
      const auto p = compile_graph(text, options);
      EXPECT_TRUE(p.ok()) << p.status().message();
    }
  }
}

/// Kernels of one operator have its name, which C or C++ may have taken.
TEST(Images, OperatorsMayBeNamedLikeFunctionsAndKeywords) {
  REPRISE_NEEDS_NVRTC();
  for (const char* op :
       {"Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh",
        "Erf", "Exp",  "Floor", "Log",  "Round", "Sin",  "Sinh",  "Sqrt", "Tan", "Tanh"}) {
    const auto p = compile_graph(
        "graph one\ninput x: float32[8]\ny = " + std::string(op) + "(x) @13\noutput y\n",
        cuda_options({"cuda:sm_80"}));
    EXPECT_TRUE(p.ok()) << p.status().message();
  }
  for (const char* text :
       {"input x: bool[8], y: bool[8]\nz = And(x, y)", "input x: bool[8], y: bool[8]\nz = Or(x, y)",
        "input x: bool[8], y: bool[8]\nz = Xor(x, y)", "input x: bool[8]\nz = Not(x)",
        "input x: float32[8], y: float32[8]\nz = Max(x, y)",
        "input x: float32[8], y: float32[8]\nz = Min(x, y)",
        "input x: float32[8], y: float32[8]\nz = Pow(x, y)"}) {
    const auto p = compile_graph("graph one\n" + std::string(text) + " @13\noutput z\n",
                                 cuda_options({"cuda:sm_80"}));
    EXPECT_TRUE(p.ok()) << text << p.status().message();
  }
}

/// Compilers warn of these; a warning is a failure here.
TEST(Images, ConstantsThatDecideAResultCauseNoWarning) {
  REPRISE_NEEDS_NVRTC();
  for (const char* type : {"uint8", "uint16", "uint32", "uint64", "int32", "float32"}) {
    for (const char* op : {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Min", "Max"}) {
      for (const char* operands : {"(x, c)", "(c, x)"}) {
        const auto p =
            compile_graph("graph one\ninput x: " + std::string(type) + "[8]\nconst c: " + type +
                              "[]{0}\ny = " + op + operands + " @16\noutput y\n",
                          cuda_options({"cuda:sm_80"}));
        EXPECT_TRUE(p.ok()) << type << " " << op << operands << ": " << p.status().message();
      }
    }
  }
  for (const char* zero : {"0.0", "-0.0"}) {
    const auto p = compile_graph("graph one\ninput x: float32[8]\nconst c: float32[]{" +
                                     std::string(zero) + "}\ny = Div(x, c) @13\noutput y\n",
                                 cuda_options({"cuda:sm_80"}));
    EXPECT_TRUE(p.ok()) << zero << ": " << p.status().message();
  }
}

/// The least integers, which C has no literals for, and floats that are hardly any.
TEST(Images, ExtremeConstantsCauseNoWarning) {
  REPRISE_NEEDS_NVRTC();
  const struct {
    const char *type, *value;
  } constants[] = {{"int32", "-2147483648"},
                   {"int32", "2147483647"},
                   {"int64", "-9223372036854775808"},
                   {"int64", "9223372036854775807"},
                   {"int64", "-2147483648"},
                   {"uint32", "4294967295"},
                   {"uint64", "18446744073709551615"},
                   {"float32", "1e-45"},
                   {"float32", "-3.4028234663852886e38"}};
  for (const auto& c : constants) {
    for (const char* op : {"Add", "Mul", "Min", "Equal", "Div"}) {
      const std::string type = c.type;
      std::string graph = "graph one\ninput x: " + type;
      graph.append("[8]\nconst c: ")
          .append(type)
          .append("[]{")
          .append(c.value)
          .append("}\ny = ")
          .append(op);
      graph += "(x, c) @14\noutput y\n";
      const auto p = compile_graph(graph, cuda_options({"cuda:sm_80"}));
      EXPECT_TRUE(p.ok()) << type << " " << op << " " << c.value << ": " << p.status().message();
    }
  }
}

/// Heads of any size, few rows and many.
TEST(Images, AttentionAndProductsDoNotSpill) {
  REPRISE_NEEDS_NVRTC();
  std::vector<std::string> graphs;
  for (const char* head : {"32", "64", "80", "128", "256"}) {
    const std::string d = std::string(",") + head + "]";
    std::string graph = "graph attention\ninput q: float32[1,4,n" + d;
    graph.append("\ninput k: float32[1,4,m").append(d).append("\ninput v: float32[1,4,m").append(d);
    graphs.push_back(graph + "\ny = Attention<is_causal=1>(q, k, v) @23\noutput y\n");
  }
  for (const char* rows : {"1", "4", "n", "1024"}) {
    graphs.push_back("graph product\ninput x: float32[" + std::string(rows) +
                     ",512]\ninput w: float32[512,384]\ny = MatMul(x, w)\nz = Sigmoid(y)\n"
                     "output z\n");
  }
  const std::string newest = knows(120) ? "cuda:sm_120" : "cuda:sm_90";
  for (const std::string& text : graphs) {
    const auto p = compile_graph(text, cuda_options({"cuda:sm_80", newest}));
    ASSERT_TRUE(p.ok()) << p.status().message();
    for (const package::Variant& v : p->variants) {
      for (const plan::KernelCode& k : v.plan.kernels) {
        EXPECT_EQ(k.usage.spill_bytes, 0u)
            << text << v.name << " " << k.name << ": " << k.usage.registers << " registers";
      }
    }
  }
}

TEST(Text, ErrorsNameTheKernelAndWarningsAreKept) {
  REPRISE_NEEDS_NVRTC();
  const auto library = nvrtc::Library::open(nvrtc_path());
  ASSERT_TRUE(library.ok());
  const auto compiled = [&](const std::string& body) {
    return nvrtc::compile_text(
        **library, "extern \"C\" __global__ void k(float* p) { " + body + " }", "k", {false, 80});
  };
  const auto refused = compiled("p[0] = nothing;");
  ASSERT_FALSE(refused.ok());
  const std::string error = refused.status().message();
  EXPECT_NE(error.find("kernel 'k' for sm_80"), std::string::npos) << error;
  EXPECT_NE(error.find("nothing"), std::string::npos) << error;
  const auto warned = compiled("int unused; p[0] = 1;");
  ASSERT_TRUE(warned.ok()) << warned.status().message();
  EXPECT_NE(warned->warnings.find("unused"), std::string::npos) << warned->warnings;
  EXPECT_TRUE(compiled("p[0] = 1;")->warnings.empty());
  EXPECT_EQ((*library)->version().find('1'), 0u);
}

TEST(Kept, KernelsAreCompiledOnce) {
  REPRISE_NEEDS_NVRTC();
  const TempDir dir;
  std::string messages;
  CompileOptions options = cuda_options({"cuda:sm_80"});
  options.cuda_cache_dir = (dir / "cuda").string();
  options.log = [&](const std::string& m) { messages += m + "\n"; };
  CompileReport first, second, third, other;
  const auto a = compile_graph(kGraph, options, &first);
  ASSERT_TRUE(a.ok()) << a.status().message();
  const auto b = compile_graph(kGraph, options, &second);
  ASSERT_TRUE(b.ok()) << b.status().message();
  EXPECT_EQ(first.images.cached, 0u);
  EXPECT_EQ(second.images.cached, second.images.images);
  for (size_t i = 0; i < a->variants[0].plan.kernels.size(); ++i) {
    EXPECT_EQ(a->variants[0].plan.kernels[i].image, b->variants[0].plan.kernels[i].image);
    EXPECT_EQ(a->variants[0].plan.kernels[i].usage, b->variants[0].plan.kernels[i].usage);
  }
  EXPECT_EQ(messages, "");
  // A damaged one is made again.
  const fs::path file = *fs::directory_iterator(options.cuda_cache_dir);
  fs::resize_file(file, fs::file_size(file) - 1);
  const auto c = compile_graph(kGraph, options, &third);
  ASSERT_TRUE(c.ok()) << c.status().message();
  EXPECT_EQ(third.images.cached, third.images.images - 1);
  EXPECT_NE(messages.find(file.string()), std::string::npos) << messages;
  // Another architecture is another image; and the bound holds.
  options.targets = {"cuda:sm_90"};
  options.cuda_cache_bytes = 1;
  const auto d = compile_graph(kGraph, options, &other);
  ASSERT_TRUE(d.ok()) << d.status().message();
  EXPECT_EQ(other.images.cached, 0u);
  EXPECT_TRUE(fs::is_empty(options.cuda_cache_dir));
}

/// One kernel with all operands would exceed the bytes of parameters that CUDA allows.
TEST(Parameters, AnyNumberOfTensorsPasses) {
  REPRISE_NEEDS_NVRTC();
  for (const int n : {520, 4200}) {
    std::string text = "graph many\n", names;
    for (int i = 0; i < n; ++i) {
      const std::string name = "x" + std::to_string(i);
      text += "input " + name + ": float32[2,1]\n";
      names += (i == 0 ? "" : ", ") + name;
    }
    text += "y = Concat<axis=1>(" + names + ") @13\noutput y\n";
    const auto p = compile_graph(text, cuda_options({"cuda:sm_80"}));
    ASSERT_TRUE(p.ok()) << p.status().message();
    for (const plan::KernelCode& k : p->variants[0].plan.kernels)
      EXPECT_LE(plan::BlockLayout::size(k.n_buffers, k.n_scalars), 4096U);
  }
}

}  // namespace
}  // namespace reprise::test
