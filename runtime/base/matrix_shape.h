// The shape of a cooperative matrix operation, as kernels require it and devices offer it.
#pragma once

#include <cstdint>
#include <string>

namespace reprise {

/// A subgroup multiplies a rows x depth matrix by a depth x columns matrix in one operation.
struct MatrixShape {
  uint32_t rows = 0, columns = 0, depth = 0;

  explicit operator bool() const { return rows != 0; }
  std::string str() const {
    return std::to_string(rows) + "x" + std::to_string(columns) + "x" + std::to_string(depth);
  }
  friend bool operator==(const MatrixShape&, const MatrixShape&) = default;
};

}  // namespace reprise
