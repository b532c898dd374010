// Operators on strings: RegexFullMatch, StringConcat, StringNormalizer, StringSplit.
#include <algorithm>
#include <optional>
#include <set>

#include "runtime/host/support.h"
#include "runtime/host/tables.h"
#include "runtime/host/text/letter_case.h"
#include "runtime/host/text/regex.h"

namespace reprise::host {

namespace {

Status require_strings(const Call& c, size_t i, std::string_view role) {
  return input(c, i).dtype() == DType::String ? Status() : wrong_dtype(c, i, role, "string");
}

KernelResult string_concat(const Call& c) {
  RP_TRY(check_arity(c, 2, 2));
  RP_TRY(require_strings(c, 0, "X"));
  RP_TRY(require_strings(c, 1, "Y"));
  RP_ASSIGN(const Broadcast b, broadcast(c.inputs));
  RP_ASSIGN(HostTensor out, allocate(DType::String, b.dims));
  const auto x = input(c, 0).strings();
  const auto y = input(c, 1).strings();
  for_each_chunk(b, [&](int64_t start, int64_t n, std::span<const int64_t> offsets) {
    for (int64_t i = 0; i < n; ++i) {
      out.mutable_strings()[static_cast<size_t>(start + i)] =
          x[static_cast<size_t>(offsets[0] + i * b.strides[0].back())] +
          y[static_cast<size_t>(offsets[1] + i * b.strides[1].back())];
    }
  });
  return one(std::move(out));
}

// --- RegexFullMatch

struct Pattern : Prepared {
  Regex regex;
};

PrepareResult prepare_pattern(const Call& c) {
  const auto* pattern = c.attrs.get<std::string>("pattern");
  if (pattern == nullptr) return invalid_model("attribute 'pattern' is missing");
  auto state = std::make_shared<Pattern>();
  RP_ASSIGN(state->regex, Regex::parse(*pattern));
  return PrepareResult(std::move(state));
}

KernelResult regex_full_match(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  RP_TRY(require_strings(c, 0, "X"));
  RP_ASSIGN(const auto pattern, prepared<Pattern>(c, prepare_pattern));
  const HostTensor& x = input(c, 0);
  RP_ASSIGN(HostTensor y, allocate(DType::Bool, x.dims()));
  for (int64_t i = 0; i < x.count(); ++i) {
    const bool match = pattern->regex.matches(x.strings()[static_cast<size_t>(i)]);
    y.mutable_data<uint8_t>()[i] = match ? 1 : 0;
  }
  return one(std::move(y));
}

// --- StringSplit

constexpr std::string_view kWhitespace = " \t\n\v\f\r";

/// The parts between whitespace, none of which is empty. The last of `most` parts is the rest.
std::vector<std::string_view> split_at_whitespace(std::string_view text, size_t most) {
  std::vector<std::string_view> parts;
  const size_t end = text.find_last_not_of(kWhitespace) + 1;  // 0 if there is nothing else
  size_t at = std::min(text.find_first_not_of(kWhitespace), end);
  while (at < end) {
    const size_t stop =
        parts.size() + 1 == most ? end : std::min(text.find_first_of(kWhitespace, at), end);
    parts.push_back(text.substr(at, stop - at));
    at = std::min(text.find_first_not_of(kWhitespace, stop), end);
  }
  return parts;
}

/// The parts between delimiters. The last of `most` parts is the rest.
std::vector<std::string_view> split_at(std::string_view text, std::string_view delimiter,
                                       size_t most) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t stop = parts.size() + 1 == most ? std::string_view::npos : text.find(delimiter);
    parts.push_back(text.substr(0, stop));
    if (stop == std::string_view::npos) return parts;
    text.remove_prefix(stop + delimiter.size());
  }
}

KernelResult string_split(const Call& c) {
  RP_TRY(check_arity(c, 1, 1, 2));
  RP_TRY(require_strings(c, 0, "X"));
  const HostTensor& x = input(c, 0);
  const std::string delimiter = c.attrs.get_string("delimiter", "");
  // Parts are counted from 1, so that 0 stands for no limit.
  const auto* limit = c.attrs.get<int64_t>("maxsplit");
  if (limit != nullptr && *limit < 0) return invalid_model("attribute 'maxsplit' is negative");
  const size_t most = limit == nullptr ? 0 : static_cast<size_t>(*limit) + 1;
  std::vector<std::vector<std::string_view>> parts;
  size_t longest = 0;
  for (const std::string& text : x.strings()) {
    parts.push_back(delimiter.empty() ? split_at_whitespace(text, most)
                                      : split_at(text, delimiter, most));
    longest = std::max(longest, parts.back().size());
  }
  Dims dims = x.dims();
  dims.push_back(static_cast<int64_t>(longest));
  RP_ASSIGN(HostTensor y, allocate(DType::String, dims));
  RP_ASSIGN(HostTensor counts, allocate(DType::I64, x.dims()));
  for (size_t i = 0; i < parts.size(); ++i) {
    counts.mutable_data<int64_t>()[i] = static_cast<int64_t>(parts[i].size());
    for (size_t k = 0; k < parts[i].size(); ++k)
      y.mutable_strings()[i * longest + k] = std::string(parts[i][k]);
  }
  return Tensors{std::move(y), std::move(counts)};
}

// --- StringNormalizer

/// Changes the case, or nothing.
std::string changed(const std::string& text, std::optional<LetterCase> to) {
  return to ? with_case(text, *to) : text;
}

/// The attribute `locale` has no effect: letters have one upper and one lower case in Unicode, and
/// the few languages that differ are not worth a dependency on the locales of the machine.
KernelResult string_normalizer(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  RP_TRY(require_strings(c, 0, "X"));
  RP_TRY(require_rank(c, 0, "X", 1, 2));
  const HostTensor& x = input(c, 0);
  if (x.rank() == 2 && x.dims()[0] != 1)
    return invalid_input(describe_input(c, 0, "X") + ": must be [C] or [1,C]");
  const std::string action = c.attrs.get_string("case_change_action", "NONE");
  if (action != "NONE" && action != "LOWER" && action != "UPPER") {
    return invalid_model("attribute 'case_change_action' is '" + action +
                         "'; expected NONE, LOWER or UPPER");
  }
  std::optional<LetterCase> to;
  if (action != "NONE") to = action == "LOWER" ? LetterCase::Lower : LetterCase::Upper;
  std::optional<LetterCase> compared;  // the case in which stop words are compared
  if (c.attrs.get_int("is_case_sensitive", 0) == 0) compared = LetterCase::Lower;
  std::set<std::string> stop_words;
  if (const auto* words = c.attrs.get<std::vector<std::string>>("stopwords")) {
    for (const std::string& w : *words) stop_words.insert(changed(w, compared));
  }
  std::vector<std::string> kept;
  for (const std::string& text : x.strings()) {
    if (!stop_words.contains(changed(text, compared))) kept.push_back(changed(text, to));
  }
  if (kept.empty()) kept.emplace_back();  // one empty string stands for nothing
  Dims dims = x.dims();
  dims.back() = static_cast<int64_t>(kept.size());
  RP_ASSIGN(HostTensor y, allocate(DType::String, dims));
  std::ranges::move(kept, y.mutable_strings().begin());
  return one(std::move(y));
}

}  // namespace

Table strings_table() {
  static constexpr Entry kTable[] = {{"RegexFullMatch", regex_full_match, prepare_pattern},
                                     {"StringConcat", string_concat},
                                     {"StringNormalizer", string_normalizer},
                                     {"StringSplit", string_split}};
  return kTable;
}

}  // namespace reprise::host
