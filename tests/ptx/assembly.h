// Modules of PTX by hand, for tests of the executor itself.
#pragma once

#include <string>
#include <vector>

#include "tests/ptx/machine/workgroup.h"

namespace reprise::test {

/// When copies may land.
inline constexpr ptx::Completion kOrders[] = {ptx::Completion::Early, ptx::Completion::Late,
                                              ptx::Completion::Random};

/// An entry "k" of 64-bit pointers. The body has their values in %in and %out, and may use %r0 to
/// %r63 (b32), %q0 to %q15 (b64), %h0 to %h15 (b16), %f0 to %f31, %p0 to %p7.
std::string assembly(const std::string& body, const std::string& declarations = "");

/// Runs it with one workgroup of so many threads; `out` is read and written.
Status run_assembly(const std::string& text, uint32_t threads, const std::vector<uint32_t>& in,
                    std::vector<uint32_t>& out, const ptx::Options& options = {});

}  // namespace reprise::test
