// Tokenizer of com.microsoft: splits each text into tokens, by separators or by what a token is.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
#include <algorithm>
#include <optional>

#include "runtime/host/support.h"
#include "runtime/host/tables.h"
#include "runtime/host/text/regex.h"
#include "runtime/host/text/utf8.h"

namespace reprise::host {

namespace {

struct Tokens : Prepared {
  std::vector<Regex> separators;
  std::optional<Regex> token;
  bool characters = false;  // each character is a token
  size_t shortest = 1;      // in characters
};

PrepareResult prepare_tokens(const Call& c) {
  auto state = std::make_shared<Tokens>();
  const int64_t shortest = c.attrs.get_int("mincharnum", 0);
  if (shortest < 1)
    return invalid_model("attribute 'mincharnum' is " + std::to_string(shortest) +
                         ", must be at least 1");
  state->shortest = static_cast<size_t>(shortest);
  const auto* separators = c.attrs.get<std::vector<std::string>>("separators");
  const std::string token = c.attrs.get_string("tokenexp", "");
  const bool has_separators = separators != nullptr && !separators->empty();
  if (has_separators == !token.empty())
    return invalid_model("exactly one of the attributes 'separators' and 'tokenexp' must be given");
  if (!token.empty()) {
    RP_ASSIGN(state->token, Regex::parse(token));
    return PrepareResult(std::move(state));
  }
  state->characters = separators->size() == 1 && separators->front().empty();
  if (state->characters && shortest > 1)
    return invalid_model("attribute 'mincharnum' is " + std::to_string(shortest) +
                         ", but tokens are single characters");
  for (const std::string& s : *separators) {
    if (state->characters) break;
    if (s.empty()) return invalid_model("one of several separators is empty");
    RP_ASSIGN(Regex regex, Regex::parse(s));
    state->separators.push_back(std::move(regex));
  }
  return PrepareResult(std::move(state));
}

/// A text with the positions of its code points.
struct Text {
  std::vector<uint32_t> codes;
  std::vector<std::string_view> bytes;  // of each code point

  explicit Text(std::string_view text) : codes(code_points(text)) {
    while (!text.empty()) {
      const size_t n = std::max<size_t>(first_code_point(text).bytes, 1);
      bytes.push_back(text.substr(0, n));
      text.remove_prefix(n);
    }
  }
  std::string part(size_t begin, size_t end) const {
    std::string out;
    for (size_t i = begin; i < end; ++i) out += bytes[i];
    return out;
  }
};

std::vector<std::string> matches_of(const Regex& token, const Text& text, size_t shortest) {
  std::vector<std::string> out;
  for (size_t from = 0; from <= text.codes.size();) {
    const auto found = token.find(text.codes, from);
    if (!found) break;
    const size_t length = found->end - found->begin;
    if (length > 0 && length >= shortest) out.push_back(text.part(found->begin, found->end));
    from = length > 0 ? found->end : found->end + 1;
  }
  return out;
}

/// The parts between matches of the separator. A match of nothing takes a character with it.
void split_by(const Regex& separator, const Text& text, size_t shortest,
              std::vector<std::string>& out) {
  size_t from = 0;
  const size_t end = text.codes.size();
  const auto add = [&](size_t to) {
    if (to >= from + shortest) out.push_back(text.part(from, to));
  };
  while (from <= end) {
    const auto found = separator.find(text.codes, from);
    if (!found) break;
    add(found->begin);
    from = found->end > found->begin ? found->end : found->end + 1;
  }
  add(end);
}

std::vector<std::string> tokens_of(const Tokens& t, const std::string& text) {
  if (t.token) return matches_of(*t.token, Text(text), t.shortest);
  if (t.characters) {
    const Text characters(text);
    return {characters.bytes.begin(), characters.bytes.end()};
  }
  std::vector<std::string> parts{text};
  for (const Regex& separator : t.separators) {
    std::vector<std::string> next;
    for (const std::string& part : parts) split_by(separator, Text(part), t.shortest, next);
    parts = std::move(next);
  }
  return parts;
}

KernelResult tokenizer(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  const HostTensor& x = input(c, 0);
  if (x.dtype() != DType::String) return wrong_dtype(c, 0, "X", "string");
  RP_TRY(require_rank(c, 0, "X", 1, 2));
  RP_ASSIGN(const auto state, prepared<Tokens>(c, prepare_tokens));
  std::vector<std::vector<std::string>> rows;
  size_t most = 0;
  for (const std::string& text : x.strings()) {
    rows.push_back(tokens_of(*state, text));
    most = std::max(most, rows.back().size());
  }
  Dims dims = x.dims();
  const bool marks = c.attrs.get_int("mark", 0) != 0 && most > 0;
  const size_t columns = most + (marks ? 2 : 0);
  dims.push_back(static_cast<int64_t>(columns));
  RP_ASSIGN(HostTensor y, allocate(DType::String, dims));
  const std::string padding = c.attrs.get_string("pad_value", "");
  auto out = y.mutable_strings().begin();
  for (std::vector<std::string>& row : rows) {
    if (marks) row.insert(row.begin(), "\x02");
    if (marks) row.emplace_back("\x03");
    row.resize(columns, padding);
    out = std::ranges::move(row, out).out;
  }
  return one(std::move(y));
}

}  // namespace

Table tokenizer_table() {
  static constexpr Entry kTable[] = {{"Tokenizer", tokenizer, prepare_tokens}};
  return kTable;
}

}  // namespace reprise::host
