// One package of a model with dynamic dims, run with several sizes: on every Vulkan device and on
// the host, which is the reference. Graphs are tests/sizes/*.txt; the first line gives the sizes of
// each run ("// n=1 m=5 | n=5 m=5"), or "n=2 m=3: part of a message" for one that is to be refused.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <sstream>

#include "backends/registry.h"
#include "codegen/compile/compiler.h"
#include "codegen/graph/graph.h"
#include "runtime/session/session.h"
#include "tests/support/paths.h"
#include "tests/support/text_cases.h"

namespace reprise {
namespace {

struct Sizes {
  std::map<std::string, int64_t> dims;
  std::string refusal;  // part of the message; empty: the run succeeds
};

std::vector<Sizes> sizes_of(const std::string& heading) {
  std::vector<Sizes> out;
  std::istringstream runs(heading);
  for (std::string run; std::getline(runs, run, '|');) {
    Sizes s;
    const size_t colon = run.find(": ");
    if (colon != std::string::npos)
      s.refusal = run.substr(colon + 2, run.find_last_not_of(' ') - colon - 1);
    std::istringstream words(run.substr(0, colon));
    for (std::string word; words >> word;) {
      const size_t eq = word.find('=');
      s.dims[word.substr(0, eq)] = std::stoll(word.substr(eq + 1));
    }
    out.push_back(std::move(s));
  }
  return out;
}

/// Whole numbers, many of them 0, so that sums are exact and NonZero finds some.
HostTensor tensor_of(const graph::Graph& g, size_t input, const Sizes& sizes, std::mt19937& rng) {
  const graph::ValueId v = g.inputs[input];
  std::vector<int64_t> symbols(g.symbols.size(), 0);
  for (size_t s = 0; s < symbols.size(); ++s) {
    const auto it = sizes.dims.find(g.symbols[s].name);
    if (it != sizes.dims.end()) symbols[s] = it->second;
  }
  std::vector<int64_t> dims;
  for (const Expr& e : g.value(v).shape) dims.push_back(*e.eval(symbols));
  // Inference may have put another symbol in a dim's place.
  for (size_t s = 0; s < symbols.size(); ++s) {
    const SymbolSource& source = g.symbol_sources[s];
    const bool here =
        source.kind == SymbolSource::Kind::InputDim && source.index == static_cast<int32_t>(input);
    if (here) dims[static_cast<size_t>(source.axis)] = symbols[s];
  }
  HostTensor t(g.value(v).dtype, dims);
  std::uniform_int_distribution<int> whole(-2, 2);
  for (int64_t i = 0; i < t.count(); ++i) {
    if (t.dtype() == DType::F32) {
      t.mutable_data<float>()[i] = static_cast<float>(whole(rng));
    } else if (t.dtype() == DType::I64) {
      t.mutable_data<int64_t>()[i] = std::abs(whole(rng));
    } else {
      ADD_FAILURE() << "no values for " << name_of(t.dtype());
    }
  }
  return t;
}

class DynamicSizes : public testing::TestWithParam<test::TextCase> {
 protected:
  static std::unique_ptr<Session> session_on(const std::shared_ptr<package::Package>& package,
                                             const std::shared_ptr<Device>& device) {
    auto session = Session::create(package, device);
    EXPECT_TRUE(session.ok()) << session.status().message();
    return session.ok() ? std::move(*session) : nullptr;
  }

  static void expect_same(const HostTensor& a, const HostTensor& b, const std::string& what) {
    ASSERT_EQ(describe(a.dtype(), a.dims()), describe(b.dtype(), b.dims())) << what;
    if (a.dtype() != DType::F32) {
      EXPECT_TRUE(std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin())) << what;
      return;
    }
    for (int64_t i = 0; i < a.count(); ++i)
      ASSERT_NEAR(a.data<float>()[i], b.data<float>()[i], 1e-4) << what << " element " << i;
  }
};

TEST_P(DynamicSizes, DevicesAgreeWithTheHost) {
  auto model = graph::parse(GetParam().source);
  ASSERT_TRUE(model.ok()) << model.status().message();
  const graph::Graph& g = **model;
  CompileOptions options;
  options.targets = {"vulkan"};
  auto compiled = compile(g.clone(), options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  const auto package = std::make_shared<package::Package>(std::move(*compiled));
  const auto host = session_on(package, nullptr);
  ASSERT_TRUE(host);
  std::vector<std::unique_ptr<Session>> sessions;
  for (const DeviceInfo& info : list_devices()) {
    if (!info.usable || info.facts.api != Api::Vulkan) continue;
    auto opened = open_device(info.id);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    sessions.push_back(session_on(package, opened->device));
    ASSERT_TRUE(sessions.back());
  }
  std::mt19937 rng(5);
  size_t number = 0;
  for (const Sizes& sizes : sizes_of(GetParam().heading)) {
    const std::string what = "run " + std::to_string(number++);
    std::vector<HostTensor> inputs;
    std::vector<Binding> bindings(g.inputs.size());
    for (size_t i = 0; i < g.inputs.size(); ++i) inputs.push_back(tensor_of(g, i, sizes, rng));
    for (size_t i = 0; i < inputs.size(); ++i) {
      bindings[i].name = g.value(g.inputs[i]).name;
      bindings[i].host = &inputs[i];
    }
    const auto expected = host->run(bindings);
    ASSERT_EQ(expected.ok(), sizes.refusal.empty()) << what << ": " << expected.status().message();
    for (const auto& session : sessions) {
      const std::string where = what + " on " + session->variant();
      const auto found = session->run(bindings);
      ASSERT_EQ(found.ok(), expected.ok()) << where << ": " << found.status().message();
      if (!found.ok()) {
        EXPECT_NE(found.status().message().find(sizes.refusal), std::string::npos)
            << where << ": " << found.status().message();
        EXPECT_EQ(found.status().code(), Code::InvalidInput) << where;
        continue;
      }
      for (size_t o = 0; o < expected->size(); ++o)
        expect_same((*expected)[o], (*found)[o], where + " output " + std::to_string(o));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Graphs, DynamicSizes,
                         testing::ValuesIn(test::text_cases(test::source_dir() / "tests/sizes")),
                         [](const auto& c) { return c.param.file.stem().string(); });

}  // namespace
}  // namespace reprise
