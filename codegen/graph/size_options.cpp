#include "codegen/graph/size_options.h"

#include <algorithm>
#include <charconv>

namespace reprise {

namespace {

constexpr std::string_view kBetween = "..";
constexpr int64_t kLargest = (int64_t{1} << 31) - 1;

/// Reads one end of a range; an empty text leaves it as it is.
bool read_end(std::string_view text, int64_t& out) {
  if (text.empty()) return true;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && rest == text.data() + text.size();
}

Status usage(std::string message) {
  return {Code::Usage, std::move(message)};
}

std::string range_text(const std::string& name, const Interval& range) {
  return "--range " + name + "=" + std::to_string(range.min) + std::string(kBetween) +
         std::to_string(range.max);
}

}  // namespace

Result<std::pair<std::string, Interval>> parse_range(std::string_view text) {
  const size_t equals = text.find('=');
  const size_t between = text.find(kBetween, std::min(equals, text.size()));
  Interval range{0, kLargest};
  if (equals == 0 || between == std::string_view::npos ||
      !read_end(text.substr(equals + 1, between - equals - 1), range.min) ||
      !read_end(text.substr(between + kBetween.size()), range.max)) {
    return usage("'" + std::string(text) + "' is not NAME=MIN..MAX, such as batch=1..64");
  }
  return std::pair(std::string(text.substr(0, equals)), range);
}

Result<SizeRanges> parse_ranges(const std::vector<std::string>& texts) {
  SizeRanges out;
  for (const std::string& text : texts) {
    RP_ASSIGN(auto named, parse_range(text));
    if (!out.insert(named).second)
      return usage("the range of '" + named.first + "' is given twice");
  }
  return out;
}

namespace {

/// One of the ranges of a plan: "sequence=1", "sequence=2..16" or "sequence=17..".
Result<std::pair<std::string, Interval>> parse_plan_range(std::string_view text) {
  if (text.find(kBetween) != std::string_view::npos) return parse_range(text);
  const size_t equals = text.rfind('=');
  int64_t size = 0;
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == text.size() ||
      !read_end(text.substr(equals + 1), size))
    return usage("'" + std::string(text) +
                 "' is not NAME=SIZE or NAME=MIN..MAX, such as sequence=1 or sequence=2..16");
  return std::pair(std::string(text.substr(0, equals)), Interval{size, size});
}

Result<SizeRanges> parse_plan(std::string_view text) {
  SizeRanges out;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    RP_ASSIGN(auto named, parse_plan_range(text.substr(at, comma - at)));
    if (!out.insert(named).second)
      return usage("the plan '" + std::string(text) + "' has two ranges of '" + named.first + "'");
    at = comma + 1;
  }
  return out;
}

}  // namespace

Result<PlanChoice> parse_plans(const std::vector<std::string>& texts) {
  PlanChoice out;
  for (const std::string& text : texts) {
    const bool none = text == "none";
    if (!none && text != "auto") {
      RP_ASSIGN(out.plans.emplace_back(), parse_plan(text));
      out.kind = PlanChoice::Kind::Given;
      continue;
    }
    if (texts.size() > 1) return usage("the plan '" + text + "' stands alone, without other plans");
    out.kind = none ? PlanChoice::Kind::None : PlanChoice::Kind::Automatic;
  }
  return out;
}

Result<std::pair<std::string, std::vector<int64_t>>> parse_shape(const std::string& text) {
  const size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    return usage("expected NAME=DIMS, such as x=1x3x224x224, found '" + text + "'");
  std::vector<int64_t> dims;
  const char* p = text.data() + at + 1;
  const char* const end = text.data() + text.size();
  while (p < end) {
    int64_t dim = 0;
    const auto [next, error] = std::from_chars(p, end, dim);
    if (error == std::errc::result_out_of_range || (error == std::errc() && dim > kLargest))
      return usage("the shape " + text + ": the dim " + std::string(p, next) +
                   " is too large; a dim has at most " + std::to_string(kLargest));
    if (error != std::errc() || dim < 0 || (next != end && *next != 'x') || next + 1 == end)
      return usage("the shape " + text + ": expected dims like 1x3x224x224");
    dims.push_back(dim);
    p = next == end ? end : next + 1;
  }
  return std::pair(text.substr(0, at), std::move(dims));
}

Result<InputShapes> parse_shapes(const std::vector<std::string>& texts) {
  InputShapes out;
  for (const std::string& text : texts) {
    RP_ASSIGN(auto named, parse_shape(text));
    if (!out.insert(named).second)
      return usage("the dims of '" + named.first + "' are given twice");
  }
  return out;
}

Result<InputValues> parse_values(const std::vector<std::string>& texts) {
  InputValues out;
  for (const std::string& text : texts) {
    const size_t at = text.rfind('=');
    std::vector<int64_t> values;
    const char* p = text.data() + std::min(at, text.size() - 1) + 1;
    const char* const end = text.data() + text.size();
    bool good = at != std::string::npos && at > 0 && p < end;
    while (good && p < end) {
      const auto [next, error] = std::from_chars(p, end, values.emplace_back());
      good = error == std::errc() && (next == end || (*next == ',' && next + 1 < end));
      p = next == end ? end : next + 1;
    }
    if (!good) return usage("'" + text + "' is not NAME=NUMBER,NUMBER,..., such as shape=2,-1,3");
    if (!out.emplace(text.substr(0, at), std::move(values)).second)
      return usage("the values of '" + text.substr(0, at) + "' are given twice");
  }
  return out;
}

Status graph::apply_ranges(Graph& g, const SizeRanges& ranges) {
  for (const auto& [name, range] : ranges) {
    if (range.min < 0 || range.max > kLargest || range.min > range.max)
      return usage(range_text(name, range) + ": no size is between them; the largest is " +
                   std::to_string(kLargest));
    const auto symbol = std::ranges::find(g.symbols, name, &Symbol::name);
    if (symbol == g.symbols.end()) {
      std::string known;
      for (const Symbol& s : g.symbols) known += (known.empty() ? "'" : ", '") + s.name + "'";
      return usage(range_text(name, range) + ": the model has no such size; the sizes that its " +
                   "inputs decide are " + (known.empty() ? "none" : known));
    }
    const int64_t step = symbol->divisor;
    symbol->min = std::max(symbol->min, (range.min + step - 1) / step * step);
    symbol->max = std::min(symbol->max, range.max / step * step);
    if (symbol->min > symbol->max)
      return usage(range_text(name, range) + ": the model takes no size between them");
  }
  return {};
}

}  // namespace reprise
