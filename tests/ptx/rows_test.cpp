// Every scalar row as PTX, against codegen/kernel/scalar_eval.
#include <gtest/gtest.h>

#include "tests/emit/row_kernels.h"
#include "tests/ptx/needs.h"
#include "tests/ptx/ptx_module.h"

namespace reprise::test {
namespace {

void expect_rows_agree(const std::vector<RowKernel>& rows) {
  REPRISE_NEEDS_PTX();
  std::vector<kernel::Kernel> kernels;
  for (const RowKernel& k : rows) {
    kernels.push_back(k.kernel);
    kernels.back().name += "_" + std::to_string(kernels.size());
  }
  const auto module = PtxModule::load(kernels);
  ASSERT_TRUE(module.ok()) << module.status().message();
  for (size_t n = 0; n < rows.size(); ++n) {
    Launch got = rows[n].launch;
    const Status s = module->run(kernels[n], got);
    EXPECT_TRUE(s.ok()) << s.message();
    if (!s.ok()) continue;
    EXPECT_EQ(wrong_element(rows[n], got), "");
  }
}

TEST(PtxRows, Native) {
  expect_rows_agree(native_row_kernels());
}

TEST(PtxRows, Expanded) {
  expect_rows_agree(expanded_row_kernels());
}

TEST(PtxRows, Exact) {
  expect_rows_agree(exact_row_kernels());
}

}  // namespace
}  // namespace reprise::test
