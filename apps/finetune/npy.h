// Reads .npy files of float32 and int64 in C order, for the sample.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace finetune {

struct Array {
  bool is_float = true;       // else int64
  std::vector<int64_t> dims;  // the first counts the rows
  std::vector<char> bytes;
  size_t row_bytes = 0;

  int64_t rows() const { return dims.empty() ? 0 : dims[0]; }
};

/// Returns an empty string, or what is wrong.
std::string read_npy(const std::string& path, Array& out);

}  // namespace finetune
