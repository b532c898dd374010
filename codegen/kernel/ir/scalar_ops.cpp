#include "codegen/kernel/ir/scalar_ops.h"

#include <array>
#include <cstddef>

namespace reprise::kernel {
namespace {

constexpr std::array kRows = {
#define SCALAR_OP(name, arity, operands, result, leaves, cost, sensitivity, expanded, ulp, abs, \
                  on_float, on_signed, on_unsigned, on_bool, cuda_float, ...)                   \
  ScalarRow{ScalarOp::name,                                                                     \
            #name,                                                                              \
            arity,                                                                              \
            operands,                                                                           \
            ResultKind::result,                                                                 \
            leaves,                                                                             \
            cost,                                                                               \
            Sensitivity::sensitivity,                                                           \
            expanded == 1,                                                                      \
            expanded == 1 && sizeof(cuda_float) > 1,                                            \
            ulp,                                                                                \
            abs},
#include "codegen/kernel/ir/scalar_ops.def"
#undef SCALAR_OP
};

}  // namespace

const ScalarRow& row(ScalarOp op) {
  return kRows[static_cast<size_t>(op)];
}

int scalar_op_count() {
  return static_cast<int>(kRows.size());
}

}  // namespace reprise::kernel
