#include "apps/text/tokenizer.h"

namespace reprise::text {

namespace {

// Ids that may wait: more than four bytes are no beginning of a character.
constexpr size_t kMostWaiting = 16;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

// The decoder of a model may depend on what stands before a token, so the last ids are decoded
// together with the new one.
std::string StreamDecoder::add(int32_t id) {
  if ((skip_special_ && tokenizer_.is_special(id)) || tokenizer_.token(id).empty()) return {};
  ids_.push_back(id);
  const std::string text = tokenizer_.decode(ids_, skip_special_);
  const bool complete =
      !text.ends_with(kReplacement) && text.starts_with(prefix_) && text.size() > prefix_.size();
  const bool full = ids_.size() - returned_ > kMostWaiting && text.size() >= prefix_.size();
  if (!complete && !full) return {};
  std::string out = text.substr(prefix_.size());
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(returned_));
  returned_ = ids_.size();
  prefix_ = tokenizer_.decode(ids_, skip_special_);
  return out;
}

std::string StreamDecoder::finish() {
  const std::string text = tokenizer_.decode(ids_, skip_special_);
  std::string out = text.starts_with(prefix_) ? text.substr(prefix_.size()) : std::string();
  ids_.clear();
  returned_ = 0;
  prefix_.clear();
  return out;
}

}  // namespace reprise::text
