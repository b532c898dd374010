// Every schedule on every variant: fused kernels run on the interpreter (which checks bounds, races
// and barriers) and as CUDA text on the CPU, against the host reference. Graphs are
// tests/agreement/*.txt; the first line gives the values of symbols ("// batch=3 seq=5").
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "backends/registry.h"
#include "codegen/compiler.h"
#include "codegen/emit/cuda/cuda.h"
#include "codegen/emit/spirv/spirv.h"
#include "codegen/kernel/interpreter.h"
#include "codegen/lower/lower.h"
#include "codegen/lower/targets.h"
#include "codegen/passes/autocast.h"
#include "codegen/passes/pass.h"
#include "codegen/plan_builder.h"
#include "runtime/session.h"
#include "tests/cuda_shim/cuda_on_cpu.h"
#include "tests/support/paths.h"
#include "tests/support/text_cases.h"

namespace reprise {
namespace {

using graph::ValueId;
using lower::Lowered;

std::vector<int64_t> symbol_values(const graph::Graph& g, const std::string& heading) {
  std::map<std::string, int64_t> given;
  std::istringstream in(heading);
  for (std::string word; in >> word;) {
    const size_t eq = word.find('=');
    if (eq != std::string::npos) given[word.substr(0, eq)] = std::stoll(word.substr(eq + 1));
  }
  std::vector<int64_t> values;
  for (const Symbol& s : g.symbols) values.push_back(given.count(s.name) != 0 ? given[s.name] : 2);
  return values;
}

std::vector<int64_t> dims_of(const Shape& shape, const std::vector<int64_t>& symbols) {
  std::vector<int64_t> dims;
  for (const Expr& e : shape) dims.push_back(*e.eval(symbols));
  return dims;
}

HostTensor random_tensor(DType dtype, const std::vector<int64_t>& dims, std::mt19937& rng) {
  HostTensor t(dtype, dims);
  std::uniform_real_distribution<float> real(-2, 2);
  std::uniform_int_distribution<int> whole(0, 3);
  for (int64_t i = 0; i < t.count(); ++i) {
    switch (dtype) {
      case DType::F32:
        t.mutable_data<float>()[i] = real(rng);
        break;
      case DType::F16:
        t.mutable_data<uint16_t>()[i] = float_to_f16(real(rng));
        break;
      case DType::I64:
        t.mutable_data<int64_t>()[i] = whole(rng);
        break;
      case DType::I32:
        t.mutable_data<int32_t>()[i] = whole(rng);
        break;
      case DType::Bool:
        t.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(whole(rng) & 1);
        break;
      case DType::I8:
      case DType::U8:
        t.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(rng());
        break;
      case DType::I16:
      case DType::U16:
        t.mutable_data<uint16_t>()[i] = static_cast<uint16_t>(rng());
        break;
      default:
        ADD_FAILURE() << "no random values for this dtype";
        break;
    }
  }
  return t;
}

/// plan::Weight::Packing::Tiles, written down once more.
HostTensor pack(const HostTensor& w, const lower::PackedOperand& p) {
  const int64_t tiles = (p.n + p.tile_n - 1) / p.tile_n;
  const size_t size = size_of(w.dtype());
  HostTensor out(w.dtype(), {p.batch, tiles, p.k, p.tile_n});
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t n = 0; n < p.n; ++n) {
      for (int64_t k = 0; k < p.k; ++k) {
        const int64_t from = b * p.k * p.n + (p.transposed ? n * p.k + k : k * p.n + n);
        const int64_t to = ((b * tiles + n / p.tile_n) * p.k + k) * p.tile_n + n % p.tile_n;
        std::memcpy(out.mutable_bytes().data() + static_cast<size_t>(to) * size,
                    w.bytes().data() + static_cast<size_t>(from) * size, size);
      }
    }
  }
  return out;
}

/// Runs one lowered kernel; buffers are in parameter order.
using Execute = std::function<Status(const kernel::Kernel&, std::array<uint32_t, 3>,
                                     std::vector<std::span<std::byte>>, std::vector<uint32_t>)>;

Status interpret(const kernel::Kernel& k, std::array<uint32_t, 3> grid,
                 std::vector<std::span<std::byte>> buffers, std::vector<uint32_t> scalars) {
  auto outcome = kernel::interpret(k, {grid, std::move(buffers), std::move(scalars)});
  if (outcome.ok() && outcome->error != kernel::ErrorCode::None)
    return internal_error("error word set");
  return outcome.status();
}

class Runner {
 public:
  Runner(const graph::Graph& g, const std::vector<int64_t>& symbols,
         const std::vector<HostTensor>& inputs)
      : g_(g), symbols_(symbols) {
    for (size_t i = 0; i < inputs.size(); ++i) store(g.inputs[i], inputs[i]);
  }

  Status run(const lower::Group& group, const Lowered& l, const Execute& execute) {
    std::vector<std::vector<std::byte>> scratch;
    std::vector<HostTensor> packed;
    scratch.reserve(l.buffers.size());
    packed.reserve(l.packed.size());
    std::vector<std::span<std::byte>> buffers;
    for (size_t i = 0; i < l.buffers.size(); ++i) {
      const auto p = std::find_if(l.packed.begin(), l.packed.end(), [&](const auto& x) {
        return static_cast<size_t>(x.buffer) == i;
      });
      if (p != l.packed.end()) {
        packed.push_back(pack(*g_.value(l.buffers[i].value).constant, *p));
        buffers.push_back(packed.back().mutable_bytes());
      } else if (l.buffers[i].scratch) {
        scratch.emplace_back(bytes_of(l.buffers[i].value, g_.value(l.buffers[i].value).dtype));
        buffers.emplace_back(scratch.back());
      } else {
        buffers.emplace_back(memory(l.buffers[i].value));
      }
    }
    std::array<uint32_t, 3> grid{};
    for (size_t d = 0; d < 3; ++d) {
      RP_ASSIGN(const int64_t v, l.grid[d].eval(symbols_));
      grid[d] = static_cast<uint32_t>(v);
    }
    (void)group;
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) return {};  // sizes may divide by the 0
    std::vector<uint32_t> scalars;
    for (const Expr& e : l.scalars) {
      RP_ASSIGN(const int64_t v, e.eval(symbols_));
      scalars.push_back(static_cast<uint32_t>(v));
    }
    return execute(l.kernel, grid, std::move(buffers), std::move(scalars));
  }

  const std::vector<std::byte>& memory_of(ValueId v) { return memory(v); }

 private:
  /// As the session allocates: whole words.
  size_t bytes_of(ValueId v, DType as) const {
    const graph::Value& value = g_.value(v);
    size_t bytes = size_of(as);
    for (int64_t d : dims_of(value.shape, symbols_)) bytes *= static_cast<size_t>(d);
    return (bytes + 3) / 4 * 4;
  }
  void store(ValueId v, const HostTensor& t) {
    auto& m = memory_[v];
    m.assign(bytes_of(v, t.dtype()), std::byte{0});
    std::copy(t.bytes().begin(), t.bytes().end(), m.begin());
  }
  std::vector<std::byte>& memory(ValueId v) {
    auto it = memory_.find(v);
    if (it != memory_.end()) return it->second;
    if (g_.value(v).constant) {
      store(v, *g_.value(v).constant);
    } else {
      memory_[v].assign(bytes_of(v, graph::storage_of(g_.value(v))), std::byte{0x7f});  // poison
    }
    return memory_[v];
  }

  const graph::Graph& g_;
  std::vector<int64_t> symbols_;
  std::map<ValueId, std::vector<std::byte>> memory_;
};

/// `f32_error`: of fp32, as a fraction of the largest value.
void expect_close(const HostTensor& expected, const std::vector<std::byte>& actual, DType dtype,
                  const std::string& what, double f32_error = 2e-6) {
  HostTensor a(dtype, expected.dims());
  std::copy_n(actual.begin(), a.bytes().size(), a.mutable_bytes().begin());
  double largest = 1;
  for (int64_t i = 0; i < a.count() && dtype == DType::F32; ++i) {
    if (std::isfinite(expected.data<float>()[i])) {
      largest = std::max(largest, std::fabs(static_cast<double>(expected.data<float>()[i])));
    }
  }
  for (int64_t i = 0; i < a.count(); ++i) {
    if (dtype == DType::F32) {
      const float e = expected.data<float>()[i], x = a.data<float>()[i];
      if (std::isnan(e) && std::isnan(x)) continue;
      ASSERT_TRUE(e == x || std::fabs(e - x) <= f32_error * largest)
          << what << " [" << i << "] " << x << ", expected " << e;
    } else if (dtype == DType::F16) {
      const float e = f16_to_float(expected.data<uint16_t>()[i]),
                  x = f16_to_float(a.data<uint16_t>()[i]);
      ASSERT_TRUE(std::fabs(e - x) <= std::max(2e-3, f32_error) * std::max(1.0F, std::fabs(e)))
          << what << " [" << i << "] " << x << ", expected " << e;
    } else {
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
    symbols_ = symbol_values(**model, GetParam().heading);
    std::mt19937 rng(7);
    for (ValueId v : (*model)->inputs) {
      const graph::Value& value = (*model)->value(v);
      inputs_.push_back(random_tensor(value.dtype, dims_of(value.shape, symbols_), rng));
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
      const Status s = p.run(*g_);
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

  /// Lowered and legalised kernels of all groups.
  void lower_all(const lower::Target& target, bool fused, const Choose& choose = of_number(0)) {
    auto fusion = lower::fuse(*g_, fused);
    ASSERT_TRUE(fusion.ok()) << fusion.status().message();
    groups_ = std::move(fusion->groups);
    lowered_.clear();
    for (const lower::Group& group : groups_) {
      ASSERT_NE(group.kind, lower::GroupKind::Host) << group.host_reason;
      auto l = lower::lower(*g_, group, target);
      ASSERT_TRUE(l.ok()) << l.status().message();
      most_choices_ = std::max(most_choices_, l->choices.size());
      for (const lower::ScheduleCandidate& c : l->choices) kinds_.insert(kind_of(c.schedule));
      const size_t choice = l->choices.empty() ? 0 : choose(l->choices);
      if (choice > 0) {
        l = lower::lower(*g_, group, target, choice);
        ASSERT_TRUE(l.ok()) << l.status().message();
      }
      kernel::LegalizeFor features;
      features.int64 = target.predicate.needs_int64;
      features.storage8 = target.predicate.needs_storage8;
      features.storage16 = target.predicate.needs_storage16;
      features.float16 = target.predicate.needs_float16;
      features.word_loads = target.wide_loads;
      const Status s = kernel::legalize(l->kernel, features);
      ASSERT_TRUE(s.ok()) << s.message();
      kernel::simplify(l->kernel);
      ASSERT_TRUE(emit::spirv(l->kernel, {}).ok());
      lowered_.push_back(std::move(*l));
    }
  }

  void run_and_compare(const Execute& execute, const std::string& what, double f32_error = 2e-6) {
    Runner runner(*g_, symbols_, inputs_);
    for (size_t i = 0; i < groups_.size(); ++i) {
      const Status s = runner.run(groups_[i], lowered_[i], execute);
      ASSERT_TRUE(s.ok()) << what << ": " << s.message() << "\n"
                          << kernel::print(lowered_[i].kernel);
    }
    for (size_t i = 0; i < g_->outputs.size(); ++i) {
      const ValueId v = g_->outputs[i];
      expect_close(expected_[i], runner.memory_of(v), g_->value(v).dtype,
                   what + " " + g_->value(v).name, f32_error);
    }
  }

  /// The first variant for devices of any kind.
  static lower::Target gpu_variant(const DeviceFacts& facts) {
    for (const lower::Target& t : vulkan_targets()) {
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
    options.choose_schedule = [&](const ScheduleQuestion& q) { return choose(q.candidates); };
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

  std::unique_ptr<graph::Graph> model_, g_;  // as it was written, and after the passes
  std::vector<int64_t> symbols_;
  std::vector<HostTensor> inputs_, expected_;
  std::vector<lower::Group> groups_;
  std::vector<Lowered> lowered_;
  // Of the groups that were lowered.
  size_t most_choices_ = 0;
  std::set<std::string> kinds_;
};

TEST_P(Agreement, InterpreterOfEveryVariant) {
  for (const lower::Target& target : vulkan_targets()) {
    for (const bool fused : {true, false}) {
      lower_all(target, fused);
      if (HasFatalFailure()) return;
      run_and_compare(interpret, target.name + (fused ? " fused" : " unfused"));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Agreement, InterpreterOfEverySchedule) {
  for (const lower::Target& target : vulkan_targets()) {
    most_choices_ = 0;
    lower_all(target, true);
    for (size_t choice = 1; choice < most_choices_; ++choice) {
      lower_all(target, true, of_number(choice));
      if (HasFatalFailure()) return;
      run_and_compare(interpret, target.name + " schedule " + std::to_string(choice));
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
    for (const lower::Target& target : vulkan_targets()) {
      if (target.predicate.slow_loads) continue;
      const std::string what = target.name + " " + precision_name(precision);
      kinds_.clear();
      lower_all(target, target.predicate.needs_storage16);
      if (HasFatalFailure()) return;
      run_and_compare(interpret, what, error_in(precision));
      if (HasFatalFailure()) return;
      if (precision != DType::F16) continue;
      const std::set<std::string> kinds = kinds_;
      for (const std::string& kind : kinds) {
        lower_all(target, target.predicate.needs_storage16, of_kind(kind));
        if (HasFatalFailure()) return;
        run_and_compare(interpret, what + " " + kind, error_in(precision));
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
  auto fusion = lower::fuse(**g, false);
  ASSERT_TRUE(fusion.ok()) << fusion.status().message();
  HostTensor x(DType::F32, {8});
  const float given[] = {1e5F, -1e9F, 65504, 65519, HUGE_VALF, -HUGE_VALF, NAN, 0.1F};
  std::copy_n(given, 8, x.mutable_data<float>());
  for (const lower::Target& target : vulkan_targets()) {
    Runner runner(**g, {}, {x});
    for (const lower::Group& group : fusion->groups) {
      auto l = lower::lower(**g, group, target);
      ASSERT_TRUE(l.ok()) << l.status().message();
      kernel::LegalizeFor features;
      features.storage16 = target.predicate.needs_storage16;
      features.float16 = target.predicate.needs_float16;
      ASSERT_TRUE(kernel::legalize(l->kernel, features).ok());
      const Status s = runner.run(group, *l, interpret);
      ASSERT_TRUE(s.ok()) << s.message();
    }
    float z[8];
    std::memcpy(z, runner.memory_of((*g)->outputs[0]).data(), sizeof z);
    const float expected[] = {65504, -65504, 65504, 65504, HUGE_VALF, -HUGE_VALF};
    for (int i = 0; i < 6; ++i) EXPECT_EQ(z[i], expected[i]) << target.name << " " << i;
    EXPECT_TRUE(std::isnan(z[6])) << target.name;
    EXPECT_NEAR(z[7], 0.1F, 1e-4F) << target.name;
  }
}

/// fp16 is the harder one where a device has no storage for it.
TEST_P(Agreement, LowPrecisionOnDevices) {
  bool any = false;
  for (const DeviceInfo& info : list_devices()) {
    if (!info.usable || info.facts.api != Api::Vulkan) continue;
    any = true;
    auto opened = open_device(info.id);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    const std::vector<lower::Target> all = vulkan_targets();
    const auto own = std::find_if(all.begin(), all.end(), [&](const lower::Target& t) {
      return !t.on_request && !t.predicate.matrix && t.predicate.mismatch(info.facts).empty();
    });
    run_on_device(opened->device, own->name, of_number(0), DType::F16);
    if (HasFatalFailure()) return;
  }
  if (!any) GTEST_SKIP() << "no Vulkan device";
}

/// One kernel as CUDA text on the CPU.
Execute cuda_on_cpu(const test::CudaOnCpu& module) {
  return [&module](const kernel::Kernel& k, std::array<uint32_t, 3> grid,
                   std::vector<std::span<std::byte>> buffers, std::vector<uint32_t> scalars) {
    const kernel::BlockLayout layout;
    std::vector<uint64_t> block(kernel::BlockLayout::size(buffers.size(), scalars.size()) / 8 + 1);
    auto* bytes = reinterpret_cast<std::byte*>(block.data());
    uint32_t error = 0;
    const uint32_t* error_address = &error;
    std::memcpy(bytes, &error_address, 8);
    for (size_t i = 0; i < buffers.size(); ++i) {
      const std::byte* p = buffers[i].data();
      std::memcpy(bytes + layout.buffer_offset(i), &p, 8);
    }
    for (size_t i = 0; i < scalars.size(); ++i) {
      std::memcpy(bytes + layout.scalar_offset(buffers.size(), i), &scalars[i], 4);
    }
    RP_TRY(module.run(k.name, grid, bytes));
    return error == 0 ? Status() : internal_error("error word " + std::to_string(error));
  };
}

TEST_P(Agreement, CudaText) {
  lower::Target target;  // the GPU form with every feature
  target.name = "gpu";
  target.predicate.needs_int64 = true;
  target.predicate.needs_storage8 = true;
  target.predicate.needs_storage16 = true;
  target.predicate.needs_float16 = true;
  target.predicate.subgroup_size = 32;
  target.predicate.matrix = {16, 16, 16};
  target.predicate.shared_bytes = 32768;
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
      kernel::Kernel& k = lowered_[i].kernel;
      k.name += "_" + std::to_string(by_kind.size()) + "_" + std::to_string(i);
      auto text = emit::cuda(k);
      ASSERT_TRUE(text.ok()) << text.status().message();
      sources.push_back({k.name, *text, k.workgroup});
    }
    by_kind.push_back(std::move(lowered_));
  }
  auto module = test::CudaOnCpu::load(sources);
  ASSERT_TRUE(module.ok()) << module.status().message();
  for (std::vector<Lowered>& lowered : by_kind) {
    lowered_ = std::move(lowered);
    run_and_compare(cuda_on_cpu(*module), "cuda");
    if (HasFatalFailure()) return;
  }
}

/// The variant that a GPU would take, on the devices of this machine, by every kind of schedule.
TEST_P(Agreement, GpuSchedulesOnDevices) {
  bool any = false;
  for (const DeviceInfo& info : list_devices()) {
    if (!info.usable || info.facts.api != Api::Vulkan) continue;
    any = true;
    auto opened = open_device(info.id);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    const lower::Target target = gpu_variant(info.facts);
    kinds_.clear();
    lower_all(target, true);
    const std::set<std::string> kinds = kinds_;
    for (const std::string& kind : kinds) {
      if (kinds.size() > 1) run_on_device(opened->device, target.name, of_kind(kind));
      if (HasFatalFailure()) return;
    }
  }
  if (!any) GTEST_SKIP() << "no Vulkan device";
}

INSTANTIATE_TEST_SUITE_P(Graphs, Agreement,
                         testing::ValuesIn(test::text_cases(test::source_dir() /
                                                            "tests/agreement")),
                         [](const auto& c) { return c.param.file.stem().string(); });

}  // namespace
}  // namespace reprise
