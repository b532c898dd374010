#include "apps/text/vocabulary.h"

#include <algorithm>

#include "codegen/formats/quoted.h"

namespace reprise::text {

namespace {

constexpr int64_t kMostIds = int64_t{1} << 23;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

Status Vocabulary::add(std::string_view token, int64_t id) {
  if (id < 0 || id >= kMostIds) {
    return invalid_model("token " + formats::quoted(token) + " has id " + std::to_string(id) +
                         ", but ids are from 0 to " + std::to_string(kMostIds - 1));
  }
  const auto index = static_cast<size_t>(id);
  if (index >= tokens_.size()) {
    tokens_.resize(index + 1);
    there_.resize(index + 1);
  }
  tokens_[index] = token;
  there_[index] = true;
  ids_.insert_or_assign(std::string(token), static_cast<int32_t>(id));
  longest_ = std::max(longest_, token.size());
  return {};
}

int byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  const int high = hex_digit(token[3]), low = hex_digit(token[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

std::vector<int32_t> byte_tokens(const Vocabulary& vocabulary) {
  static constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::vector<int32_t> out;
  out.reserve(256);
  for (size_t b = 0; b < 256; ++b) {
    const auto id = vocabulary.find(std::string("<0x") + kDigits[b / 16] + kDigits[b % 16] + ">");
    out.push_back(id.value_or(-1));
  }
  return out;
}

}  // namespace reprise::text
