// Weights of a decoder as values of a graph.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "codegen/families/decoder.h"
#include "codegen/families/nodes.h"

namespace reprise::families {

/// Rows of a stored matrix: `count` from `first` on; a count of 0 is all.
struct RowRange {
  int64_t first = 0, count = 0;
};

class Matrices {
 public:
  using Value = builder::Value;
  /// `floats`: weights in blocks become float32.
  Matrices(Nodes& nodes, const Decoder& decoder, bool floats)
      : n_(nodes), d_(decoder), floats_(floats) {}

  /// Whether the decoder has the weight.
  bool has(Role role, int64_t layer, bool bias = false);
  /// x times the transpose of a matrix of `rows` rows and `columns` columns, plus its bias.
  Value product(Value x, Role role, int64_t layer, int64_t rows, int64_t columns,
                const RowRange& part = {});
  /// Rows of the matrix [rows, columns] by their numbers.
  Value gather(Value rows_at, Role role, int64_t rows, int64_t columns);
  /// A vector of float32, to which `added` is added.
  Value vector(Role role, int64_t layer, int64_t size, float added = 0);

 private:
  std::optional<StoredTensor> find(Role role, int64_t layer, bool bias);
  /// The tensor, which must be there and have these dims.
  std::optional<StoredTensor> require(Role role, int64_t layer, bool bias,
                                      const std::vector<int64_t>& dims);
  /// The order of the rows that undoes the one of interleaved heads. Empty: as stored.
  std::vector<int64_t> order_of(const StoredTensor& t) const;
  /// The matrix [columns, rows] as float32.
  Value columns_of(const StoredTensor& t, const RowRange& part);
  Value block_columns_of(const StoredTensor& t, const formats::StoredRows& stored,
                         const std::string& name);
  Value float_columns_of(const StoredTensor& t, const formats::StoredRows& stored,
                         const std::string& name);
  Value bias_of(Role role, int64_t layer, int64_t rows, const RowRange& part);

  Nodes& n_;
  const Decoder& d_;
  const bool floats_;
  std::map<std::pair<std::string, int64_t>, Value> known_;  // by name and first row
};

}  // namespace reprise::families
