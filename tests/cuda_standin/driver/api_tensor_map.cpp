#include "tests/cuda_shim/tensor_map.h"
#include "tests/cuda_standin/driver/api.h"

using namespace reprise::cuda;
using namespace reprise::standin;

// NOLINTNEXTLINE(readability-function-size): the driver's own parameters
REPRISE_STANDIN_API cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type,
                                           uint32_t rank, void* address, const uint64_t* dims,
                                           const uint64_t* strides, const uint32_t* box,
                                           const uint32_t* steps, CUtensorMapInterleave interleave,
                                           CUtensorMapSwizzle swizzle,
                                           CUtensorMapL2promotion l2_promotion,
                                           CUtensorMapFloatOOBfill fill) {
  return enter(Symbol::cuTensorMapEncodeTiled, Needs::Context, [&](Call& call) {
    const std::string wrong = reprise::test::encode_tensor_map(
        map, {type, rank, reinterpret_cast<uintptr_t>(address), dims, strides, box, steps,
              interleave, swizzle, l2_promotion, fill});
    if (wrong.empty()) return CUDA_SUCCESS;
    call.d.log.line("refused: cuTensorMapEncodeTiled: " + wrong);
    return CUDA_ERROR_INVALID_VALUE;
  });
}
