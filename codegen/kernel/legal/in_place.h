// Kernels that replace the elements of a buffer instead of writing them to another one.
#pragma once

#include <cstddef>

#include "codegen/kernel/ir/kernel.h"

namespace reprise::kernel {

/// Whether the results stay the same if buffers `from`, which is only loaded, and `to`, which is
/// only stored, are the same memory: an invocation that loads an element of `from` stores that
/// element of `to` itself, and only later. The check is structural, so false may mean that it does
/// not know.
bool updates_in_place(const Kernel& k, size_t from, size_t to);

/// Makes `from` and `to` one buffer, in the place of `from`. Buffers after `to` move down by one.
void merge_buffers(Kernel& k, size_t from, size_t to);

}  // namespace reprise::kernel
