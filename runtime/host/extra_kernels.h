// The interface of libreprise_extras, which has the kernels of operators that few models need:
// strings, ai.onnx.ml, sequences, and rare layers. A program has them if it is linked with the
// static library; others open the shared one when a package needs it. Both sides are from one
// build, so that C++ objects pass between them.
#pragma once

#include "runtime/base/host_memory.h"
#include "runtime/host/kernel_set.h"

namespace reprise::host {

struct ExtraKernels {
  const KernelSet* kernels;
  // As those of the set, with elements of tensors in `memory`: the library may have a
  // HostMemoryScope of its own.
  KernelResult (*run)(const Call& c, const HostMemoryPtr& memory);
  PrepareResult (*prepare)(const Call& c, const HostMemoryPtr& memory);
};

/// Makes the kernels known that are linked with the program.
void link_extras(const ExtraKernels& extras);

/// The function of the shared library. Returns null if `build` is not its REPRISE_HOST_BUILD.
using ExtraKernelsFunction = const ExtraKernels* (*)(const char* build);

}  // namespace reprise::host

extern "C" const reprise::host::ExtraKernels* reprise_extra_kernels(const char* build);
