// Weights of GGUF files in blocks along their rows, as numbers of few bits with scales: an element
// is number * scale + minimum, rounded to float32 after each step, which is what the package `gguf`
// of PyPI computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "codegen/formats/gguf.h"
#include "runtime/base/tensor.h"

namespace reprise::formats {

/// A matrix of which every element has a number, and every `block` of them along a row a scale.
/// The rows of the file are columns here, as products with the matrix read it.
struct BlockColumns {
  int64_t block = 0;
  HostTensor numbers;                  // [columns, rows], I4, U4, I8 or U8
  HostTensor scales;                   // [columns / block, rows], F16 or F32
  std::optional<HostTensor> minimums;  // likewise
};

/// Whether the type has this form. It is exact: no number, scale or minimum is rounded.
bool has_block_form(GgufType type);
/// Whether dequantized() knows the type: all that have a block form, and F32, F16 and BF16.
bool can_dequantize(GgufType type);

/// The rows of a matrix in memory, and which of them to take, in this order; empty: all.
struct StoredRows {
  GgufType type = GgufType::F32;
  int64_t rows = 0, columns = 0;
  std::span<const std::byte> bytes;
  std::span<const int64_t> order = {};

  int64_t count() const { return order.empty() ? rows : static_cast<int64_t>(order.size()); }
  /// The bytes of a row; 0 if the columns are no whole number of blocks.
  size_t row_bytes() const;
  /// Whether the bytes and the order fit.
  Status check() const;
};

/// The matrix in block form. Its type must have one.
Result<BlockColumns> block_columns(const StoredRows& stored);
/// The matrix [count(), columns] as float32.
Result<HostTensor> dequantized(const StoredRows& stored);

}  // namespace reprise::formats
