// A text table with aligned columns.
#pragma once

#include <string>
#include <vector>

namespace reprise::app {

class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.size() < 2; }
  /// Columns of numbers are right-aligned. Ends with a newline.
  std::string str() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// A number with at least that many significant digits: "12.3", "0.00456", "1.20e-07", "1.20e+30".
/// A negative number means "not measured" and becomes "-".
std::string format_number(double v, int digits = 3);
/// "12.3 KB", "4.0 MB"; "dynamic" for a negative number.
std::string format_bytes(int64_t bytes);
std::string join(const std::vector<std::string>& items, const std::string& separator);
/// The same of the first `most` items, with the number of the others: for lists that are too long
/// to be useful.
inline constexpr size_t kMostNodes = 40;  // of a launch, in a row of a table
std::string join_some(const std::vector<std::string>& items, const std::string& separator,
                      size_t most);

}  // namespace reprise::app
