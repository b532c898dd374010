// Changes one operator in emitted code, as a wrong table row would.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::test {

/// Replaces the operator of the last instruction that computes something (not a conversion of the
/// result to an integer) by another that takes the same operands. False when there is none.
bool mutate_spirv(std::vector<uint32_t>& words);
/// The same in the statement that defines value `value`.
bool mutate_cuda(std::string& text, int32_t value);

}  // namespace reprise::test
