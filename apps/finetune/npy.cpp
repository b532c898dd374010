#include "apps/finetune/npy.h"

#include <cstring>
#include <fstream>
#include <iterator>

#include "apps/samples/path.h"

namespace finetune {

namespace {

/// The text of a value in the header, which is a Python dictionary: {'descr': '<f4', ...}.
std::string value_of(const std::string& header, const std::string& key) {
  const size_t at = header.find("'" + key + "':");
  if (at == std::string::npos) return {};
  size_t begin = header.find_first_not_of(' ', at + key.size() + 3);
  if (begin == std::string::npos) return {};
  const char close = header[begin] == '(' ? ')' : header[begin] == '\'' ? '\'' : ',';
  const size_t end = header.find(close, begin + 1);
  if (close != ',') ++begin;
  return end == std::string::npos ? std::string() : header.substr(begin, end - begin);
}

/// "8, 16" or "8,"; false if it is something else or too large.
bool read_dims(const std::string& text, std::vector<int64_t>& dims) {
  constexpr int64_t kLargest = int64_t{1} << 31;
  int64_t total = 1, dim = -1;
  for (const char c : text + ",") {
    if (c >= '0' && c <= '9') {
      dim = (dim < 0 ? 0 : dim) * 10 + (c - '0');
      if (dim > kLargest) return false;
    } else if (c == ',' && dim >= 0) {
      dims.push_back(dim);
      total *= dim < 1 ? 1 : dim;
      if (total > kLargest) return false;
      dim = -1;
    } else if (c != ' ' && c != ',') {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string read_npy(const std::string& path, Array& out) {
  std::ifstream file(samples::utf8_path(path), std::ios::binary);
  if (!file) return path + " cannot be opened";
  const std::vector<char> all((std::istreambuf_iterator<char>(file)), {});
  constexpr size_t kPreamble = 10;
  if (all.size() < kPreamble || std::memcmp(all.data(), "\x93NUMPY\x01", 7) != 0)
    return path + " is no .npy file of version 1; write it with numpy.save";
  const size_t length = static_cast<unsigned char>(all[8]) |
                        static_cast<size_t>(static_cast<unsigned char>(all[9])) << 8;
  if (all.size() < kPreamble + length) return path + " ends within its header";
  const std::string header(all.data() + kPreamble, length);
  const std::string type = value_of(header, "descr");
  if (type != "<f4" && type != "<i8")
    return path + " has elements of type '" + type + "'; use float32 or int64";
  if (value_of(header, "fortran_order") != "False")
    return path + " is not in C order; use numpy.ascontiguousarray";
  if (!read_dims(value_of(header, "shape"), out.dims) || out.dims.empty())
    return path + " has a shape that is not supported";
  out.is_float = type == "<f4";
  out.row_bytes = out.is_float ? 4 : 8;
  for (size_t a = 1; a < out.dims.size(); ++a) out.row_bytes *= static_cast<size_t>(out.dims[a]);
  out.bytes.assign(all.begin() + static_cast<std::ptrdiff_t>(kPreamble + length), all.end());
  if (out.bytes.size() != out.row_bytes * static_cast<size_t>(out.rows()))
    return path + " has another number of bytes than its shape needs";
  return {};
}

}  // namespace finetune
