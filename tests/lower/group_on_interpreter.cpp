#include "tests/lower/group_on_interpreter.h"

#include <gtest/gtest.h>

#include <cstring>

#include "codegen/compile/compiler.h"
#include "codegen/graph/text/text.h"
#include "codegen/lower/fuse/fuse.h"
#include "codegen/passes/pass.h"
#include "runtime/session/session.h"
#include "tests/support/kernel_runner.h"

namespace reprise::test {
namespace {

HostTensor small_numbers(DType t, const std::vector<int64_t>& dims, uint64_t step) {
  HostTensor x(t, dims);
  for (int64_t i = 0; i < x.count(); ++i) {
    const auto v = static_cast<int>(static_cast<uint64_t>(i) * step % 5) - (t == DType::U8 ? 0 : 2);
    const auto f = static_cast<float>(v);
    if (t == DType::U8) x.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(v);
    if (t == DType::F16) x.mutable_data<uint16_t>()[i] = float_to_f16(f);
    if (t == DType::BF16) x.mutable_data<uint16_t>()[i] = float_to_bf16(f);
  }
  return x;
}

}  // namespace

GroupOnInterpreter::GroupOnInterpreter(const std::string& text, DType t) {
  auto parsed = graph::parse(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  if (!parsed.ok()) return;
  g_ = std::move(*parsed);
  for (size_t i = 0; i < g_->inputs.size(); ++i)
    inputs_.push_back(small_numbers(t, dims_of(g_->value(g_->inputs[i]).shape, {}), i + 2));
  run_on_host();
  for (const passes::Pass& p : passes::pipeline()) EXPECT_TRUE(passes::run(p, *g_).ok());
}

size_t GroupOnInterpreter::run(const lower::Target& target, const std::string& schedule,
                               const std::function<void(const lower::Lowered&)>& see) {
  const auto fusion = lower::fuse(*g_, {.device = target.predicate});
  EXPECT_TRUE(fusion.ok() && fusion->groups.size() == 1);
  if (!fusion.ok()) return 0;
  const lower::Group& group = fusion->groups[0];
  const auto first = lower::lower(*g_, group, target);
  EXPECT_TRUE(first.ok()) << first.status().message();
  if (!first.ok()) return 0;
  size_t found = 0;
  for (size_t c = 0; c < first->choices.size(); ++c) {
    if (!first->choices[c].schedule.starts_with(schedule)) continue;
    auto l = lower::lower(*g_, group, target, c);
    EXPECT_TRUE(l.ok()) << l.status().message();
    if (!l.ok() || l->launches.size() > 1) continue;
    const Status s = legalize_for(*l, target);
    EXPECT_TRUE(s.ok()) << s.message();
    ++found;
    see(*l);
    run_on_interpreter(*l, first->choices[c].schedule);
  }
  EXPECT_GT(found, 0U) << "no " << schedule;
  return found;
}

void GroupOnInterpreter::run_on_interpreter(const lower::Lowered& l, const std::string& schedule) {
  KernelRunner runner(*g_, {}, inputs_);
  const Status ran = runner.run(l, interpret);
  EXPECT_TRUE(ran.ok()) << schedule << ": " << ran.message();
  const std::vector<std::byte>& got = runner.memory_of(g_->outputs[0]);
  EXPECT_EQ(std::memcmp(got.data(), expected_.bytes().data(), expected_.bytes().size()), 0)
      << schedule;
}

void GroupOnInterpreter::run_on_host() {
  CompileOptions options;
  options.targets = {};
  auto package = compile(g_->clone(), options);
  ASSERT_TRUE(package.ok()) << package.status().message();
  auto session = Session::create(std::make_shared<package::Package>(std::move(*package)), nullptr);
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<Binding> bindings;
  for (size_t i = 0; i < inputs_.size(); ++i)
    bindings.push_back({.name = g_->value(g_->inputs[i]).name, .host = &inputs_[i]});
  auto outputs = (*session)->run(bindings);
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  expected_ = std::move((*outputs)[0]);
}

}  // namespace reprise::test
