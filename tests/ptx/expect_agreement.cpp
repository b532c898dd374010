#include "tests/emit/expect_agreement.h"

#include "tests/ptx/needs.h"
#include "tests/ptx/ptx_module.h"

namespace reprise::test {

void expect_agreement(const std::vector<Case>& cases) {
  REPRISE_NEEDS_PTX();
  std::vector<kernel::Kernel> kernels;
  std::vector<const Case*> ran;
  for (const Case& c : cases) {
    if (!c.cuda) continue;
    ran.push_back(&c);
    kernels.push_back(c.kernel);
    kernels.back().name += "_" + std::to_string(kernels.size());
  }
  const auto module = PtxModule::load(kernels);
  ASSERT_TRUE(module.ok()) << module.status().message();
  for (size_t n = 0; n < ran.size(); ++n) {
    const Case& c = *ran[n];
    const auto expected = interpret(c.kernel, c.launch, 32);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    Launch got = c.launch;
    const Status s = module->run(kernels[n], got);
    EXPECT_TRUE(s.ok()) << s.message();
    if (!s.ok()) continue;
    EXPECT_EQ(difference(c.kernel, *expected, got, c.tolerance), "") << c.kernel.name;
  }
}

}  // namespace reprise::test
