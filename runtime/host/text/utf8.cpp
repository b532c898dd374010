#include "runtime/host/text/utf8.h"

namespace reprise::host {

CodePoint first_code_point(std::string_view text) {
  if (text.empty()) return {};
  const auto lead = static_cast<uint8_t>(text[0]);
  if (lead < 0x80) return {lead, 1};
  const size_t n = lead >= 0xf8 ? 0 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 0;
  if (n == 0 || text.size() < n) return {};
  uint32_t code = lead & (0x7fU >> n);
  for (size_t i = 1; i < n; ++i) {
    const auto next = static_cast<uint8_t>(text[i]);
    if ((next & 0xc0U) != 0x80) return {};
    code = code << 6U | (next & 0x3fU);
  }
  const uint32_t least = n == 2 ? 0x80 : n == 3 ? 0x800 : 0x10000;
  return code < least || code > 0x10ffff ? CodePoint{} : CodePoint{code, n};
}

void append_utf8(uint32_t code, std::string& to) {
  if (code < 0x80) {
    to += static_cast<char>(code);
    return;
  }
  const uint32_t more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  to += static_cast<char>((0xff00U >> (more + 1) & 0xffU) | code >> (6 * more));
  for (uint32_t i = more; i-- > 0;) to += static_cast<char>(0x80U | (code >> (6 * i) & 0x3fU));
}

}  // namespace reprise::host
