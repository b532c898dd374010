// Tensors without elements, and of rank 0, through every operator: tests/empty/operators.txt. The
// host's kernels say what is right; shapes are those that were inferred.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <regex>
#include <set>
#include <sstream>

#include "backends/registry.h"
#include "codegen/compile/compiler.h"
#include "codegen/ops/row/op.h"
#include "runtime/base/compare.h"
#include "runtime/session/session.h"
#include "tests/empty/cases.h"
#include "tests/support/tensors.h"

namespace reprise {
namespace {

/// The number 0 instead of n in the inputs' types.
std::string with_zero(const std::string& text) {
  static const std::regex kDim(R"(([\[,])n(?=[,\]]))");
  std::istringstream in(text);
  std::string out;
  for (std::string line; std::getline(in, line);) {
    out += (line.rfind("input ", 0) == 0 ? std::regex_replace(line, kDim, "$010") : line) + "\n";
  }
  return out;
}

std::unique_ptr<graph::Graph> parsed(const std::string& text) {
  auto g = graph::parse(text);
  EXPECT_TRUE(g.ok()) << g.status().message() << "\n" << text;
  return g.ok() ? std::move(*g) : nullptr;
}

struct Device {
  std::string name;
  std::shared_ptr<reprise::Device> device;
};

const std::vector<Device>& vulkan_devices() {
  static const std::vector<Device> all = [] {
    std::vector<Device> out;
    for (const DeviceInfo& info : list_devices()) {
      if (!info.usable || info.facts.api != Api::Vulkan) continue;
      auto opened = open_device(info.id);
      if (opened.ok()) out.push_back({info.name, opened->device});
    }
    return out;
  }();
  return all;
}

/// A session on a device; on the host without one.
std::unique_ptr<Session> session_for(const graph::Graph& g,
                                     const std::shared_ptr<reprise::Device>& device) {
  CompileOptions options;
  options.targets = {};
  if (device) {
    options.targets = {"vulkan"};
    options.device = device->info().facts;
  }
  auto package = compile(g.clone(), options);
  EXPECT_TRUE(package.ok()) << package.status().message();
  if (!package.ok()) return nullptr;
  auto session = Session::create(std::make_shared<package::Package>(std::move(*package)), device);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.ok() ? std::move(*session) : nullptr;
}

std::vector<HostTensor> inputs_for(const graph::Graph& g, int64_t n) {
  std::mt19937 rng(3);
  const std::vector<int64_t> symbols(g.symbols.size(), n);
  std::vector<HostTensor> out;
  for (const graph::ValueId v : g.inputs) {
    std::vector<int64_t> dims;
    for (const Expr& d : g.value(v).shape) dims.push_back(*d.eval(symbols));
    out.push_back(test::random_tensor(g.value(v).dtype, dims, rng));
  }
  return out;
}

Result<std::vector<HostTensor>> run(Session& session, const std::vector<HostTensor>& inputs) {
  std::vector<Binding> bindings(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    bindings[i].name = session.io().inputs[i].name;
    bindings[i].host = &inputs[i];
  }
  return session.run(bindings);
}

void expect_equal(const HostTensor& expected, const HostTensor& actual, const std::string& name) {
  ASSERT_EQ(describe(actual.dtype(), actual.dims()), describe(expected.dtype(), expected.dims()))
      << name;
  if (is_container(expected.dtype())) {
    ASSERT_EQ(bit_difference(expected, actual), "") << name;
    return;
  }
  if (expected.dtype() == DType::String) {
    ASSERT_EQ(actual.strings(), expected.strings()) << name;
    return;
  }
  const size_t size = size_of(expected.dtype());
  for (int64_t i = 0; i < expected.count(); ++i) {
    if (is_float(expected.dtype())) {
      const double e = test::number(expected, i);
      const double a = test::number(actual, i);
      const double slack = expected.dtype() == DType::F32 ? 1e-5 : 2e-3;
      ASSERT_TRUE(a == e || (std::isnan(a) && std::isnan(e)) ||
                  std::fabs(a - e) <= slack * std::max(1.0, std::fabs(e)))
          << name << " [" << i << "] is " << a << ", expected " << e;
    } else {
      const auto at = static_cast<size_t>(i) * size;
      ASSERT_EQ(std::memcmp(expected.bytes().data() + at, actual.bytes().data() + at, size), 0)
          << name << " [" << i << "] is " << test::number(actual, i) << ", expected "
          << test::number(expected, i);
    }
  }
}

class Empty : public testing::TestWithParam<Case> {
 protected:
  /// The graph on the host and on every device, for these sizes one after another.
  void expect_agreement(const std::string& text, const std::vector<int64_t>& sizes) {
    const auto g = parsed(text);
    ASSERT_TRUE(g);
    const auto reference = session_for(*g, nullptr);
    ASSERT_TRUE(reference) << text;
    if (vulkan_devices().empty()) GTEST_SKIP() << "no Vulkan device";
    for (const Device& d : vulkan_devices()) {
      SCOPED_TRACE(d.name + "\n" + text);
      const auto session = session_for(*g, d.device);
      ASSERT_TRUE(session);
      for (const int64_t n : sizes) {
        SCOPED_TRACE("n = " + std::to_string(n));
        const std::vector<HostTensor> inputs = inputs_for(*g, n);
        const auto expected = run(*reference, inputs);
        ASSERT_TRUE(expected.ok()) << "host: " << expected.status().message();
        const auto actual = run(*session, inputs);
        ASSERT_TRUE(actual.ok()) << actual.status().message();
        ASSERT_EQ(actual->size(), expected->size());
        for (size_t i = 0; i < actual->size(); ++i) {
          expect_equal((*expected)[i], (*actual)[i], g->output_name(i));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
};

TEST_P(Empty, Static) {
  expect_agreement(with_zero(GetParam().text), {0});
}

TEST_P(Empty, Dynamic) {
  if (with_zero(GetParam().text) == GetParam().text) return;  // no dim is n
  expect_agreement(GetParam().text, {0, 4, 0});
}

TEST(EmptyCases, EveryOperatorHasOne) {
  std::set<std::string> named;
  for (const Case& c : read_cases()) named.insert(c.op());
  for (const ops::OpDef* def : ops::all()) {
    // Rows of the scalar table that only decompositions use, and operators that nothing runs yet.
    const bool internal = def->row && def->decompose == nullptr;
    const bool body = def->min_inputs == 0 && def->max_outputs == ops::kVariadic;
    // Only with a state that grows (tests/states).
    const bool of_state = def->is_memory || def->name == "StateAppend";
    if (internal || body || of_state) continue;
    EXPECT_TRUE(named.count(std::string(def->name)) != 0) << def->name << " has no case";
    named.erase(std::string(def->name));
  }
  EXPECT_TRUE(named.empty()) << *named.begin() << " is not an operator";
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Operators, Empty, testing::ValuesIn(read_cases()), name_of_case);

}  // namespace
}  // namespace reprise
