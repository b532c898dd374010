#include "api_support.h"

#include "capi/handles/handles.h"
#include "support.h"
#include "tests/support/buffer_ids.h"

namespace reprise::test {

reprise_package* sample_package() {
  auto p = std::make_shared<package::Package>(*chain(2, 0, true));
  plan::HostCall add;
  add.op = "Add";
  add.node = "add";
  add.inputs = test::buffers(0, 0);
  add.outputs = test::buffers(1);
  p->host_plan.buffers = {p->variants[0].plan.buffers[plan::BufferId(0)],
                          p->variants[0].plan.buffers[plan::BufferId(1)]};
  p->host_plan.steps.resize(1);
  p->host_plan.steps[0].what = add;
  return capi::make_handle(std::make_shared<reprise_package>(p));
}

reprise_package* package_of_kernels(int n) {
  PlanWriter w;
  plan::BufferId from = w.input("x", DType::F32, {Expr(3)});
  for (int k = 0; k < n; ++k) {
    const std::string name = "plus" + std::to_string(k);
    const plan::BufferId to = k + 1 < n ? w.arena("a" + std::to_string(k), DType::F32, {Expr(3)})
                                        : w.output("y", DType::F32, {Expr(3)});
    w.launch(w.kernel(affine_kernel(name, 1.0F, 1.0F)), {from, to}, {Expr(3)});
    from = to;
  }
  return capi::make_handle(std::make_shared<reprise_package>(w.package()));
}

std::vector<std::string> session_devices() {
  auto ids = device_ids();
  ids.emplace_back("host");
  return ids;
}

std::string as_test_name(std::string id) {
  return id_as_name({std::move(id), 0});
}

TEST(ApiText, LongMessagesAreCutBetweenCharacters) {
  std::array<char, 8> text{};
  capi::copy_text(text.data(), text.size(), "abcdef\xc3\xa9\xc3\xa9");
  EXPECT_STREQ(text.data(), "abcdef");
  capi::copy_text(text.data(), text.size(), "abc");
  EXPECT_STREQ(text.data(), "abc");
}

}  // namespace reprise::test
