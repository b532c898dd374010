#include <array>
#include <sstream>
#include <vector>

#include "tests/bytes/mutators.h"

namespace reprise::test {

int64_t edge_number(Random& random) {
  static constexpr std::array<int64_t, 8> kSmall{0, 1, -1, 2, 3, 7, 10, 255};
  if (random() % 2 == 0) return kSmall[below(random, kSmall.size())];
  const int64_t power = int64_t{1} << below(random, 63);
  const int64_t near = power + static_cast<int64_t>(below(random, 3)) - 1;
  return random() % 2 == 0 ? near : -near;
}

std::string mutate_bytes(const std::string& bytes, Random& random) {
  std::string out = bytes;
  for (size_t changes = 1 + below(random, 4); changes > 0; --changes) {
    const size_t at = below(random, out.size() + 1);
    const size_t size = below(random, 9);
    switch (random() % 4) {
      case 0:
        if (at < out.size()) out[at] = static_cast<char>(random());
        break;
      case 1:
        out.erase(at, size);
        break;
      case 2:
        out.insert(at, out.substr(below(random, out.size() + 1), size));
        break;
      default:
        if (at < out.size()) out[at] = static_cast<char>(out[at] ^ (1 << below(random, 8)));
        break;
    }
  }
  return out;
}

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool is_word(char c) {
  return (std::isalnum(static_cast<unsigned char>(c)) != 0) || c == '_';
}

/// Begin and end of the words and numbers of a text.
std::vector<std::pair<size_t, size_t>> words_of(const std::string& text) {
  std::vector<std::pair<size_t, size_t>> words;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && is_word(text[end])) ++end;
    if (end > i) words.emplace_back(i, end);
    i = end + 1;
  }
  return words;
}

std::string change_word(const std::string& text, Random& random) {
  const auto words = words_of(text);
  if (words.empty()) return mutate_bytes(text, random);
  const auto [begin, end] = words[below(random, words.size())];
  const auto [from, to] = words[below(random, words.size())];
  const bool number = std::isdigit(static_cast<unsigned char>(text[begin])) != 0;
  const std::string word = number && random() % 2 == 0 ? std::to_string(edge_number(random))
                                                       : text.substr(from, to - from);
  return text.substr(0, begin) + word + text.substr(end);
}

std::string change_line(const std::string& text, Random& random) {
  std::vector<std::string> lines = lines_of(text);
  if (lines.empty()) return mutate_bytes(text, random);
  const size_t at = below(random, lines.size());
  switch (random() % 3) {
    case 0:
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1:
      lines.push_back(lines[at]);
      break;
    default:
      std::swap(lines[at], lines[below(random, lines.size())]);
      break;
  }
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

}  // namespace

std::string mutate_text(const std::string& text, Random& random) {
  switch (random() % 8) {
    case 0:
      return mutate_bytes(text, random);
    case 1:
    case 2:
      return change_line(text, random);
    default:
      return change_word(text, random);
  }
}

}  // namespace reprise::test
