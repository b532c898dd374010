// The words of PTX text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace reprise::test::ptx {

struct Token {
  std::string text;  // a name with its dots, a number, a string with quotes, or one character
  uint32_t line = 0;
  bool is(std::string_view s) const { return text == s; }
};

std::vector<Token> tokens(std::string_view text);

Status fault(uint32_t line, const std::string& what);

/// A number as bits: 12, -3, 0x1F, 0f3F800000 (fp32), 0d3FF0000000000000 (fp64). False if it is
/// none.
bool number(std::string_view text, uint64_t& bits);

}  // namespace reprise::test::ptx
