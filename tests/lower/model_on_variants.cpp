#include "tests/lower/model_on_variants.h"

#include <gtest/gtest.h>

#include "backends/registry.h"
#include "codegen/compile/compiler.h"
#include "codegen/compile/targets.h"
#include "codegen/graph/text/text.h"
#include "codegen/lower/fuse/fuse.h"
#include "codegen/lower/lower.h"
#include "codegen/passes/pass.h"
#include "runtime/session/session.h"
#include "tests/support/kernel_runner.h"

namespace reprise::test {

void ModelOnVariants::load(const std::string& text, std::vector<HostTensor> inputs) {
  auto model = graph::parse(text);
  ASSERT_TRUE(model.ok()) << model.status().message() << "\n" << text;
  model_ = std::move(*model);
  inputs_ = std::move(inputs);
  expected_ = run({}, nullptr);
  ASSERT_EQ(expected_.size(), model_->outputs.size());
}

std::vector<HostTensor> ModelOnVariants::run(const std::vector<std::string>& targets,
                                             const std::shared_ptr<Device>& device) const {
  CompileOptions options;
  options.targets = targets;
  options.fullgraph = fullgraph_ && !targets.empty();
  auto package = compile(model_->clone(), options);
  EXPECT_TRUE(package.ok()) << package.status().message();
  if (!package.ok()) return {};
  auto session = Session::create(std::make_shared<package::Package>(std::move(*package)), device);
  EXPECT_TRUE(session.ok()) << session.status().message();
  if (!session.ok()) return {};
  std::vector<Binding> bindings(inputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    bindings[i].name = model_->value(model_->inputs[i]).name;
    bindings[i].host = &inputs_[i];
  }
  auto outputs = (*session)->run(bindings);
  EXPECT_TRUE(outputs.ok()) << outputs.status().message();
  return outputs.ok() ? std::move(*outputs) : std::vector<HostTensor>{};
}

void ModelOnVariants::interpret_every_variant() {
  auto g = model_->clone();
  for (const passes::Pass& p : passes::pipeline()) ASSERT_TRUE(passes::run(p, *g).ok()) << p.name;
  auto fusion = lower::fuse(*g);
  ASSERT_TRUE(fusion.ok()) << fusion.status().message();
  for (const lower::Target& target : vulkan_targets()) {
    KernelRunner runner(*g, {}, inputs_);
    for (const lower::Group& group : fusion->groups) {
      auto l = lower::lower(*g, group, target);
      ASSERT_TRUE(l.ok()) << l.status().message();
      ASSERT_TRUE(legalize_for(*l, target).ok());
      const Status s = runner.run(*l, interpret);
      ASSERT_TRUE(s.ok()) << s.message();
    }
    for (size_t i = 0; i < g->outputs.size(); ++i) {
      compare(i, runner.memory_of(g->outputs[i]), target.name);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

void ModelOnVariants::run_on_devices() {
  bool any = false;
  for (const DeviceInfo& info : list_devices()) {
    if (!info.usable || info.facts.api != Api::Vulkan) continue;
    any = true;
    auto opened = open_device(info.id);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    const std::vector<HostTensor> outputs = run({"vulkan"}, opened->device);
    ASSERT_EQ(outputs.size(), expected_.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      compare(i, outputs[i].bytes(), info.name);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  if (!any) GTEST_SKIP() << "no Vulkan device";
}

}  // namespace reprise::test
