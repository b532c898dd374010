// Products by cooperative matrices of the shapes and subgroups that drivers report, with ragged
// sizes, an epilogue, and operands along either dimension.
#include <gtest/gtest.h>

#include <regex>

#include "codegen/compile/targets.h"
#include "codegen/emit/cuda/cuda.h"
#include "codegen/emit/spirv/spirv.h"
#include "tests/lower/group_on_interpreter.h"

namespace reprise {
namespace {

constexpr const char* kSchedule = "cooperative matrix tile";

/// What devices with such matrices are, otherwise like those of vulkan-matrix.
lower::Target target_of(const MmaConfig& matrix, uint32_t subgroup) {
  const auto found = parse_targets({"vulkan-matrix"});
  EXPECT_TRUE(found.ok()) << found.status().message();
  lower::Target t = found.ok() ? found->front() : lower::Target{};
  t.predicate.matrices = {matrix};
  t.predicate.subgroup_size = subgroup;
  t.predicate.shared_bytes = 48U << 10U;
  return t;
}

struct MatrixShape {
  uint32_t m, n, k, subgroup;
  uint32_t workgroup = 0;  // that holds matrices together; 0: subgroups do
};

class MatrixShapes : public testing::TestWithParam<MatrixShape> {};

TEST_P(MatrixShapes, ComputeWhatTheHostDoes) {
  const MatrixShape s = GetParam();
  const std::string rows =
      "graph g\ninput a: float16[70,72]\ninput b: float16[72,52]\n"
      "p = MatMul(a, b) @13\ny = Relu(p) @14\noutput y\n";
  const std::string columns =
      "graph g\ninput a: float16[33,40]\ninput c: float16[84,40]\n"
      "b = Transpose<perm=[1, 0]>(c) @13\ny = MatMul(a, b) @13\noutput y\n";
  for (const std::string& text : {rows, columns}) {
    for (const bool bfloats : {false, true}) {
      SCOPED_TRACE(text + (bfloats ? " in bf16" : ""));
      const MmaConfig matrix{s.m,
                             s.n,
                             s.k,
                             bfloats ? kBfloatMma : kHalfMma,
                             s.workgroup == 0 ? MmaScope::Subgroup : MmaScope::Workgroup,
                             s.workgroup};
      test::GroupOnInterpreter model(
          bfloats ? std::regex_replace(text, std::regex("float16"), "bfloat16") : text,
          bfloats ? DType::BF16 : DType::F16);
      model.run(target_of(matrix, s.subgroup), kSchedule, [&](const lower::Lowered& l) {
        const kernel::Kernel& k = l.launches[0].kernel;
        const kernel::Requirements need = kernel::requirements(k);
        EXPECT_EQ(need.matrix, matrix);
        EXPECT_EQ(need.subgroup_size, s.subgroup);
        EXPECT_TRUE(emit::spirv(k, {}).ok());
        // CUDA has 16x16x16 alone, and says so of others.
        const bool on_cuda = s.subgroup == 32 && s.m == 16 && s.n == 16 && s.workgroup == 0;
        const auto cuda = emit::cuda(k);
        EXPECT_EQ(cuda.ok(), on_cuda) << cuda.status().message();
      });
    }
  }
}

std::string shape_name(const testing::TestParamInfo<MatrixShape>& info) {
  const MatrixShape& s = info.param;
  return std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k) + "of" +
         std::to_string(s.subgroup) + (s.workgroup == 0 ? "" : "of" + std::to_string(s.workgroup));
}

// NVIDIA and AMD, AMD with large subgroups, Intel since Xe2, Intel before, lavapipe, NVIDIA's other
// shapes, and matrices of workgroups.
INSTANTIATE_TEST_SUITE_P(Devices, MatrixShapes,
                         testing::Values(MatrixShape{16, 16, 16, 32}, MatrixShape{16, 16, 16, 64},
                                         MatrixShape{8, 16, 16, 16}, MatrixShape{8, 8, 16, 8},
                                         MatrixShape{8, 8, 8, 8}, MatrixShape{16, 8, 16, 32},
                                         MatrixShape{16, 8, 8, 32},
                                         MatrixShape{32, 128, 16, 32, 256},
                                         MatrixShape{32, 64, 32, 32, 128}),
                         shape_name);

}  // namespace
}  // namespace reprise
