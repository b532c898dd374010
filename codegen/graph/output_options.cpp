#include "codegen/graph/output_options.h"

#include <algorithm>
#include <charconv>

namespace reprise {

namespace {

constexpr int64_t kMostSampleWindow = 4096;
constexpr std::string_view kSampleHelp =
    "expected OUTPUT,KEY,...; the keys are window=N (penalties for the last N tokens), bias, mask, "
    "rows (numbers for each row), only (without the logits) and int32 (ids)";

bool read_window(std::string_view text, int64_t& out) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && rest == text.data() + text.size() && out > 0 &&
         out <= kMostSampleWindow;
}

bool read_sample_key(std::string_view key, SampleOption& o) {
  constexpr std::string_view kWindow = "window=";
  if (key.starts_with(kWindow)) return read_window(key.substr(kWindow.size()), o.window);
  bool* const flag = key == "bias"    ? &o.has_bias
                     : key == "mask"  ? &o.has_mask
                     : key == "rows"  ? &o.per_row
                     : key == "int32" ? &o.short_ids
                                      : nullptr;
  if (flag != nullptr) *flag = true;
  if (key == "only") o.keeps_logits = false;
  return flag != nullptr || key == "only";
}

}  // namespace

Result<std::vector<LastOption>> parse_last(const std::vector<std::string>& texts) {
  std::vector<LastOption> out;
  out.reserve(texts.size());
  for (const std::string& text : texts) {
    const size_t at = text.rfind('=');
    if (text.empty() || at == 0 || at + 1 == text.size())
      return Status(Code::Usage, "expected OUTPUT or OUTPUT=AXIS, found '" + text + "'");
    out.push_back({text.substr(0, at), at == std::string::npos ? "" : text.substr(at + 1)});
  }
  return out;
}

Result<SampleOption> parse_sample(std::string_view text) {
  SampleOption o;
  size_t begin = std::min(text.find(','), text.size());
  o.output = std::string(text.substr(0, begin));
  const auto refuse = [&](const std::string& why) {
    return Status(Code::Usage, "sampling from '" + std::string(text) + "': " + why + "; " +
                                   std::string(kSampleHelp));
  };
  if (o.output.empty()) return refuse("it names no output");
  while (begin < text.size()) {
    const size_t end = std::min(text.find(',', begin + 1), text.size());
    const std::string_view key = text.substr(begin + 1, end - begin - 1);
    if (!read_sample_key(key, o)) return refuse("'" + std::string(key) + "' is not understood");
    begin = end;
  }
  return o;
}

}  // namespace reprise
