// Kernels that are verified in every build: Builder::finish() does it in Debug builds only.
#pragma once

#include "codegen/kernel/build/builder.h"

namespace reprise::kernel {

inline Result<Kernel> verified(Builder& b) {
  RP_ASSIGN(Kernel k, b.finish());
  RP_TRY(verify(k));
  return k;
}

}  // namespace reprise::kernel
