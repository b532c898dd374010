#include "apps/text/tokenizer.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "apps/text/tokenizer_parts.h"
#include "apps/text/unicode.h"
#include "codegen/formats/json.h"

namespace reprise::text {

namespace {

constexpr size_t kMostText = size_t{256} << 20;

// Tokens that end a turn of a chat, and those that end a text, as vocabularies spell them.
constexpr std::array<std::string_view, 6> kTurnEnds{"<|eot_id|>",    "<|im_end|>", "<|end|>",
                                                    "<end_of_turn>", "<EOT>",      "<|return|>"};
constexpr std::array<std::string_view, 4> kTextEnds{
    "<|endoftext|>", "<|end_of_text|>", "<|eom_id|>",
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"};

size_t count_guards(std::string_view text) {
  size_t out = 0;
  for (size_t at = text.find(kGuard); at != text.npos; at = text.find(kGuard, at + kGuard.size()))
    ++out;
  return out;
}

void remove_guards(std::string& text) {
  for (size_t at = text.find(kGuard); at != text.npos; at = text.find(kGuard, at))
    text.erase(at, kGuard.size());
}

/// A guard after each of the characters that begin at these places, which are in order.
std::string with_guards(std::string_view text, const std::vector<size_t>& places) {
  std::string out;
  out.reserve(text.size() + places.size() * kGuard.size());
  size_t done = 0;
  for (const size_t at : places) {
    const size_t end = at + char_length(text[at]);
    out.append(text.substr(done, end - done)).append(kGuard);
    done = end;
  }
  return out.append(text.substr(done));
}

std::vector<size_t> special_begins(const Tokenizer::Parts& parts, std::string_view text) {
  const std::vector<size_t> plain = parts.plain.special_begins(text);
  const std::vector<size_t> normalized = parts.normalized.special_begins(text);
  std::vector<size_t> out;
  std::ranges::set_union(plain, normalized, std::back_inserter(out));
  return out;
}

/// Whether a text spells a special token once it is normalised.
bool spells_special(const Tokenizer::Parts& parts, std::string text) {
  if (parts.normalizer == nullptr || !parts.normalizer->apply(text).ok()) return false;
  const std::vector<Part> found = parts.normalized.split(text, {true, kGuard});
  return std::ranges::any_of(
      found, [&](const Part& p) { return p.id >= 0 && parts.added.at(p.id).special; });
}

/// One encoding: the ids so far.
class Encoding {
 public:
  Encoding(const Tokenizer::Parts& parts, const EncodeOptions& options)
      : parts_(parts), parse_special_(options.parse_special), guarded_(options.guarded) {}

  Status run(std::string_view text) {
    ids_.reserve(text.size() / 4 + 8);
    for (const Part& p : parts_.plain.split(text, {parse_special_, guard()})) {
      if (p.id >= 0)
        ids_.push_back(p.id);
      else
        RP_TRY(normalize(std::string(text.substr(p.begin, p.end - p.begin)), p.begin == 0));
    }
    return {};
  }
  std::vector<int32_t>& ids() { return ids_; }

 private:
  Status normalize(std::string text, bool first) {
    if (text.empty()) return {};
    const size_t guards = guarded_ ? count_guards(text) : 0;
    if (parts_.normalizer != nullptr) RP_TRY(parts_.normalizer->apply(text));
    // A normalizer can remove guards.
    const bool parse = parse_special_ && (guards == 0 || count_guards(text) >= guards);
    for (const Part& p : parts_.normalized.split(text, {parse, guard()})) {
      if (p.id >= 0) {
        ids_.push_back(p.id);
      } else if (p.end > p.begin) {
        RP_TRY(cut({text.substr(p.begin, p.end - p.begin), first && p.begin == 0}));
      }
    }
    return {};
  }

  std::string_view guard() const { return guarded_ ? kGuard : std::string_view(); }

  Status cut(Piece piece) {
    if (guarded_) remove_guards(piece.text);
    if (piece.text.empty()) return {};
    if (parts_.pre_tokenizer == nullptr) return append(piece.text);
    Pieces pieces;
    RP_TRY(parts_.pre_tokenizer->cut(std::move(piece), pieces));
    for (const Piece& p : pieces) RP_TRY(append(p.text));
    return {};
  }

  /// Whether one of the ids from `first` on is a special token that the piece spells.
  bool has_special(size_t first, std::string_view piece) const {
    return std::any_of(ids_.begin() + static_cast<std::ptrdiff_t>(first), ids_.end(), [&](int id) {
      const auto found = parts_.added.find(id);
      return found != parts_.added.end() && found->second.special &&
             piece.find(found->second.content) != piece.npos;
    });
  }

  Status append(std::string_view piece) {
    const size_t before = ids_.size();
    RP_TRY(parts_.model->encode(piece, ids_));
    if ((parse_special_ && !guarded_) || !has_special(before, piece)) return {};
    // The model has special tokens in its vocabulary: it gets them in parts.
    ids_.resize(before);
    const std::string guarded = with_guards(piece, special_begins(parts_, piece));
    for (size_t at = 0; at < guarded.size();) {
      const size_t end = std::min(guarded.find(kGuard, at), guarded.size());
      RP_TRY(parts_.model->encode(std::string_view(guarded).substr(at, end - at), ids_));
      at = end + kGuard.size();
    }
    return {};
  }

  const Tokenizer::Parts& parts_;
  bool parse_special_, guarded_;
  std::vector<int32_t> ids_;
};

}  // namespace

Status Tokenizer::Parts::set_added(const std::vector<AddedToken>& tokens) {
  std::vector<std::string> contents;
  contents.reserve(tokens.size());
  size = vocabulary->size();
  for (const AddedToken& t : tokens) {
    added_ids.insert_or_assign(t.content, t.id);
    size = std::max(size, static_cast<size_t>(t.id) + 1);
    std::string content = t.content;
    if (t.normalized && normalizer != nullptr) RP_TRY(normalizer->apply(content));
    // As in the library `tokenizers`, such a token is written as it is found.
    AddedToken& kept = added.insert_or_assign(t.id, t).first->second;
    kept.content = content;
    contents.push_back(std::move(content));
  }
  plain = AddedTokens(tokens, contents, false);
  normalized = AddedTokens(tokens, contents, true);
  return {};
}

Tokenizer::Tokenizer(std::shared_ptr<const Parts> parts, Special special)
    : parts_(std::move(parts)), special_(std::move(special)) {
  find_ends();
}

void Tokenizer::find_ends() {
  std::vector<int32_t>& ends = special_.ends;
  const auto add = [&](std::optional<int32_t> id) {
    if (id && std::find(ends.begin(), ends.end(), *id) == ends.end()) ends.push_back(*id);
  };
  for (const std::string_view name : kTurnEnds) {
    const std::optional<int32_t> id = id_of(name);
    if (!special_.eot) special_.eot = id;
    add(id);
  }
  for (const std::string_view name : kTextEnds) add(id_of(name));
  add(special_.eos);
  add(special_.eot);
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text,
                                               const EncodeOptions& options) const {
  const size_t valid = first_invalid(text);
  if (valid != text.size())
    return invalid_input("the text is not valid UTF-8 at byte " + std::to_string(valid));
  if (text.size() > kMostText) {
    return invalid_input("the text has " + std::to_string(text.size()) + " bytes, more than " +
                         std::to_string(kMostText) + "; encode it in parts");
  }
  Encoding encoding(*parts_, options);
  RP_TRY(encoding.run(text).with_context(parts_->name));
  std::vector<int32_t> ids = std::move(encoding.ids());
  if (!options.add_special) return ids;
  const Frame& frame = parts_->frame;
  ids.insert(ids.begin(), frame.before.begin(), frame.before.end());
  ids.insert(ids.end(), frame.after.begin(), frame.after.end());
  return ids;
}

std::string Tokenizer::guarded(std::string_view text) const {
  if (first_invalid(text) != text.size()) return std::string(text);  // which encode() refuses
  std::string out = with_guards(text, special_begins(*parts_, text));
  if (!spells_special(*parts_, out)) return out;
  // Normalisation can make a special token of other characters, such as full-width ones.
  std::vector<size_t> all;
  all.reserve(text.size());
  for (size_t at = 0; at < text.size(); at += char_length(text[at])) all.push_back(at);
  return with_guards(text, all);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const int32_t id : ids) {
    if (skip_special && is_special(id)) continue;
    const bool known = parts_->added.contains(id) || parts_->vocabulary->has(id);
    if (known) tokens.emplace_back(token(id));
  }
  std::string out;
  if (parts_->decoder != nullptr) {
    parts_->decoder->apply(tokens);
    for (const std::string& t : tokens) out += t;
  } else {
    for (size_t i = 0; i < tokens.size(); ++i) out += (i > 0 ? " " : "") + tokens[i];
  }
  return valid_utf8(out);
}

size_t Tokenizer::size() const {
  return parts_->size;
}

std::optional<int32_t> Tokenizer::id_of(std::string_view token) const {
  const auto added = parts_->added_ids.find(std::string(token));
  return added != parts_->added_ids.end() ? added->second : parts_->vocabulary->find(token);
}

std::string_view Tokenizer::token(int32_t id) const {
  const auto added = parts_->added.find(id);
  return added != parts_->added.end() ? std::string_view(added->second.content)
                                      : parts_->vocabulary->token(id);
}

bool Tokenizer::is_special(int32_t id) const {
  const auto added = parts_->added.find(id);
  return added != parts_->added.end() && added->second.special;
}

std::optional<int32_t> Tokenizer::bos() const {
  return special_.bos;
}

std::optional<int32_t> Tokenizer::eos() const {
  return special_.eos;
}

std::optional<int32_t> Tokenizer::eot() const {
  return special_.eot;
}

bool Tokenizer::ends_generation(int32_t id) const {
  return std::find(special_.ends.begin(), special_.ends.end(), id) != special_.ends.end();
}

const std::vector<int32_t>& Tokenizer::end_ids() const {
  return special_.ends;
}

const std::string& Tokenizer::chat_template() const {
  return parts_->chat_template;
}

Status Tokenizer::set_special(std::string_view config_json, const std::string& name) {
  RP_ASSIGN(const formats::Json config, formats::Json::parse(config_json, name));
  const auto read = [&](const char* key, std::optional<int32_t>& out) -> Status {
    std::optional<formats::Json> member = config.find(key);
    if (member && member->is(formats::Json::Kind::Object)) member = member->find("content");
    if (!member) return {};
    RP_ASSIGN(const std::string_view token, member->text());
    out = id_of(token);
    if (out) return {};
    return member->error("is '" + std::string(token) + "', which " + parts_->name + " lacks");
  };
  RP_TRY(read("bos_token", special_.bos));
  RP_TRY(read("eos_token", special_.eos));
  find_ends();
  return {};
}

Status Tokenizer::add_end(int32_t id) {
  if (id < 0 || static_cast<size_t>(id) >= size()) {
    return invalid_input(parts_->name + ": id " + std::to_string(id) +
                         " cannot end a generation: ids are below " + std::to_string(size()));
  }
  if (!ends_generation(id)) special_.ends.push_back(id);
  return {};
}

}  // namespace reprise::text
