#include "apps/reprise/table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace reprise::app {

namespace {

bool is_number(const std::string& s) {
  if (s.empty()) return true;
  if (s == "nan" || s == "inf" || s == "-inf") return true;
  const bool digit_first = s[0] == '-' || s[0] == '.' || (s[0] >= '0' && s[0] <= '9');
  return digit_first && s.find_first_not_of("0123456789.e+-xKMGB ") == std::string::npos;
}

/// The number of code points, which approximates the columns on a terminal.
size_t display_width(const std::string& s) {
  return static_cast<size_t>(std::count_if(
      s.begin(), s.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

std::string Table::str() const {
  const size_t columns = rows_[0].size();
  std::vector<size_t> width(columns, 0);
  std::vector<bool> right(columns, !empty());
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (size_t c = 0; c < columns && c < rows_[r].size(); ++c) {
      width[c] = std::max(width[c], display_width(rows_[r][c]));
      if (r > 0 && !is_number(rows_[r][c])) right[c] = false;
    }
  }
  std::string out;
  for (const std::vector<std::string>& row : rows_) {
    std::string line;
    for (size_t c = 0; c < columns && c < row.size(); ++c) {
      const std::string pad(width[c] - display_width(row[c]), ' ');
      line += (c ? "  " : "") + (right[c] ? pad + row[c] : row[c] + pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string format_number(double v, int digits) {
  constexpr int kMostDigits = 7;  // before the point
  if (v < 0) return "-";
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return "inf";
  if (v == 0) return "0";
  char text[64];
  const int magnitude = static_cast<int>(std::floor(std::log10(v)));
  if (magnitude < -4 || magnitude >= std::max(digits, kMostDigits)) {
    std::snprintf(text, sizeof text, "%.*e", digits - 1, v);
  } else {
    std::snprintf(text, sizeof text, "%.*f", std::max(0, digits - 1 - magnitude), v);
  }
  return text;
}

std::string format_bytes(int64_t bytes) {
  if (bytes < 0) return "dynamic";
  static const char* const units[] = {"B", "KB", "MB", "GB"};
  auto v = static_cast<double>(bytes);
  size_t unit = 0;
  while (v >= 1024 && unit < 3) {
    v /= 1024;
    ++unit;
  }
  char text[64];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", v, units[unit]);
  return text;
}

std::string join(const std::vector<std::string>& items, const std::string& separator) {
  return join_some(items, separator, items.size());
}

std::string join_some(const std::vector<std::string>& items, const std::string& separator,
                      size_t most) {
  std::string out;
  const size_t shown = std::min(items.size(), most);
  for (size_t i = 0; i < shown; ++i) out += (i == 0 ? "" : separator) + items[i];
  return shown == items.size() ? out
                               : out + " and " + std::to_string(items.size() - shown) + " more";
}

}  // namespace reprise::app
