// Upper and lower case of Unicode text, whatever the locale of the process.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::host {

enum class LetterCase { Upper, Lower };

/// The counterpart of a code point, or itself.
uint32_t code_with_case(uint32_t code, LetterCase to);
/// The code points that are equal when case is ignored (simple case folding), of which `code` is
/// one. Unused elements repeat others.
using CaseVariants = std::array<uint32_t, 4>;
CaseVariants case_variants(uint32_t code);
/// UTF-8 in which every letter that has a counterpart of one code point in that case is replaced by
/// it. Bytes that are not valid UTF-8 stay as they are.
std::string with_case(std::string_view text, LetterCase to);

}  // namespace reprise::host
