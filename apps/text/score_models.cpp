#include <algorithm>
#include <limits>
#include <utility>

#include "apps/text/model.h"
#include "apps/text/trie.h"
#include "apps/text/unicode.h"

namespace reprise::text {

namespace {

constexpr double kUnknownPenalty = 10;

class UnigramModel final : public TokenModel {
 public:
  UnigramModel(SharedVocabulary vocabulary, const UnigramOptions& o)
      : vocabulary_(std::move(vocabulary)), scores_(o.scores), unk_(o.unk_id) {
    double least = std::numeric_limits<double>::infinity();
    std::vector<std::pair<std::string, int32_t>> entries;
    entries.reserve(scores_.size());
    for (size_t i = 0; i < scores_.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      const bool hidden = !o.hidden.empty() && o.hidden[i];
      if (!hidden) least = std::min(least, scores_[i]);
      if (!hidden && !vocabulary_->token(id).empty())
        entries.emplace_back(vocabulary_->token(id), id);
    }
    trie_ = Trie(std::move(entries));
    unknown_score_ = least - kUnknownPenalty;
    if (o.byte_fallback) bytes_ = byte_tokens(*vocabulary_);
  }

  Status encode(std::string_view piece, std::vector<int32_t>& out) const override {
    thread_local std::vector<End> ends;  // by the place where a token ends
    ends.assign(piece.size() + 1, End{});
    for (size_t at = 0; at < piece.size(); at += char_length(piece[at]))
      RP_TRY(extend(piece, at, ends));
    const size_t first = out.size();
    // From the end to the beginning; tokens that are unknown and adjacent are one.
    for (size_t end = piece.size(); end > 0;) {
      size_t begin = ends[end].begin;
      if (ends[end].id != unk_) {
        out.push_back(ends[end].id);
      } else {
        while (begin > 0 && ends[begin].id == unk_) begin = ends[begin].begin;
        append_unknown(piece.substr(begin, end - begin), out);
      }
      end = begin;
    }
    std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
    return {};
  }

 private:
  struct End {
    double score = 0;
    size_t begin = std::numeric_limits<size_t>::max();
    int32_t id = -1;
  };

  static void offer(End& end, double score, size_t begin, int32_t id) {
    if (end.begin == std::numeric_limits<size_t>::max() || score > end.score)
      end = {score, begin, id};
  }

  Status extend(std::string_view piece, size_t at, std::vector<End>& ends) const {
    const double so_far = ends[at].score;
    const size_t length = char_length(piece[at]);
    bool single = false;
    uint32_t node = trie_.root();
    for (size_t i = at; i < piece.size(); ++i) {
      node = trie_.next(node, piece[i]);
      if (node == Trie::kNone) break;
      const int32_t id = trie_.value(node);
      if (id < 0) continue;
      offer(ends[i + 1], so_far + scores_[static_cast<size_t>(id)], at, id);
      single = single || i + 1 == at + length;
    }
    if (single) return {};
    if (unk_ < 0)
      return invalid_input(
          "the text has a character that the vocabulary lacks, and the model has no unknown token");
    offer(ends[at + length], so_far + unknown_score_, at, unk_);
    return {};
  }

  /// Appends in reverse order.
  void append_unknown(std::string_view text, std::vector<int32_t>& out) const {
    if (const auto id = vocabulary_->find(text)) return out.push_back(*id);
    const bool as_bytes = !bytes_.empty() && std::all_of(text.begin(), text.end(), [&](char b) {
      return bytes_[static_cast<unsigned char>(b)] >= 0;
    });
    if (!as_bytes) return out.push_back(unk_);
    for (size_t i = text.size(); i > 0; --i)
      out.push_back(bytes_[static_cast<unsigned char>(text[i - 1])]);
  }

  SharedVocabulary vocabulary_;
  std::vector<double> scores_;
  int32_t unk_;
  double unknown_score_ = 0;
  std::vector<int32_t> bytes_;
  Trie trie_;
};

class ScoredMerges final : public TokenModel {
 public:
  ScoredMerges(SharedVocabulary vocabulary, std::vector<float> scores, int32_t unk)
      : vocabulary_(std::move(vocabulary)),
        scores_(std::move(scores)),
        unk_(unk),
        bytes_(byte_tokens(*vocabulary_)) {}

  Status encode(std::string_view piece, std::vector<int32_t>& out) const override {
    thread_local Scratch s;
    s.parts.clear();
    s.heap.clear();
    for (size_t i = 0; i < piece.size(); i += char_length(piece[i])) {
      const auto at = static_cast<int32_t>(s.parts.size());
      s.parts.push_back({i, char_length(piece[i]), at - 1, at + 1});
    }
    s.parts.back().after = -1;
    for (size_t i = 0; i + 1 < s.parts.size(); ++i) consider(piece, s, static_cast<int32_t>(i));
    merge(piece, s);
    for (const Part& p : s.parts) {
      if (p.size > 0) append(piece.substr(p.begin, p.size), out);
    }
    return {};
  }

 private:
  struct Part {
    size_t begin, size;  // of the piece; size 0: it was joined to another one
    int32_t before, after;
  };
  struct Joint {
    float score;
    int32_t left;
    size_t size;
    bool operator<(const Joint& o) const {  // the top has the highest score
      return score != o.score ? score < o.score : left > o.left;
    }
  };
  struct Scratch {
    std::vector<Part> parts;
    std::vector<Joint> heap;
  };

  void consider(std::string_view piece, Scratch& s, int32_t left) const {
    if (left < 0) return;
    const Part& a = s.parts[static_cast<size_t>(left)];
    if (a.after < 0) return;
    const size_t size = a.size + s.parts[static_cast<size_t>(a.after)].size;
    if (size > vocabulary_->longest()) return;
    const auto id = vocabulary_->find(piece.substr(a.begin, size));
    if (!id) return;
    s.heap.push_back({scores_[static_cast<size_t>(*id)], left, size});
    std::push_heap(s.heap.begin(), s.heap.end());
  }

  void merge(std::string_view piece, Scratch& s) const {
    while (!s.heap.empty()) {
      std::pop_heap(s.heap.begin(), s.heap.end());
      const Joint top = s.heap.back();
      s.heap.pop_back();
      Part& a = s.parts[static_cast<size_t>(top.left)];
      if (a.size == 0 || a.after < 0) continue;
      Part& b = s.parts[static_cast<size_t>(a.after)];
      if (a.size + b.size != top.size) continue;  // one of them has grown
      a.size += b.size;
      b.size = 0;
      a.after = b.after;
      if (a.after >= 0) s.parts[static_cast<size_t>(a.after)].before = top.left;
      consider(piece, s, a.before);
      consider(piece, s, top.left);
    }
  }

  void append(std::string_view text, std::vector<int32_t>& out) const {
    if (const auto id = vocabulary_->find(text)) return out.push_back(*id);
    for (const char c : text) {
      const int32_t id = bytes_[static_cast<unsigned char>(c)];
      if (id >= 0)
        out.push_back(id);
      else if (unk_ >= 0)
        out.push_back(unk_);
    }
  }

  SharedVocabulary vocabulary_;
  std::vector<float> scores_;
  int32_t unk_;
  std::vector<int32_t> bytes_;
};

}  // namespace

Result<std::unique_ptr<TokenModel>> make_unigram(SharedVocabulary vocabulary,
                                                 const UnigramOptions& options) {
  if (options.scores.empty() || options.scores.size() < vocabulary->size())
    return invalid_model("the vocabulary has tokens without scores, or is empty");
  for (const double s : options.scores) {
    if (!(s >= -1e30 && s <= 1e30)) return invalid_model("a score is not a finite number");
  }
  return std::unique_ptr<TokenModel>(
      std::make_unique<UnigramModel>(std::move(vocabulary), options));
}

Result<std::unique_ptr<TokenModel>> make_scored_merges(SharedVocabulary vocabulary,
                                                       std::vector<float> scores, int32_t unk_id) {
  if (scores.size() < vocabulary->size())
    return invalid_model("the vocabulary has " + std::to_string(vocabulary->size()) +
                         " tokens, but " + std::to_string(scores.size()) + " scores");
  // The order of merges needs comparable numbers.
  for (const float s : scores) {
    if (!(s >= -1e30F && s <= 1e30F)) return invalid_model("a score is not a finite number");
  }
  return std::unique_ptr<TokenModel>(
      std::make_unique<ScoredMerges>(std::move(vocabulary), std::move(scores), unk_id));
}

}  // namespace reprise::text
