#include "runtime/host/text/regex_classes.h"

#include <algorithm>
#include <initializer_list>

namespace reprise::host {

namespace {

struct NamedClass {
  std::string_view name;
  std::initializer_list<Regex::Range> ranges;
};

}  // namespace

Ranges negation(Ranges ranges) {
  std::ranges::sort(ranges, {}, &Regex::Range::first);
  Ranges out;
  uint32_t next = 0;
  for (const Regex::Range& r : ranges) {
    if (r.first > next) out.push_back({next, r.first - 1});
    next = std::max(next, r.last + 1);
  }
  if (next <= kLastCode) out.push_back({next, kLastCode});
  return out;
}

Ranges with_case_variants(Ranges ranges) {
  const size_t given = ranges.size();
  for (size_t i = 0; i < given; ++i) {
    for (uint32_t c = ranges[i].first; c <= ranges[i].last; ++c) {
      for (const uint32_t other : case_variants(c)) {
        if (other != c) ranges.push_back({other, other});
      }
    }
  }
  return ranges;
}

std::optional<Ranges> posix_class(std::string_view name) {
  static const NamedClass kClasses[] = {{"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
                                        {"alpha", {{'A', 'Z'}, {'a', 'z'}}},
                                        {"ascii", {{0, 0x7f}}},
                                        {"blank", {{'\t', '\t'}, {' ', ' '}}},
                                        {"cntrl", {{0, 0x1f}, {0x7f, 0x7f}}},
                                        {"digit", {{'0', '9'}}},
                                        {"graph", {{'!', '~'}}},
                                        {"lower", {{'a', 'z'}}},
                                        {"print", {{' ', '~'}}},
                                        {"punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
                                        {"space", {{'\t', '\r'}, {' ', ' '}}},
                                        {"upper", {{'A', 'Z'}}},
                                        {"word", {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
                                        {"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}}};
  for (const NamedClass& c : kClasses)
    if (c.name == name) return Ranges(c.ranges);
  return std::nullopt;
}

std::optional<Ranges> perl_class(char letter) {
  switch (letter) {
    case 'd':
      return Ranges{{'0', '9'}};
    case 's':
      return Ranges{{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};
    case 'w':
      return posix_class("word");
    default:
      return std::nullopt;
  }
}

}  // namespace reprise::host
