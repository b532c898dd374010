// Kernels that apply one scalar row to every element, with inputs worth trying.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/kernel/ir/kernel.h"
#include "tests/emit/launch.h"

namespace reprise::test {

/// A row on operands of one type. The kernel reads buffer a per operand and writes the last buffer;
/// Bool lies in memory as U32.
struct RowKernel {
  kernel::ScalarOp op{};
  kernel::Ty type{};
  kernel::Kernel kernel;
  int32_t value = -1;  // the instruction that is the row; -1 when expanded
  Launch launch;
  size_t count = 0;  // elements that the launch computes
};

/// The storage type of operand n, and of the result.
kernel::Ty operand_storage(const RowKernel& k, size_t n);
kernel::Ty result_storage(const RowKernel& k);

/// Every row on every type that both emitters print without expansion.
const std::vector<RowKernel>& native_row_kernels();

/// Every row on F32, I32, U32 and Bool, after kernel::expand.
const std::vector<RowKernel>& expanded_row_kernels();
/// Rows of F32 as exact targets have them (kernel::LegalizeFor::exact).
const std::vector<RowKernel>& exact_row_kernels();

/// The row's result for element n, by codegen/kernel/scalar_eval: as memory holds it. A row that
/// leaves a choice (MinNum with NaN, Fma fused or not) has several.
std::vector<uint64_t> row_results(const RowKernel& k, size_t n);

/// The first element that is none of the row's results; empty when all are.
std::string wrong_element(const RowKernel& k, const Launch& got);

}  // namespace reprise::test
