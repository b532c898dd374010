// TfIdfVectorizer: how often sequences of words occur.
#include <algorithm>
#include <map>

#include "runtime/host/support.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

/// All sequences to look for, as a tree of words. Node 0 is the root.
struct Vocabulary : Prepared {
  struct Node {
    std::map<int64_t, size_t> integers;
    std::map<std::string, size_t, std::less<>> strings;
    int64_t sequence = -1;  // the one that ends here; -1: none
  };
  std::vector<Node> nodes{1};
  std::vector<int64_t> column;  // per sequence
  int64_t columns = 0;
  int64_t shortest = 1, longest = 1, skips = 0;
  bool counts = true;          // the result is the number of occurrences, not 1
  std::vector<float> weights;  // per sequence; empty: none
};

size_t& child(Vocabulary::Node& n, int64_t word) {
  return n.integers[word];
}
size_t& child(Vocabulary::Node& n, const std::string& word) {
  return n.strings[word];
}
size_t find_child(const Vocabulary::Node& n, int64_t word) {
  const auto at = n.integers.find(word);
  return at == n.integers.end() ? 0 : at->second;
}
size_t find_child(const Vocabulary::Node& n, const std::string& word) {
  const auto at = n.strings.find(word);
  return at == n.strings.end() ? 0 : at->second;
}

/// `starts[n - 1]` is where the sequences of n words begin in the pool.
template <typename Word>
Status add_pool(const std::vector<Word>& pool, const std::vector<int64_t>& starts, Vocabulary& v) {
  size_t next = 0;
  for (size_t n = 0; n < starts.size(); ++n) {
    const auto size = static_cast<int64_t>(pool.size());
    const int64_t begin = starts[n];
    const int64_t end = n + 1 < starts.size() ? starts[n + 1] : size;
    const auto words = static_cast<int64_t>(n) + 1;
    if (begin < 0 || begin > end || end > size || (end - begin) % words != 0) {
      return invalid_model("attribute 'ngram_counts' says that sequences of " +
                           std::to_string(words) + " are in [" + std::to_string(begin) + ", " +
                           std::to_string(end) + ") of a pool of " + std::to_string(size));
    }
    for (int64_t at = begin; at < end; at += words) {
      if (next >= v.column.size())
        return invalid_model("attribute 'ngram_indexes' has fewer entries than the pool");
      size_t node = 0;
      for (int64_t k = 0; k < words; ++k) {
        const size_t fresh = v.nodes.size();
        size_t& to = child(v.nodes[node], pool[static_cast<size_t>(at + k)]);
        if (to == 0) to = fresh;
        node = to;
        if (node == fresh) v.nodes.emplace_back();
      }
      v.nodes[node].sequence = static_cast<int64_t>(next++);
    }
  }
  if (next == v.column.size()) return {};
  return invalid_model("attribute 'ngram_indexes' has " + std::to_string(v.column.size()) +
                       " entries for " + std::to_string(next) + " sequences");
}

Status read_lengths(const Call& c, Vocabulary& v) {
  v.shortest = c.attrs.get_int("min_gram_length", 0);
  v.longest = c.attrs.get_int("max_gram_length", 0);
  v.skips = c.attrs.get_int("max_skip_count", -1);
  if (v.shortest < 1 || v.longest < v.shortest || v.skips < 0 || v.skips > (int64_t{1} << 40)) {
    return invalid_model("the lengths from " + std::to_string(v.shortest) + " to " +
                         std::to_string(v.longest) + " with up to " + std::to_string(v.skips) +
                         " skips are not valid");
  }
  return {};
}

PrepareResult prepare_vocabulary(const Call& c) {
  auto v = std::make_shared<Vocabulary>();
  RP_TRY(read_lengths(c, *v));
  v->column = c.attrs.get_ints("ngram_indexes");
  for (const int64_t column : v->column) {
    if (column < 0 || column >= INT32_MAX) {
      return invalid_model("attribute 'ngram_indexes' has the entry " + std::to_string(column) +
                           "; expected 0 to " + std::to_string(INT32_MAX - 1));
    }
    v->columns = std::max(v->columns, column + 1);
  }
  const std::string mode = c.attrs.get_string("mode", "");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF")
    return invalid_model("attribute 'mode' is '" + mode + "'; expected TF, IDF or TFIDF");
  v->counts = mode != "IDF";
  const auto* weights = c.attrs.get<std::vector<float>>("weights");
  if (weights != nullptr && mode != "TF") v->weights = *weights;
  if (!v->weights.empty() && v->weights.size() != v->column.size()) {
    return invalid_model("it has " + std::to_string(v->weights.size()) + " weights for " +
                         std::to_string(v->column.size()) + " sequences");
  }
  const std::vector<int64_t> starts = c.attrs.get_ints("ngram_counts");
  if (const auto* pool = c.attrs.get<std::vector<std::string>>("pool_strings")) {
    RP_TRY(add_pool(*pool, starts, *v));
  } else {
    RP_TRY(add_pool(c.attrs.get_ints("pool_int64s"), starts, *v));
  }
  return PrepareResult(std::move(v));
}

/// Counts each sequence in one row of words.
template <typename Word>
void count(const Vocabulary& v, std::span<const Word> row, std::span<double> out) {
  int64_t shortest = v.shortest;
  const auto size = static_cast<int64_t>(row.size());
  for (int64_t distance = 1; distance <= v.skips + 1; ++distance) {
    if ((shortest - 1) > (size - 1) / distance) break;  // no sequence is short enough
    for (int64_t start = 0; start < size; ++start) {
      size_t node = 0;
      int64_t at = start;
      for (int64_t n = 1; n <= v.longest && at < size; ++n, at += distance) {
        node = find_child(v.nodes[node], row[static_cast<size_t>(at)]);
        if (node == 0) break;
        const int64_t sequence = v.nodes[node].sequence;
        if (n >= shortest && sequence >= 0) ++out[static_cast<size_t>(sequence)];
      }
    }
    // Single words are the same whatever is skipped.
    if (shortest == 1 && ++shortest > v.longest) break;
  }
}

KernelResult tf_idf_vectorizer(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  RP_TRY(require_rank(c, 0, "X", 1, 2));
  const HostTensor& x = input(c, 0);
  if (x.dtype() != DType::String && x.dtype() != DType::I32 && x.dtype() != DType::I64)
    return wrong_dtype(c, 0, "X", "string, int32 or int64");
  RP_ASSIGN(const auto v, prepared<Vocabulary>(c, prepare_vocabulary));
  const int64_t rows = x.rank() == 2 ? x.dims()[0] : 1;
  const int64_t words = x.dims().back();
  RP_ASSIGN(std::vector<double> out, allocate_scratch(Dims{rows, v->columns}));
  std::vector<int64_t> integers(x.dtype() == DType::String ? 0 : static_cast<size_t>(words));
  std::vector<double> counts(v->column.size());
  for (int64_t r = 0; r < rows; ++r) {
    std::ranges::fill(counts, 0.0);
    if (x.dtype() == DType::String) {
      const std::span<const std::string> all(x.strings());
      count<std::string>(
          *v, all.subspan(static_cast<size_t>(r * words), static_cast<size_t>(words)), counts);
    } else {
      load(x, r * words, 1, words, integers.data());
      count<int64_t>(*v, integers, counts);
    }
    for (size_t k = 0; k < counts.size(); ++k) {
      const double weight = v->weights.empty() ? 1 : static_cast<double>(v->weights[k]);
      out[static_cast<size_t>(r * v->columns + v->column[k])] +=
          (v->counts ? counts[k] : std::min(counts[k], 1.0)) * weight;
    }
  }
  Dims dims = x.dims();
  dims.back() = v->columns;
  RP_ASSIGN(HostTensor y, store_all(DType::F32, dims, out));
  return one(std::move(y));
}

}  // namespace

Table ngrams_table() {
  static constexpr Entry kTable[] = {{"TfIdfVectorizer", tf_idf_vectorizer, prepare_vocabulary}};
  return kTable;
}

}  // namespace reprise::host
