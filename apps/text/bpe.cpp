#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "apps/text/model.h"
#include "apps/text/unicode.h"
#include "codegen/formats/quoted.h"

namespace reprise::text {

namespace {

struct MergeRule {
  uint32_t rank;
  int32_t id;
};

/// Pairs of ids in a table with open addressing: this is looked up for each pair of neighbours.
class MergeTable {
 public:
  void reserve(size_t count) {
    slots_.assign(std::bit_ceil(std::max<size_t>(2 * count, 16)), Slot{});
    shift_ = 64 - std::countr_zero(slots_.size());
  }
  void insert(int32_t left, int32_t right, MergeRule rule) {
    slots_[place_of(key_of(left, right))] = {key_of(left, right), rule};
  }
  const MergeRule* find(int32_t left, int32_t right) const {
    const Slot& s = slots_[place_of(key_of(left, right))];
    return s.key == kEmpty ? nullptr : &s.rule;
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  struct Slot {
    uint64_t key = kEmpty;
    MergeRule rule{0, 0};
  };
  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  /// The slot that has the key, or the one that is free for it.
  size_t place_of(uint64_t key) const {
    size_t at = key * 0x9E3779B97F4A7C15 >> shift_;
    while (slots_[at].key != key && slots_[at].key != kEmpty) at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  std::vector<Slot> slots_;
  int shift_ = 60;
};

struct Symbol {
  int32_t id;
  int32_t before, after;  // neighbours, or -1
  bool gone;
};

struct Candidate {
  uint32_t rank, at;
  int32_t id;
  bool operator<(const Candidate& o) const {  // of a heap whose top is the lowest rank
    return rank != o.rank ? rank > o.rank : at > o.at;
  }
};

struct BpeScratch {
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
};

class BpeModel final : public TokenModel {
 public:
  BpeModel(SharedVocabulary vocabulary, const BpeOptions& o)
      : vocabulary_(std::move(vocabulary)),
        prefix_(o.continuing_prefix),
        suffix_(o.word_suffix),
        fuse_unk_(o.fuse_unk),
        ignore_merges_(o.ignore_merges) {
    if (o.byte_fallback) bytes_ = byte_tokens(*vocabulary_);
  }

  Status prepare(const BpeOptions& o) {
    for (char32_t c = 1; c < ids_.size(); ++c) ids_[c] = vocabulary_->find(to_utf8(c)).value_or(-1);
    if (!o.unk_token.empty()) {
      has_unk_ = true;
      unk_ = vocabulary_->find(o.unk_token).value_or(-1);
    }
    merges_.reserve(o.merges.size());
    for (size_t rank = 0; rank < o.merges.size(); ++rank) RP_TRY(add_merge(o, rank));
    return {};
  }

  Status encode(std::string_view piece, std::vector<int32_t>& out) const override {
    if (ignore_merges_) {
      if (const auto whole = vocabulary_->find(piece)) {
        out.push_back(*whole);
        return {};
      }
    }
    thread_local BpeScratch scratch;
    scratch.symbols.clear();
    RP_TRY(split(piece, scratch.symbols));
    merge(scratch);
    for (const Symbol& s : scratch.symbols) {
      if (!s.gone) out.push_back(s.id);
    }
    return {};
  }

  std::string_view suffix() const override { return suffix_; }

 private:
  Status add_merge(const BpeOptions& o, size_t rank) {
    const auto& [left, right] = o.merges[rank];
    const auto id_of = [&](std::string_view token) -> Result<int32_t> {
      if (const auto id = vocabulary_->find(token)) return *id;
      return invalid_model("merge " + std::to_string(rank) + " needs the token " +
                           formats::quoted(token) + ", which the vocabulary lacks");
    };
    RP_ASSIGN(const int32_t l, id_of(left));
    RP_ASSIGN(const int32_t r, id_of(right));
    if (right.size() < prefix_.size())
      return invalid_model("merge " + std::to_string(rank) + " has a token without the prefix");
    RP_ASSIGN(const int32_t both,
              id_of(std::string(left) + std::string(right.substr(prefix_.size()))));
    merges_.insert(l, r, {static_cast<uint32_t>(rank), both});
    return {};
  }

  std::optional<int32_t> id_of_char(std::string_view c, bool first, bool last) const {
    const bool plain = (first || prefix_.empty()) && (!last || suffix_.empty());
    if (!plain)
      return vocabulary_->find((first ? "" : prefix_) + std::string(c) + (last ? suffix_ : ""));
    const char32_t code = char_at(c, 0);
    if (code == 0 || code >= ids_.size()) return vocabulary_->find(c);
    return ids_[code] < 0 ? std::nullopt : std::optional<int32_t>(ids_[code]);
  }

  bool has_bytes(std::string_view c) const {
    return !bytes_.empty() && std::all_of(c.begin(), c.end(), [&](char b) {
      return bytes_[static_cast<unsigned char>(b)] >= 0;
    });
  }

  /// One symbol for each character. Characters that the vocabulary lacks become bytes, or the
  /// unknown token, or nothing.
  Status split(std::string_view piece, std::vector<Symbol>& symbols) const {
    const auto add = [&](int32_t id) {
      const auto at = static_cast<int32_t>(symbols.size());
      symbols.push_back({id, at - 1, at + 1, false});
    };
    bool unk = false;  // one waits
    for (size_t i = 0, length = 0; i < piece.size(); i += length) {
      length = char_length(piece[i]);
      const std::string_view c = piece.substr(i, length);
      if (const auto id = id_of_char(c, i == 0, i + length == piece.size())) {
        if (std::exchange(unk, false)) add(unk_);
        add(*id);
      } else if (has_bytes(c)) {
        for (const char b : c) add(bytes_[static_cast<unsigned char>(b)]);
      } else if (has_unk_) {
        if (unk_ < 0) return invalid_model("the vocabulary lacks the unknown token of the model");
        if (unk && !fuse_unk_) add(unk_);
        unk = true;
      }
    }
    if (unk) add(unk_);
    if (!symbols.empty()) symbols.back().after = -1;
    return {};
  }

  void consider(BpeScratch& s, int32_t left) const {
    const Symbol& a = s.symbols[static_cast<size_t>(left)];
    if (a.after < 0) return;
    const MergeRule* rule = merges_.find(a.id, s.symbols[static_cast<size_t>(a.after)].id);
    if (rule == nullptr) return;
    s.heap.push_back({rule->rank, static_cast<uint32_t>(left), rule->id});
    std::push_heap(s.heap.begin(), s.heap.end());
  }

  void merge(BpeScratch& s) const {
    s.heap.clear();
    for (size_t i = 0; i + 1 < s.symbols.size(); ++i) consider(s, static_cast<int32_t>(i));
    while (!s.heap.empty()) {
      std::pop_heap(s.heap.begin(), s.heap.end());
      const Candidate top = s.heap.back();
      s.heap.pop_back();
      Symbol& left = s.symbols[top.at];
      if (left.gone || left.after < 0) continue;
      Symbol& right = s.symbols[static_cast<size_t>(left.after)];
      const MergeRule* rule = merges_.find(left.id, right.id);
      if (rule == nullptr || rule->id != top.id) continue;  // the neighbours have changed
      left.id = top.id;
      right.gone = true;
      left.after = right.after;
      if (left.after >= 0)
        s.symbols[static_cast<size_t>(left.after)].before = static_cast<int32_t>(top.at);
      if (left.before >= 0) consider(s, left.before);
      consider(s, static_cast<int32_t>(top.at));
    }
  }

  SharedVocabulary vocabulary_;
  std::string prefix_, suffix_;
  bool fuse_unk_, ignore_merges_, has_unk_ = false;
  int32_t unk_ = -1;
  std::vector<int32_t> bytes_;
  std::array<int32_t, 0x200> ids_{};  // of single characters, with those that stand for bytes
  MergeTable merges_;
};

}  // namespace

Result<std::unique_ptr<TokenModel>> make_bpe(SharedVocabulary vocabulary,
                                             const BpeOptions& options) {
  auto model = std::make_unique<BpeModel>(std::move(vocabulary), options);
  RP_TRY(model->prepare(options));
  return std::unique_ptr<TokenModel>(std::move(model));
}

}  // namespace reprise::text
