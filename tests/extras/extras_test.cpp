// libreprise_extras, opened by a program that is not linked with its kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "runtime/base/host_memory.h"
#include "runtime/host/host_kernels.h"

namespace reprise {
namespace {

HostTensor words(std::vector<std::string> values) {
  HostTensor t(DType::String, {static_cast<int64_t>(values.size())});
  t.mutable_strings() = std::move(values);
  return t;
}

std::vector<uint8_t> matches(const HostTensor& x, const char* pattern, bool prepare) {
  AttrMap attrs;
  attrs.set("pattern", std::string(pattern));
  const HostTensor* const inputs[] = {&x};
  host::Call call{.op = "RegexFullMatch", .attrs = attrs, .inputs = inputs};
  if (prepare) {
    auto prepared = host::prepare(call);
    EXPECT_TRUE(prepared.ok() && *prepared);
    call.prepared = *prepared;
  }
  const auto results = host::find(call.op)(call);
  EXPECT_TRUE(results.ok()) << results.status().message();
  const HostTensor& y = results->front();
  return {y.data<uint8_t>(), y.data<uint8_t>() + y.count()};
}

TEST(Extras, AreOpenedWhereTheyAreNeeded) {
  ASSERT_NE(host::find("RegexFullMatch"), nullptr) << host::require("RegexFullMatch").message();
  EXPECT_TRUE(host::require("TreeEnsemble").ok());
  EXPECT_TRUE(host::can_prepare("TreeEnsemble"));
  EXPECT_FALSE(host::can_prepare("SequenceAt"));
  const auto names = host::names();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(std::count(names.begin(), names.end(), "SequenceAt"), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "MatMul"), 1);
}

TEST(Extras, AnUnknownOperatorIsInNeither) {
  EXPECT_EQ(host::find("NoSuchOperator"), nullptr);
  const Status s = host::require("NoSuchOperator");
  EXPECT_EQ(s.code(), Code::Unsupported);
  EXPECT_EQ(s.message(), "it has no host kernel; replace the operator in the model");
}

TEST(Extras, ObjectsPassBetweenTheLibraries) {
  const HostTensor x = words({"ab", "a", "abb", std::string(100, 'b')});
  for (const bool prepare : {false, true})
    EXPECT_EQ(matches(x, "a?b+", prepare), (std::vector<uint8_t>{1, 0, 1, 1})) << prepare;
}

TEST(Extras, AnErrorPasses) {
  const HostTensor x(DType::F32, {1});
  const AttrMap attrs;
  const HostTensor* const inputs[] = {&x};
  const auto results =
      host::find("RegexFullMatch")({.op = "RegexFullMatch", .attrs = attrs, .inputs = inputs});
  ASSERT_FALSE(results.ok());
  EXPECT_NE(results.status().message().find("float32"), std::string::npos)
      << results.status().message();
}

/// The library has a HostMemoryScope of its own, which must be that of the caller.
TEST(Extras, TensorsAreInTheMemoryOfTheApplication) {
  static std::atomic<int> held = 0, made = 0;
  const HostMemoryPtr memory = std::make_shared<const HostMemory>(
      HostMemory{[](size_t bytes, size_t) {
                   ++held, ++made;
                   return std::malloc(bytes);  // NOLINT(cppcoreguidelines-no-malloc)
                 },
                 [](void* p, size_t) {
                   --held;
                   std::free(p);  // NOLINT(cppcoreguidelines-no-malloc)
                 }});
  const HostTensor x = words({"b"});
  {
    const HostMemoryScope scope(memory);
    EXPECT_EQ(matches(x, "b", false), std::vector<uint8_t>{1});
  }
  EXPECT_GT(made, 0);
  EXPECT_EQ(held, 0);
}

}  // namespace
}  // namespace reprise
