// Weights in a file of CTranslate2 (model.bin).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/reprise.hpp"

namespace transcribe {

using reprise::Error;
using reprise::Result;

/// The variables of a model in the format's version 6: little-endian numbers; texts are a length of
/// 16 bits and so many bytes, the last of which is 0. The file has the version, a text that names
/// the kind of model, the revision of that, the number of variables, and these: a name, the rank (8
/// bits), dims (32 bits each), a dtype (8 bits), the number of bytes and the bytes. Pairs of names
/// follow, of variables that are others. The source of the format is model_spec.py of CTranslate2.
class WeightFile {
 public:
  static Result<WeightFile> read(const std::string& path);

  /// The dims of a variable; none if it is not there.
  std::vector<int64_t> dims(const std::string& name) const;
  /// The elements of a variable of floats with these dims.
  Result<std::vector<float>> floats(const std::string& name,
                                    const std::vector<int64_t>& dims) const;
  /// A scalar of integers.
  Result<int64_t> number(const std::string& name) const;

 private:
  struct Variable {
    std::vector<int64_t> dims;
    uint8_t dtype = 0;
    size_t at = 0, bytes = 0;  // in the file
  };
  class Cursor;
  Error read_variables();
  Error damaged(const std::string& what) const;

  std::string path_, file_;
  std::map<std::string, Variable> variables_;
};

}  // namespace transcribe
