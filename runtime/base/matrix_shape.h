// The shape of a cooperative matrix operation: what kernels ask for and devices offer.
#pragma once

#include <cstdint>
#include <string>

namespace reprise {

/// rows x depth times depth x columns, as one operation of a subgroup.
struct MatrixShape {
  uint32_t rows = 0, columns = 0, depth = 0;

  explicit operator bool() const { return rows != 0; }
  std::string str() const {
    return std::to_string(rows) + "x" + std::to_string(columns) + "x" + std::to_string(depth);
  }
  friend bool operator==(const MatrixShape&, const MatrixShape&) = default;
};

}  // namespace reprise
