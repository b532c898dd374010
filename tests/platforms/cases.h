// Cases of the ONNX suite with packages that were compiled elsewhere.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "reprise/reprise.hpp"

namespace reprise::platforms {

/// A tensor of a case.
struct Data {
  std::string name;
  reprise_dtype dtype = REPRISE_F32;
  std::vector<int64_t> dims;
  std::vector<unsigned char> bytes;
};

/// Reads the whole file; empty if that fails.
std::vector<unsigned char> read_file(const std::filesystem::path& path);
/// Reads a TensorProto whose elements are its raw_data. Returns what is wrong, or nothing.
std::string read_tensor(const std::filesystem::path& path, Data& to);
/// The tensors PREFIX_0.pb, PREFIX_1.pb, ... of a folder.
std::string read_tensors(const std::filesystem::path& folder, const std::string& prefix,
                         std::vector<Data>& to);
/// Compares with the tolerance of the ONNX suite: 1e-7 and 1e-3 of the expected number; integers
/// must be equal. Returns what differs, or nothing.
std::string difference(const Output& found, const Data& expected);

}  // namespace reprise::platforms
