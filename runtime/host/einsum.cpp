// Einsum: the equation is parsed to labels, and each output element is a sum over the labels that
// the output lacks.
#include <algorithm>
#include <map>

#include "runtime/host/support.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

/// The labels of one operand, in order. Broadcast dims of "..." are negative numbers; the last one
/// is -1.
using Labels = std::vector<int>;

struct Equation {
  std::vector<Labels> operands;
  Labels output;
};

Result<Labels> parse_term(std::string_view term, int64_t ellipsis_rank) {
  Labels labels;
  for (size_t i = 0; i < term.size(); ++i) {
    const char ch = term[i];
    if ((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z')) {
      labels.push_back(ch);
    } else if (term.substr(i, 3) == "...") {
      for (int64_t d = ellipsis_rank; d > 0; --d) labels.push_back(static_cast<int>(-d));
      i += 2;
    } else {
      return invalid_model("attribute 'equation' holds '" + std::string(1, ch) + "'");
    }
  }
  return labels;
}

std::vector<std::string_view> split_terms(std::string_view text) {
  std::vector<std::string_view> terms;
  for (;;) {
    const size_t comma = text.find(',');
    terms.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return terms;
    text.remove_prefix(comma + 1);
  }
}

/// The output of an equation without "->": the broadcast dims, then every label that occurs once,
/// in alphabetical order.
Labels implicit_output(const std::vector<Labels>& operands) {
  std::map<int, int> uses;
  for (const Labels& l : operands) {
    for (int label : l) ++uses[label];
  }
  Labels out;
  for (const auto& [label, n] : uses) {
    if (label < 0 || n == 1) out.push_back(label);
  }
  return out;
}

Result<Equation> parse(const Call& c, std::string text) {
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  const std::string_view view = text;
  const auto terms = split_terms(view.substr(0, arrow));
  if (terms.size() != c.inputs.size()) {
    return invalid_model("attribute 'equation' '" + text + "' names " +
                         std::to_string(terms.size()) + " operands, the node has " +
                         std::to_string(c.inputs.size()));
  }
  Equation e;
  int64_t widest = 0;
  for (size_t k = 0; k < terms.size(); ++k) {
    const bool has_ellipsis = terms[k].find("...") != std::string_view::npos;
    const auto named = static_cast<int64_t>(terms[k].size()) - (has_ellipsis ? 3 : 0);
    const int64_t rest = input(c, k).rank() - named;
    if (rest < 0 || (rest > 0 && !has_ellipsis)) {
      return invalid_input("term '" + std::string(terms[k]) + "' does not fit " +
                           describe_input(c, k, "operand"));
    }
    widest = std::max(widest, rest);
    RP_ASSIGN(Labels labels, parse_term(terms[k], rest));
    e.operands.push_back(std::move(labels));
  }
  if (arrow == std::string::npos) {
    e.output = implicit_output(e.operands);
    return e;
  }
  RP_ASSIGN(e.output, parse_term(view.substr(arrow + 2), widest));
  Labels sorted = e.output;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    return invalid_model("the output of '" + text + "' repeats a label");
  }
  return e;
}

/// The size of every label. Broadcast dims may be 1 in some operands.
Result<std::map<int, int64_t>> label_sizes(const Call& c, const Equation& e) {
  std::map<int, int64_t> sizes;
  for (size_t k = 0; k < e.operands.size(); ++k) {
    for (size_t d = 0; d < e.operands[k].size(); ++d) {
      const int64_t dim = input(c, k).dims()[d];
      auto [it, added] = sizes.emplace(e.operands[k][d], dim);
      if (added || it->second == dim || dim == 1) continue;
      if (it->second != 1) {
        return invalid_input(describe_input(c, k, "operand") + ": dimension " + std::to_string(d) +
                             " clashes with " + std::to_string(it->second));
      }
      it->second = dim;
    }
  }
  for (int label : e.output) {
    if (!sizes.contains(label)) {
      return invalid_model("the output of the equation has a label that no operand has");
    }
  }
  return sizes;
}

/// The strides of an operand over a list of labels. Strides of a repeated label (a diagonal) add
/// up.
Dims strides_over(const HostTensor& t, const Labels& own, const Labels& labels) {
  const Dims strides = strides_of(t.dims());
  Dims out(labels.size(), 0);
  for (size_t d = 0; d < own.size(); ++d) {
    if (t.dims()[d] == 1) continue;
    const auto it = std::find(labels.begin(), labels.end(), own[d]);
    if (it != labels.end()) out[static_cast<size_t>(it - labels.begin())] += strides[d];
  }
  return out;
}

/// Sums products over `inner` for every index of `outer`.
template <typename T>
void contract(const std::vector<std::vector<T>>& operands, const Dims& outer, const Dims& inner,
              const std::vector<Dims>& outer_strides, const std::vector<Dims>& inner_strides,
              std::vector<T>& out) {
  const auto visit = [](const Dims& dims, const std::vector<Dims>& strides, Dims offsets,
                        const auto& f) {
    if (product(dims) == 0) return;
    Dims index(dims.size(), 0);
    for (;;) {
      f(offsets);
      size_t d = dims.size();
      for (;;) {
        if (d == 0) return;
        --d;
        for (size_t k = 0; k < offsets.size(); ++k) offsets[k] += strides[k][d];
        if (++index[d] < dims[d]) break;
        for (size_t k = 0; k < offsets.size(); ++k) offsets[k] -= strides[k][d] * dims[d];
        index[d] = 0;
      }
    }
  };
  size_t next = 0;
  visit(outer, outer_strides, Dims(operands.size(), 0), [&](const Dims& at_outer) {
    T sum = 0;
    visit(inner, inner_strides, at_outer, [&](const Dims& offsets) {
      T p = 1;
      for (size_t k = 0; k < operands.size(); ++k) {
        p *= operands[k][static_cast<size_t>(offsets[k])];
      }
      sum += p;
    });
    out[next++] = sum;
  });
}

/// Loads signed integers as their bits, so that the arithmetic wraps.
template <typename T>
std::vector<T> load_operand(const HostTensor& t) {
  std::vector<T> v(static_cast<size_t>(t.count()));
  if constexpr (std::is_same_v<T, uint64_t>) {
    if (domain_of(t.dtype()) == Domain::Signed) {
      std::vector<int64_t> wide(v.size());
      load(t, 0, 1, t.count(), wide.data());
      std::copy(wide.begin(), wide.end(), v.begin());
      return v;
    }
  }
  load(t, 0, 1, t.count(), v.data());
  return v;
}

template <typename T>
HostTensor run(const Call& c, const Equation& e, const Labels& summed,
               const std::map<int, int64_t>& sizes, HostTensor y) {
  std::vector<std::vector<T>> operands;
  std::vector<Dims> outer_strides;
  std::vector<Dims> inner_strides;
  for (size_t k = 0; k < c.inputs.size(); ++k) {
    operands.push_back(load_operand<T>(input(c, k)));
    outer_strides.push_back(strides_over(input(c, k), e.operands[k], e.output));
    inner_strides.push_back(strides_over(input(c, k), e.operands[k], summed));
  }
  Dims inner;
  for (int label : summed) inner.push_back(sizes.at(label));
  std::vector<T> out(static_cast<size_t>(y.count()));
  contract<T>(operands, y.dims(), inner, outer_strides, inner_strides, out);
  store(y, 0, y.count(), out.data());
  return y;
}

KernelResult einsum(const Call& c) {
  RP_TRY(check_arity(c, 1, std::numeric_limits<size_t>::max()));
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (!has_input(c, i)) return invalid_model("input " + std::to_string(i) + " is missing");
    RP_TRY(require_number(c, i, "operand"));
    RP_TRY(require_same_dtype(c, 0, i));
  }
  RP_ASSIGN(const Equation e, parse(c, c.attrs.get_string("equation", "")));
  RP_ASSIGN(const auto sizes, label_sizes(c, e));
  Dims dims;
  for (int label : e.output) dims.push_back(sizes.at(label));
  Labels summed;
  for (const auto& [label, size] : sizes) {
    if (std::find(e.output.begin(), e.output.end(), label) == e.output.end()) {
      summed.push_back(label);
    }
  }
  RP_ASSIGN(auto y, allocate(input(c, 0).dtype(), dims));
  if (is_float(input(c, 0).dtype())) return one(run<double>(c, e, summed, sizes, std::move(y)));
  return one(run<uint64_t>(c, e, summed, sizes, std::move(y)));
}

}  // namespace

Table einsum_table() {
  static constexpr Entry kTable[] = {{"Einsum", einsum}};
  return kTable;
}

}  // namespace reprise::host
