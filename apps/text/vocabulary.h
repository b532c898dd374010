// The tokens of a model and their ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/base/status.h"

namespace reprise::text {

class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  /// Ids may have gaps, within a bound. If two ids have one spelling, the later call counts.
  Status add(std::string_view token, int64_t id);
  std::optional<int32_t> find(std::string_view token) const {
    const auto at = ids_.find(token);
    return at == ids_.end() ? std::nullopt : std::optional<int32_t>(at->second);
  }
  bool has(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) < tokens_.size() && there_[static_cast<size_t>(id)];
  }
  std::string_view token(int32_t id) const {
    return has(id) ? std::string_view(tokens_[static_cast<size_t>(id)]) : std::string_view();
  }
  size_t size() const { return tokens_.size(); }
  /// Bytes of the longest token.
  size_t longest() const { return longest_; }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::vector<std::string> tokens_;
  std::vector<bool> there_;
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> ids_;
  size_t longest_ = 0;
};

/// The ids of the tokens "<0x00>" to "<0xFF>"; -1 for those that are not there.
std::vector<int32_t> byte_tokens(const Vocabulary& vocabulary);
/// The byte that such a token stands for, or -1.
int byte_of_token(std::string_view token);

}  // namespace reprise::text
