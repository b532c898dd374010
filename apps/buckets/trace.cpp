#include "apps/buckets/trace.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

namespace reprise::app {

namespace {

constexpr int64_t kMostSize = (int64_t{1} << 31) - 1;  // of a dim
constexpr int64_t kMostRuns = int64_t{1} << 40;        // in a trace, so that sums are exact

std::string_view trimmed(std::string_view s) {
  constexpr std::string_view kBlank = " \t\r\"";
  const size_t first = s.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return s.substr(first, s.find_last_not_of(kBlank) - first + 1);
}

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> out;
  out.reserve(static_cast<size_t>(std::count(line.begin(), line.end(), ',')) + 1);
  while (true) {
    const size_t comma = line.find(',');
    out.push_back(trimmed(line.substr(0, comma)));
    if (comma == std::string_view::npos) return out;
    line.remove_prefix(comma + 1);
  }
}

std::optional<int64_t> number_in(std::string_view field) {
  int64_t v = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), v);
  if (error != std::errc() || end != field.data() + field.size()) return std::nullopt;
  return v;
}

struct Line {
  int64_t number = 0;  // counts from 1
  std::vector<std::string_view> fields;
};

std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> out;
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (!trimmed(line).empty()) out.push_back({number, fields_of(line)});
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return out;
}

/// The columns of sizes and of counts, and whether the first line names them.
struct Columns {
  size_t size = 0;
  std::optional<size_t> count;
  bool header = false;
};

std::optional<size_t> named(const Line& header, std::string_view name) {
  const auto at = std::find(header.fields.begin(), header.fields.end(), name);
  if (at == header.fields.end()) return std::nullopt;
  return static_cast<size_t>(at - header.fields.begin());
}

std::string names_in(const Line& header) {
  std::string out;
  for (const std::string_view f : header.fields) {
    if (!out.empty()) out += ", ";
    out += f;
  }
  return out;
}

/// The only column of which a line has whole numbers.
std::optional<size_t> only_numbers(const Line& line) {
  std::optional<size_t> out;
  for (size_t i = 0; i < line.fields.size(); ++i) {
    if (!number_in(line.fields[i])) continue;
    if (out) return std::nullopt;
    out = i;
  }
  return out;
}

Result<size_t> size_column(const std::vector<Line>& lines, const std::string& column,
                           const std::string& file) {
  const Line& first = lines.front();
  if (column.empty()) {
    if (const auto at = named(first, "size")) return *at;
    if (first.fields.size() == 1) return 0;
    if (const auto at = only_numbers(lines.back())) return *at;
    return invalid_input("'" + file + "' has several columns (" + names_in(first) +
                         "); --column names the one with sizes");
  }
  if (const auto at = named(first, column)) return *at;
  const auto number = number_in(column);
  if (number && *number >= 1 && *number <= static_cast<int64_t>(first.fields.size())) {
    return static_cast<size_t>(*number - 1);
  }
  return invalid_input("'" + file + "' has no column '" + column +
                       "'; its first line is: " + names_in(first));
}

Result<Columns> columns_of(const std::vector<Line>& lines, const std::string& column,
                           const std::string& file) {
  Columns out;
  RP_ASSIGN(out.size, size_column(lines, column, file));
  const Line& first = lines.front();
  out.header = !number_in(first.fields[out.size]);
  if (out.header) {
    out.count = named(first, "count");
    if (!out.count) out.count = named(first, "runs");
  }
  return out;
}

Result<int64_t> value_at(const Line& line, size_t column, int64_t most, const std::string& file) {
  const std::string where = "'" + file + "', line " + std::to_string(line.number);
  if (column >= line.fields.size()) {
    return invalid_input(where + " has " + std::to_string(line.fields.size()) +
                         " fields, not the expected " + std::to_string(column + 1) + " or more");
  }
  const auto value = number_in(line.fields[column]);
  if (!value || *value < 1 || *value > most) {
    return invalid_input(where + ": '" + std::string(line.fields[column]) +
                         "' is not a whole number from 1 to " + std::to_string(most));
  }
  return *value;
}

}  // namespace

Result<Trace> parse_trace(std::string_view text, const std::string& column,
                          const std::string& file) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const std::vector<Line> lines = lines_of(text);
  if (lines.empty()) return invalid_input("'" + file + "' is empty: expected a line for each run");
  RP_ASSIGN(const Columns columns, columns_of(lines, column, file));
  std::map<int64_t, int64_t> runs;
  int64_t total = 0;
  for (size_t i = columns.header ? 1 : 0; i < lines.size(); ++i) {
    RP_ASSIGN(const int64_t size, value_at(lines[i], columns.size, kMostSize, file));
    int64_t count = 1;
    if (columns.count) {
      RP_ASSIGN(count, value_at(lines[i], *columns.count, kMostRuns, file));
    }
    runs[size] += count;
    total += count;
    if (total > kMostRuns) return invalid_input("'" + file + "' has more than 2^40 runs");
  }
  if (runs.empty()) return invalid_input("'" + file + "' has a header, but no runs");
  Trace out;
  out.reserve(runs.size());
  for (const auto& [size, count] : runs) out.push_back({size, count});
  return out;
}

}  // namespace reprise::app
