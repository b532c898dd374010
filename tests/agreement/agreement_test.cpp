// Every schedule on every variant: fused kernels run on the interpreter (which checks bounds, races
// and barriers) and as CUDA text on the CPU, against the host reference. Graphs are
// tests/agreement/*.txt; the first line gives the values of symbols ("// batch=3 seq=5"), and with
// a seed what inputs hold (tests/support/random_values.h), as tools/fuzz prints its findings.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <set>
#include <utility>

#include "backends/registry.h"
#include "codegen/compile/compiler.h"
#include "codegen/compile/targets.h"
#include "codegen/emit/cuda/cuda.h"
#include "codegen/emit/spirv/spirv.h"
#include "codegen/lower/fuse/fuse.h"
#include "codegen/lower/launch/packed_weights.h"
#include "codegen/lower/lower.h"
#include "codegen/passes/autocast.h"
#include "codegen/passes/pass.h"
#include "runtime/session/session.h"
#include "tests/cuda_shim/cuda_on_cpu.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/paths.h"
#include "tests/support/random_values.h"
#include "tests/support/tensors.h"
#include "tests/support/text_cases.h"

namespace reprise {
namespace {

using graph::ValueId;
using lower::Lowered;

/// The first size of each symbol.
std::vector<int64_t> symbol_values(const graph::Graph& g, const test::Heading& heading) {
  std::vector<int64_t> values;
  for (size_t i = 0; i < g.symbols.size(); ++i) {
    const SymbolSource& source = g.symbol_sources[i];
    const auto given = heading.sizes.find(g.symbols[i].name);
    const bool derived = source.kind == SymbolSource::Kind::Derived;
    values.push_back(derived                        ? *source.value.eval(values)
                     : given == heading.sizes.end() ? 2
                                                    : given->second[0]);
  }
  return values;
}

/// `error` is a fraction of the largest magnitude, which is at least 1.
template <typename T>
void expect_near(const HostTensor& expected, const HostTensor& actual, double error,
                 const std::string& what) {
  double largest = 1;
  for (int64_t i = 0; i < expected.count(); ++i) {
    const T e = expected.data<T>()[i];
    if (std::isfinite(e)) largest = std::max(largest, std::fabs(static_cast<double>(e)));
  }
  for (int64_t i = 0; i < expected.count(); ++i) {
    const T e = expected.data<T>()[i], x = actual.data<T>()[i];
    if (std::isnan(e) && std::isnan(x)) continue;
    ASSERT_TRUE(e == x || std::fabs(static_cast<double>(e - x)) <= error * largest)
        << what << " [" << i << "] " << x << ", expected " << e;
  }
}

/// `f32_error`: of fp32, as a fraction of the largest value. fp64 has the same number of units in
/// the last place. Other types must have the same bits, bf16 among them, whose numbers are far
/// apart: a sum in another order rarely rounds to another one.
void expect_close(const HostTensor& expected, const std::vector<std::byte>& actual, DType dtype,
                  const std::string& what, double f32_error = 2e-6) {
  HostTensor a(dtype, expected.dims());
  std::copy_n(actual.begin(), a.bytes().size(), a.mutable_bytes().begin());
  if (dtype == DType::F32) return expect_near<float>(expected, a, f32_error, what);
  if (dtype == DType::F64) return expect_near<double>(expected, a, f32_error * 0x1p-29, what);
  for (int64_t i = 0; i < a.count(); ++i) {
    if (dtype == DType::F16) {
      const float e = f16_to_float(expected.data<uint16_t>()[i]),
                  x = f16_to_float(a.data<uint16_t>()[i]);
      if (std::isnan(e) && std::isnan(x)) continue;
      ASSERT_TRUE(e == x ||
                  (std::isfinite(e) &&
                   std::fabs(e - x) <= std::max(2e-3, f32_error) * std::max(1.0F, std::fabs(e))))
          << what << " [" << i << "] " << x << ", expected " << e;
    } else {
      if (dtype == DType::BF16 && std::isnan(bf16_to_float(expected.data<uint16_t>()[i])) &&
          std::isnan(bf16_to_float(a.data<uint16_t>()[i])))
        continue;
      const size_t size = size_of(dtype);
      ASSERT_EQ(std::memcmp(expected.bytes().data() + static_cast<size_t>(i) * size,
                            a.bytes().data() + static_cast<size_t>(i) * size, size),
                0)
          << what << " [" << i << "]";
    }
  }
}

/// A few roundings to 16 bits, as a fraction of the largest value.
double error_in(DType precision) {
  return precision == DType::F16 ? 5e-3 : precision == DType::BF16 ? 4e-2 : 2e-6;
}

class Agreement : public testing::TestWithParam<test::TextCase> {
 protected:
  void SetUp() override {
    auto model = graph::parse(GetParam().source);
    ASSERT_TRUE(model.ok()) << model.status().message();
    const test::Heading heading = test::Heading::parse(GetParam().heading);
    symbols_ = symbol_values(**model, heading);
    ASSERT_TRUE(heading.seed || heading.values.empty()) << "values need a seed";
    std::mt19937 rng(7);
    for (ValueId v : (*model)->inputs) {
      const graph::Value& value = (*model)->value(v);
      const std::vector<int64_t> dims = test::dims_of(value.shape, symbols_);
      inputs_.push_back(heading.seed
                            ? test::random_values(value.dtype, dims, heading.values_of(value.name),
                                                  *heading.seed, value.name)
                            : test::random_tensor(value.dtype, dims, rng));
    }
    CompileOptions host_only;
    host_only.targets = {};
    auto package = compile((*model)->clone(), host_only);
    ASSERT_TRUE(package.ok()) << package.status().message();
    auto session =
        Session::create(std::make_shared<package::Package>(std::move(*package)), nullptr);
    ASSERT_TRUE(session.ok()) << session.status().message();
    model_ = (*model)->clone();
    auto outputs = (*session)->run(bindings());
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    expected_ = std::move(*outputs);
    g_ = std::move(*model);
    for (const passes::Pass& p : passes::pipeline()) {
      const Status s = passes::run(p, *g_);
      ASSERT_TRUE(s.ok()) << p.name << ": " << s.message();
    }
  }

  /// Which of the forms that a group's schedules offer is taken.
  using Choose = std::function<size_t(const std::vector<lower::ScheduleCandidate>&)>;
  static Choose of_number(size_t n) {
    return [n](const auto& choices) { return std::min(n, choices.size() - 1); };
  }
  /// The first of a kind, else the first.
  static Choose of_kind(const std::string& kind) {
    return [kind](const auto& choices) {
      const auto at = std::find_if(choices.begin(), choices.end(),
                                   [&](const auto& c) { return kind_of(c.schedule) == kind; });
      return at == choices.end() ? size_t{0} : static_cast<size_t>(at - choices.begin());
    };
  }
  /// The schedule without its sizes.
  static std::string kind_of(std::string choice) {
    std::erase_if(choice, [](char c) { return c >= '0' && c <= '9'; });
    return choice;
  }

  /// Lowered and legalised kernels of all groups. `form`: of kernels that have two.
  void lower_all(const lower::Target& target, bool fused, const Choose& choose = of_number(0),
                 lower::LoopForm form = lower::LoopForm::Short) {
    auto fusion = lower::fuse(*g_, {.enabled = fused, .device = target.predicate});
    ASSERT_TRUE(fusion.ok()) << fusion.status().message();
    groups_ = std::move(fusion->groups);
    lowered_.clear();
    lower::PackedWeights packed(*g_);
    for (const lower::Group& group : groups_) {
      ASSERT_NE(group.kind, lower::GroupKind::Host) << group.host_reason;
      lowered_.push_back(lower_one(target, group, choose, form));
      packed.add(lowered_.back());
    }
    for (size_t i = 0; i < groups_.size(); ++i) {
      if (const auto reader = packed.reader(groups_[i], lowered_[i]))
        lowered_[i] = lower_one(target, *reader, choose, form);
      const Status s = test::legalize_for(lowered_[i], target);
      ASSERT_TRUE(s.ok()) << s.message();
      for (const lower::LoweredLaunch& launch : lowered_[i].launches) {
        const auto is_long = [](const kernel::Inst& inst) { return kernel::is_long(inst.type); };
        const kernel::Requirements needs = kernel::requirements(launch.kernel);
        const bool only_cuda = needs.async_copies || needs.views != 0 || needs.matrix_elements ||
                               needs.matrix.types == kSplitMma ||
                               std::ranges::any_of(launch.kernel.insts, is_long);
        ASSERT_EQ(emit::spirv(launch.kernel, {}).ok(), !only_cuda);
      }
    }
  }

  /// The kernels of a group; none after an error, which fails the test.
  Lowered lower_one(const lower::Target& target, const lower::Group& group, const Choose& choose,
                    lower::LoopForm form) {
    auto l = lower::lower(*g_, group, target);
    EXPECT_TRUE(l.ok()) << l.status().message();
    if (!l.ok()) return {};
    most_choices_ = std::max(most_choices_, l->choices.size());
    for (const lower::ScheduleCandidate& c : l->choices) kinds_.insert(kind_of(c.schedule));
    const size_t choice = l->choices.empty() ? 0 : choose(l->choices);
    if (choice > 0) l = lower::lower(*g_, group, target, choice);
    if (l.ok() && !needs_long_form(*g_, *l, group, target).is_const(0)) {
      two_forms_ = true;
      l = lower::lower(*g_, group, target, 0, form);
    }
    EXPECT_TRUE(l.ok()) << l.status().message();
    return l.ok() ? std::move(*l) : Lowered();
  }

  void run_and_compare(const test::Execute& execute, const std::string& what,
                       double f32_error = 2e-6) {
    test::KernelRunner runner(*g_, symbols_, inputs_);
    for (size_t i = 0; i < groups_.size(); ++i) {
      const Status s = runner.run(lowered_[i], execute);
      ASSERT_TRUE(s.ok()) << what << ": " << s.message() << "\n" << test::print(lowered_[i]);
    }
    for (size_t i = 0; i < g_->outputs.size(); ++i) {
      const ValueId v = g_->outputs[i];
      expect_close(expected_[i], runner.memory_of(v), g_->value(v).dtype,
                   what + " " + g_->value(v).name, f32_error);
    }
  }

  /// Vulkan's variants, those with fp64 arithmetic if the graph needs it.
  std::vector<lower::Target> variants() const {
    std::vector<lower::Target> all = vulkan_targets();
    if (!is_wide()) return all;
    std::erase_if(all, [](const lower::Target& t) { return !t.predicate.needs_int64; });
    std::ranges::transform(all, all.begin(), with_float64);
    return all;
  }
  bool is_wide() const {
    return std::ranges::any_of(model_->values(),
                               [](const graph::Value& v) { return v.dtype == DType::F64; });
  }

  /// Calls the body with each Vulkan device that can compute the graph.
  void on_devices(const std::function<void(const std::shared_ptr<Device>&)>& body) {
    bool any = false;
    for (const DeviceInfo& info : list_devices()) {
      if (!info.usable || info.facts.api != Api::Vulkan) continue;
      if (is_wide() && !info.facts.float64) continue;
      any = true;
      auto opened = open_device(info.id);
      ASSERT_TRUE(opened.ok()) << opened.status().message();
      body(opened->device);
      if (HasFatalFailure()) return;
    }
    if (!any) GTEST_SKIP() << "no Vulkan device";
  }

  /// The first variant for devices of any kind.
  lower::Target gpu_variant(const DeviceFacts& facts) const {
    for (const lower::Target& t : variants()) {
      if (!t.cpu_type() && t.predicate.mismatch(facts).empty()) return t;
    }
    ADD_FAILURE() << "no variant";
    return {};
  }

  void run_on_device(const std::shared_ptr<Device>& device, const std::string& variant,
                     const Choose& choose, DType precision = DType::F32) {
    CompileOptions options;
    options.precision = precision;
    options.targets = {variant};
    options.disabled_passes = {"attention-price"};
    options.choose_schedule = [&](const ScheduleSite& q) { return choose(q.candidates); };
    auto package = compile(model_->clone(), options);
    ASSERT_TRUE(package.ok()) << package.status().message();
    auto session = Session::create(std::make_shared<package::Package>(std::move(*package)), device);
    ASSERT_TRUE(session.ok()) << session.status().message();
    ASSERT_EQ((*session)->variant(), variant);
    auto outputs = (*session)->run(bindings());
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    for (size_t i = 0; i < outputs->size(); ++i) {
      const auto bytes = (*outputs)[i].bytes();
      expect_close(expected_[i], {bytes.begin(), bytes.end()}, expected_[i].dtype(),
                   device->info().name, error_in(precision));
    }
  }

  std::vector<Binding> bindings() {
    std::vector<Binding> out(inputs_.size());
    for (size_t i = 0; i < inputs_.size(); ++i) {
      out[i].name = model_->value(model_->inputs[i]).name;
      out[i].host = &inputs_[i];
    }
    return out;
  }

  test::RememberedRuns interpreted_{test::interpret};
  const test::Execute interpret_ = std::bind_front(&test::RememberedRuns::run, &interpreted_);
  std::unique_ptr<graph::Graph> model_, g_;  // as it was written, and after the passes
  std::vector<int64_t> symbols_;
  std::vector<HostTensor> inputs_, expected_;
  std::vector<lower::Group> groups_;
  std::vector<Lowered> lowered_;
  // Of the groups that were lowered.
  bool two_forms_ = false;
  size_t most_choices_ = 0;
  std::set<std::string> kinds_;
};

TEST_P(Agreement, InterpreterOfEveryVariant) {
  for (const lower::Target& target : variants()) {
    for (const bool fused : {true, false}) {
      lower_all(target, fused);
      if (HasFatalFailure()) return;
      run_and_compare(interpret_, target.name + (fused ? " fused" : " unfused"));
      if (HasFatalFailure()) return;
      if (!std::exchange(two_forms_, false)) continue;
      lower_all(target, fused, of_number(0), lower::LoopForm::Long);
      if (HasFatalFailure()) return;
      run_and_compare(interpret_, target.name + (fused ? " fused" : " unfused") + " long");
      if (HasFatalFailure()) return;
    }
  }
}

/// What is shared between equal groups, kernels and variants is what each would be by itself. Each
/// graph is compiled four times, so the quick tier takes every eighth.
class EqualKernels : public Agreement {};

TEST_P(EqualKernels, AsCompiledApart) {
  const test::TempDir folder;
  const std::string path = folder / "model.rpk";
  std::optional<std::string> first;
  for (const unsigned threads : {1U, 4U}) {
    for (const bool shared : {true, false}) {
      CompileOptions options;
      options.threads = threads;
      for (const lower::Target& t : variants()) options.targets.push_back(t.name);
      if (!shared) options.disabled_passes = {"equal-kernels"};
      auto package = compile(model_->clone(), options);
      ASSERT_TRUE(package.ok()) << package.status().message();
      ASSERT_TRUE(package::write(*package, path).ok());
      const std::string bytes = test::read_file(path);
      EXPECT_TRUE(bytes == first.value_or(bytes)) << threads << " threads, shared: " << shared;
      first = bytes;
    }
  }
}

TEST_P(Agreement, InterpreterOfEverySchedule) {
  for (const lower::Target& target : variants()) {
    most_choices_ = 0;
    lower_all(target, true);
    for (size_t choice = 1; choice < most_choices_; ++choice) {
      lower_all(target, true, of_number(choice));
      if (HasFatalFailure()) return;
      run_and_compare(interpret_, target.name + " schedule " + std::to_string(choice));
      if (HasFatalFailure()) return;
    }
  }
}

/// Tensors between kernels and constants in 16 bits, with and without storage and arithmetic for
/// them, by every kind of schedule.
TEST_P(Agreement, InterpreterInLowPrecision) {
  const std::unique_ptr<graph::Graph> full = g_->clone();
  for (const DType precision : {DType::F16, DType::BF16}) {
    g_ = full->clone();
    passes::autocast(*g_, precision, 2);
    for (const lower::Target& target : variants()) {
      if (target.predicate.slow_loads) continue;
      const std::string what = target.name + " " + precision_name(precision);
      kinds_.clear();
      lower_all(target, target.predicate.needs_storage16);
      if (HasFatalFailure()) return;
      run_and_compare(interpret_, what, error_in(precision));
      if (HasFatalFailure()) return;
      if (precision != DType::F16) continue;
      for (const std::string& kind : std::set(kinds_)) {
        lower_all(target, target.predicate.needs_storage16, of_kind(kind));
        if (HasFatalFailure()) return;
        run_and_compare(interpret_, what + " " + kind, error_in(precision));
        if (HasFatalFailure()) return;
      }
    }
  }
}

/// What 16 bits do not reach is stored as their largest number; infinities and NaN stay.
TEST(LowPrecision, LargeNumbersStayFinite) {
  auto g = graph::parse(
      "graph large\ninput x: float32[8]\ny: float32:float16[8] = Neg(x)\nz = Neg(y)\noutput z\n");
  ASSERT_TRUE(g.ok()) << g.status().message();
  auto fusion = lower::fuse(**g, {.enabled = false});
  ASSERT_TRUE(fusion.ok()) << fusion.status().message();
  HostTensor x(DType::F32, {8});
  const float given[] = {1e5F, -1e9F, 65504, 65519, HUGE_VALF, -HUGE_VALF, NAN, 0.1F};
  std::copy_n(given, 8, x.mutable_data<float>());
  for (const lower::Target& target : vulkan_targets()) {
    test::KernelRunner runner(**g, {}, {x});
    for (const lower::Group& group : fusion->groups) {
      auto l = lower::lower(**g, group, target);
      ASSERT_TRUE(l.ok()) << l.status().message();
      ASSERT_TRUE(test::legalize_for(*l, target).ok());
      ASSERT_TRUE(runner.run(*l, test::interpret).ok());
    }
    float z[8];
    std::memcpy(z, runner.memory_of((*g)->outputs[0]).data(), sizeof z);
    const float expected[] = {65504, -65504, 65504, 65504, HUGE_VALF, -HUGE_VALF};
    for (int i = 0; i < 6; ++i) EXPECT_EQ(z[i], expected[i]) << target.name << " " << i;
    EXPECT_TRUE(std::isnan(z[6])) << target.name;
    EXPECT_NEAR(z[7], 0.1F, 1e-4F) << target.name;
  }
}

/// Devices run a sample in the quick tier: every third graph, in the order of their names, which
/// begin with the kind of kernel. The full tier runs the others and those that say `devices=full`,
/// which take drivers long to compile.
class AgreementOnDevices : public Agreement {};

/// fp16 is the harder one where a device has no storage for it.
TEST_P(AgreementOnDevices, LowPrecision) {
  on_devices([&](const std::shared_ptr<Device>& device) {
    const std::vector<lower::Target> all = variants();
    const auto own = std::ranges::find_if(all, [&](const lower::Target& t) {
      return !t.on_request && t.predicate.matrices.empty() &&
             t.predicate.mismatch(device->info().facts).empty();
    });
    run_on_device(device, own->name, of_number(0), DType::F16);
  });
}

TEST_P(Agreement, CudaText) {
  const lower::Target target = cuda_target(CudaArch{false, 80});
  lower_all(target, true);
  if (HasFatalFailure()) return;
  std::vector<test::CudaSource> sources;
  std::vector<std::vector<Lowered>> by_kind;
  std::set<std::string> kinds = kinds_;
  if (kinds.empty()) kinds = {"the only one"};
  for (const std::string& kind : kinds) {
    lower_all(target, true, of_kind(kind));
    if (HasFatalFailure()) return;
    for (size_t i = 0; i < lowered_.size(); ++i) {
      for (lower::LoweredLaunch& launch : lowered_[i].launches) {
        kernel::Kernel& k = launch.kernel;
        k.name += "_" + std::to_string(sources.size());  // unique, though kernels may be equal
        auto text = emit::cuda(k);
        ASSERT_TRUE(text.ok()) << text.status().message();
        sources.push_back({k.name, *text, k.workgroup});
      }
    }
    by_kind.push_back(std::move(lowered_));
  }
  auto module = test::CudaOnCpu::load(sources);
  ASSERT_TRUE(module.ok()) << module.status().message();
  for (std::vector<Lowered>& lowered : by_kind) {
    lowered_ = std::move(lowered);
    run_and_compare(test::cuda_on_cpu(*module), "cuda");
    if (HasFatalFailure()) return;
  }
}

/// Every tile of teams that a device with such matrices is offered. Only the interpreter and the
/// executor of PTX (tests/ptx) run them.
TEST_P(Agreement, TilesOfTeams) {
  const lower::Target target = cuda_target(CudaArch{false, 90, true});
  size_t most = 0;
  const auto tile = [&](size_t number) {
    return [&most, number](const auto& choices) {
      std::vector<size_t> found;
      for (size_t i = 0; i < choices.size(); ++i)
        if (choices[i].schedule.starts_with("team matrix tile")) found.push_back(i);
      most = std::max(most, found.size());
      return number < found.size() ? found[number] : size_t{0};
    };
  };
  lower_all(target, true, tile(0));
  for (size_t number = 0; number < most && !HasFatalFailure(); ++number) {
    if (number > 0) lower_all(target, true, tile(number));
    if (HasFatalFailure()) return;
    run_and_compare(test::interpret, "teams, tile " + std::to_string(number));
  }
}

/// The variant that a GPU would take, on the devices of this machine, by every kind of schedule.
TEST_P(AgreementOnDevices, GpuSchedules) {
  on_devices([&](const std::shared_ptr<Device>& device) {
    const lower::Target target = gpu_variant(device->info().facts);
    kinds_.clear();
    lower_all(target, true);
    const std::set<std::string> kinds = kinds_;
    for (const std::string& kind : kinds) {
      if (kinds.size() > 1) run_on_device(device, target.name, of_kind(kind));
      if (HasFatalFailure()) return;
    }
  });
}

enum class Which : uint8_t { All, QuickOnDevices, FullOnDevices };

std::vector<test::TextCase> graphs(Which which) {
  std::vector<test::TextCase> cases = test::text_cases(test::source_dir() / "tests/agreement");
  if (which == Which::All) return cases;
  // The quick tier takes one of three.
  size_t number = 0;
  std::erase_if(cases, [&](const test::TextCase& c) {
    bool full = test::Heading::parse(c.heading).full_on_devices;
    if (!full) full = number++ % 3 != 0;
    return full != (which == Which::FullOnDevices);
  });
  return cases;
}

std::vector<test::TextCase> every_eighth(bool quick) {
  const std::vector<test::TextCase> all = graphs(Which::All);
  std::vector<test::TextCase> cases;
  for (size_t i = 0; i < all.size(); ++i) {
    if ((i % 8 == 0) == quick) cases.push_back(all[i]);
  }
  return cases;
}

std::string name_of_graph(const testing::TestParamInfo<test::TextCase>& c) {
  return c.param.file.stem().string();
}

INSTANTIATE_TEST_SUITE_P(Graphs, Agreement, testing::ValuesIn(graphs(Which::All)), name_of_graph);
INSTANTIATE_TEST_SUITE_P(Graphs, EqualKernels, testing::ValuesIn(every_eighth(true)),
                         name_of_graph);
INSTANTIATE_TEST_SUITE_P(FullGraphs, EqualKernels, testing::ValuesIn(every_eighth(false)),
                         name_of_graph);
INSTANTIATE_TEST_SUITE_P(Graphs, AgreementOnDevices,
                         testing::ValuesIn(graphs(Which::QuickOnDevices)), name_of_graph);
INSTANTIATE_TEST_SUITE_P(FullGraphs, AgreementOnDevices,
                         testing::ValuesIn(graphs(Which::FullOnDevices)), name_of_graph);

}  // namespace
}  // namespace reprise
